"""A real HTTP server on the loopback interface that speaks the OpenAI chat protocol and misbehaves on demand.

It runs in threads of its own, so tests on any event loop and programs in other processes can talk to it::

    with OpenAIServer([Reply("Hello"), Fault(500)]) as server:
        adapter = create_adapter("openai", base_url=server.base_url, api_key="secret")

Each request takes the next entry of the script; the last entry serves all further ones.
"""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

WAIT = 10.0
"""Seconds after which something that a test waits for will not come any more."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"


@dataclass(frozen=True)
class Reply:
    """An answer: streamed when the request asks for it, else in one piece."""

    text: str | None = None
    calls: Sequence[Call] = ()
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = field(default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 3})
    pause_after: int | None = None
    """Stop after so many streamed chunks, until ``server.release()``, the client's end, or the end of the server."""
    cut_after: int | None = None
    """Break the connection after so many streamed chunks, in the middle of the body."""
    end_after: int | None = None
    """End the body after so many streamed chunks, as if that were all."""
    pause_before_end: bool = False
    """Send everything but the end of the body, and pause there."""


@dataclass(frozen=True)
class Fault:
    """A refusal with a status."""

    status: int
    message: str = "something is wrong"
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str = "server_error"
    code: str | None = None


@dataclass(frozen=True)
class Raw:
    """Any response at all."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hangup:
    """No response: the connection is reset."""


@dataclass(frozen=True)
class Silence:
    """No response and no end either, until ``server.release()``, the client's end, or the end of the server."""


Step = Reply | Fault | Raw | Hangup | Silence


@dataclass(frozen=True)
class Request:
    """What the server was sent."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    raw: bytes
    body: Any
    connection: int
    """Number of the connection, from 1."""


class OpenAIServer:
    """The server; a context manager that starts and stops it.

    Args:
        script: What it answers, one step a request.
        api_key: The only key that it accepts; None accepts everybody.
    """

    def __init__(self, script: Sequence[Step] = (Reply("Hello"),), *, api_key: str | None = None) -> None:
        self.requests: list[Request] = []
        self.client_left = threading.Event()
        """Set when a client closed its connection while the server was pausing."""
        self.pausing = threading.Event()
        """Set when the server pauses."""
        self._script = list(script)
        self._api_key = api_key
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def release(self) -> None:
        """Let everything that pauses go on."""
        self._released.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join(WAIT)

    def take(self, request: Request) -> Step:
        """Note a request; return what to answer."""
        with self._lock:
            self.requests.append(request)
            if self._api_key is not None and request.headers.get("authorization") != f"Bearer {self._api_key}":
                return Fault(401, "Incorrect API key provided", type="invalid_request_error", code="invalid_api_key")
            return self._script[min(len(self.requests), len(self._script)) - 1]

    def pause(self, connection: socket.socket) -> bool:
        """Wait; return whether the client is still there."""
        self.pausing.set()
        connection.settimeout(0.01)
        try:
            while not self._released.is_set():
                try:
                    if not connection.recv(1, socket.MSG_PEEK):
                        self.client_left.set()
                        return False
                except TimeoutError:
                    continue
                except OSError:
                    self.client_left.set()
                    return False
            return True
        finally:
            connection.settimeout(WAIT)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 256
    owner: OpenAIServer

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        self._count = 0
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._count += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # gone already
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def connection_count(self) -> int:
        return self._count

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what several tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = WAIT
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.number = self.server.connection_count

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Tests look at ``requests`` instead."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {key.lower(): value for key, value in self.headers.items()}
        request = Request(self.path, headers, raw, json.loads(raw), self.number)
        step = self.server.owner.take(request)
        if isinstance(step, Reply):
            (self._stream if request.body.get("stream") else self._whole)(step, request)
        elif isinstance(step, Fault):
            error = {"message": step.message, "type": step.type, "param": None, "code": step.code}
            self._send(step.status, json.dumps({"error": error}).encode(), headers=step.headers)
        elif isinstance(step, Raw):
            self._send(step.status, step.body, step.content_type, step.headers)
        elif isinstance(step, Silence):
            self.server.owner.pause(self.connection)
            self._reset()
        else:
            self._reset()

    def _whole(self, step: Reply, request: Request) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": step.text}
        if step.calls:
            message["tool_calls"] = [_tool_call(call) for call in step.calls]
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": request.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": _finish(step)}],
        }
        if step.usage is not None:
            answer["usage"] = dict(step.usage)
        self._send(200, json.dumps(answer).encode())

    def _stream(self, step: Reply, request: Request) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("x-request-id", f"req_{len(self.server.owner.requests)}")
        self.end_headers()
        for number, data in enumerate(_chunks(step, request.body["model"])):
            if number == step.pause_after and not self.server.owner.pause(self.connection):
                self.close_connection = True
                return
            if number == step.cut_after:
                self._reset()
                return
            if number == step.end_after:
                break
            piece = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if step.pause_before_end and not self.server.owner.pause(self.connection):
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _send(
        self, status: int, body: bytes, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for key, value in {
            "content-type": content_type,
            "content-length": str(len(body)),
            "x-request-id": f"req_{len(self.server.owner.requests)}",
            **(headers or {}),
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        # A linger of zero seconds turns the close into a reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _tool_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish(step: Reply) -> str:
    return step.finish_reason or ("tool_calls" if step.calls else "stop")


def _chunks(step: Reply, model: str) -> list[str]:
    """The data of every event: the text in words, arguments in halves, the finish, the usage, and the end."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}] if step.text is not None else []
    deltas.extend({"content": word} for word in (step.text or "").split(" ") if word)
    for number in range(2, len(deltas)):
        deltas[number]["content"] = " " + deltas[number]["content"]
    for index, call in enumerate(step.calls):
        half = len(call.arguments) // 2
        first, second = call.arguments[:half], call.arguments[half:]
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": first}}
        deltas.append({"tool_calls": [head]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}
    chunks: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(step)}]})
    if step.usage is not None:
        chunks.append({**base, "choices": [], "usage": dict(step.usage)})
    return [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
