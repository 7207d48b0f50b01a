"""Tools: what a model can call, how a call is checked, run and bounded, and what comes back."""

from ._call import ToolCall, ToolMiddleware, ToolNext
from ._context import ToolContext
from ._executor import ToolExecutor
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
from ._tool import Tool, tool

__all__ = [
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolExecutor",
    "ToolMiddleware",
    "ToolNext",
    "ToolRegistry",
    "ToolResult",
    "as_tool_result",
    "describe_error",
    "error_result",
    "record_output",
    "result_content",
    "tool",
    "truncate_tool_output",
]
