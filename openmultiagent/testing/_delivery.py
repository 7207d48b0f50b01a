"""How a fake server delivers one response: at what speed, in what pieces, and where it breaks off.

Not here: which response it is. Invariant: a client that goes away is noticed, whether the server writes or waits.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote

from ..adapters import LLMResponse
from ._bedrock_forms import BedrockConverse
from ._protocol_forms import OpenAIChat, OpenAIResponses, ProtocolForms
from ._script import Scripted, answer_of
from ._served import FakeRequest, Hangup, RawBody, Refused, Served, Silence, Step
from ._vendor_forms import AnthropicMessages, GeminiContent

__all__ = ["ClientLeftError", "Delivery", "Gate"]

_FORMS: Mapping[str, type[ProtocolForms]] = {
    "openai": OpenAIChat,
    "openai-responses": OpenAIResponses,
    "anthropic": AnthropicMessages,
    "gemini": GeminiContent,
    "bedrock": BedrockConverse,
}
_REQUEST_ID_HEADERS = {
    "openai": "x-request-id",
    "openai-responses": "x-request-id",
    "anthropic": "request-id",
    "bedrock": "x-amzn-requestid",
}
_JSON = "application/json"


class ClientLeftError(Exception):
    """The client closed its connection, or broke it."""


class Gate:
    """Where responses wait, until they are let go on or their client leaves.

    Args:
        client_left: Set when a client leaves.
        pausing: Set when a response pauses.
    """

    def __init__(self, client_left: threading.Event, pausing: threading.Event) -> None:
        self._client_left = client_left
        self._pausing = pausing
        # A socket can be waited for together with that of the client, which an event cannot.
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # one byte always fits
        self._released = False

    def release(self) -> None:
        """Let everything go on that waits, now and later."""
        if not self._released:
            self._released = True
            self._sender.send(b"!")

    def close(self) -> None:
        """Release the sockets; nothing may wait any more."""
        self._receiver.close()
        self._sender.close()

    def wait(self, connection: socket.socket, seconds: float | None) -> None:
        """Wait.

        Args:
            connection: The client's.
            seconds: How long; None waits until the release.

        Raises:
            ClientLeftError: The client is gone.
        """
        ready, _, _ = select.select([connection, self._receiver], [], [], seconds)
        if connection in ready and self._receiver not in ready:
            try:
                alive = bool(connection.recv(1, socket.MSG_PEEK))
            except OSError:
                alive = False
            if not alive:
                self.leave()
            select.select([self._receiver], [], [], seconds)  # it sent its next request early

    def pause(self, connection: socket.socket) -> None:
        """Wait for the release, and say so.

        Args:
            connection: The client's.

        Raises:
            ClientLeftError: The client is gone.
        """
        self._pausing.set()
        self.wait(connection, None)

    def leave(self) -> None:
        """Note that a client is gone.

        Raises:
            ClientLeftError: Always.
        """
        self._client_left.set()
        raise ClientLeftError


class Delivery:
    """Delivers one response.

    Args:
        handler: The connection.
        gate: Where to wait.
        request: What is answered.
    """

    def __init__(self, handler: BaseHTTPRequestHandler, gate: Gate, request: FakeRequest) -> None:
        self._handler = handler
        self._gate = gate
        self._request = request
        self._forms = _FORMS.get(request.protocol, OpenAIChat)
        self._split: int | None = None
        self._chunked = False

    def send(self, step: Step) -> None:
        """Deliver a response.

        Args:
            step: The response.

        Raises:
            ClientLeftError: The client went away before the end.
        """
        if isinstance(step, Silence):
            self._gate.pause(self._handler.connection)
            self._reset()
        elif isinstance(step, Hangup):
            self._reset()
        elif isinstance(step, Refused):
            self._refuse(step)
        elif isinstance(step, RawBody):
            self._split = step.split
            self._begin(step.status, step.content_type, step.headers, length=len(step.body))
            self._write(step.body)
        elif step.fail_after is not None and not self._streams(step):
            self._refuse(step.failure)
        else:
            self._serve(step)

    def _refuse(self, refused: Refused) -> None:
        body = json.dumps(self._forms.refusal(refused)).encode()
        wait = {} if refused.retry_after is None else {"retry-after": f"{refused.retry_after:g}"}
        headers = {**self._forms.refusal_headers(refused), **wait, **refused.headers}
        self._begin(refused.status, _JSON, headers, length=len(body))
        self._write(body)

    def _serve(self, served: Served) -> None:
        forms = self._forms(self._answer(served), served)
        self._split = served.split
        self._wait(served.delay)
        headers = {**forms.headers, **served.headers}
        if self._streams(served):
            pieces = [forms.framed(event, crlf=served.crlf) for event in forms.events()]
            failure = forms.failed(served.failure, crlf=served.crlf)
            self._begin(200, forms.stream_type, headers, length=None)
        else:
            body = json.dumps(forms.whole(), ensure_ascii=False).encode()
            half = len(body) // 2
            pieces, failure = [body[:half], body[half:]], b""
            sent = pieces if served.end_after is None else pieces[: min(served.end_after, 1)]
            self._begin(200, _JSON, headers, length=sum(map(len, sent)))
        self._deliver(served, pieces, failure)

    def _streams(self, served: Served) -> bool:
        return self._request.streamed and "no_stream" not in served.quirks

    def _answer(self, served: Served) -> LLMResponse:
        script = Scripted(served.content, usage=served.usage, stop_reason=served.stop_reason)
        answer_id, model = f"answer-{self._request.number}", _model(self._request)
        answer = answer_of(script, id=answer_id, model=model)
        return replace(answer, id=answer.id or answer_id, model=answer.model or model)

    def _deliver(self, served: Served, pieces: Sequence[bytes], failure: bytes) -> None:
        last = len(pieces) if self._chunked else 1  # a whole answer breaks in its middle, at the latest
        ends = [at for at in (served.cut_after, served.end_after, served.fail_after) if at is not None]
        stop = min(ends[0], last) if ends else len(pieces)
        for number in range(stop + 1):
            self._wait(served.piece_delay if number else served.body_delay)
            if served.pause_after is not None and number == min(served.pause_after, last):
                self._gate.pause(self._handler.connection)
            if number < stop:
                self._write(pieces[number])
        if served.cut_after is not None:
            self._reset()
            return
        if served.fail_after is not None:
            self._write(failure)
        if self._chunked:
            self._raw(b"0\r\n\r\n")
        if served.drop_connection:
            self._handler.close_connection = True

    def _wait(self, seconds: float) -> None:
        if seconds:
            self._gate.wait(self._handler.connection, seconds)

    def _begin(self, status: int, content_type: str, headers: Mapping[str, str], *, length: int | None) -> None:
        self._chunked = length is None
        told = {"content-type": content_type}
        told |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
        id_header = _REQUEST_ID_HEADERS.get(self._request.protocol)
        if id_header is not None:
            told[id_header] = f"req_{self._request.number}"
        self._handler.send_response(status)
        for name, value in {**told, **headers}.items():
            self._handler.send_header(name, value)
        try:
            self._handler.end_headers()
        except OSError:
            self._gate.leave()

    def _write(self, data: bytes) -> None:
        size = self._split or max(len(data), 1)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            self._raw(b"%x\r\n%s\r\n" % (len(part), part) if self._chunked else part)

    def _raw(self, data: bytes) -> None:
        try:
            self._handler.wfile.write(data)
        except OSError:
            self._gate.leave()

    def _reset(self) -> None:
        # A linger of zero seconds turns the close into a reset.
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.close_connection = True
        connection.close()


def _model(request: FakeRequest) -> str:
    """Return the model that was asked, to be named in the answer."""
    named = request.body.get("model") if isinstance(request.body, dict) else None
    if isinstance(named, str):
        return named
    *_, parent, last = request.path.split("/")
    return unquote(parent) if request.protocol == "bedrock" else last.partition(":")[0]
