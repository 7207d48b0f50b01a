"""The chat protocol at Azure."""

import copy
import json
from typing import Any

import httpx
import pytest
import respx

from openmultiagent.adapters import (
    AzureOpenAIAdapter,
    LLMChatOptions,
    LLMToolDef,
    StreamEvent,
    ThinkingConfig,
    TransportOptions,
    create_adapter,
)
from openmultiagent.errors import ConfigurationError, LLMAuthenticationError, LLMProtocolError
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from tests.support import proves

ENDPOINT = "https://res.openai.azure.com"
URL = f"{ENDPOINT}/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"
KEY = "my-very-own-key"
HI = [LLMMessage.user("Hi")]
ANSWER = {"id": "c1", "model": "gpt-4o", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}


def make(**more: Any) -> AzureOpenAIAdapter:
    return AzureOpenAIAdapter(endpoint=ENDPOINT, api_key=KEY, transport=TransportOptions(max_retries=0), **more)


async def sent(adapter: Any, model: str = "gpt-x", **options: Any) -> httpx.Request:
    with respx.mock() as router:
        route = router.route().mock(return_value=httpx.Response(200, json=ANSWER))
        await adapter.chat(HI, LLMChatOptions(model=model, **options))
    await adapter.aclose()
    request: httpx.Request = route.calls.last.request
    return request


@proves("PRO-6")
async def test_where_a_request_goes_and_what_it_shows() -> None:
    request = await sent(make())
    assert str(request.url) == URL
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    assert json.loads(request.content) == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }


@proves("PRO-6")
async def test_names_are_quoted() -> None:
    request = await sent(make(api_version="2025&x=y"), "my model/é")
    assert request.url.raw_path.decode() == (
        "/openai/deployments/my%20model%2F%C3%A9/chat/completions?api-version=2025%26x%3Dy"
    )


@proves("PRO-7")
async def test_the_deployment_is_the_model_or_the_adapters_own() -> None:
    for deployment, model, expected in (
        ("mine", "gpt-x", "gpt-x"),
        (" mine ", "  ", "mine"),
        ("mine", " gpt-x ", "gpt-x"),
    ):
        request = await sent(make(deployment=deployment), model)
        assert f"/deployments/{expected}/" in str(request.url)
        assert json.loads(request.content)["model"] == expected


@pytest.mark.parametrize("deployment", [None, "", "  "])
@proves("PRO-7")
async def test_a_deployment_is_required(deployment: str | None, respx_mock: respx.MockRouter) -> None:
    adapter = make(deployment=deployment)
    options = LLMChatOptions(model="   ")
    with pytest.raises(ConfigurationError, match="Azure OpenAI deployment is required"):
        await adapter.chat(HI, options)
    with pytest.raises(ConfigurationError, match="Azure OpenAI deployment is required"):
        await anext(adapter.stream(HI, options))
    assert not respx_mock.calls


@proves("PRO-8")
async def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.test/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    with pytest.raises(ConfigurationError, match="set AZURE_OPENAI_ENDPOINT, or give base_url"):
        create_adapter("azure-openai")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{ENDPOINT}/")
    with pytest.raises(LLMAuthenticationError, match="set AZURE_OPENAI_API_KEY"):
        await create_adapter("azure-openai").chat(HI, LLMChatOptions(model="m"))
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "gpt-x")
    request = await sent(create_adapter("azure-openai"), "")
    assert (str(request.url), request.headers["api-key"]) == (URL, "azure-key")
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01")
    request = await sent(create_adapter("azure-openai", api_key="given", base_url="https://given.test"))
    assert str(request.url) == "https://given.test/openai/deployments/gpt-x/chat/completions?api-version=2025-01-01"
    assert request.headers["api-key"] == "given"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "bäd")
    with pytest.raises(ConfigurationError, match="the value of AZURE_OPENAI_API_KEY must be"):
        create_adapter("azure-openai")


