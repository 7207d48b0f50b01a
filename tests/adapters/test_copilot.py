"""GitHub Copilot: the login, the session, and what is sent."""

import copy
import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx
import pytest
import respx

from openmultiagent.adapters import (
    CopilotAdapter,
    LLMChatOptions,
    LLMToolDef,
    ThinkingConfig,
    TransportOptions,
    create_adapter,
    format_copilot_multiplier,
    get_copilot_multiplier,
)
from openmultiagent.adapters._copilot_login import SessionTokens
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMProtocolError,
)
from openmultiagent.messages import ImageBlock, LLMMessage, ToolResultBlock, ToolResultImagePart, UrlSource
from tests.support import proves

CHAT_URL = "https://api.githubcopilot.com/chat/completions"
TOKEN_URL = "https://api.github.com/copilot_internal/v2/token"
DEVICE_URL = "https://github.com/login/device/code"
ACCESS_URL = "https://github.com/login/oauth/access_token"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="gpt-x")
ANSWER = httpx.Response(200, json={"choices": [{"message": {"content": "Hello"}}]})
FAR = 4102444800


class GitHub:
    """Answers for GitHub; every exchange gives another session token."""

    def __init__(self, router: respx.MockRouter, expires_at: Sequence[float] = (FAR,)) -> None:
        self._expires_at = list(expires_at)
        self.exchange = router.get(TOKEN_URL).mock(side_effect=self._exchange)
        self.chat = router.post(CHAT_URL).mock(return_value=ANSWER)
        self.device = router.post(DEVICE_URL)
        self.access = router.post(ACCESS_URL)

    def _exchange(self, request: httpx.Request) -> httpx.Response:
        number = len(self.exchange.calls)
        expires_at = self._expires_at[min(number, len(self._expires_at) - 1)]
        return httpx.Response(200, json={"token": f"session-{number}", "expires_at": expires_at})

    @property
    def sessions(self) -> list[str]:
        """The session tokens that the calls showed."""
        return [call.request.headers["authorization"] for call in self.chat.calls]


@pytest.fixture
def github() -> Any:
    with respx.mock(assert_all_called=False) as router:
        yield GitHub(router)


def make(**more: Any) -> CopilotAdapter:
    return CopilotAdapter("gh-token", transport=TransportOptions(max_retries=0), **more)


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def with_clock(adapter: CopilotAdapter, clock: Clock, codes: list[tuple[str, str]]) -> CopilotAdapter:
    adapter._tokens = SessionTokens(
        provider="copilot",
        transport=adapter._transport,
        github_url="https://github.com",
        github_api_url="https://api.github.com",
        github_token=None,
        on_device_code=lambda *code: codes.append(code),
        clock=clock,
        sleep=clock.sleep,
    )
    return adapter


# --- requests --------------------------------------------------------------------------------------------------------


@proves("PRO-10", "PRO-13")
async def test_what_github_and_the_service_are_sent(github: GitHub) -> None:
    adapter = make()
    await adapter.chat(HI, OPTIONS)
    exchange = github.exchange.calls.last.request
    assert exchange.headers["authorization"] == "token gh-token"
    assert exchange.headers["accept"] == "application/json"
    assert exchange.headers["user-agent"] == "GitHubCopilotChat/0.28.0"
    request = github.chat.calls.last.request
    assert request.headers["authorization"] == "Bearer session-0"
    assert request.headers["copilot-integration-id"] == "vscode-chat"
    assert request.headers["editor-version"] == "vscode/1.100.0"
    assert request.headers["editor-plugin-version"] == "copilot-chat/0.42.2"
    assert "copilot-vision-request" not in request.headers
    await adapter.aclose()


