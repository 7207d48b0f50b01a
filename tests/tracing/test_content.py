"""Texts on spans, when they are asked for."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from structlog.testing import capture_logs

from openmultiagent import (
    AgentConfig,
    Base64Source,
    ConfigurationError,
    FileBlock,
    ImageBlock,
    LLMMessage,
    LLMServerError,
    OpenMultiAgent,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    tool,
)
from openmultiagent.adapters import LLMResponse
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import TraceContent
from tests.support import proves

KEY = "sk-" + "a1B2" * 8
PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
REASONING = "I wonder whether"


class Traced:
    """Runs agents, and looks at their spans."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    async def run(
        self, content: TraceContent | None, adapter: ScriptedAdapter, asked: Any = "Hello", **config: Any
    ) -> dict[str, list[ReadableSpan]]:
        oma = OpenMultiAgent(tracer_provider=self.provider, trace_content=content)
        await oma.run_agent(AgentConfig("x", adapter=adapter, model="m", **config), asked)
        found: dict[str, list[ReadableSpan]] = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        self.exporter.clear()
        return found

    def everything(self, spans: dict[str, list[ReadableSpan]]) -> str:
        return "".join(span.to_json() for found in spans.values() for span in found)


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    made.provider.shutdown()


def value(span: ReadableSpan, name: str) -> Any:
    text = (span.attributes or {})[name]
    assert isinstance(text, str)
    return json.loads(text)


@tool
def look(city: str, api_key: str) -> str:
    """Look something up."""
    return f"Rain in {city}, key {KEY}"


def script() -> ScriptedAdapter:
    call = ToolUseBlock(id="c1", name="look", input={"city": "Oslo", "api_key": "swordfish"})
    return ScriptedAdapter([[ReasoningBlock(text=REASONING), TextBlock(text="Let me see."), call], "It rains."])


@proves("TRC-10")
@pytest.mark.parametrize("content", [None, TraceContent(), TraceContent(capture="none", max_chars=9999)])
async def test_nothing_unless_asked_for(content: TraceContent | None, traced: Traced) -> None:
    spans = await traced.run(content, script(), system_prompt="Be brief", tools=[look])
    assert {name: len(found) for name, found in spans.items()} == {
        "invoke_agent x": 1,
        "chat m": 2,
        "execute_tool look": 1,
    }
    text = traced.everything(spans)
    for word in ("Hello", "Be brief", "Let me see", "Oslo", "Rain", "It rains", "swordfish", REASONING):
        assert word not in text


@proves("TRC-11", "TRC-12", "TRC-13")
async def test_what_a_redacted_run_looks_like(traced: Traced) -> None:
    spans = await traced.run(TraceContent(capture="redacted"), script(), system_prompt="Be brief", tools=[look])
    (root,) = spans["invoke_agent x"]
    first, second = spans["chat m"]
    (called,) = spans["execute_tool look"]
    asked = {"role": "user", "parts": [{"type": "text", "content": "Hello"}]}
    arguments = {"city": "Oslo", "api_key": "[redacted]"}
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": arguments}
    answered = {"role": "assistant", "parts": [{"type": "text", "content": "Let me see."}, call]}
    response = {"type": "tool_call_response", "id": "c1", "response": "Rain in Oslo, key [redacted]"}
    for span in (root, first, second):
        assert value(span, "gen_ai.system_instructions") == [{"type": "text", "content": "Be brief"}]
    assert value(root, "gen_ai.input.messages") == [asked]
    assert value(first, "gen_ai.input.messages") == [asked]
    assert value(first, "gen_ai.output.messages") == [{**answered, "finish_reason": "tool_call"}]
    assert value(second, "gen_ai.input.messages") == [asked, answered, {"role": "tool", "parts": [response]}]
    for span in (first, second):
        (offered,) = value(span, "gen_ai.tool.definitions")
        assert (offered["type"], offered["name"], offered["description"]) == ("function", "look", "Look something up.")
        assert offered["parameters"]["required"] == ["city", "api_key"]
    for span in (root, second):
        assert value(span, "gen_ai.output.messages") == [
            {"role": "assistant", "parts": [{"type": "text", "content": "It rains."}], "finish_reason": "stop"}
        ]
    assert value(called, "gen_ai.tool.call.arguments") == arguments
    assert (called.attributes or {})["gen_ai.tool.call.result"] == "Rain in Oslo, key [redacted]"
    text = traced.everything(spans)
    for secret in (KEY, "swordfish", REASONING):
        assert secret not in text


