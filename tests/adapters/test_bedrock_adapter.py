"""The Bedrock adapter as a whole, with the wire replaced."""

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import respx

from openmultiagent.adapters import LLMChatOptions, LLMResponse, StreamEvent, TransportOptions
from openmultiagent.adapters._aws_credentials import AwsCredentials, SharedCredentialsFile
from openmultiagent.adapters._bedrock import BedrockAdapter, create
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    UnsupportedContentError,
)
from openmultiagent.messages import ImageBlock, LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.event_stream import event, exception
from tests.support.wire import Broken, Chunks, Stalled

MODEL = "anthropic.claude-3-5-haiku-20241022-v1:0"
ROOT = "https://bedrock-runtime.us-east-1.amazonaws.com"
URL = f"{ROOT}/model/anthropic.claude-3-5-haiku-20241022-v1%3A0/converse"
STREAM_URL = f"{URL}-stream"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model=MODEL)
KEY = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "my-session-token")
TOKEN = "my-very-own-token"

CHAT = (
    b'{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"end_turn",'
    b'"usage":{"inputTokens":10,"outputTokens":5}}'
)
FIRST = event("messageStart", {"role": "assistant"}) + event(
    "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Let me\u2028"}}, "p": "abc"}
)
STREAM = b"".join(
    [
        FIRST,
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "sig"}}}),
        event("contentBlockStop", {"contentBlockIndex": 0}),
        event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Grüße 🎉"}}),
        event("contentBlockStop", {"contentBlockIndex": 1}),
        event("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "c1", "name": "a"}}}),
        event("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"q": 1}'}}}),
        event("contentBlockStop", {"contentBlockIndex": 2}),
        event("messageStop", {"stopReason": "tool_use"}),
        event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2}, "metrics": {"latencyMs": 1}}),
    ]
)
CONTENT: list[Any] = [
    ReasoningBlock(text="Let me\u2028", signature="sig", provenance="bedrock"),
    TextBlock(text="Grüße 🎉"),
    ToolUseBlock(id="c1", name="a", input={"q": 1}),
]


@pytest.fixture(autouse=True)
def nothing_to_log_in_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def make(retries: int = 0) -> BedrockAdapter:
    return create(api_key=TOKEN, transport=TransportOptions(max_retries=retries))


async def stream(adapter: BedrockAdapter, options: LLMChatOptions = OPTIONS) -> list[StreamEvent]:
    return [item async for item in adapter.stream(HI, options)]


def failure(events: list[StreamEvent]) -> Exception:
    assert [item.type for item in events].count("error") == 1
    error = events[-1].data
    assert isinstance(error, Exception)
    return error


def ok(**more: Any) -> httpx.Response:
    return httpx.Response(200, content=CHAT, headers={"x-amzn-requestid": "r1"}, **more)


# --- the wire --------------------------------------------------------------------------------------------------------


@proves("BED-2", "BED-3", "BED-18")
async def test_chat_on_the_wire(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=ok())
    adapter = make()
    assert await adapter.chat(HI, OPTIONS) == LLMResponse(
        [TextBlock(text="Hello")],
        id="r1",
        model=MODEL,
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )
    request = route.calls.last.request
    assert request.content == (
        b'{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"inferenceConfig":{"maxTokens":4096}}'
    )
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("openmultiagent/")
    assert "x-amz-date" not in request.headers
    await adapter.aclose()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@proves("BED-18", "BED-24", "BED-25")
async def test_a_stream_gives_the_same_events_however_it_is_cut(respx_mock: respx.MockRouter, size: int) -> None:
    answer = httpx.Response(200, stream=Chunks(STREAM, size), headers={"x-amzn-requestid": "r1"})
    respx_mock.post(STREAM_URL).mock(return_value=answer)
    adapter = make()
    events = await stream(adapter)
    assert [item.type for item in events] == ["reasoning", "text", "tool_input_delta", "tool_use", "done"]
    assert [item.data for item in events[:2]] == ["Let me\u2028", "Grüße 🎉"]
    assert events[3].data == CONTENT[2]
    assert events[4].data == LLMResponse(
        CONTENT, id="r1", model=MODEL, stop_reason="tool_use", usage=TokenUsage(input_tokens=3, output_tokens=2)
    )
    await adapter.aclose()


ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.x-v1:0"
QUOTED_ARN = "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Feu.anthropic.x-v1%3A0"