@proves("PRO-13")
async def test_only_a_few_fields_are_sent(github: GitHub) -> None:
    options = LLMChatOptions(
        model="gpt-x",
        tools=[LLMToolDef("a", "", {})],
        max_tokens=5,
        temperature=0.5,
        top_p=0.5,
        top_k=1,
        min_p=0.1,
        frequency_penalty=1.0,
        presence_penalty=1.0,
        stop=("x",),
        seed=1,
        parallel_tool_calls=False,
        tool_choice="required",
        thinking=ThinkingConfig(effort="high"),
        output_schema={"type": "object", "properties": {}},
        extra_body={"x": 1},
    )
    await make().chat(HI, options)
    body = json.loads(github.chat.calls.last.request.content)
    assert body.keys() == {"model", "messages", "max_tokens", "temperature", "reasoning_effort", "tools", "stream"}
    github.chat.mock(return_value=httpx.Response(200, content=b"data: [DONE]\n\n"))
    [event async for event in make().stream(HI, options)]
    body = json.loads(github.chat.calls.last.request.content)
    assert body["stream_options"] == {"include_usage": True}


PICTURE = UrlSource(url="https://example.com/a.png", media_type="image/png")


@pytest.mark.parametrize(
    ("messages", "has_images"),
    [
        ([LLMMessage.user('say "type":"image_url"')], False),
        ([LLMMessage.new("user", [ImageBlock.from_url("https://example.com/a.png")])], True),
        ([{"role": "user", "content": [{"type": "image", "url": "https://example.com/a.png"}]}], True),
        (
            [LLMMessage.tool([ToolResultBlock(tool_use_id="c", content=[ToolResultImagePart(source=PICTURE)])])],
            True,
        ),
    ],
)
@proves("PRO-13")
async def test_images_are_announced(github: GitHub, messages: Any, has_images: bool) -> None:
    await make().chat(messages, OPTIONS)
    headers = github.chat.calls.last.request.headers
    assert headers.get("copilot-vision-request") == ("true" if has_images else None)


@proves("PRO-13")
async def test_a_stream_is_read_like_any_other(github: GitHub) -> None:
    body = (
        b'data: {"choices":[{"delta":{"reasoning_content":"hmm"}}]}\n\n'
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a"}}]},'
        b'"finish_reason":"stop"}]}\n\n'
    )
    github.chat.mock(return_value=httpx.Response(200, content=body))
    events = [event async for event in make().stream(HI, OPTIONS)]
    assert [event.type for event in events] == ["reasoning", "tool_use", "done"]
    assert getattr(events[-1].data, "stop_reason", None) == "tool_use"


# --- sessions --------------------------------------------------------------------------------------------------------


@proves("PRO-11")
async def test_one_session_serves_many_calls(github: GitHub) -> None:
    adapter = make()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(adapter.chat, HI, OPTIONS)
    await adapter.chat(HI, OPTIONS)
    assert len(github.exchange.calls) == 1
    assert set(github.sessions) == {"Bearer session-0"}


@proves("PRO-11")
async def test_a_session_is_renewed_a_minute_before_its_end() -> None:
    with respx.mock(assert_all_called=False) as router:
        github = GitHub(router, [time.time() + 30, time.time() + 300])
        adapter = make()
        for _ in range(3):
            await adapter.chat(HI, OPTIONS)
        assert github.sessions == ["Bearer session-0", "Bearer session-1", "Bearer session-1"]


@proves("PRO-11")
async def test_a_cancelled_exchange_leaves_the_next_one_to_the_others(github: GitHub) -> None:
    adapter = make()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await adapter.chat(HI, OPTIONS)
    assert scope.cancelled_caught
    await adapter.chat(HI, OPTIONS)
    assert len(github.sessions) == 1


@proves("PRO-12")
async def test_a_refused_session_is_renewed_once(github: GitHub) -> None:
    github.chat.mock(side_effect=[httpx.Response(401), ANSWER])
    adapter = make()
    assert (await adapter.chat(HI, OPTIONS)).content
    assert github.sessions == ["Bearer session-0", "Bearer session-1"]
    github.chat.mock(side_effect=[httpx.Response(401), httpx.Response(401)])
    (event,) = [event async for event in adapter.stream(HI, OPTIONS)]
    assert isinstance(event.data, LLMAuthenticationError)
    assert github.sessions[2:] == ["Bearer session-1", "Bearer session-2"]


@proves("PRO-12")
async def test_a_session_that_was_renewed_meanwhile_stays(github: GitHub) -> None:
    adapter = make()
    adapter._tokens.forget("an older one")
    await adapter.chat(HI, OPTIONS)
    adapter._tokens.forget("an older one")
    await adapter.chat(HI, OPTIONS)
    assert len(github.exchange.calls) == 1


