"""AWS event streams for tests: the encoder that servers have."""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any


def frame(headers: Mapping[str, str | bytes], payload: bytes) -> bytes:
    """One message; a header is a string, or the bytes of its type and value."""
    block = b""
    for name, value in headers.items():
        data = value.encode() if isinstance(value, str) else b""
        tail = b"\x07" + struct.pack("!H", len(data)) + data if isinstance(value, str) else value
        block += struct.pack("!B", len(name.encode())) + name.encode() + tail
    return raw_frame(block, payload)


def raw_frame(block: bytes, payload: bytes) -> bytes:
    """One message with any bytes for headers."""
    prelude = struct.pack("!II", len(block) + len(payload) + 16, len(block))
    head = prelude + struct.pack("!I", zlib.crc32(prelude)) + block + payload
    return head + struct.pack("!I", zlib.crc32(head))


def event(kind: str, payload: Any) -> bytes:
    """One event of Bedrock."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, _json(payload))


def exception(kind: str, payload: Any) -> bytes:
    """One exception of Bedrock."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, _json(payload))


def _json(payload: Any) -> bytes:
    if isinstance(payload, bytes):
        return payload
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
