"""How events, usage and verdicts look, as text and as plain data; what prompts and answers say is never part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openmultiagent import (
    AgentRunResult,
    Event,
    ImageBlock,
    LLMMessage,
    TextBlock,
    TokenUsage,
    ToolResultBlock,
    ToolUseBlock,
)
from openmultiagent.evaluation import EvalRecord

__all__ = ["event_facts", "event_line", "usage_line", "verdict_line"]

Facts = dict[str, Any]


def event_facts(event: Event[Any]) -> Facts:
    """Return what is told about an event's payload.

    Args:
        event: Any event; one of an unknown kind has no facts.
    """
    describe = _FACTS.get(event.type)
    return {} if describe is None else describe(event.data)


def event_line(source: str, event: Event[Any]) -> str:
    """Return an event as a line of text.

    Args:
        source: ``progress`` or ``stream``: each counts its events by itself.
        event: Any event.
    """
    facts = "".join(f"  {key}={value}" for key, value in event_facts(event).items())
    return f"{source:<8} {event.sequence:>4}  {event.type:<15} {event.agent or '-'}{facts}"


def usage_line(usage: TokenUsage) -> str:
    """Return the tokens of a run as a line of text.

    Args:
        usage: Of all its model calls together.
    """
    line = f"usage: {usage.input_tokens} tokens in, {usage.output_tokens} out"
    calls = usage.unknown_calls
    return line if not calls else f"{line}; not counted: {calls} model call{'s' if calls > 1 else ''} without usage"


def verdict_line(record: EvalRecord) -> str:
    """Return what a scorer says as a line of text.

    Args:
        record: Its verdict.
    """
    score = f"score {record.score:g}" if record.score is not None else record.error or record.status
    return f"evaluation: {record.scorer} {'passed' if record.passed else 'not passed'}, {score}"


def _started(data: Mapping[str, str | Sequence[LLMMessage]]) -> Facts:
    prompt, messages = data.get("prompt"), data.get("messages", ())
    if isinstance(prompt, str):
        return {"messages": 1, "characters": len(prompt)}
    blocks = [block for message in messages if isinstance(message, LLMMessage) for block in message.content]
    facts = {"messages": len(messages), "characters": sum(len(b.text) for b in blocks if isinstance(b, TextBlock))}
    images = sum(isinstance(block, ImageBlock) for block in blocks)
    return {**facts, "images": images} if images else facts


def _ended(result: AgentRunResult[Any]) -> Facts:
    return {"status": result.status.code, "stop_reason": result.stop_reason, "characters": len(result.output)}


def _turn(number: int) -> Facts:
    return {"turn": number}


def _piece(text: str) -> Facts:
    return {"characters": len(text)}


def _called(call: ToolUseBlock) -> Facts:
    return {"tool": call.name}


def _returned(result: ToolResultBlock) -> Facts:
    return {"is_error": bool(result.is_error)}


def _error(error: BaseException) -> Facts:
    return {"error": type(error).__name__}


_FACTS: Mapping[str, Callable[[Any], Facts]] = {
    "agent_start": _started,
    "agent_complete": _ended,
    "budget_exceeded": _error,
    "turn_start": _turn,
    "turn_complete": _turn,
    "turn_restart": _turn,
    "text": _piece,
    "tool_use": _called,
    "tool_result": _returned,
    "reasoning": _piece,
    "done": _ended,
    "error": _error,
}
