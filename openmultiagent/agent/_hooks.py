"""The hooks of an agent: what they get, and what is made of what they return."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, InvalidMessageError
from ..messages import ContentBlock, LLMMessage, Role, TextBlock, coerce_messages, copy_messages
from ..outcome import AgentRunResult, RunStatus, check_result, copy_result
from ._config import AgentConfig

__all__ = ["BeforeRunContext", "apply_after_run", "apply_before_run"]


@record
class BeforeRunContext:
    """Both views of a run's input, for ``before_run``."""

    messages: list[LLMMessage]
    """The complete input; the hook's own copy."""
    prompt: str
    """The text blocks of the latest user message, joined; empty for a turn of images only."""
    agent: AgentConfig
    """The agent's definition, without its hooks."""

    def replace(
        self, *, messages: Sequence[LLMMessage | Mapping[str, Any]] | None = None, prompt: str | None = None
    ) -> BeforeRunContext:
        """Return the context with another input, for the hook to return.

        Args:
            messages: Replaces the complete input.
            prompt: Replaces the text blocks of the latest user message, after ``messages`` has been applied.
        """
        changed = self if messages is None else replace(self, messages=cast(list[LLMMessage], messages))
        return changed if prompt is None else replace(changed, prompt=prompt)


async def apply_before_run(config: AgentConfig, messages: list[LLMMessage]) -> list[LLMMessage]:
    """Return the input as ``before_run`` wants it; the given list and its messages stay as they are.

    Args:
        config: The agent.
        messages: The run's validated input.

    Raises:
        InvalidMessageError: The hook returned something that is no input.
    """
    if config.before_run is None:
        return messages
    prompt = latest_user_text(messages)
    agent = config.replace(before_run=None, after_run=None)
    returned = config.before_run(BeforeRunContext(copy_messages(messages), prompt, agent))
    if inspect.isawaitable(returned):
        returned = await returned
    if returned is None:
        return messages
    new_messages, new_prompt = _read(returned)
    effective = messages if new_messages is None else coerce_messages(new_messages, root="before_run.messages")
    if not effective:
        raise InvalidMessageError("before_run.messages must not be empty: return at least one message, or None")
    if new_prompt is None or new_prompt == prompt:
        return effective
    return with_latest_user_text(effective, new_prompt)


def _read(returned: object) -> tuple[object, str | None]:
    messages: object
    prompt: object
    if isinstance(returned, BeforeRunContext):
        messages, prompt = returned.messages, returned.prompt
    elif isinstance(returned, Mapping):
        unknown = [key for key in returned if key not in ("messages", "prompt", "agent")]
        if unknown:
            raise InvalidMessageError(
                f"before_run returned the key {shown(unknown[0])}; it may return messages and prompt"
            )
        messages, prompt = returned.get("messages"), returned.get("prompt")
    else:
        raise InvalidMessageError(
            "before_run must return its context, a mapping with messages and/or prompt, or None, "
            f"got {type(returned).__name__}"
        )
    if prompt is not None and not isinstance(prompt, str):
        raise InvalidMessageError("before_run.prompt must be a string")
    return messages, prompt


def latest_user_text(messages: Sequence[LLMMessage]) -> str:
    """Return the text blocks of the latest user message, joined without a separator.

    Args:
        messages: A conversation.
    """
    index = _latest_user(messages)
    if index is None:
        return ""
    return "".join(block.text for block in messages[index].content if isinstance(block, TextBlock))


def with_latest_user_text(messages: list[LLMMessage], prompt: str) -> list[LLMMessage]:
    """Return the conversation with one text block instead of those of the latest user message.

    The new block stands where the first text block stood, or in front if there was none; other blocks keep their order.

    Args:
        messages: A conversation, which stays as it is.
        prompt: The new text.
    """
    index = _latest_user(messages)
    if index is None:
        return messages
    text = TextBlock.new(prompt)
    content: list[ContentBlock] = []
    placed = False
    for block in messages[index].content:
        if not isinstance(block, TextBlock):
            content.append(block)
        elif not placed:
            content.append(text)
            placed = True
    if not placed:
        content.insert(0, text)
    rewritten = LLMMessage.new(Role.USER, content)
    return [*messages[:index], rewritten, *messages[index + 1 :]]


def _latest_user(messages: Sequence[LLMMessage]) -> int | None:
    return next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == Role.USER), None)


async def apply_after_run(config: AgentConfig, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
    """Return the result as ``after_run`` wants it, with a status that fits it.

    Args:
        config: The agent.
        result: The run's result; the hook gets a copy.

    Raises:
        ConfigurationError: The hook returned something else than a result or None, or a result that is none.
    """
    if config.after_run is None:
        return result
    returned = config.after_run(copy_result(result))
    if inspect.isawaitable(returned):
        returned = await returned
    if returned is None:
        return result
    if not isinstance(returned, AgentRunResult):
        raise ConfigurationError(f"after_run must return an AgentRunResult or None, got {type(returned).__name__}")
    check_result(returned, "after_run")
    return _consistent(result, copy_result(returned))


def _consistent(before: AgentRunResult[Any], after: AgentRunResult[Any]) -> AgentRunResult[Any]:
    # A hook may turn success into failure and back, except that nothing undoes a budget, or confirms a call.
    if before.status.code in ("budget_exhausted", "rejected"):
        after = after.replace(success=False, status=before.status, error_info=before.error_info)
    elif after.success:
        after = after.replace(status=RunStatus("ok"), error_info=None, error=None)
    elif after.status.code == "ok":
        after = after.replace(status=RunStatus("error", after.output[:256]))
    return after.replace(identity=before.identity, flags=tuple(dict.fromkeys((*before.flags, *after.flags))))
