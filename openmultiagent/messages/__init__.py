"""Messages: what they are, how they are checked, copied, measured and cut."""

from ._copy import UnreadMessages, copy_blocks, copy_message, copy_messages
from ._dialects import HistoryDialect, HistoryFaultCode
from ._estimate import estimate_message_chars, estimate_tokens, is_approaching_limit
from ._history import HistoryFault, check_history, require_valid_history
from ._images import ImageBlock, ImageDetail
from ._input import (
    AgentPromptInput,
    AgentRunInput,
    Conversation,
    PreparedRunInput,
    assert_valid_messages,
    coerce_messages,
    prepare_prompt_input,
    prepare_run_input,
    read_run_input,
)
from ._json import copy_json_data, replace_lone_surrogates
from ._models import (
    ContentBlock,
    FileBlock,
    LLMMessage,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from ._normalize import merge_adjacent, normalize_for_provider
from ._parts import (
    ToolResultContent,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultPart,
    ToolResultTextPart,
)
from ._repair import repair_history
from ._sources import Base64Source, MediaSource, UrlSource
from ._tool_results import (
    copy_tool_result_content,
    strip_tool_result_media,
    summarize_tool_result,
    tool_result_has_media,
    tool_result_parts,
    tool_result_size,
    tool_result_text,
)
from ._truncate import truncate_messages
from ._weight import most_tokens, most_tokens_of_json, most_tokens_of_text

__all__ = [
    "AgentPromptInput",
    "AgentRunInput",
    "Base64Source",
    "ContentBlock",
    "Conversation",
    "FileBlock",
    "HistoryDialect",
    "HistoryFault",
    "HistoryFaultCode",
    "ImageBlock",
    "ImageDetail",
    "LLMMessage",
    "MediaSource",
    "Message",
    "PreparedRunInput",
    "ReasoningBlock",
    "Role",
    "TextBlock",
    "ToolResultBlock",
    "ToolResultContent",
    "ToolResultFilePart",
    "ToolResultImagePart",
    "ToolResultPart",
    "ToolResultTextPart",
    "ToolUseBlock",
    "UnreadMessages",
    "UrlSource",
    "assert_valid_messages",
    "check_history",
    "coerce_messages",
    "copy_blocks",
    "copy_json_data",
    "copy_message",
    "copy_messages",
    "copy_tool_result_content",
    "estimate_message_chars",
    "estimate_tokens",
    "is_approaching_limit",
    "merge_adjacent",
    "most_tokens",
    "most_tokens_of_json",
    "most_tokens_of_text",
    "normalize_for_provider",
    "prepare_prompt_input",
    "prepare_run_input",
    "read_run_input",
    "repair_history",
    "replace_lone_surrogates",
    "require_valid_history",
    "strip_tool_result_media",
    "summarize_tool_result",
    "tool_result_has_media",
    "tool_result_parts",
    "tool_result_size",
    "tool_result_text",
    "truncate_messages",
]
