"""Adapters by name."""

import copy
import json
import os
from typing import Any

import httpx
import pytest
import respx

from openmultiagent import Agent, AgentConfig
from openmultiagent.adapters import (
    EmbeddedAdapter,
    LLMAdapter,
    LLMChatOptions,
    LLMToolDef,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamingAdapter,
    ThinkingConfig,
    TransportOptions,
    create_adapter,
    provider_names,
)
from openmultiagent.adapters._vendors import VENDORS
from openmultiagent.errors import AdapterError, ConfigurationError, LLMAuthenticationError
from openmultiagent.messages import LLMMessage
from tests.support import proves

HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="m")
ANSWER = {"choices": [{"message": {"content": "Hello"}}]}


async def headers_of(adapter: LLMAdapter, url: str) -> httpx.Headers:
    """Make one call; return the headers that reached the URL."""
    with respx.mock() as router:
        route = router.post(url).mock(return_value=httpx.Response(200, json=ANSWER))
        await adapter.chat(HI, OPTIONS)
        assert isinstance(adapter, OpenAIAdapter)
        await adapter.aclose()
    return route.calls.last.request.headers


@pytest.mark.parametrize("name", sorted(VENDORS))
@proves("MOD-36")
def test_every_row_makes_an_adapter(name: str) -> None:
    adapter = create_adapter(name)
    assert isinstance(adapter, OpenAIAdapter)
    assert adapter.name == name


@pytest.mark.parametrize("name", [name for name in provider_names() if name != "embedded"])
@proves("MOD-36", "MOD-8")
def test_every_provider_makes_an_adapter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com")
    adapter = create_adapter(name, api_key="sk-very-secret")
    assert isinstance(adapter, StreamingAdapter)
    assert adapter.name == name
    assert getattr(adapter, "capabilities").read_only  # noqa: B009 - the protocol leaves it out
    assert copy.deepcopy(adapter) is adapter
    assert "sk-very-secret" not in repr(adapter)


ROWS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", None),
    "doubao": ("https://ark.cn-beijing.volces.com/api/v3", "ARK_API_KEY", None),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", None),
    "grok": ("https://api.x.ai/v1", "XAI_API_KEY", None),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY", None),
    "hunyuan": ("https://tokenhub.tencentmaas.com/v1", "HUNYUAN_API_KEY", "HUNYUAN_BASE_URL"),
    "kimi": ("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", None),
    "mimo": ("https://api.xiaomimimo.com/v1", "MIMO_API_KEY", "MIMO_BASE_URL"),
    "minimax": ("https://api.minimax.io/v1", "MINIMAX_API_KEY", "MINIMAX_BASE_URL"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY", None),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", None),
    "qiniu": ("https://api.qnaigc.com/v1", "QINIU_API_KEY", None),
    "qwen": ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", None),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY", None),
    "zhipu": ("https://open.bigmodel.cn/api/paas/v4", "ZAI_API_KEY", "ZAI_BASE_URL"),
    "llamacpp": ("http://localhost:8080/v1", None, None),
    "lmstudio": ("http://localhost:1234/v1", None, None),
    "ollama": ("http://localhost:11434/v1", None, None),
    "vllm": ("http://localhost:8000/v1", None, None),
}


@proves("PRO-1")
def test_the_table_of_vendors() -> None:
    found = {name: (row.base_url, row.key_variable, row.base_url_variable) for name, row in VENDORS.items()}
    assert found == ROWS


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row[2]))
@proves("PRO-1", "MOD-36")
async def test_the_variable_of_an_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(str(ROWS[name][2]), "https://env.test/v1")
    headers = await headers_of(create_adapter(name, api_key="k"), "https://env.test/v1/chat/completions")
    assert headers["authorization"] == "Bearer k"


