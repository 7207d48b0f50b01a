"""Tools: what a model can call, how a call is checked, run and bounded, and what comes back."""

from ._call import ToolCall, ToolMiddleware, ToolNext
from ._confirmation import Confirmation
from ._context import ToolContext
from ._executor import ToolExecutor
from ._gate import ToolAction, ToolCallContext, ToolDecision, ToolGate
from ._grants import (
    BUILT_IN_TOOLS,
    TOOL_PRESETS,
    GivenTool,
    Grants,
    ToolPreset,
    as_given_tools,
    check_preset,
    default_preset,
)
from ._registry import ToolRegistry
from ._result import (
    ToolResult,
    as_tool_result,
    describe_error,
    error_result,
    record_output,
    result_content,
    truncate_tool_output,
)
from ._team_tools import DELEGATE_TO_AGENT, SEND_MESSAGE
from ._tool import Tool, ToolSettings, tool
from ._toolset import OpenToolsets, PrefixedToolset, Toolset, ToolsetOwner

__all__ = [
    "BUILT_IN_TOOLS",
    "DELEGATE_TO_AGENT",
    "SEND_MESSAGE",
    "TOOL_PRESETS",
    "Confirmation",
    "GivenTool",
    "Grants",
    "OpenToolsets",
    "PrefixedToolset",
    "Tool",
    "ToolAction",
    "ToolCall",
    "ToolCallContext",
    "ToolContext",
    "ToolDecision",
    "ToolExecutor",
    "ToolGate",
    "ToolMiddleware",
    "ToolNext",
    "ToolPreset",
    "ToolRegistry",
    "ToolResult",
    "ToolSettings",
    "Toolset",
    "ToolsetOwner",
    "as_given_tools",
    "as_tool_result",
    "check_preset",
    "default_preset",
    "describe_error",
    "error_result",
    "record_output",
    "result_content",
    "tool",
    "truncate_tool_output",
]
