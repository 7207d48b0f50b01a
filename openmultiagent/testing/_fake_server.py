"""A real HTTP server on the loopback interface that speaks the protocols of the providers, and misbehaves on demand.

It runs in threads of its own and needs no event loop, so clients on any loop, in other threads and in other processes
can talk to it. Not here: what answers look like and how they are delivered. Invariant: each request takes the next
response of the script, and is recorded before it is answered.
"""

from __future__ import annotations

import json
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread

from ..errors import ConfigurationError
from ._delivery import ClientLeftError, Delivery, Gate
from ._served import FakeRequest, Protocol, RawBody, Refused, ServerReply, ServerResponse, Step, step_of
from ._strict import STRICT, Complaint

__all__ = ["FakeProviderServer"]

_IDLE_SECONDS = 60.0
"""How long a connection may be idle before the server closes it."""

_Answer = Callable[["_Handler", Gate, str, bytes], None]
_ROUTES: Sequence[tuple[str, str, Protocol]] = (
    ("POST", "/chat/completions", "openai"),
    ("POST", "/responses", "openai-responses"),
    ("POST", "/messages", "anthropic"),
    ("POST", ":generateContent", "gemini"),
    ("POST", ":streamGenerateContent", "gemini"),
    ("POST", "/converse", "bedrock"),
    ("POST", "/converse-stream", "bedrock"),
    ("GET", "/copilot_internal/v2/token", "copilot-token"),
)
_SESSION_SECONDS = 1_800
"""How long a session token of GitHub Copilot lives."""