# Where each key may go: to no other host, and to these in no other way than in a header.
HOMES = {
    "ANTHROPIC_API_KEY": {"api.anthropic.com"},
    "AZURE_OPENAI_API_KEY": {"res.openai.azure.com"},
    "GEMINI_API_KEY": {"generativelanguage.googleapis.com"},
    "GOOGLE_API_KEY": set[str](),
    "GITHUB_COPILOT_TOKEN": {"api.github.com"},
    "GITHUB_TOKEN": set[str](),
    "AWS_BEARER_TOKEN_BEDROCK": {"bedrock-runtime.us-east-1.amazonaws.com"},
    "AWS_SECRET_ACCESS_KEY": set[str](),
    **{key: {httpx.URL(address).host} for address, key, _ in ROWS.values() if key is not None},
    "OPENAI_ORG_ID": {"api.openai.com"},
    "OPENAI_PROJECT_ID": {"api.openai.com"},
}


@pytest.mark.parametrize("name", [name for name in provider_names() if name != "embedded"])
@proves("PRO-2", "MOD-37")
async def test_with_all_keys_set_each_goes_to_its_own_host_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {variable: f"value-of-{variable.lower().replace('_', '-')}" for variable in HOMES}
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com")
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.host == "api.github.com":
            return httpx.Response(200, json={"token": "session-token", "expires_at": 4102444800})
        return httpx.Response(400, json={"error": {"message": " ".join(values.values())}})

    adapter = create_adapter(name, transport=TransportOptions(max_retries=0))
    assert isinstance(adapter, StreamingAdapter)
    with respx.mock() as router:
        router.route().mock(side_effect=answer)
        with pytest.raises(AdapterError) as caught:
            await adapter.chat(HI, OPTIONS)
        (event,) = [event async for event in adapter.stream(HI, OPTIONS)]
    assert event.type == "error"
    assert seen
    for request in seen:
        hidden = f"{request.url} {request.content.decode()}"
        shown = " ".join(request.headers.values())
        for variable, value in values.items():
            assert value not in hidden
            assert value not in shown or request.url.host in HOMES[variable], f"{variable} at {request.url.host}"
    own = [value for variable, value in values.items() if seen[-1].url.host in HOMES[variable]]
    for value in own[:1]:
        assert value not in str(caught.value.to_dict())
        assert value in " ".join(seen[-1].headers.values())
    close = getattr(adapter, "aclose")  # noqa: B009 - the protocol leaves it out
    await close()