@proves("TRC-12", "TRC-13")
async def test_full_masks_nothing_but_still_has_no_reasoning(traced: Traced) -> None:
    spans = await traced.run(TraceContent(capture="full"), script(), tools=[look])
    (called,) = spans["execute_tool look"]
    assert value(called, "gen_ai.tool.call.arguments")["api_key"] == "swordfish"
    assert KEY in str((called.attributes or {})["gen_ai.tool.call.result"])
    assert REASONING not in traced.everything(spans)


def conversation() -> list[LLMMessage]:
    image = Base64Source(media_type="image/png", data=PIXELS)
    return [
        LLMMessage(
            role=Role.USER,
            content=[
                TextBlock(text="What is this?"),
                ImageBlock(source=image),
                ImageBlock.from_url("https://cdn.test/cat.png?signature=c2VjcmV0#top"),
                FileBlock(filename="plan.pdf", source=Base64Source(media_type="application/pdf", data="JVBERi0x")),
                FileBlock(filename="b.pdf", source=UrlSource(url="https://cdn.test/b.pdf")),
            ],
        ),
        LLMMessage.assistant([ToolUseBlock(id="c1", name="shoot", input={})]),
        LLMMessage(
            role=Role.USER,
            content=[ToolResultBlock(tool_use_id="c1", content=[{"type": "image", "source": image.to_dict()}])],
        ),
    ]


@proves("TRC-13")
async def test_media_are_placeholders(traced: Traced) -> None:
    spans = await traced.run(TraceContent(capture="redacted"), ScriptedAdapter(["A cat"]), conversation())
    asked, _, answered = value(spans["chat m"][0], "gen_ai.input.messages")
    assert asked["parts"][1:] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "size": len(PIXELS) * 3 // 4},
        {"type": "uri", "modality": "image", "mime_type": None, "uri": "https://cdn.test/cat.png"},
        {"type": "blob", "modality": "document", "mime_type": "application/pdf", "size": 6, "filename": "plan.pdf"},
        {
            "type": "uri",
            "modality": "document",
            "mime_type": None,
            "uri": "https://cdn.test/b.pdf",
            "filename": "b.pdf",
        },
    ]
    assert answered["parts"] == [
        {"type": "tool_call_response", "id": "c1", "response": "[image: image/png; inline data]"}
    ]
    assert PIXELS[:20] not in traced.everything(spans)
    spans = await traced.run(TraceContent(capture="full"), ScriptedAdapter(["A cat"]), conversation())
    text = traced.everything(spans)
    assert PIXELS[:20] not in text
    assert "https://cdn.test/cat.png?signature=c2VjcmV0#top" in text


@proves("TRC-14")
async def test_an_attribute_is_short_and_still_json(traced: Traced) -> None:
    hard = 'say "x"\n\t\x00 \\ é 語 ' * 3_000
    history = [LLMMessage.user(hard), LLMMessage.assistant("ok"), LLMMessage.user("and\n" * 5_000)]
    deep: dict[str, Any] = {"numbers": list(range(50_000)), "text": hard, "more": {str(i): i for i in range(5_000)}}
    call = ToolUseBlock(id="c1", name="anything", input=deep)

    @tool(name="anything")
    def anything(numbers: list[int], text: str, more: dict[str, int]) -> str:
        """Take anything."""
        return hard

    for limit in (256, 300, 1_000, 4_096):
        adapter = ScriptedAdapter([[TextBlock(text=hard), call], hard])
        content = TraceContent(capture="redacted", max_chars=limit)
        spans = await traced.run(content, adapter, history, tools=[anything], system_prompt=hard)
        seen = 0
        for span in (span for found in spans.values() for span in found):
            for name, text in (span.attributes or {}).items():
                if name.startswith("gen_ai.") and name.endswith(("messages", "instructions", "arguments", "result")):
                    assert isinstance(text, str)
                    assert len(text) <= limit
                    assert name.endswith("result") or json.loads(text)
                    seen += 1
        assert seen == 11


