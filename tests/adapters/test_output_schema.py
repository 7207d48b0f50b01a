"""An output schema on the way to each vendor: enforced where it can be, told to the model where it cannot."""

import json
from typing import Any

import pytest

from openmultiagent.adapters import AnthropicAdapter, GeminiAdapter, LLMChatOptions, LLMToolDef, ThinkingConfig
from openmultiagent.adapters import _anthropic_request as anthropic
from openmultiagent.adapters import _gemini_request as gemini
from openmultiagent.adapters import _openai_request as openai
from openmultiagent.adapters import _responses_request as responses
from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import LLMMessage
from tests.support import proves

HI = [LLMMessage.user("Hi")]
TRIP = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
FREE = {"type": "object", "additionalProperties": {"type": "string"}}
ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
LIST = {"type": "array", "items": {"type": "string"}}
TOLD = "Answer with nothing but valid JSON that matches this JSON Schema:\n\n"
SEARCH = LLMToolDef("search", "", {"type": "object"})


def chat_options(**options: Any) -> LLMChatOptions:
    return LLMChatOptions(**{"model": "m", "system_prompt": "Be brief.", **options})


def anthropic_body(**options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(anthropic.encode_request(HI, chat_options(**options), stream=False))
    return body


def gemini_body(**options: Any) -> dict[str, Any]:
    raw = gemini.encode_request(HI, chat_options(**options), adapter_name="gemini")
    body: dict[str, Any] = json.loads(raw)
    return body


@proves("MOD-53")
def test_anthropic_enforces_a_schema() -> None:
    body = anthropic_body(output_schema=TRIP, thinking=ThinkingConfig(mode="adaptive", effort="low"))
    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {**TRIP, "additionalProperties": False}},
    }
    assert body["system"] == "Be brief."
    assert "output_config" not in anthropic_body()
    extra = {"output_config": {"effort": "high"}}
    assert anthropic_body(output_schema=TRIP, extra_body=extra)["output_config"] == {"effort": "high"}
    assert AnthropicAdapter().capabilities.structured_output


@pytest.mark.parametrize(("model", "schema"), [("m", FREE), ("claude-3-haiku", TRIP), ("claude-sonnet-4-0", TRIP)])
@proves("MOD-54")
def test_what_anthropic_cannot_enforce_is_told(model: str, schema: dict[str, Any]) -> None:
    body = anthropic_body(model=model, output_schema=schema)
    assert "output_config" not in body
    assert body["system"] == f"Be brief.\n\n{TOLD}{json.dumps(schema, separators=(',', ':'))}"


@proves("MOD-52")
def test_gemini_enforces_a_schema() -> None:
    config = gemini_body(output_schema=FREE)["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", FREE)
    assert "responseMimeType" not in gemini_body()["generationConfig"]
    extra = {"generationConfig": {"responseMimeType": "text/plain"}}
    assert gemini_body(output_schema=TRIP, extra_body=extra)["generationConfig"]["responseMimeType"] == "text/plain"
    newer = gemini_body(model="gemini-3-pro", output_schema=TRIP, tools=[SEARCH])
    assert newer["generationConfig"]["responseJsonSchema"] == TRIP
    assert GeminiAdapter().capabilities.structured_output


@pytest.mark.parametrize(("schema", "more"), [(ENDLESS, {}), (TRIP, {"model": "gemini-2.5-flash", "tools": [SEARCH]})])
@proves("MOD-54")
def test_what_gemini_cannot_enforce_is_told(schema: dict[str, Any], more: dict[str, Any]) -> None:
    body = gemini_body(output_schema=schema, **more)
    assert "responseJsonSchema" not in body["generationConfig"]
    assert body["systemInstruction"]["parts"][0]["text"].startswith(f"Be brief.\n\n{TOLD}")


@proves("MOD-54")
def test_what_openai_cannot_enforce_is_told() -> None:
    options = chat_options(system_prompt=None, output_schema=LIST)
    chat = json.loads(openai.encode_request(HI, options, stream=False))
    told = f'{TOLD}{{"type":"array","items":{{"type":"string"}}}}'
    assert chat["messages"][0] == {"role": "system", "content": told}
    assert "response_format" not in chat
    body = json.loads(responses.encode_request(HI, options, stream=False, adapter_name="openai"))
    assert body["instructions"] == told
    assert "text" not in body


@proves("MOD-54", "MOD-2")
def test_a_schema_that_is_no_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="JSON"):
        openai.encode_request(HI, chat_options(output_schema={"type": object()}), stream=False)