@pytest.mark.parametrize(
    ("name", "base_url"),
    [
        ("openai", "https://api.openai.com/v2"),
        ("minimax", "https://api.minimaxi.com/v1"),
        ("kimi", "https://api.moonshot.cn/v1"),
        ("zhipu", "https://api.z.ai/api/paas/v4"),
        ("qwen", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("hunyuan", "https://api.hunyuan.cloud.tencent.com/v1"),
    ],
)
@proves("PRO-3", "MOD-38")
async def test_a_vendors_other_hosts_are_its_own(name: str, base_url: str) -> None:
    with pytest.raises(LLMAuthenticationError, match=f"{name} needs an API key"):
        await create_adapter(name, base_url=base_url).chat(HI, OPTIONS)


@pytest.mark.parametrize("name", ["deepseek", "hunyuan", "mimo", "kimi"])
@proves("PRO-5")
def test_vendors_that_want_their_reasoning_back(name: str) -> None:
    adapter = create_adapter(name)
    assert isinstance(adapter, OpenAIAdapter)
    assert adapter.capabilities.echoes_reasoning == "tool-use-only"
    others = {row for row in VENDORS if VENDORS[row].profile.echoes_reasoning == "tool-use-only"}
    assert others == {"deepseek", "hunyuan", "mimo", "kimi"}


async def body_of(name: str, **options: Any) -> dict[str, Any]:
    """What a provider is sent."""
    adapter = create_adapter(name, api_key="k")
    with respx.mock() as router:
        route = router.post(url__startswith=VENDORS[name].base_url).mock(return_value=httpx.Response(200, json=ANSWER))
        await adapter.chat(HI, LLMChatOptions(model="m", **options))
    body: dict[str, Any] = json.loads(route.calls.last.request.content)
    return body


@proves("PRO-5")
async def test_the_thinking_of_deepseek() -> None:
    body = await body_of("deepseek", thinking=ThinkingConfig(effort="max"))
    assert (body["thinking"], body["reasoning_effort"]) == ({"type": "enabled"}, "max")
    assert not {"thinking", "reasoning_effort"} & (await body_of("deepseek")).keys()


@pytest.mark.parametrize("name", ["openai", "doubao", "grok", "hunyuan", "minimax", "mimo", "qiniu"])
@proves("PRO-5")
async def test_others_have_no_switch_and_no_greatest_effort(name: str) -> None:
    assert not {"thinking", "reasoning_effort"} & (await body_of(name, thinking=ThinkingConfig(effort="max"))).keys()
    assert (await body_of(name, thinking=ThinkingConfig(effort="high")))["reasoning_effort"] == "high"
    assert (await body_of(name, top_k=3, min_p=0.1))["top_k"] == 3


@proves("PRO-5")
async def test_mistral_is_sent_nothing_that_it_refuses() -> None:
    body = await body_of("mistral", top_k=3, min_p=0.1, seed=7, max_tokens=5)
    assert body.keys() == {"model", "messages", "stream", "random_seed", "max_tokens"}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("openai", "json_schema"),
        ("mistral", "json_schema"),
        ("ollama", "json_schema"),
        ("llamacpp", "json_object"),
        ("deepseek", None),
        ("groq", None),
    ],
)
@proves("MOD-49")
async def test_the_schema_form_of_a_provider(name: str, form: str | None) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    body = await body_of(name, output_schema=schema)
    assert body.get("response_format", {}).get("type") == form
    adapter = create_adapter(name)
    assert isinstance(adapter, OpenAIAdapter)
    assert adapter.capabilities.structured_output == (form is not None)


IN_TEXT = {"choices": [{"message": {"content": '{"name": "search", "arguments": {}}'}}]}


@pytest.mark.parametrize(
    ("adapter", "looks"),
    [
        (create_adapter("openai", api_key="k"), False),
        (create_adapter("groq", api_key="k"), False),
        (create_adapter("minimax", api_key="k", base_url="https://api.minimaxi.com/v1"), False),
        (create_adapter("ollama"), True),
        (create_adapter("openai", base_url="http://model.test/v1"), True),
        (OpenAIAdapter(base_url="https://api.openai.com/v1"), False),
        (OpenAIAdapter(base_url="https://api.openai.com/v1", text_tool_calls=True), True),
        (OpenAIAdapter(base_url="http://model.test/v1", text_tool_calls=False), False),
    ],
)
@proves("MOD-46")
async def test_where_calls_are_looked_for_in_texts(adapter: OpenAIAdapter, looks: bool) -> None:
    with respx.mock() as router:
        router.route().mock(return_value=httpx.Response(200, json=IN_TEXT))
        response = await adapter.chat(HI, LLMChatOptions(model="m", tools=[LLMToolDef("search", "", {})]))
        assert (response.stop_reason == "tool_use") == looks
        for options in (
            LLMChatOptions(model="m"),
            LLMChatOptions(model="m", tools=[LLMToolDef("search", "", {})], tool_choice="none"),
        ):
            assert (await adapter.chat(HI, options)).stop_reason == "end_turn"
    await adapter.aclose()


@proves("PRO-4")
def test_region_and_api_are_for_those_who_have_them() -> None:
    assert isinstance(create_adapter("openai", api="responses"), OpenAIResponsesAdapter)
    assert isinstance(create_adapter("openai", api="chat"), OpenAIAdapter)
    with pytest.raises(ConfigurationError, match="provider 'openai': api must be one of chat, responses, got 'x'"):
        create_adapter("openai", api="x")
    with pytest.raises(ConfigurationError, match="provider 'groq': api must be left out"):
        create_adapter("groq", api="responses")
    for provider in set(provider_names()) - {"bedrock"}:
        with pytest.raises(ConfigurationError, match=f"provider '{provider}' takes no region"):
            create_adapter(provider, region="eu-west-1")
    assert create_adapter("bedrock", region="eu-west-1").name == "bedrock"