@pytest.mark.parametrize(
    ("base_url", "model", "expected"),
    [
        (None, ARN, f"{ROOT}/model/{QUOTED_ARN}/converse"),
        ("http://localhost:4566/bedrock/", "a/b:c", "http://localhost:4566/bedrock/model/a%2Fb%3Ac/converse"),
    ],
)
@proves("BED-1", "BED-2")
async def test_addresses(respx_mock: respx.MockRouter, base_url: str | None, model: str, expected: str) -> None:
    route = respx_mock.post(url__regex=".*").mock(return_value=ok())
    await create(api_key=TOKEN, base_url=base_url).chat(HI, LLMChatOptions(model=model))
    request = route.calls.last.request
    assert f"{request.url.scheme}://{request.headers['host']}{request.url.raw_path.decode()}" == expected


@pytest.mark.parametrize(
    ("argument", "region", "default_region", "expected"),
    [
        ("eu-west-1", "eu-west-2", "eu-west-3", "eu-west-1"),
        (None, "eu-west-2", "eu-west-3", "eu-west-2"),
        (None, "", "eu-west-3", "eu-west-3"),
        (None, None, None, "us-east-1"),
    ],
)
@proves("BED-1")
def test_the_region(
    monkeypatch: pytest.MonkeyPatch,
    argument: str | None,
    region: str | None,
    default_region: str | None,
    expected: str,
) -> None:
    for name, value in (("AWS_REGION", region), ("AWS_DEFAULT_REGION", default_region)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert repr(create(region=argument)) == (
        f"BedrockAdapter(name='bedrock', region='{expected}', "
        f"base_url='https://bedrock-runtime.{expected}.amazonaws.com')"
    )


@pytest.mark.parametrize("region", ["us_east", "x.example.com/", "useast", "us-east-1@evil.test", "US-EAST-1"])
@proves("BED-1")
def test_a_region_that_is_no_name(region: str) -> None:
    with pytest.raises(ConfigurationError, match="bedrock: region must be a name such as us-east-1"):
        create(region=region)


@pytest.mark.parametrize("arguments", [{"api_key": "a\nb"}, {"base_url": "ftp://x"}])
@proves("BED-6")
def test_what_cannot_be_an_adapter(arguments: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="bedrock"):
        create(**arguments)  # type: ignore[arg-type]


@proves("BED-17")
async def test_what_cannot_be_sent_raises_before_a_request(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(url__regex=".*")
    adapter = make()
    bad = [LLMMessage.user("Hi"), {"role": "user", "content": [{"type": "video"}]}]
    picture = [LLMMessage.user_with_blocks([ImageBlock.from_url("https://example.com/a.png")])]
    for messages, error in ((bad, InvalidMessageError), (picture, UnsupportedContentError)):
        with pytest.raises(error):
            await adapter.chat(messages, OPTIONS)  # type: ignore[arg-type]
        with pytest.raises(error):
            await anext(adapter.stream(messages, OPTIONS))  # type: ignore[arg-type]
    assert not route.called


@proves("BED-17", "BED-27")
async def test_a_cut_stream_is_an_error_event_after_the_text(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(STREAM_URL)
    route.mock(return_value=httpx.Response(200, content=FIRST, headers={"x-amzn-requestid": "r9"}))
    events = await stream(make())
    assert [item.type for item in events] == ["reasoning", "error"]
    error = failure(events)
    assert isinstance(error, LLMProtocolError)
    assert (error.status, error.request_id, error.retryable) == (200, "r9", True)
    route.mock(return_value=httpx.Response(200, stream=Broken(FIRST)))
    events = await stream(make())
    assert [item.type for item in events] == ["reasoning", "error"]
    assert isinstance(failure(events), LLMConnectionError)


@proves("BED-17", "BED-26")
async def test_an_exception_in_a_stream_is_an_error_event(respx_mock: respx.MockRouter) -> None:
    body = FIRST + exception("throttlingException", {"message": f"slow down, {TOKEN}"})
    respx_mock.post(STREAM_URL).mock(return_value=httpx.Response(200, content=body))
    events = await stream(make(retries=2))
    assert [item.type for item in events] == ["reasoning", "error"]
    error = failure(events)
    assert isinstance(error, LLMRateLimitError)
    assert error.message == "bedrock API error: slow down, [redacted]"


@proves("BED-28")
async def test_cancelling_a_stream_closes_the_response(respx_mock: respx.MockRouter) -> None:
    body = Stalled(FIRST)
    route = respx_mock.post(STREAM_URL).mock(return_value=httpx.Response(200, stream=body))
    adapter = make()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream, adapter)
            await body.waiting.wait()
            tasks.cancel_scope.cancel()
    assert body.closed
    route.mock(return_value=httpx.Response(200, content=STREAM))
    assert (await stream(adapter))[-1].type == "done"
    await adapter.aclose()


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "name", "attempts"),
    [
        (400, "ValidationException", 1),
        (403, "AccessDeniedException", 1),
        (404, "ResourceNotFoundException", 1),
        (424, "ModelErrorException", 1),
        (408, "ModelTimeoutException", 2),
        (429, "ThrottlingException", 2),
        (429, "ModelNotReadyException", 2),
        (500, "InternalServerException", 2),
        (503, "ServiceUnavailableException", 2),
    ],
)
@proves("BED-29")
async def test_refusals(respx_mock: respx.MockRouter, status: int, name: str, attempts: int) -> None:
    headers = {
        "x-amzn-requestid": "r7",
        "x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/",
        "retry-after-ms": "1",
    }
    answer = httpx.Response(status, json={"message": "no, not now"}, headers=headers)
    respx_mock.post(URL).mock(return_value=answer)
    with pytest.raises(AdapterError) as caught:
        await make(retries=1).chat(HI, OPTIONS)
    error = caught.value
    assert error.message.partition(" (at ")[0] == f"bedrock API error {status}: no, not now"
    assert (error.status, error.error_type, error.request_id, error.attempts) == (status, name, "r7", attempts)
    respx_mock.post(STREAM_URL).mock(return_value=answer)
    assert str(failure(await stream(make(retries=1)))).partition(" (at ")[0] == str(error).partition(" (at ")[0]


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        ({"api_key": TOKEN}, [TOKEN]),
        ({"credentials": KEY}, [KEY.access_key_id, KEY.session_token, KEY.secret_access_key]),
    ],
)
@proves("BED-6")
async def test_no_secret_is_shown(respx_mock: respx.MockRouter, arguments: Any, secrets: list[str]) -> None:
    answer = httpx.Response(403, json={"message": f"the canonical request was {' '.join(secrets)}"})
    respx_mock.post(URL).mock(return_value=answer)
    adapter = BedrockAdapter(**arguments)
    with pytest.raises(LLMAuthenticationError) as caught:
        await adapter.chat(HI, OPTIONS)
    shown = json.dumps(caught.value.to_dict()) + repr(adapter) + repr(KEY)
    assert "[redacted]" in shown
    assert not [secret for secret in secrets if secret in shown]
    assert copy.deepcopy(adapter) is adapter


