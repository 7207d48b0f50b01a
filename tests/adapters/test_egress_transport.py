"""Egress policies in force: what adapters may send, and where."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import respx

from openmultiagent import Agent, AgentConfig
from openmultiagent.adapters import (
    AnthropicAdapter,
    CopilotAdapter,
    EmbeddedAdapter,
    LLMAdapter,
    LLMChatOptions,
    OpenAIAdapter,
    StreamingAdapter,
    TransportOptions,
    create_adapter,
    provider_names,
)
from openmultiagent.adapters._transport import HttpTransport
from openmultiagent.egress import EgressPolicy
from openmultiagent.errors import (
    ConfigurationError,
    EgressPolicyError,
    LLMBadRequestError,
    LLMConnectionError,
)
from openmultiagent.messages import LLMMessage
from openmultiagent.testing import FakeProviderServer
from tests.support import proves

HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="m")
ANSWER = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
OFFLINE = EgressPolicy("offline")
BASE = "https://model.test/v1"
URL = f"{BASE}/chat/completions"

KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "azure-openai": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "copilot": "GITHUB_TOKEN",
    "gemini": "GEMINI_API_KEY",
    "openai": "OPENAI_API_KEY",
}
ORIGINS = {
    "anthropic": ["https://api.anthropic.com"],
    "azure-openai": ["https://mine.openai.azure.com"],
    "bedrock": ["https://bedrock-runtime.eu-west-1.amazonaws.com"],
    "copilot": ["https://api.githubcopilot.com", "https://api.github.com"],
    "deepseek": ["https://api.deepseek.com"],
    "gemini": ["https://generativelanguage.googleapis.com"],
    "grok": ["https://api.x.ai"],
    "mistral": ["https://api.mistral.ai"],
    "openai": ["https://api.openai.com"],
    "openrouter": ["https://openrouter.ai"],
}
LOCAL = ("llamacpp", "lmstudio", "ollama", "vllm")
AWAY = [name for name in provider_names() if name not in (*LOCAL, "embedded", "azure-openai")]


def listed(*origins: str) -> EgressPolicy:
    return EgressPolicy("allowlist", allowed_origins=origins)


def refused(make: Callable[[], object]) -> EgressPolicyError:
    with pytest.raises(EgressPolicyError) as caught:
        make()
    return caught.value


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A key for every provider, and nothing else that an adapter looks at."""
    for name in ("AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in KEYS.values():
        monkeypatch.setenv(name, "key-1234")
    return monkeypatch


# --- making an adapter -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ORIGINS))
@proves("EGR-10")
def test_an_adapter_is_made_when_the_policy_allows_its_origins(name: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    environment.setenv("AWS_REGION", "eu-west-1")
    assert create_adapter(name, egress_policy=listed(*ORIGINS[name])).name == name
    error = refused(lambda: create_adapter(name, egress_policy=listed("https://other.test")))
    assert (error.reason, error.provider, error.origin) == ("denied", name, ORIGINS[name][0])


@pytest.mark.parametrize("name", AWAY)
@proves("EGR-10")
def test_no_vendor_is_offline(name: str, environment: pytest.MonkeyPatch) -> None:
    with respx.mock() as router:
        error = refused(lambda: create_adapter(name, egress_policy={"mode": "offline"}))
        assert not router.calls
    assert error.message.startswith(f'Egress policy denied framework-owned provider "{name}" request to https://')
    assert "key-1234" not in error.message


@pytest.mark.parametrize("name", LOCAL)
@proves("EGR-10")
def test_servers_on_this_machine_are_offline(name: str) -> None:
    assert create_adapter(name, egress_policy=OFFLINE).name == name
    assert refused(lambda: create_adapter(name, egress_policy=listed())).reason == "denied"


@proves("EGR-10")
def test_the_embedded_engine_sends_nothing() -> None:
    assert isinstance(create_adapter("embedded", egress_policy=listed()), EmbeddedAdapter)


@proves("EGR-10")
def test_the_address_that_counts_is_checked(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert create_adapter("openai", egress_policy=OFFLINE).name == "openai"
    away = refused(lambda: create_adapter("openai", base_url="https://model.test:8443/v1", egress_policy=OFFLINE))
    assert away.origin == "https://model.test:8443"
    environment.setenv("OPENAI_BASE_URL", "")
    assert refused(lambda: create_adapter("openai", egress_policy=OFFLINE)).origin == "https://api.openai.com"


@pytest.mark.parametrize("name", ["openai", "azure-openai", "anthropic"])
@proves("EGR-10")
def test_the_port_is_part_of_the_origin(name: str, environment: pytest.MonkeyPatch) -> None:
    policy = listed("https://model.test:8443")
    assert create_adapter(name, base_url="https://model.test:8443/v1", egress_policy=policy).name == name
    assert refused(lambda: create_adapter(name, base_url=BASE, egress_policy=policy)).origin == "https://model.test"


@proves("EGR-10")
def test_both_protocols_of_openai_are_checked(environment: pytest.MonkeyPatch) -> None:
    error = refused(lambda: create_adapter("openai", api="responses", egress_policy=OFFLINE))
    assert error.origin == "https://api.openai.com"
    allowed = create_adapter("openai", api="responses", egress_policy=listed("https://api.openai.com"))
    assert allowed.name == "openai"


@proves("EGR-10")
def test_a_wrong_policy_and_a_wrong_address_are_told_apart(environment: pytest.MonkeyPatch) -> None:
    wrong: Any = {"mode": "online"}
    assert refused(lambda: create_adapter("openai", egress_policy=wrong)).reason == "invalid-policy"
    assert refused(lambda: OpenAIAdapter(base_url=BASE, egress_policy=wrong)).reason == "invalid-policy"
    with pytest.raises(ConfigurationError, match="base_url must be an absolute"):
        create_adapter("openai", base_url="localhost:8000", egress_policy=OFFLINE)


@proves("EGR-10")
def test_azure_without_an_endpoint_has_no_address_to_check(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OPENAI_BASE_URL", "http://localhost:1234/v1")
    error = refused(lambda: create_adapter("azure-openai", egress_policy=OFFLINE))
    assert (error.reason, error.provider, error.origin) == ("unresolved-target", "azure-openai", None)
    assert error.message.startswith('Egress policy cannot resolve provider "azure-openai" target: ')
    assert "AZURE_OPENAI_ENDPOINT" in error.message


@proves("EGR-10")
def test_copilot_needs_the_origins_of_its_login_too() -> None:
    api, tokens, login = "https://api.githubcopilot.com", "https://api.github.com", "https://github.com"
    assert refused(lambda: CopilotAdapter("t", egress_policy=listed(tokens))).origin == api
    assert refused(lambda: CopilotAdapter("t", egress_policy=listed(api))).origin == tokens
    CopilotAdapter("t", allow_device_login=True, egress_policy=listed(api, tokens))
    CopilotAdapter(egress_policy=listed(api, tokens))
    error = refused(lambda: CopilotAdapter(allow_device_login=True, egress_policy=listed(api, tokens)))
    assert error.origin == login
    CopilotAdapter(allow_device_login=True, egress_policy=listed(api, tokens, login))


@proves("EGR-11")
def test_a_given_client_cannot_be_checked() -> None:
    client = httpx.AsyncClient()
    error = refused(
        lambda: OpenAIAdapter(base_url=BASE, http_client=client, egress_policy=listed("https://model.test"))
    )
    assert (error.reason, error.provider) == ("unsupported", "openai")
    assert error.message.startswith('Egress policy cannot enforce provider "openai": a given http_client')


# --- requests --------------------------------------------------------------------------------------------------------


def sender(policy: EgressPolicy | None) -> HttpTransport:
    return HttpTransport(
        provider="openai", options=TransportOptions(), redact=str, egress_policy=policy, jitter=lambda: 0.0
    )


@proves("EGR-12")
async def test_every_request_is_checked_again_before_it_leaves(respx_mock: respx.MockRouter) -> None:
    allowed = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"answer"))
    denied = respx_mock.route(host="other.test").mock(return_value=httpx.Response(500))
    transport = sender(listed("https://model.test"))
    assert await transport.read(await transport.post(URL, headers={}, content=b"")) == b"answer"
    with pytest.raises(EgressPolicyError) as caught:
        await transport.post("https://other.test/v1?key=hunter2", headers={}, content=b"")
    assert caught.value.origin == "https://other.test"
    assert "hunter2" not in caught.value.message
    with pytest.raises(EgressPolicyError):
        await transport.get("http://model.test", headers={})
    assert allowed.call_count == 1
    assert not denied.called
    await transport.aclose()


@pytest.mark.parametrize("make", [OpenAIAdapter, AnthropicAdapter])
@proves("EGR-12")
async def test_an_allowed_call_works(respx_mock: respx.MockRouter, make: Callable[..., LLMAdapter]) -> None:
    answer = {**ANSWER, "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    respx_mock.post(url__startswith=BASE).mock(return_value=httpx.Response(200, json=answer))
    response = await make(base_url=BASE, api_key="k", egress_policy=listed("https://model.test")).chat(HI, OPTIONS)
    assert [getattr(block, "text", None) for block in response.content] == ["Hello"]


@proves("EGR-12")
async def test_copilot_calls_work_under_a_policy(respx_mock: respx.MockRouter) -> None:
    token = {"token": "t", "expires_at": 4_000_000_000}
    respx_mock.get("https://api.github.com/copilot_internal/v2/token").mock(
        return_value=httpx.Response(200, json=token)
    )
    chat = respx_mock.post("https://api.githubcopilot.com/chat/completions")
    chat.mock(return_value=httpx.Response(200, json=ANSWER))
    adapter = CopilotAdapter("g", egress_policy=listed("https://api.githubcopilot.com", "https://api.github.com"))
    await adapter.chat(HI, OPTIONS)
    assert chat.called


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("https://me:hunter2@elsewhere.test:8443/v1", "https://elsewhere.test:8443"),
        ("/v2/chat/completions", "https://model.test"),
        ("//elsewhere.test/", "https://elsewhere.test"),
        ("https://[::1", "an address that cannot be read"),
        ("mailto:hunter2", "an address that cannot be read"),
    ],
)
@proves("EGR-13")
async def test_a_redirect_is_denied_wherever_it_leads(
    respx_mock: respx.MockRouter, status: int, location: str, origin: str
) -> None:
    elsewhere = respx_mock.route(host="elsewhere.test").mock(return_value=httpx.Response(200))
    route = respx_mock.post(URL).mock(return_value=httpx.Response(status, headers={"location": location}))
    policy = listed("https://model.test", "https://elsewhere.test")
    with pytest.raises(EgressPolicyError) as caught:
        await sender(policy).post(URL, headers={}, content=b"")
    assert (caught.value.reason, caught.value.origin) == ("denied", origin)
    assert caught.value.message == f'Egress policy denied framework-owned provider "openai" request to {origin}.'
    assert route.call_count == 1  # and not tried again
    assert not elsewhere.called


@proves("EGR-13")
async def test_a_redirect_that_names_no_address_is_an_ordinary_refusal(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(304))
    with pytest.raises(LLMBadRequestError):
        await sender(listed("https://model.test")).post(URL, headers={}, content=b"")


@proves("EGR-13")
async def test_without_a_policy_a_redirect_is_an_ordinary_refusal(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(307, headers={"location": "https://elsewhere.test"}))
    with pytest.raises(LLMBadRequestError):
        await sender(None).post(URL, headers={}, content=b"")


@proves("EGR-14")
async def test_in_a_stream_a_denied_request_is_the_last_event(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(307, headers={"location": "https://elsewhere.test"}))
    adapter = OpenAIAdapter(base_url=BASE, egress_policy=listed("https://model.test"))
    assert isinstance(adapter, StreamingAdapter)
    (event,) = [event async for event in adapter.stream(HI, OPTIONS)]
    assert event.type == "error"
    assert isinstance(event.data, EgressPolicyError)


@proves("EGR-14")
async def test_in_a_run_a_denied_request_is_a_rejected_result(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(307, headers={"location": "https://elsewhere.test"}))
    adapter = OpenAIAdapter(base_url=BASE, egress_policy=listed("https://model.test"))
    result = await Agent(AgentConfig("a", adapter=adapter, model="m")).run("Hi")
    assert not result.success
    assert result.status.code == "rejected"
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.code) == ("validation", "EGRESS_POLICY_DENIED")
    assert result.error_info.retryable is False
    assert result.tool_calls == ()
    assert route.call_count == 1


@proves("EGR-15")
async def test_a_proxy_of_the_environment_does_not_get_the_requests(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nobody listens there
    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = OpenAIAdapter(base_url=server.openai_url, egress_policy=OFFLINE)
        await adapter.chat(HI, OPTIONS)
        await adapter.aclose()
        assert len(server.requests) == 1
        free = OpenAIAdapter(base_url=server.openai_url, transport=TransportOptions(max_retries=0))
        with pytest.raises(LLMConnectionError):
            await free.chat(HI, OPTIONS)
        await free.aclose()
        assert len(server.requests) == 1