@proves("PRO-4", "MOD-37")
async def test_the_second_protocol_is_set_up_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    adapter = create_adapter("openai", api="responses")
    with respx.mock() as router:
        route = router.post("https://api.openai.com/v1/responses")
        route.mock(return_value=httpx.Response(200, json={"output": []}))
        await adapter.chat(HI, OPTIONS)
    headers = route.calls.last.request.headers
    assert (headers["authorization"], headers["openai-organization"]) == ("Bearer from-env", "org-1")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(LLMAuthenticationError, match="set OPENAI_API_KEY"):
        await create_adapter("openai", api="responses").chat(HI, OPTIONS)


@proves("MOD-42")
def test_embedded() -> None:
    assert isinstance(create_adapter("embedded"), EmbeddedAdapter)
    with pytest.raises(ConfigurationError, match="takes no api_key"):
        create_adapter("embedded", api_key="k")
    with pytest.raises(ConfigurationError, match="takes no base_url"):
        create_adapter("embedded", base_url="http://localhost/v1")
    with pytest.raises(ConfigurationError, match="takes no transport"):
        create_adapter("embedded", transport=TransportOptions())


@pytest.mark.parametrize("name", ["nonsense", "OpenAI", "", None, ["openai"]])
@proves("MOD-39")
def test_an_unknown_provider(name: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        create_adapter(name)  # type: ignore[arg-type]
    assert f"Unsupported LLM provider: {name}" in caught.value.message
    for known in provider_names():
        assert known in caught.value.message


@proves("MOD-36")
async def test_an_argument_wins_over_the_environment_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    default = create_adapter("openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://env.test/v1/")
    env = create_adapter("openai")
    argument = create_adapter("openai", api_key="given", base_url="https://given.test/v1")
    monkeypatch.delenv("OPENAI_API_KEY")  # read already
    monkeypatch.delenv("OPENAI_BASE_URL")
    for adapter, url, key in (
        (default, "https://api.openai.com/v1", "from-env"),
        (env, "https://env.test/v1", "from-env"),
        (argument, "https://given.test/v1", "given"),
    ):
        headers = await headers_of(adapter, f"{url}/chat/completions")
        assert headers["authorization"] == f"Bearer {key}"


@proves("MOD-36", "MOD-38")
async def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    with pytest.raises(LLMAuthenticationError, match="OPENAI_API_KEY"):
        await create_adapter("openai").chat(HI, OPTIONS)


@pytest.mark.parametrize(("name", "variable"), [("openai", "OPENAI_API_KEY"), ("groq", "GROQ_API_KEY")])
@proves("MOD-38")
async def test_a_missing_key_is_told_at_the_first_call(name: str, variable: str) -> None:
    adapter = create_adapter(name)
    with pytest.raises(LLMAuthenticationError, match=f"{name} needs an API key; set {variable}") as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.attempts == 0
    assert not caught.value.retryable


MISSING = {
    **{name: vendor.key_variable for name, vendor in VENDORS.items() if vendor.key_variable is not None},
    "anthropic": "ANTHROPIC_API_KEY",
    "azure-openai": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "copilot": "GITHUB_COPILOT_TOKEN or GITHUB_TOKEN",
    "gemini": "GEMINI_API_KEY",
}


@pytest.mark.parametrize("name", sorted(MISSING))
@proves("MOD-38")
async def test_what_is_missing_survives_redaction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    result = await Agent(AgentConfig("a", provider=name, model="m")).run("Hi")
    assert result.error_info is not None
    assert result.error_info.name == "LLMAuthenticationError"
    assert f"set {MISSING[name]}" in (result.error_info.message or "")


@proves("MOD-38", "MOD-4")
async def test_a_missing_key_is_an_event_of_a_stream() -> None:
    adapter = create_adapter("openai")
    assert isinstance(adapter, OpenAIAdapter)
    (event,) = [event async for event in adapter.stream(HI, OPTIONS)]
    assert event.type == "error"
    assert isinstance(event.data, LLMAuthenticationError)


@pytest.mark.parametrize(
    ("name", "base_url", "address"),
    [
        ("openai", "http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("groq", "http://proxy.test", "http://proxy.test"),
        ("ollama", None, "http://localhost:11434/v1"),
        ("lmstudio", None, "http://localhost:1234/v1"),
        ("llamacpp", None, "http://localhost:8080/v1"),
        ("vllm", None, "http://localhost:8000/v1"),
    ],
)
@proves("MOD-38")
async def test_other_servers_get_no_authorization_without_a_key(name: str, base_url: str | None, address: str) -> None:
    headers = await headers_of(create_adapter(name, base_url=base_url), f"{address}/chat/completions")
    assert "authorization" not in headers


@proves("MOD-37")
async def test_a_provider_reads_its_own_key_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    for name in VENDORS:
        adapter = create_adapter(name)
        assert isinstance(adapter, OpenAIAdapter)
        assert ("openai-key" in adapter._key.secrets) == (name == "openai")
    monkeypatch.setenv("GROQ_API_KEY", "groq-key")
    headers = await headers_of(create_adapter("groq"), "https://api.groq.com/openai/v1/chat/completions")
    assert headers["authorization"] == "Bearer groq-key"


@proves("MOD-37")
async def test_organisation_and_project_go_to_their_vendor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "")
    own = await headers_of(create_adapter("openai", api_key="k"), "https://api.openai.com/v1/chat/completions")
    assert own["openai-organization"] == "org-1"
    assert "openai-project" not in own
    elsewhere = create_adapter("openai", api_key="k", base_url="https://proxy.test/v1")
    assert "openai-organization" not in await headers_of(elsewhere, "https://proxy.test/v1/chat/completions")
    other = create_adapter("openrouter", api_key="k")
    assert "openai-organization" not in await headers_of(other, "https://openrouter.ai/api/v1/chat/completions")


@proves("MOD-40")
def test_bad_values_are_refused_when_the_adapter_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="openai: base_url must be an absolute"):
        create_adapter("openai", base_url="localhost:11434")
    with pytest.raises(ConfigurationError, match="openai: api_key must be printable ASCII"):
        create_adapter("openai", api_key="key\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sécret")
    with pytest.raises(ConfigurationError, match="the value of OPENAI_API_KEY must be") as caught:
        create_adapter("openai")
    assert "sécret" not in caught.value.message


