"""Response bodies for adapters whose wire is replaced."""

from collections.abc import AsyncIterator

import anyio
import httpx


class Chunks(httpx.AsyncByteStream):
    """A body that arrives in pieces of one size."""

    def __init__(self, body: bytes, size: int) -> None:
        self._chunks = [body[start : start + size] for start in range(0, len(body), size)]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Stalled(httpx.AsyncByteStream):
    """A body of which only the beginning arrives."""

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning
        self.waiting = anyio.Event()
        """Set when the beginning was read."""
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._beginning
        self.waiting.set()
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True


class Broken(httpx.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._beginning
        raise httpx.ReadError("connection reset")