@proves("BED-23")
async def test_an_unreadable_answer_names_its_request(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"<html>", headers={"x-amzn-requestid": "r9"}))
    with pytest.raises(LLMProtocolError) as caught:
        await make().chat(HI, OPTIONS)
    assert (caught.value.status, caught.value.request_id, caught.value.body) == (200, "r9", "<html>")


# --- credentials -----------------------------------------------------------------------------------------------------


@proves("BED-4")
async def test_each_attempt_is_signed_at_its_own_time(respx_mock: respx.MockRouter) -> None:
    def clock() -> Iterator[datetime]:
        moment = datetime(2025, 1, 1, tzinfo=UTC)
        while True:
            yield moment
            moment += timedelta(minutes=4)

    times = clock()
    busy = httpx.Response(503, headers={"retry-after-ms": "1"})
    route = respx_mock.post(URL).mock(side_effect=[busy, ok()])
    adapter = BedrockAdapter(credentials=KEY, now=lambda: next(times), transport=TransportOptions(max_retries=1))
    await adapter.chat(HI, OPTIONS)
    first, second = (call.request.headers for call in route.calls)
    assert (first["x-amz-date"], second["x-amz-date"]) == ("20250101T000000Z", "20250101T000400Z")
    assert first["authorization"] != second["authorization"]
    assert first["x-amz-security-token"] == "my-session-token"
    assert first["authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20250101/us-east-1/bedrock/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature="
    )


@proves("BED-4")
async def test_the_clock_is_the_real_one_by_default(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=ok())
    before = datetime.now(UTC).replace(microsecond=0)
    await BedrockAdapter(credentials=KEY).chat(HI, OPTIONS)
    sent = datetime.strptime(route.calls.last.request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert before <= sent <= datetime.now(UTC)


def _credential(route: respx.Route) -> str:
    authorization: str = route.calls.last.request.headers["authorization"]
    return authorization.partition("/")[0]


@proves("BED-3", "BED-5")
async def test_what_it_logs_in_with(
    respx_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    route = respx_mock.post(URL).mock(return_value=ok())
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
        "[work]\naws_access_key_id=WORK\naws_secret_access_key=s%\naws_session_token=t\nregion=x\n"
    )
    adapter = create()
    await adapter.chat(HI, OPTIONS)
    assert _credential(route) == "AWS4-HMAC-SHA256 Credential=FILE"
    assert "x-amz-security-token" not in route.calls.last.request.headers

    file.write_text(file.read_text().replace("FILE", "NEWER"))
    await adapter.chat(HI, OPTIONS)
    assert _credential(route) == "AWS4-HMAC-SHA256 Credential=NEWER"

    monkeypatch.setenv("AWS_PROFILE", "work")
    await create().chat(HI, OPTIONS)
    assert _credential(route) == "AWS4-HMAC-SHA256 Credential=WORK"
    assert route.calls.last.request.headers["x-amz-security-token"] == "t"

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "")
    await create().chat(HI, OPTIONS)
    assert _credential(route) == "AWS4-HMAC-SHA256 Credential=ENVIRONMENT"
    assert "x-amz-security-token" not in route.calls.last.request.headers

    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "b")
    await create().chat(HI, OPTIONS)
    assert route.calls.last.request.headers["authorization"] == "Bearer b"
    await create(api_key="a").chat(HI, OPTIONS)
    assert route.calls.last.request.headers["authorization"] == "Bearer a"