@proves("TRC-14")
async def test_the_newest_messages_are_kept(traced: Traced) -> None:
    history = [LLMMessage.user(f"message {number} " + "x" * 100) for number in range(50)]
    spans = await traced.run(TraceContent(capture="full", max_chars=1_000), ScriptedAdapter(["ok"]), history)
    attributes = spans["chat m"][0].attributes or {}
    kept = json.loads(str(attributes["gen_ai.input.messages"]))
    assert [message["parts"][0]["content"].split()[1] for message in kept[-3:]] == ["47", "48", "49"]
    assert attributes["openmultiagent.input.omitted_messages"] == 50 - len(kept)


@proves("TRC-14")
async def test_many_small_parts_are_cut_too(traced: Traced) -> None:
    image = ImageBlock.from_url("https://cdn.test/a.png")
    message = LLMMessage(role=Role.USER, content=[TextBlock(text="Look"), *[image] * 500])
    spans = await traced.run(TraceContent(capture="full", max_chars=500), ScriptedAdapter(["ok"]), [message])
    (kept,) = value(spans["chat m"][0], "gen_ai.input.messages")
    assert kept["parts"][0] == {"type": "text", "content": "Look"}
    assert kept["parts"][-1] == {"type": "omitted"}


@proves("TRC-12")
@pytest.mark.parametrize("before", range(4_060, 4_110, 3))
async def test_a_secret_across_the_cut_is_masked(before: int, traced: Traced) -> None:
    text = "y" * before + " " + KEY + " z" * 4_000
    spans = await traced.run(TraceContent(capture="redacted"), ScriptedAdapter(["ok"]), text)
    assert KEY[:12] not in traced.everything(spans)


@proves("TRC-12")
@pytest.mark.parametrize("capture", ["redacted", "full"])
async def test_own_patterns_and_masks(capture: Any, traced: Traced) -> None:
    content = TraceContent(
        capture=capture, patterns=(r"CASE-\d+",), redact=lambda text: text.replace("Jane", "\ud800<name>")
    )
    spans = await traced.run(content, ScriptedAdapter(["Jane has CASE-77"]), "Who has CASE-77? Jane?")
    (asked,) = value(spans["chat m"][0], "gen_ai.input.messages")
    assert asked["parts"][0]["content"] == "Who has [redacted]? �<name>?"
    assert "CASE-77" not in traced.everything(spans)
    assert "Jane" not in traced.everything(spans)


def _raise(text: str) -> str:
    raise ValueError(text)


def _cancel(text: str) -> str:
    raise asyncio.CancelledError


@proves("TRC-12")
@pytest.mark.parametrize("mask", [_raise, _cancel, lambda text: None, lambda text: text.encode()])
async def test_a_mask_that_fails_lets_nothing_through(mask: Callable[[str], Any], traced: Traced) -> None:
    content = TraceContent(capture="full", redact=mask)
    with capture_logs() as lines:
        spans = await traced.run(content, script(), system_prompt="Be brief", tools=[look])
    text = traced.everything(spans)
    for word in ("Hello", "Be brief", "Let me see", "Oslo", "It rains"):
        assert word not in text
    assert sum(map(len, spans.values())) == 4
    assert [line["event"] for line in lines] == ["trace_content_failed"]
    assert "Hello" not in str(lines)


@proves("TRC-15")
async def test_nothing_is_computed_for_a_span_that_is_not_recorded() -> None:
    masked: list[str] = []

    def mask(text: str) -> str:
        masked.append(text)
        return text

    content = TraceContent(capture="full", redact=mask)
    for provider in (None, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)):
        oma = OpenMultiAgent(tracer_provider=provider, trace_content=content, default_adapter=script())
        assert (await oma.run_agent({"name": "x", "tools": [look]}, "q")).success
    assert masked == []


