"""AWS Signature Version 4 for POST requests of JSON, whose body is at hand.

Not here: where credentials come from. Invariant: the same request, credentials and time give the same signature, and
nothing but the signature is made from the secret key.

It follows "Create a signed AWS API request" of the AWS IAM user guide (November 2026): the path is percent-encoded once
more than it is on the wire, as for all services but S3; ``content-type``, ``host`` and the date, with temporary
credentials also the session token, are signed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from ._aws_credentials import AwsCredentials

__all__ = ["signed_headers"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_DEFAULT_PORTS = {"https": ":443", "http": ":80"}


def signed_headers(
    url: str,
    body: bytes,
    *,
    credentials: AwsCredentials,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """Return the headers that a POST request needs to be accepted, besides ``host``.

    Args:
        url: Where the request goes, its path encoded as on the wire, without a query.
        body: The exact bytes that are sent.
        credentials: Who asks.
        region: AWS's name of the region.
        service: AWS's name of the service.
        now: The time; AWS accepts a signature for five minutes.
    """
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": "application/json", "x-amz-date": moment}
    if credentials.session_token:
        headers["x-amz-security-token"] = credentials.session_token
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    names, request = _canonical_request(url, headers, body)
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = _hmac(_signing_key(credentials.secret_access_key, scope), text).hex()
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _canonical_request(url: str, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """Return the names of the signed headers, and the text that stands for the request."""
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])  # as HTTP clients send it
    signed = sorted({**headers, "host": host}.items())
    names = ";".join(name for name, _ in signed)
    lines = ["POST", quote(parts.path or "/", safe="/~"), "", *(f"{name}:{value}" for name, value in signed), "", names]
    return names, "\n".join([*lines, hashlib.sha256(body).hexdigest()])


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