@proves("PRO-12")
async def test_other_refusals_go_through(github: GitHub) -> None:
    github.chat.mock(return_value=httpx.Response(403))
    with pytest.raises(LLMAuthenticationError):
        await make().chat(HI, OPTIONS)
    assert len(github.chat.calls) == 1


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            httpx.Response(401, text="bad gh-token"),
            LLMAuthenticationError,
            "Copilot token exchange failed (401): bad [redacted]",
        ),
        (
            httpx.Response(403),
            LLMAuthenticationError,
            "Copilot token exchange failed (403): copilot API error 403: Forbidden",
        ),
        (
            httpx.ConnectError("no route"),
            LLMConnectionError,
            "Copilot token exchange failed: copilot API at https://api.github",
        ),
        (httpx.Response(200, text="<html>"), LLMProtocolError, "Copilot token exchange failed: GitHub gave an answer"),
        (httpx.Response(200, json=[]), LLMProtocolError, "Copilot token exchange failed: GitHub gave an answer"),
        (
            httpx.Response(200, json={"token": "secret"}),
            LLMProtocolError,
            "the token exchange gave an answer that cannot",
        ),
        (
            httpx.Response(200, json={"token": "a\nb", "expires_at": FAR}),
            LLMProtocolError,
            "the token exchange gave an",
        ),
        (httpx.Response(200, json={"token": 7, "expires_at": FAR}), LLMProtocolError, "the token exchange gave an"),
    ],
)
@proves("PRO-11", "PRO-14")
async def test_an_exchange_that_fails(github: GitHub, answer: Any, error: type[AdapterError], message: str) -> None:
    github.exchange.mock(side_effect=[answer, answer])
    adapter = make()
    with pytest.raises(error) as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.message.startswith(message)
    assert "gh-token" not in str(caught.value.to_dict())
    (event,) = [event async for event in adapter.stream(HI, OPTIONS)]
    assert isinstance(event.data, error)
    assert not github.chat.called


@proves("PRO-14")
async def test_no_token_is_in_an_error(github: GitHub) -> None:
    github.chat.mock(return_value=httpx.Response(400, text="gh-token session-0"))
    adapter = make()
    with pytest.raises(AdapterError) as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.body == "[redacted] [redacted]"
    assert repr(adapter) == "CopilotAdapter(name='copilot', base_url='https://api.githubcopilot.com')"
    assert copy.deepcopy(adapter) is adapter


# --- who logs in -----------------------------------------------------------------------------------------------------


@proves("PRO-10")
async def test_where_the_github_token_comes_from(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LLMAuthenticationError, match="set GITHUB_COPILOT_TOKEN or GITHUB_TOKEN") as caught:
        await create_adapter("copilot").chat(HI, OPTIONS)
    assert caught.value.attempts == 0
    for variable, value, given in (
        ("GITHUB_TOKEN", "second", None),
        ("GITHUB_COPILOT_TOKEN", "first", None),
        ("GITHUB_COPILOT_TOKEN", "", None),
        ("GITHUB_COPILOT_TOKEN", "first", "given"),
    ):
        monkeypatch.setenv(variable, value)
        await create_adapter("copilot", api_key=given).chat(HI, OPTIONS)
    shown = [call.request.headers["authorization"] for call in github.exchange.calls]
    assert shown == ["token second", "token first", "token second", "token given"]
    with pytest.raises(ConfigurationError, match="github_token must be printable"):
        CopilotAdapter("bäd")


@proves("PRO-10")
async def test_the_address_is_always_the_services_own(github: GitHub, capfd: pytest.CaptureFixture[str]) -> None:
    await create_adapter("copilot", api_key="gh", base_url="https://elsewhere.test").chat(HI, OPTIONS)
    assert github.chat.called
    assert "copilot_base_url_ignored" in "".join(capfd.readouterr())


def form(call: Any) -> dict[str, str]:
    return {key: value[0] for key, value in parse_qs(call.request.content.decode()).items()}


STARTED = {
    "device_code": "dev",
    "user_code": "ABCD-1234",
    "verification_uri": "https://github.com/login/device",
    "interval": 0,
    "expires_in": 60,
}