@proves("TRC-11")
async def test_a_failed_call_has_no_answer(traced: Traced) -> None:
    adapter = ScriptedAdapter([LLMServerError(KEY, provider="p", status=500)])
    spans = await traced.run(TraceContent(capture="full"), adapter)
    for found in spans.values():
        assert "gen_ai.output.messages" not in (found[0].attributes or {})
    assert KEY not in traced.everything(spans)


@proves("TRC-11")
async def test_finish_reasons_are_those_of_the_conventions(traced: Traced) -> None:
    for reason, word in {"max_tokens": "length", "content_filter": "content_filter", "brb": "brb"}.items():
        adapter = ScriptedAdapter([LLMResponse([TextBlock(text="a")], stop_reason=reason)])
        spans = await traced.run(TraceContent(capture="full"), adapter)
        assert value(spans["chat m"][0], "gen_ai.output.messages")[0]["finish_reason"] == word


@proves("TRC-11", "TRC-13")
async def test_tool_results_are_what_the_model_reads(traced: Traced) -> None:
    @tool
    def shoot() -> ToolResult:
        """Take a picture."""
        source = {"type": "base64", "media_type": "image/png", "data": PIXELS}
        return ToolResult(
            object(), model_output=[{"type": "text", "text": "Here"}, {"type": "image", "source": source}]
        )

    @tool
    def count() -> dict[str, Any]:
        """Count."""
        return {"n": 1, "nothing": None}

    calls: list[Any] = [ToolUseBlock(id=name, name=name, input={}) for name in ("shoot", "count")]
    spans = await traced.run(TraceContent(capture="full"), ScriptedAdapter([calls, "ok"]), tools=[shoot, count])
    results = [
        (spans[f"execute_tool {name}"][0].attributes or {})["gen_ai.tool.call.result"] for name in ("shoot", "count")
    ]
    assert results == ["Here\n[image: image/png; inline data]", '{"n":1,"nothing":null}']


@proves("TRC-13", "TRC-14")
async def test_whatever_an_adapter_or_a_middleware_makes_up_harms_nothing(traced: Traced) -> None:
    class Odd:
        type = "odd"

    loop: dict[str, Any] = {"bad": float("nan"), "big": 1e300, "odd": Odd(), "pair": (1, True)}
    for _ in range(150):
        loop["deep"] = [loop.get("deep")]
    loop["self"] = loop

    async def rewrite(call: Any, call_next: Any) -> Any:
        return await call_next(call.replace(input=loop))

    text = TextBlock(text="x")
    text.text = 5  # type: ignore[assignment]  # a message can be changed to anything
    image = ImageBlock.from_url("https://cdn.test/a.png")
    image.source = Odd()  # type: ignore[assignment]
    content = TraceContent(capture="full")
    spans = await traced.run(content, ScriptedAdapter([LLMResponse([text, image, Odd()])]))  # type: ignore[list-item]
    (said,) = value(spans["chat m"][0], "gen_ai.output.messages")
    placeholder = {"type": "blob", "modality": "image"}
    assert said["parts"] == [{"type": "text", "content": "<int>"}, placeholder, {"type": "Odd"}]
    adapter = ScriptedAdapter([[ToolUseBlock(id="c", name="look", input={})], "ok"])
    spans = await traced.run(content, adapter, tools=[look], tool_middleware=[rewrite])
    arguments = value(spans["execute_tool look"][0], "gen_ai.tool.call.arguments")
    assert arguments["bad"] == "<nan>"
    assert arguments["odd"] == "<Odd>"
    assert arguments["pair"] == [1, True]
    assert arguments["self"]["self"]["big"] == 1e300
    assert json.dumps(arguments["deep"]).strip('[]"') == r"\u2026"


@proves("TRC-16")
def test_definitions_that_make_no_sense_are_refused() -> None:
    for fields, fault in (
        ({"capture": "some"}, "capture"),
        ({"max_chars": 10}, "max_chars"),
        ({"patterns": ("(",)}, "patterns: '\\(' is no regular expression"),
        ({"redact": "no"}, "redact"),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            TraceContent(**fields)
    with pytest.raises(ConfigurationError, match="trace_content must be a TraceContent"):
        OpenMultiAgent(trace_content="full")  # type: ignore[arg-type]
