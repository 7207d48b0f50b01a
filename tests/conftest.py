"""Both event loops for every asynchronous test, and no blocking call on asyncio's."""

import os
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# Keys that happen to lie around on a developer's machine must not reach a test.
for _name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL", "_TOKEN"))]:
    del os.environ[_name]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def blocking_calls_are_errors() -> Iterator[BlockBuster]:
    with blockbuster_ctx("openmultiagent") as detector:
        yield detector
