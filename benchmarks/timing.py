"""How the benchmarks measure: everything in one process, in turns, and the best of several rounds.

Time is that of the processor, since nothing here waits, and other programs may be running. The garbage collector stays
on, but does not look at what the libraries loaded: with several of them in one process it would hit whoever runs.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping

__all__ = ["best", "ratio_table"]

Operation = Callable[[], Awaitable[object]]

ROUND = 0.02
"""Seconds of each operation in a round: long enough for the caches to forget the operation before."""
ROUNDS = 20


async def best(operations: Mapping[str, Operation], *, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the shortest time of each operation in microseconds.

    Args:
        operations: What is measured, by name.
        rounds: How often.
    """
    calls = {name: await _calls_in_a_round(operation) for name, operation in operations.items()}
    gc.collect()
    gc.freeze()
    found = dict.fromkeys(operations, float("inf"))
    for _ in range(rounds):
        for name, operation in operations.items():
            await asyncio.sleep(0)  # the event loop clears its timers only when it gets a turn
            gc.collect()  # what the operation before has left behind is not this one's to clear
            found[name] = min(found[name], await _time(operation, calls[name]))
    gc.unfreeze()
    return found


async def _calls_in_a_round(operation: Operation) -> int:
    await _time(operation, 3)  # the first calls fill caches
    return max(3, round(ROUND * 1e6 / await _time(operation, 5)))


async def _time(operation: Operation, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        await operation()
    return (time.process_time() - start) / calls * 1e6


def ratio_table(title: str, times: Mapping[str, float], ours: str) -> None:
    """Print times, and what ours is of the fastest other's.

    Args:
        title: What was measured.
        times: Microseconds by name.
        ours: The name of ours.
    """
    others = {name: time for name, time in times.items() if name != ours}
    print(f"\n{title}, in microseconds")
    for name, time_ in sorted(times.items(), key=lambda item: item[1]):
        print(f"  {name:32s}{time_:9.1f}")
    if others:
        fastest = min(others, key=others.__getitem__)
        print(f"  {ours + ' / ' + fastest:32s}{times[ours] / others[fastest]:9.2f}")
