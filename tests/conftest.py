"""Both event loops for every asynchronous test, no blocking call on asyncio's; few examples unless asked for more."""

import os
from collections.abc import Callable, Iterator

import coverage
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import settings

# Keys that happen to lie around on a developer's machine must not reach a test.
for _name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL", "_TOKEN"))]:
    del os.environ[_name]


# CI draws the same examples every time, so a few are enough; who looks for faults asks for the other profile. Hence
# tests name no number of examples but a small one, or a multiple of the profile's.
settings.register_profile("thorough", max_examples=1000, deadline=None, derandomize=False)
settings.register_profile("gate", max_examples=40)
settings.load_profile("gate")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def _detector() -> Iterator[BlockBuster]:
    # Once, since putting it in place and taking it away costs more than most tests.
    with blockbuster_ctx("openmultiagent") as detector:
        detector.deactivate()
        # Coverage takes a lock of its own between any two lines of ours; the threads of a test may meet at it.
        own = getattr(getattr(coverage.Coverage.current(), "_collector", None), "data_lock", None)
        acquire = detector.functions["threading.Lock.acquire"]
        known: Callable[..., bool] = acquire.can_block_predicate
        acquire.can_block_predicate = lambda lock, *arguments, **named: lock is own or known(lock, *arguments, **named)
        yield detector


@pytest.fixture(autouse=True)
def blocking_calls_are_errors(_detector: BlockBuster) -> BlockBuster:
    _detector.activate()  # a test may have taken it away, for itself alone
    return _detector
