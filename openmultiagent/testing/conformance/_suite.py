"""All checks together."""

from __future__ import annotations

from ._answers import ANSWER_CHECKS
from ._failures import FAILURE_CHECKS
from ._rig import AdapterRig, Check, ConformanceError, MakeAdapter
from ._streams import STREAM_CHECKS

__all__ = ["CHECKS", "check_adapter"]

CHECKS: tuple[Check, ...] = (*ANSWER_CHECKS, *STREAM_CHECKS, *FAILURE_CHECKS)
"""Every check, in the order in which they are worth reading."""


async def check_adapter(make: MakeAdapter, *, model: str = "test-model", against_server: bool = True) -> None:
    """Make all checks of an adapter on the running event loop.

    Args:
        make: Makes the adapter for a server, with ``API_KEY`` as its key and without retries. A check may make several.
        model: The model that is asked.
        against_server: Whether the adapter talks to that server, in a protocol that it speaks. If not, only the checks
            are made that need no particular answer.

    Raises:
        ConformanceError: The adapter fails a check; the text names all that it fails.
    """
    rig = AdapterRig(make, model=model, against_server=against_server)
    failures: list[ConformanceError] = []
    for check in CHECKS:
        try:
            await check(rig)
        except ConformanceError as error:
            failures.append(error)
    if failures:
        text = "\n".join(map(str, failures))
        raise ConformanceError(f"{len(failures)} of {len(CHECKS)} checks failed:\n{text}") from failures[0]