@proves("PRO-15")
async def test_a_user_logs_in(github: GitHub) -> None:
    github.device.mock(return_value=httpx.Response(200, json=STARTED))
    github.access.mock(
        side_effect=[
            httpx.Response(200, json={"error": "authorization_pending"}),
            httpx.Response(200, json={"error": "slow_down"}),
            httpx.Response(200, json={"error": "authorization_pending"}),
            httpx.Response(200, json={"access_token": "oauth-token"}),
        ]
    )
    clock, codes = Clock(), list[tuple[str, str]]()
    adapter = with_clock(CopilotAdapter(), clock, codes)
    await adapter.chat(HI, OPTIONS)
    assert codes == [("https://github.com/login/device", "ABCD-1234")]
    assert clock.waits == [5, 5, 10, 10]
    assert form(github.device.calls.last) == {"client_id": "Iv1.b507a08c87ecfe98", "scope": "copilot"}
    assert form(github.access.calls.last) == {
        "client_id": "Iv1.b507a08c87ecfe98",
        "device_code": "dev",
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    }
    assert github.exchange.calls.last.request.headers["authorization"] == "token oauth-token"
    clock.now = FAR
    await adapter.chat(HI, OPTIONS)  # another session, the same login
    assert len(github.device.calls) == 1


@pytest.mark.parametrize(
    ("started", "answer", "message"),
    [
        (httpx.Response(500), None, "Device code request failed (500): copilot API error 500: Internal Server Error"),
        (httpx.Response(200, json={"user_code": "x"}), None, "the device code request gave an answer that cannot be"),
        (STARTED, {"error": "authorization_pending"}, "Device code expired: nobody logged in"),
        (
            STARTED,
            {"error": "access_denied", "error_description": "said no"},
            "OAuth device flow failed: access_denied — said no",
        ),
        (STARTED, {}, "OAuth device flow failed: None — no description"),
        (STARTED, {"access_token": 7}, "the login gave an answer that cannot be read"),
        (STARTED, httpx.Response(404), "copilot API error 404: Not Found"),
    ],
)
@proves("PRO-15", "PRO-14")
async def test_a_login_that_fails(github: GitHub, started: Any, answer: Any, message: str) -> None:
    github.device.mock(
        return_value=started if isinstance(started, httpx.Response) else httpx.Response(200, json=started)
    )
    github.access.mock(return_value=answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer))
    adapter = with_clock(make(), Clock(), [])
    with pytest.raises(AdapterError) as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.message.startswith(message)
    assert not github.exchange.called


@pytest.mark.parametrize("asks", [{"allow_device_login": True}, {"on_device_code": print}])
@proves("PRO-15")
async def test_a_login_can_be_cancelled(
    github: GitHub, asks: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    github.device.mock(return_value=httpx.Response(200, json={**STARTED, "interval": 500}))
    with anyio.move_on_after(0.2) as scope:
        await CopilotAdapter(**asks).chat(HI, OPTIONS)
    assert scope.cancelled_caught
    assert "ABCD-1234" in "".join(capfd.readouterr())
    assert not github.access.called


# --- prices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("GPT-4.1", "included (0x)"),
        ("gpt-5-mini", "included (0x)"),
        ("gpt-5 mini", "included (0x)"),
        ("raptor-mini", "included (0x)"),
        ("grok-code-fast-1", "0.25x premium request"),
        ("claude-haiku-4.5", "0.33x premium request"),
        ("gemini-3.0-flash", "0.33x premium request"),
        ("gpt-5.1-codex-mini", "0.33x premium request"),
        ("gpt-5.4 mini", "0.33x premium request"),
        ("claude-sonnet-4.6", "1x premium request"),
        ("gpt-5.1-codex", "1x premium request"),
        ("gemini-3.1-pro", "1x premium request"),
        ("claude-opus-4.6-fast", "30x premium request"),
        ("claude-opus-4.6", "3x premium request"),
        ("unheard-of", "1x premium request"),
    ],
)
@proves("PRO-16")
def test_premium_requests(model: str, label: str) -> None:
    assert format_copilot_multiplier(get_copilot_multiplier(model)) == label.replace("x", "\N{MULTIPLICATION SIGN}")
