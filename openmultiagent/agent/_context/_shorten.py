"""Shorter messages in the place of old ones, one by one.

Roles, calls, and which result answers which call stay as they are. Invariant: what a marker would not make smaller
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...messages import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    tool_result_size,
)
from ._specs import Compact, ToolResultCompression
from ._working_copy import WorkingCopy

__all__ = ["Rewrite", "Sweep", "compacted", "compressed", "image_marker"]

Rewrite = Callable[[LLMMessage, Mapping[str, str]], LLMMessage]
"""Returns a shorter message, or the same object; gets the names of the tools by the ids of the calls before it."""

_COMPRESSED = "[Tool output compressed"
_COMPACTED = "[Tool result:"
_DELEGATE = "delegate_to_agent"
"""What another agent found is the reason for asking it, so its answers are kept."""
_NAME_CHARS = 64


class Sweep:
    """Goes once over the messages of a working copy, oldest first, and puts shorter ones in place.

    Args:
        rewrite: Returns the shorter message.
    """

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self._epoch = 0
        self._names: dict[str, str] = {}
        self.position = 0
        """What is before it has been looked at."""

    def up_to(self, view: WorkingCopy, stop: int, *, start: int = 0, keep: Collection[int] = ()) -> None:
        """Rewrite the messages that have not been looked at.

        Args:
            view: The working copy.
            stop: Position behind the last one.
            start: Position of the first one that may be rewritten.
            keep: Positions of those that may not.
        """
        if self._epoch != view.epoch:
            self._epoch, self.position = view.epoch, 0
        for position in range(self.position, stop):
            message = view.messages[position]
            if message.role == Role.ASSISTANT:
                if position and view.messages[position - 1].role != Role.ASSISTANT:
                    self._names.clear()
                self._names.update(
                    (block.id, block.name) for block in message.content if isinstance(block, ToolUseBlock)
                )
            if position >= start and position not in keep:
                rewritten = self._rewrite(message, self._names)
                if rewritten is not message:
                    view.replace(position, rewritten)
        self.position = max(self.position, stop)


def compressed(compression: ToolResultCompression) -> Rewrite:
    """Return what replaces large tool results.

    Args:
        compression: The specification.
    """

    def rewrite(message: LLMMessage, names: Mapping[str, str]) -> LLMMessage:
        return _rewritten(message, lambda block: _compressed_result(block, names, compression.min_chars))

    return rewrite


def compacted(strategy: Compact) -> Rewrite:
    """Return what shortens results, the model's texts, and media.

    Args:
        strategy: The specification.
    """

    def rewrite(message: LLMMessage, names: Mapping[str, str]) -> LLMMessage:
        if message.role == Role.ASSISTANT:
            return _rewritten(message, lambda block: _excerpt(block, strategy))
        return _rewritten(message, lambda block: _compacted_block(block, names, strategy.min_tool_result_chars))

    return rewrite


def image_marker(block: ImageBlock | FileBlock) -> str:
    """Return the text that stands for an image or a file.

    Args:
        block: The block.
    """
    kind = block.source.media_type or "unknown type"
    return f"[image: {kind}]" if isinstance(block, ImageBlock) else f"[file: {block.filename}; {kind}]"


def _rewritten(message: LLMMessage, shorter: Callable[[ContentBlock], ContentBlock]) -> LLMMessage:
    content = [shorter(block) for block in message.content]
    if all(new is old for new, old in zip(content, message.content, strict=True)):
        return message
    return LLMMessage.new(message.role, content)


def _compressed_result(block: ContentBlock, names: Mapping[str, str], min_chars: int) -> ContentBlock:
    if not isinstance(block, ToolResultBlock) or _is_kept(block, names):
        return block
    size = tool_result_size(block.content)
    unit = "chars" if isinstance(block.content, str) else "estimated chars"
    return _marked(block, f"{_COMPRESSED}: {size} {unit}]", size, min_chars)


def _compacted_block(block: ContentBlock, names: Mapping[str, str], min_chars: int) -> ContentBlock:
    if isinstance(block, ImageBlock | FileBlock):
        return TextBlock.new(image_marker(block))
    if not isinstance(block, ToolResultBlock) or _is_kept(block, names):
        return block
    size = tool_result_size(block.content)
    name = names.get(block.tool_use_id, "unknown")
    return _marked(block, f"{_COMPACTED} {name:.{_NAME_CHARS}}; {size} chars compacted]", size, min_chars)


def _is_kept(block: ToolResultBlock, names: Mapping[str, str]) -> bool:
    if block.is_error or names.get(block.tool_use_id) == _DELEGATE:
        return True
    return isinstance(block.content, str) and block.content.startswith((_COMPRESSED, _COMPACTED))


def _marked(block: ToolResultBlock, marker: str, size: int, min_chars: int) -> ToolResultBlock:
    if size < min_chars or size <= len(marker):
        return block
    return ToolResultBlock(tool_use_id=block.tool_use_id, content=marker, is_error=block.is_error)


def _excerpt(block: ContentBlock, strategy: Compact) -> ContentBlock:
    if not isinstance(block, TextBlock) or len(block.text) < strategy.min_text_block_chars:
        return block
    text = f"{block.text[: strategy.text_block_excerpt_chars]}\n[truncated; {len(block.text)} chars total]"
    return block if len(text) >= len(block.text) else TextBlock.new(text)