@proves("MOD-40")
async def test_headers_are_checked_and_win() -> None:
    adapter = OpenAIAdapter(
        name="azure", base_url="https://az.test/v1", api_key="k", headers={"Api-Key": "k2", "Authorization": "Basic x"}
    )
    headers = await headers_of(adapter, "https://az.test/v1/chat/completions")
    assert headers["api-key"] == "k2"
    assert headers.get_list("authorization") == ["Basic x"]
    for bad in ({"x y\n": "1"}, {"x": "1\r\ny: 2"}, {"x": ""}):
        with pytest.raises(ConfigurationError, match="header"):
            OpenAIAdapter(base_url="https://az.test/v1", headers=bad)


@proves("MOD-8")
def test_a_copy_is_the_adapter_itself_and_nothing_shows_the_key() -> None:
    adapter = create_adapter("openai", api_key="sk-very-secret", base_url="http://localhost:1/v1")
    assert copy.deepcopy(adapter) is adapter
    assert copy.deepcopy({"a": [adapter]})["a"][0] is adapter
    assert repr(adapter) == "OpenAIAdapter(name='openai', base_url='http://localhost:1/v1')"


@proves("MOD-36")
def test_making_an_adapter_changes_no_environment() -> None:
    before = dict(os.environ)
    create_adapter("openai")
    assert dict(os.environ) == before
