"""Adapters by name."""

import copy
import os

import httpx
import pytest
import respx

from openmultiagent.adapters import (
    EmbeddedAdapter,
    LLMAdapter,
    LLMChatOptions,
    OpenAIAdapter,
    StreamingAdapter,
    TransportOptions,
    create_adapter,
    provider_names,
)
from openmultiagent.errors import ConfigurationError, LLMAuthenticationError
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


@pytest.mark.parametrize("name", [name for name in provider_names() if name != "embedded"])
@proves("MOD-36")
def test_every_row_makes_an_adapter(name: str) -> None:
    adapter = create_adapter(name)
    assert isinstance(adapter, OpenAIAdapter)
    assert isinstance(adapter, StreamingAdapter)
    assert adapter.name == name
    assert adapter.capabilities.read_only


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
    with pytest.raises(LLMAuthenticationError, match=f"{name} needs an API key: set {variable}") as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.attempts == 0
    assert not caught.value.retryable


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
    for name in provider_names():
        adapter = create_adapter(name)
        if name != "openai" and isinstance(adapter, OpenAIAdapter):
            assert "openai-key" not in str(vars(adapter))
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
