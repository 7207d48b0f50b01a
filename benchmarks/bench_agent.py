"""What this library's agents cost beside those of others, on a model that answers at once, in one process.

Run it with ``python benchmarks/bench_agent.py``; libraries that are not installed are left out. The target is at most
0.50 of the fastest other library, for a plain run and for one with a round of tools, and a thousandth turn of a
conversation that costs as much as the first.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.peers import ANSWER, PROMPT, SYSTEM, InstantAdapter, Peer, Run, installed_peers, multiply, ours
from benchmarks.timing import best, ratio_table
from openmultiagent import Agent, AgentConfig

TURNS = 1_000
TURNS_OF_OTHERS = 200
"""Some of them would take minutes for a thousand."""


async def check(peer: Peer) -> None:
    """Stop when a library does not do what is measured.

    Args:
        peer: The library.
    """
    for answer in (await peer.plain(), await peer.tool()):
        if answer != ANSWER:
            raise RuntimeError(f"{peer.name} answered {answer!r}")


async def conversation(turn: Run, turns: int) -> tuple[float, float, float]:
    """Return the seconds of a conversation, and of its first and of its last tenth.

    Args:
        turn: Adds a turn.
        turns: How many.
    """
    marks = [time.process_time()]
    for _ in range(turns):
        await turn()
        marks.append(time.process_time())
    part = turns // 10
    return marks[-1] - marks[0], marks[part] - marks[0], marks[-1] - marks[-1 - part]


async def rounds_of_tools(rounds: int) -> float:
    """Return the seconds of one run with many rounds of tools.

    Args:
        rounds: How many.
    """
    config = AgentConfig(
        "calculator", adapter=InstantAdapter(rounds), system_prompt=SYSTEM, tools=[multiply], max_turns=rounds + 1
    )
    start = time.process_time()
    result = await Agent(config).run(PROMPT)
    if len(result.tool_calls) != rounds:
        raise RuntimeError(f"{len(result.tool_calls)} rounds of {rounds}: {result.output}")
    return time.process_time() - start


async def main() -> None:
    """Measure and print."""
    peers = [ours(), *installed_peers()]
    for peer in peers:
        await check(peer)
    own = peers[0].name
    ratio_table("a plain run (at most 0.50)", await best({peer.name: peer.plain for peer in peers}), own)
    ratio_table(
        "a run with one round of tools (at most 0.50)", await best({peer.name: peer.tool for peer in peers}), own
    )

    print("\nturns of one conversation: how many, microseconds each, and the last tenth / the first")
    for peer in peers:
        turns = TURNS if peer is peers[0] else TURNS_OF_OTHERS
        whole, first, last = min([await conversation(peer.talk(), turns) for _ in range(3)])
        print(f"  {peer.name:24s}{turns:8,}{whole / turns * 1e6:9.1f}{last / first:9.2f}")

    hundred = min([await rounds_of_tools(100) for _ in range(3)])
    thousand = min([await rounds_of_tools(1_000) for _ in range(3)])
    print(
        "\none run with 100 and with 1,000 rounds of tools, milliseconds, and one round of the latter / of the former"
    )
    print(f"  {own:32s}{hundred * 1e3:9.1f}{thousand * 1e3:9.1f}{thousand / hundred / 10:9.2f}")


if __name__ == "__main__":
    asyncio.run(main())
