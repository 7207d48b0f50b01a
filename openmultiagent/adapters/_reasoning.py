"""What becomes of reasoning when it is sent back: itself, text, or nothing.

Not here: how a provider writes it down. Invariants: reasoning goes back as such to the adapter that it came from and to
no other; what only its provider can read never becomes text; reasoning is never made from text.
"""

from __future__ import annotations

import math
from typing import Literal

from ..messages import ReasoningBlock, TextBlock
from ._protocol import LLMChatOptions
from ._settings import ReasoningCompression

__all__ = ["NO_TRUNCATION", "compression_limit", "echo", "reasoning_to_inline_text"]

NO_TRUNCATION = math.inf
"""The limit that cuts nothing."""

_DEFAULT_LIMIT = 1_200
_MARKER = "...[truncated]..."


def echo(
    block: ReasoningBlock,
    *,
    adapter_name: str,
    options: LLMChatOptions,
    echoes: Literal["never", "own-issued", "tool-use-only"] = "own-issued",
    takes_redacted: bool = True,
    tools_used: bool = True,
) -> ReasoningBlock | TextBlock | None:
    """Return the block itself, to be sent as the provider's own reasoning; a text to send in its place; or None.

    Args:
        block: Reasoning of the conversation.
        adapter_name: Name of the adapter that sends it.
        options: The options of the call, which say whether and how far reasoning becomes text.
        echoes: What the adapter sends back as such, as in ``AdapterCapabilities.echoes_reasoning``.
        takes_redacted: Whether the provider issues reasoning that only it can read, for ``own-issued``.
        tools_used: Whether the conversation has a tool call, for ``tool-use-only``.
    """
    own = bool(block.provenance) and block.provenance == adapter_name  # REA-2: of no known adapter is foreign
    if own and echoes == "tool-use-only":
        return block if tools_used and block.text and not block.redacted_data else None
    if own and echoes == "own-issued" and (block.signature or (takes_redacted and block.redacted_data)):
        return block
    if not options.preserve_reasoning_as_text:
        return None
    text = reasoning_to_inline_text(block, compression_limit(options.compress_reasoning_text))
    return TextBlock.new(text) if text else None


def compression_limit(
    compress_reasoning_text: bool | ReasoningCompression | None,  # noqa: FBT001 - the value of a setting
) -> float:
    """Return how many characters of a reasoning text are kept.

    Args:
        compress_reasoning_text: The setting.
    """
    if isinstance(compress_reasoning_text, ReasoningCompression):
        return compress_reasoning_text.min_chars
    return NO_TRUNCATION if compress_reasoning_text is False else _DEFAULT_LIMIT


def reasoning_to_inline_text(block: ReasoningBlock, max_chars: float | None = None) -> str:
    """Return reasoning as text between ``<thinking>`` tags; empty when there is nothing to tell.

    Args:
        block: The reasoning. Of what only its provider can read, the text says no more than that it was there.
        max_chars: Characters to keep, 1,200 when it is None; below 1 and NaN count as 1.
    """
    if block.redacted_data:
        return "<thinking>[redacted]</thinking>"
    if not block.text:
        return ""
    return f"<thinking>{_truncated(block.text, _DEFAULT_LIMIT if max_chars is None else max_chars)}</thinking>"


def _truncated(text: str, limit: float) -> str:
    if len(text) <= limit:
        return text
    most = math.floor(limit) if limit >= 1 else 1  # NaN is not, either
    if len(text) <= most or most <= len(_MARKER):
        return text[:most]
    kept = most - len(_MARKER)
    head = -(-kept * 7 // 10)  # seven tenths, rounded up: a text's beginning says more than its end
    return f"{text[:head]}{_MARKER}{text[len(text) - (kept - head) :]}"