class FakeProviderServer:
    """A server that speaks OpenAI's two protocols, Anthropic's, Gemini's and Amazon Bedrock's, whole and as streams.

    It also exchanges tokens as GitHub does for Copilot, whose calls are those of OpenAI.

    It is a context manager, ``with`` or ``async with``, that starts and stops the server::

        async with FakeProviderServer(["Hello", Refused(429, retry_after=1)]) as server:
            adapter = create_adapter("openai", base_url=server.openai_url, api_key="any")

    A response is what a ``ScriptedAdapter`` takes, or a ``Served``, ``Refused``, ``RawBody``, ``Hangup`` or
    ``Silence``. An exception is served as what a client would report with it.

    Args:
        responses: The responses in the order of the requests, or one function of the request that makes them all.
        strict: Refuse what the real provider would refuse, in its words: calls without results, results without calls,
            blank texts, repeated ids, and so on. Such a request uses up no response.
        api_key: The only key that is accepted; None accepts everybody.

    Raises:
        ConfigurationError: A response is none.
    """

    def __init__(
        self,
        responses: Sequence[ServerReply] | Callable[[FakeRequest], ServerResponse],
        *,
        strict: bool = False,
        api_key: str | None = None,
    ) -> None:
        self.requests: list[FakeRequest] = []
        """What the server was sent, in the order in which it came."""
        self.complaints: list[str] = []
        """What the strict mode refused requests for."""
        self.client_left = threading.Event()
        """Set when a client closed its connection before it had its whole answer."""
        self.pausing = threading.Event()
        """Set when the server pauses in the middle of an answer, or says nothing."""
        self._strict = strict
        self._api_key = api_key
        self._sessions: set[str] = set()
        self._lock = threading.Lock()
        self._served = 0
        self._replies: list[ServerReply | Step] = []
        self._every: ServerReply | None = None
        if callable(responses):
            self._every = responses
        elif isinstance(responses, str) or not isinstance(responses, Sequence):
            raise ConfigurationError(
                "FakeProviderServer.responses must be a list of responses or a callable, got "
                f"{type(responses).__name__}; put a single response into a list"
            )
        else:
            self._replies = [reply if callable(reply) else step_of(reply) for reply in responses]
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """The address of the server.

        Raises:
            ConfigurationError: It was not started.
        """
        if self._running is None:
            raise ConfigurationError("the server has no address before it is started: use it with `with`")
        return self._running.url

    @property
    def openai_url(self) -> str:
        """The base URL for adapters of OpenAI's protocols."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for adapters of Anthropic's protocol."""
        return self.url

    @property
    def gemini_url(self) -> str:
        """The base URL for adapters of Gemini's protocol."""
        return self.url

    @property
    def bedrock_url(self) -> str:
        """The base URL for adapters of Bedrock's protocol."""
        return self.url

    @property
    def copilot_url(self) -> str:
        """The base URL for adapters of GitHub Copilot, and the address of GitHub and its API for them."""
        return self.url

    def release(self) -> None:
        """Let every answer go on that pauses or waits, now and later."""
        if self._running is not None:
            self._running.gate.release()

    async def wait_until_client_left(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - it is the thread that waits
        """Wait until a client closed its connection before it had its whole answer.

        Args:
            timeout: Seconds.

        Raises:
            TimeoutError: None did.
        """
        await _set(self.client_left, timeout, "no client left in the middle of an answer")

    async def wait_until_pausing(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - it is the thread that waits
        """Wait until the server pauses.

        Args:
            timeout: Seconds.

        Raises:
            TimeoutError: It did not.
        """
        await _set(self.pausing, timeout, "the server does not pause")

    def start(self) -> None:
        """Start the server, once; ``with`` does it."""
        if self._running is None:
            self._running = _Running(self._answer, Gate(self.client_left, self.pausing))

    def close(self) -> None:
        """Stop the server and close its connections; ``with`` does it."""
        if self._running is not None:
            self._running.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def _answer(self, handler: _Handler, gate: Gate, path: str, raw: bytes) -> None:
        with self._lock:
            request = _request(handler, path, raw, number=len(self.requests) + 1)
            self.requests.append(request)
            reply = self._refusal(request) or self._session(request) or self._next()
        # Outside the lock: a function of the script may take its time.
        step = step_of(reply(request) if callable(reply) else reply)
        Delivery(handler, gate, request).send(step)

    def _refusal(self, request: FakeRequest) -> Refused | None:
        if request.protocol == "unknown":
            return Refused(404, f"there is nothing at {request.path}")
        if self._api_key is not None and not {self._api_key, *self._sessions}.intersection(_keys(request)):
            return Refused(401, "Incorrect API key provided", code="invalid_api_key")
        if request.protocol == "copilot-token":
            return None
        if not isinstance(request.body, dict):
            return Refused(400, "the body is no JSON object")
        if self._strict:
            try:
                STRICT[request.protocol](request.body, request.path)
            except Complaint as complaint:
                self.complaints.append(complaint.message)
                return Refused(400, complaint.message, param=complaint.param)
        return None

    def _session(self, request: FakeRequest) -> RawBody | None:
        """Return a new session token, if one is asked for; that uses up no response."""
        if request.protocol != "copilot-token":
            return None
        token = f"tid={secrets.token_hex(8)};fake"
        self._sessions.add(token)
        session = {"token": token, "expires_at": int(time.time()) + _SESSION_SECONDS, "refresh_in": 1_500}
        return RawBody(json.dumps(session).encode())

    def _next(self) -> ServerReply | Step:
        if self._every is not None:
            return self._every
        self._served += 1
        if self._served <= len(self._replies):
            return self._replies[self._served - 1]
        held = f"{len(self._replies)} response{'' if len(self._replies) == 1 else 's'}"
        return Refused(
            400, f"the script has {held}, and this is request {self._served}: add a response", type="script_exhausted"
        )


class _Running:
    """The server while it runs: its socket, its thread, and where answers wait."""

    def __init__(self, answer: _Answer, gate: Gate) -> None:
        self.gate = gate
        self._closed = False
        self._listener = _Listener(lambda handler, path, raw: answer(handler, gate, path, raw))
        host, port = self._listener.server_address[:2]
        self.url = f"http://{host!s}:{port}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.gate.release()
        self._listener.shutdown()
        self._listener.close_connections()
        self._listener.server_close()
        self._thread.join()
        self.gate.close()


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, answer: Callable[[_Handler, str, bytes], None]) -> None:
        self.answer = answer
        self.connections = 0
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._open):
            with suppress(OSError):  # gone already
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that breaks its connection is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = _IDLE_SECONDS
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.number = self.server.connections

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing: requests are recorded."""

    def do_GET(self) -> None:
        self._respond(b"")

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers.get("content-length", "0"))))

    def _respond(self, raw: bytes) -> None:
        try:
            self.server.answer(self, self.path, raw)
        except ClientLeftError:
            self.close_connection = True


def _request(handler: _Handler, path: str, raw: bytes, *, number: int) -> FakeRequest:
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    protocol, streamed = _protocol(handler.command, path)
    asked = isinstance(body, dict) and body.get("stream") is True
    return FakeRequest(
        protocol=protocol,
        path=path,
        headers={name.lower(): value for name, value in handler.headers.items()},
        raw=raw,
        body=body,
        connection=handler.number,
        number=number,
        streamed=streamed or asked,
    )


def _protocol(method: str, path: str) -> tuple[Protocol, bool]:
    """Return the protocol that a path belongs to, and whether the path alone asks for a stream."""
    route = path.partition("?")[0]
    found = (protocol for asked, end, protocol in _ROUTES if asked == method and route.endswith(end))
    return next(found, "unknown"), route.endswith((":streamGenerateContent", "/converse-stream"))


def _keys(request: FakeRequest) -> list[str]:
    names = ("x-api-key", "x-goog-api-key", "api-key")
    shown = request.headers.get("authorization", "")
    return [shown.removeprefix("Bearer ").removeprefix("token "), *map(request.headers.get, names)]  # type: ignore[list-item]  # None is nobody's key


async def _set(event: threading.Event, seconds: float, otherwise: str) -> None:
    if not await anyio.to_thread.run_sync(event.wait, seconds, abandon_on_cancel=True):
        raise TimeoutError(f"{otherwise} within {seconds:g} s")
