"""A real receiver of OpenTelemetry's OTLP over HTTP, on the loopback interface.

It decodes the protobuf that an exporter sends, and refuses what it cannot decode::

    with OTLPReceiver() as receiver:
        exporter = OTLPSpanExporter(receiver.endpoint)
"""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

WAIT = 10.0
"""Seconds after which something that a test waits for will not come any more."""


class OTLPReceiver:
    """The receiver; a context manager that starts and stops it."""

    def __init__(self) -> None:
        self.batches: list[ResourceSpans] = []
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """What has arrived so far."""
        return [span for batch in self.batches for scope in batch.scope_spans for span in scope.spans]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(WAIT)


def attributes(pairs: Any) -> dict[str, Any]:
    """The attributes of a span, event or link as plain data."""
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(item) for item in value.array_value.values)
    assert kind in {"string_value", "bool_value", "int_value", "double_value"}, KeyValue(value=value)
    return getattr(value, kind)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: OTLPReceiver


class _Handler(BaseHTTPRequestHandler):
    timeout = WAIT
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Tests look at ``spans`` instead."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            request = ExportTraceServiceRequest.FromString(body)
        except Exception:  # whatever the protobuf library raises for what is no request
            self._answer(400, b"")
            return
        if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
            self._answer(404, b"")
            return
        self.server.owner.batches.extend(request.resource_spans)
        self._answer(200, ExportTraceServiceResponse().SerializeToString())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