@proves("PRO-9")
async def test_fields_that_azure_does_not_have() -> None:
    extra = {"temperature": 1.5, "x": 1, "model": "evil", "stream": True, "messages": []}
    options: dict[str, Any] = {"top_k": 3, "min_p": 0.1, "temperature": 0.5, "seed": 1, "extra_body": extra}
    body = json.loads((await sent(make(), **options, thinking=ThinkingConfig(effort="max"))).content)
    del body["messages"]
    assert body == {"temperature": 1.5, "seed": 1, "x": 1, "model": "gpt-x", "stream": False}
    body = json.loads((await sent(make(), extra_body={"top_k": 3}, thinking=ThinkingConfig(effort="low"))).content)
    assert (body["top_k"], body["reasoning_effort"]) == (3, "low")
    body = json.loads((await sent(make(max_tokens_field="max_completion_tokens"), max_tokens=7)).content)
    assert body["max_completion_tokens"] == 7


@proves("PRO-9")
async def test_a_stream_is_read_like_any_other(respx_mock: respx.MockRouter) -> None:
    chunks = [
        {"choices": [], "prompt_filter_results": []},
        {"choices": [{"delta": {"reasoning_content": "hmm"}}]},
        {"choices": [{"delta": {"content": "So\u2028"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "a"}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    body = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=body.encode()))
    adapter = make()
    events = [event async for event in adapter.stream(HI, LLMChatOptions(model="gpt-x"))]
    assert [event.type for event in events] == ["reasoning", "text", "tool_use", "done"]
    response = events[-1].data
    assert getattr(response, "content", None) == [
        ReasoningBlock(text="hmm", provenance="azure-openai"),
        TextBlock(text="So\u2028"),
        ToolUseBlock(id="c1", name="a", input={}),
    ]
    assert getattr(response, "stop_reason", None) == "tool_use"
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b'data: {"choices":[]}\n\n'))
    (event,) = [event async for event in adapter.stream(HI, LLMChatOptions(model="gpt-x"))]
    assert isinstance(event, StreamEvent)
    assert isinstance(event.data, LLMProtocolError)
    await adapter.aclose()


@pytest.mark.parametrize(("looks", "stop_reason"), [("auto", "end_turn"), (False, "end_turn"), (True, "tool_use")])
@proves("MOD-46")
async def test_calls_in_texts_are_looked_for_when_asked(
    looks: Any, stop_reason: str, respx_mock: respx.MockRouter
) -> None:
    answer = {"choices": [{"message": {"content": '{"name": "search"}'}}]}
    respx_mock.post(URL).mock(return_value=httpx.Response(200, json=answer))
    options = LLMChatOptions(model="gpt-x", tools=[LLMToolDef("search", "", {})])
    assert (await make(text_tool_calls=looks).chat(HI, options)).stop_reason == stop_reason


@proves("MOD-8", "MOD-30", "MOD-40")
async def test_the_key_is_not_shown(respx_mock: respx.MockRouter) -> None:
    adapter = make()
    assert repr(adapter) == f"AzureOpenAIAdapter(name='azure-openai', base_url='{ENDPOINT}')"
    assert copy.deepcopy(adapter) is adapter
    respx_mock.post(URL).mock(return_value=httpx.Response(401, json={"error": {"message": f"not {KEY}"}}))
    with pytest.raises(LLMAuthenticationError) as caught:
        await adapter.chat(HI, LLMChatOptions(model="gpt-x"))
    assert caught.value.message == "azure-openai API error 401: not [redacted]"
    faults: list[dict[str, Any]] = [
        {"endpoint": "res"},
        {"endpoint": ENDPOINT, "api_key": "k\n"},
        {"endpoint": ENDPOINT, "api_version": "\n"},
    ]
    for bad in faults:
        with pytest.raises(ConfigurationError, match="azure-openai"):
            AzureOpenAIAdapter(**bad)
