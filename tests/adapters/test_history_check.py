"""Adapters refuse a history that their provider would refuse, before anything is sent."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import respx

from openmultiagent import (
    Agent,
    AgentConfig,
    InvalidMessageError,
    LLMMessage,
    ModelSettings,
    ToolResultBlock,
    ToolUseBlock,
)
from openmultiagent.adapters import LLMChatOptions, create_adapter
from tests.support import proves

ANSWERS: dict[str, dict[str, Any]] = {
    "openai": {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]},
    "anthropic": {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]},
}

OPEN_CALL = [
    LLMMessage.user("q"),
    LLMMessage.assistant([ToolUseBlock(id="c1", name="look", input={})]),
    LLMMessage.user("and?"),
]
ORPHAN = [LLMMessage.user_with_blocks([ToolResultBlock(tool_use_id="c1", content="seen")])]


@pytest.fixture(params=sorted(ANSWERS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def definition(provider: str, **settings: Any) -> AgentConfig[Any]:
    return AgentConfig("x", provider=provider, model="m", api_key="k" * 20, settings=ModelSettings(**settings))


@proves("HIS-40")
@pytest.mark.parametrize("history", [OPEN_CALL, ORPHAN], ids=["open call", "orphan result"])
async def test_a_run_is_told_what_is_wrong_with_its_history(
    provider: str, history: list[LLMMessage], respx_mock: respx.MockRouter
) -> None:
    result = await Agent(definition(provider)).run(history)
    assert not result.success
    assert isinstance(result.error, InvalidMessageError)
    assert result.error.path.startswith("messages[")
    assert result.error_info is not None
    assert result.error_info.kind == "validation"
    assert result.token_usage.unknown_calls == 0
    assert not respx_mock.calls


@proves("HIS-40")
async def test_the_check_can_be_switched_off(provider: str, respx_mock: respx.MockRouter) -> None:
    respx_mock.post().mock(return_value=httpx.Response(200, json=ANSWERS[provider]))
    result = await Agent(definition(provider, check_history=False)).run(ORPHAN)
    assert result.output == "ok"


@proves("HIS-40")
async def test_a_list_given_to_an_adapter_is_checked_when_asked_for(
    provider: str, respx_mock: respx.MockRouter
) -> None:
    respx_mock.post().mock(return_value=httpx.Response(200, json=ANSWERS[provider]))
    adapter = create_adapter(provider, api_key="k" * 20)
    assert (await adapter.chat(ORPHAN, LLMChatOptions(model="m"))).content
    with pytest.raises(InvalidMessageError):
        await adapter.chat(ORPHAN, LLMChatOptions(model="m", check_history=True))
    await close(adapter)


async def close(adapter: Any) -> None:
    aclose: Callable[[], Any] = adapter.aclose
    await aclose()