@proves("BED-3")
async def test_a_function_is_asked_for_each_request(respx_mock: respx.MockRouter) -> None:
    busy = httpx.Response(503, headers={"retry-after-ms": "1"})
    route = respx_mock.post(URL).mock(side_effect=[busy, ok(), ok()])
    asked: list[str] = []

    async def provide() -> AwsCredentials:
        await anyio.lowlevel.checkpoint()
        asked.append(f"KEY{len(asked)}")
        return AwsCredentials(asked[-1], "s")

    adapter = BedrockAdapter(credentials=KEY, credentials_provider=provide, transport=TransportOptions(max_retries=1))
    await adapter.chat(HI, OPTIONS)
    await adapter.chat(HI, OPTIONS)
    assert asked == ["KEY0", "KEY1", "KEY2"]
    assert _credential(route) == "AWS4-HMAC-SHA256 Credential=KEY2"


async def _fails() -> AwsCredentials:
    raise OSError("secret-of-the-function")


async def _refuses() -> AwsCredentials:
    raise LLMBadRequestError("not today", provider="mine")


async def _returns_something_else() -> AwsCredentials:
    return "AKIA"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("provider", "cls", "reason"),
    [
        (_fails, LLMAuthenticationError, "credentials_provider failed with OSError"),
        (_refuses, LLMBadRequestError, "not today"),
        (_returns_something_else, LLMAuthenticationError, "must return AwsCredentials, got str"),
        (None, LLMAuthenticationError, "there are none; set AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
@proves("BED-5", "BED-17")
async def test_a_function_that_does_not_deliver(
    respx_mock: respx.MockRouter, provider: Any, cls: type[AdapterError], reason: str
) -> None:
    route = respx_mock.post(url__regex=".*")
    adapter = BedrockAdapter(credentials_provider=provider)
    with pytest.raises(cls, match=reason) as caught:
        await adapter.chat(HI, OPTIONS)
    assert "secret" not in str(caught.value)
    assert isinstance(failure(await stream(adapter)), cls)
    assert not route.called


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, r"cannot be read \(FileNotFoundError\)"),
        (b"\xff", r"cannot be read \(UnicodeDecodeError\)"),
        (b"aws_secret_access_key = hunter2", "is no credentials file"),
        (b"[other]\n", "has no profile 'work'"),
        (b"[work]\nrole_arn = arn:aws:iam::1:role/x\n", "holds no access key"),
        (b"[work]\naws_access_key_id = a\n", "holds no access key"),
        (b"[work]\naws_access_key_id =\naws_secret_access_key = hunter2\n", "access_key_id must be printable"),
    ],
)
@proves("BED-5", "BED-6")
async def test_a_file_without_a_key(tmp_path: Path, text: bytes | None, reason: str) -> None:
    file = tmp_path / "credentials"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(LLMAuthenticationError, match=reason) as caught:
        await SharedCredentialsFile(provider="bedrock", path=file, profile="work")()
    assert "set AWS_BEARER_TOKEN_BEDROCK" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert caught.value.attempts == 0


@proves("BED-5")
async def test_the_default_file_is_in_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id=A\naws_secret_access_key=B\n")
    assert await SharedCredentialsFile.from_environment("bedrock")() == AwsCredentials("A", "B")


@pytest.mark.parametrize(
    ("name", "missing"), [("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), ("SECRET_ACCESS_KEY", "ACCESS_KEY_ID")]
)
@proves("BED-3")
def test_half_a_key_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, missing: str) -> None:
    monkeypatch.setenv(f"AWS_{name}", "x")
    with pytest.raises(ConfigurationError, match=f"AWS_{missing} is not set"):
        create()


@pytest.mark.parametrize("fields", [("", "s"), ("a b", "s"), ("a", "s\n"), ("a", "é"), ("a", "s", ""), ("a", 7)])
@proves("BED-6")
def test_keys_that_cannot_be_sent(fields: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="must be printable ASCII text"):
        AwsCredentials(*fields)
