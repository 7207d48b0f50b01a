"""The suite for adapters: the built-in ones pass it, and one that does wrong is told what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openmultiagent.adapters import LLMAdapter, OpenAIAdapter, TransportOptions
from openmultiagent.adapters._anthropic import AnthropicAdapter
from openmultiagent.adapters._embedded import EmbeddedAdapter
from openmultiagent.adapters._gemini import GeminiAdapter
from openmultiagent.adapters._responses import OpenAIResponsesAdapter
from openmultiagent.testing import FakeProviderServer, ScriptedAdapter
from openmultiagent.testing.conformance import API_KEY, CHECKS, AdapterRig, Check, ConformanceError, check_adapter
from tests.support import proves

ONCE = TransportOptions(max_retries=0)
RIGS: dict[str, AdapterRig] = {
    "openai": AdapterRig(lambda server: OpenAIAdapter(base_url=server.openai_url, api_key=API_KEY, transport=ONCE)),
    "openai-responses": AdapterRig(
        lambda server: OpenAIResponsesAdapter(base_url=server.openai_url, api_key=API_KEY, transport=ONCE)
    ),
    "anthropic": AdapterRig(
        lambda server: AnthropicAdapter(base_url=server.anthropic_url, api_key=API_KEY, transport=ONCE)
    ),
    "gemini": AdapterRig(lambda server: GeminiAdapter(base_url=server.gemini_url, api_key=API_KEY, transport=ONCE)),
    "embedded": AdapterRig(lambda _: EmbeddedAdapter(), against_server=False),
    "scripted": AdapterRig(lambda _: ScriptedAdapter(lambda messages, options: "Hello"), against_server=False),
}


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("rig", RIGS.values(), ids=RIGS)
@proves("TST-40")
async def test_the_built_in_adapters_conform(rig: AdapterRig, check: Check) -> None:
    await check(rig)
