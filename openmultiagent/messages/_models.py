"""Roles, content blocks and messages.

A message is mutable: its holder may change it at any time, and the library copies it wherever it takes or gives one.
Not here: the check of whole conversations (``_validation``). Invariant: what a constructor returns is valid by itself;
which blocks may stand under which role is checked when the message is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, field_validator, model_validator

from ..errors import InvalidMessageError
from ._base import Model
from ._clone import assemble, copy_structurally, share
from ._faults import Fault, json_type
from ._images import ImageBlock, ImageDetail
from ._json import plain_json
from ._parts import Filename, ToolResultContent
from ._reading import read_tool_result_content
from ._sources import MediaSource, Text
from ._tool_results import stored_tool_result

__all__ = [
    "ContentBlock",
    "FileBlock",
    "LLMMessage",
    "Message",
    "ReasoningBlock",
    "Role",
    "TextBlock",
    "ToolResultBlock",
    "ToolUseBlock",
]


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


share(Role)


# The one that is built at import: pydantic then looks for its plugins on disk here, and not at the first message, which
# may be made in an event loop.
class TextBlock(Model, defer_build=False):
    """Text, possibly empty."""

    type: Literal["text"] = "text"
    text: Text

    @classmethod
    def new(cls, text: str) -> Self:
        """Make a text block.

        Args:
            text: The text.

        Raises:
            InvalidMessageError: It is no string, or cannot be encoded.
        """
        if cls is TextBlock and type(text) is str and text.isascii():  # there is nothing to check
            return assemble(cls, {"type": "text", "text": text}, given={"text"})
        return cls(text=text)


class ReasoningBlock(Model):
    """What a model wrote to itself before it answered."""

    type: Literal["reasoning"] = "reasoning"
    text: Text
    signature: Text | None = None
    """The provider's proof that the text is its own; sent back with it."""
    redacted_data: Text | None = None
    """Reasoning that only the provider can read. Input may call it ``redactedData``."""
    provenance: Text | None = None
    """Name of the adapter that produced the block."""

    @model_validator(mode="before")
    @classmethod
    def _accept_camel_case(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "redactedData" in data and "redacted_data" not in data:
            return {**data, "redacted_data": data["redactedData"]}
        return data

    @classmethod
    def new(
        cls,
        text: str,
        *,
        signature: str | None = None,
        redacted_data: str | None = None,
        provenance: str | None = None,
    ) -> Self:
        """Make a reasoning block.

        Args:
            text: The reasoning, empty when it is redacted.
            signature: The provider's proof.
            redacted_data: Reasoning that only the provider can read.
            provenance: Name of the adapter.

        Raises:
            InvalidMessageError: One of them is no string.
        """
        return cls(text=text, signature=signature, redacted_data=redacted_data, provenance=provenance)


class ToolUseBlock(Model):
    """A model's call of a tool."""

    type: Literal["tool_use"] = "tool_use"
    id: Text
    name: Text
    input: Annotated[dict[str, Any], BeforeValidator(plain_json)]
    """JSON-like data. The constructor shares nested lists and dicts with its caller; handing the message in copies."""
    signature: Text | None = None
    """The provider's proof that the call is its own, where it needs one."""
    input_error: Text | None = None
    """Why the model's arguments could not be read; the call is then answered with an error, and no tool runs."""

    @classmethod
    def new(cls, id: str, name: str, input: Mapping[str, Any]) -> Self:  # noqa: A002 - the names of the fields
        """Make a tool call.

        Args:
            id: The call's id, which its result repeats.
            name: Name of the tool.
            input: Its arguments, JSON-like.

        Raises:
            InvalidMessageError: The input is not JSON-like, or id or name is no string.
        """
        return cls(id=id, name=name, input=input)


class ToolResultBlock(Model):
    """The answer to a tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: Text
    content: Annotated[ToolResultContent, BeforeValidator(read_tool_result_content)]
    """Text, or a non-empty list of parts."""
    is_error: StrictBool | None = None
    """Whether the call failed; the content is then text."""

    @model_validator(mode="after")
    def _errors_are_text(self) -> Self:
        if self.is_error and not isinstance(self.content, str):
            raise Fault("must be a string for an error tool result", ".content")
        return self

    @classmethod
    def new(cls, tool_use_id: str, content: object, *, is_error: bool | None = None) -> Self:
        """Make a tool result of a text, of parts, or of JSON-like data.

        Args:
            tool_use_id: Id of the call that it answers.
            content: A string; parts, or mappings like parts; any other JSON-like data is stored as compact JSON.
            is_error: Whether the call failed.

        Raises:
            InvalidMessageError: The content is not JSON-like, or a part is not as it must be.
        """
        return cls(tool_use_id=tool_use_id, content=stored_tool_result(content), is_error=is_error)


class FileBlock(Model):
    """A file."""

    type: Literal["file"] = "file"
    filename: Filename
    source: MediaSource

    @classmethod
    def new(cls, filename: str, source: MediaSource) -> Self:
        """Make a file block.

        Args:
            filename: The name to show, not blank.
            source: Where its bytes are.

        Raises:
            InvalidMessageError: The name is blank.
        """
        return cls(filename=filename, source=source)


ContentBlock = Annotated[
    TextBlock | ReasoningBlock | ToolUseBlock | ToolResultBlock | ImageBlock | FileBlock, Field(discriminator="type")
]
"""Any content block."""


class LLMMessage(Model):
    """A message: who speaks, and the blocks that it consists of."""

    role: Role
    content: list[ContentBlock]

    @field_validator("content", mode="before")
    @classmethod
    def _content_is_a_list(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise Fault(f"must be a ContentBlock[], got {json_type(value)}")
        return value

    @classmethod
    def new(cls, role: Role | str, content: Sequence[ContentBlock | Mapping[str, Any]]) -> Self:
        """Make a message of any blocks.

        Args:
            role: Who speaks.
            content: Its blocks, or mappings like blocks.

        Raises:
            InvalidMessageError: The role is unknown, or a block is not as it must be.
        """
        return cls(role=role, content=content)

    @classmethod
    def user(cls, text: str) -> Self:
        """Make a user message with one text block.

        Args:
            text: The text.

        Raises:
            InvalidMessageError: It is no string.
        """
        return cls(role=Role.USER, content=[TextBlock.new(text)])

    @classmethod
    def assistant(cls, content: str | Sequence[ContentBlock | Mapping[str, Any]]) -> Self:
        """Make an assistant message.

        Args:
            content: Its text, or its blocks.

        Raises:
            InvalidMessageError: A block is not as it must be.
        """
        return cls.new(Role.ASSISTANT, [TextBlock.new(content)] if isinstance(content, str) else content)

    @classmethod
    def system(cls, text: str) -> Self:
        """Make a system message with one text block.

        Args:
            text: The text.

        Raises:
            InvalidMessageError: It is no string.
        """
        return cls(role=Role.SYSTEM, content=[TextBlock.new(text)])

    @classmethod
    def tool(cls, results: Sequence[ToolResultBlock]) -> Self:
        """Make a message of the answers to tool calls.

        Args:
            results: The answers, at least one.

        Raises:
            InvalidMessageError: There is none, or one is not as it must be.
        """
        if not results:
            raise InvalidMessageError("LLMMessage.tool must have at least one tool result")
        return cls.new(Role.TOOL, results)

    @classmethod
    def user_with_blocks(cls, content: Sequence[ContentBlock | Mapping[str, Any]]) -> Self:
        """Make a user message of any blocks.

        Args:
            content: Its blocks; order and number are kept.

        Raises:
            InvalidMessageError: A block is not as it must be.
        """
        return cls.new(Role.USER, content)

    @classmethod
    def user_with_image(cls, text: str, image_url: str) -> Self:
        """Make a user message with a text and, after it, an image.

        Args:
            text: The text.
            image_url: HTTP(S) URL or data URI of the image.

        Raises:
            InvalidMessageError: The URL is not as it must be.
        """
        return cls._user_with(text, ImageBlock.from_url(image_url))

    @classmethod
    def user_with_image_detail(cls, text: str, image_url: str, detail: ImageDetail | str) -> Self:
        """Make a user message with a text and, after it, an image that is looked at with a given resolution.

        Args:
            text: The text.
            image_url: HTTP(S) URL or data URI of the image.
            detail: ``low``, ``high`` or ``auto``.

        Raises:
            InvalidMessageError: The URL or the detail is not as it must be.
        """
        return cls._user_with(text, ImageBlock.from_url(image_url).with_detail(detail))

    @classmethod
    def user_with_base64_image(cls, text: str, base64_data: str, mime_type: str) -> Self:
        """Make a user message with a text and, after it, an image given as base64 text.

        Args:
            text: The text.
            base64_data: Padded base64 text.
            mime_type: ``image/png`` and the like.

        Raises:
            InvalidMessageError: The data or the type is not as it must be.
        """
        return cls._user_with(text, ImageBlock.from_base64(base64_data, mime_type))

    @classmethod
    def user_with_image_file(cls, text: str, path: str | os.PathLike[str]) -> Self:
        """Make a user message with a text and, after it, an image that is read from a file now.

        Args:
            text: The text.
            path: Where the image is; its extension says of which kind.

        Raises:
            InvalidMessageError: The file cannot be read, is empty, or is no image.
        """
        return cls._user_with(text, ImageBlock.from_file_path(path))

    @classmethod
    def _user_with(cls, text: str, image: ImageBlock) -> Self:
        return cls(role=Role.USER, content=[TextBlock.new(text), image])


Message = LLMMessage
"""Another name of ``LLMMessage``."""

copy_structurally(TextBlock, ReasoningBlock, ToolUseBlock, ToolResultBlock, FileBlock, LLMMessage)
