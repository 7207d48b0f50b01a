"""What refusals become."""

import json
from typing import Any

import pytest

from openmultiagent.adapters._faults import payload_error, retry_after_seconds, status_error
from openmultiagent.errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMRateLimitError,
    LLMServerError,
)
from openmultiagent.redaction import redact_sensitive_text
from tests.support import proves

URL = "https://api.example.com/v1/chat/completions"


def refusal(status: int, body: bytes = b"", **headers: str) -> AdapterError:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return status_error("openai", status, named, body, url=URL, redact=redact_sensitive_text)


@pytest.mark.parametrize(
    ("status", "cls", "retryable"),
    [
        (400, LLMBadRequestError, False),
        (401, LLMAuthenticationError, False),
        (403, LLMAuthenticationError, False),
        (404, LLMBadRequestError, False),
        (408, LLMBadRequestError, True),
        (409, LLMBadRequestError, True),
        (422, LLMBadRequestError, False),
        (429, LLMRateLimitError, True),
        (500, LLMServerError, True),
        (503, LLMServerError, True),
        (529, LLMServerError, True),
    ],
)
@proves("MOD-29", "MOD-33")
def test_the_status_decides(status: int, cls: type[AdapterError], retryable: bool) -> None:
    error = refusal(status)
    assert type(error) is cls
    assert error.status == status
    assert error.retryable is retryable
    assert error.message.startswith(f"openai API error {status}: ")


@proves("MOD-29")
def test_the_providers_words_are_kept() -> None:
    body = json.dumps(
        {"error": {"message": "No such model", "type": "invalid_request_error", "code": "model_not_found"}}
    )
    error = refusal(404, body.encode(), x_request_id="req_1")
    assert error.message == f"openai API error 404: No such model (at {URL})"
    assert (error.error_type, error.code, error.request_id) == ("invalid_request_error", "model_not_found", "req_1")
    assert error.body == body


@pytest.mark.parametrize(
    ("provider", "url", "told"),
    [
        ("openai", "http://127.0.0.1:1234/chat/completions", "; base_url usually ends in /v1"),
        ("openai", "http://me:secret@model.test:80/responses?key=secret#x", "; base_url usually ends in /v1"),
        ("openai", "http://model.test/v1/chat/completions", ""),
        ("copilot", "https://copilot.test/chat/completions", ""),
        ("gemini", "https://gemini.test/v1beta/models/m:generateContent?key=secret", ""),
    ],
)
@proves("MOD-62")
def test_what_is_not_there_is_named_without_secrets(provider: str, url: str, told: str) -> None:
    error = status_error(provider, 404, {}, b"", url=url, redact=redact_sensitive_text)
    shown = url.replace("me:secret@", "").partition("?")[0]
    assert error.message == f"{provider} API error 404: Not Found (at {shown}{told})"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "model is loading"}', "model is loading"),
        (b'{"object": "error", "message": "too long", "code": 400}', "too long"),
        (b"<html>nginx</html>", "Bad Request"),
        (b'{"error": {"message": 7}}', "Bad Request"),
        (b'{"error": ""}', "Bad Request"),
        (b'{"error": null}', "Bad Request"),
        (b"[]", "Bad Request"),
        (b"[" * 50_000, "Bad Request"),
        (b"\xff\xfe", "Bad Request"),
        (b"", "Bad Request"),
        (b'{"error": {"message": "\\ud83d!"}}', "\ufffd!"),
    ],
)
@proves("MOD-29", "MOD-28")
def test_any_body_gives_a_message(body: bytes, message: str) -> None:
    assert refusal(400, body).message == f"openai API error 400: {message}"


@proves("MOD-29")
def test_a_status_without_a_name_has_a_message() -> None:
    assert refusal(599).message == "openai API error 599: the server gave no reason"


@proves("MOD-30")
def test_texts_are_redacted_before_they_are_cut() -> None:
    secret = "sk-" + "a1B2" * 10
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {secret}"}, "padding": "x" * 1_950})
    error = refusal(401, ("x" * 1_989 + " " + secret).encode())
    assert error.body is not None
    assert len(error.body) <= 2_000
    assert "sk-a1B2" not in error.body
    assert secret not in refusal(401, body.encode()).message


@pytest.mark.parametrize(("told", "retryable"), [("true", True), ("false", False), ("perhaps", True)])
@proves("MOD-33")
def test_the_server_can_say_whether_to_try_again(told: str, retryable: bool) -> None:
    assert refusal(500, x_should_retry=told).retryable is retryable


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://elsewhere.example:8443/v1/chat?key=secret", "https://elsewhere.example:8443,"),
        ("https://user:password@elsewhere.example/v1", "https://elsewhere.example,"),
        ("/v2/chat/completions", "https://api.example.com,"),
        ("https://[broken", "an address that cannot be read"),
    ],
)
@proves("MOD-32")
def test_a_redirect_says_where_it_points(location: str, target: str) -> None:
    error = refusal(307, b"Moved", location=location)
    assert type(error) is LLMBadRequestError
    assert not error.retryable
    assert f"redirects to {target}" in error.message
    assert "base_url" in error.message
    assert "secret" not in error.message
    assert "password" not in error.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": "Fri, 31 Dec 2027 23:59:59 GMT", "date": "Fri, 31 Dec 2027 23:59:54 GMT"}, 5),
        ({"retry-after": "Fri, 31 Dec 2027 23:59:59 -0000", "date": "Fri, 31 Dec 2027 23:59:54 GMT"}, 5),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
@proves("MOD-34")
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


@pytest.mark.parametrize(
    ("error", "cls", "status", "message"),
    [
        ({"message": "slow down", "code": 429}, LLMRateLimitError, 429, "slow down"),
        ({"message": "no", "code": "content_policy"}, LLMServerError, None, "no"),
        ({"message": "odd", "code": 200}, LLMServerError, None, "odd"),
        ("overloaded", LLMServerError, None, "overloaded"),
        ({"reason": "?"}, LLMServerError, None, "the provider gave no reason"),
        (7, LLMServerError, None, "the provider gave no reason"),
    ],
)
@proves("MOD-21")
def test_an_error_inside_an_answer(error: Any, cls: type[AdapterError], status: int | None, message: str) -> None:
    made = payload_error("openrouter", error, body=json.dumps({"error": error}), redact=redact_sensitive_text)
    assert type(made) is cls
    assert made.status == status
    assert made.retryable
    assert made.message == f"openrouter API error: {message}"
