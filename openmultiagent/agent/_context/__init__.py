"""Context strategies: what of a run's conversation a model call sends.

What is sent changes, never what is returned: the conversation itself only grows. Not here: the model call
(``_model_seam``), nor when one is made (``_runner``). Invariants: no strategy sends a tool result without its call or a
call without its result, an empty conversation, or one without a user message.
"""

from ._manager import ContextManager, open_context
from ._specs import (
    Compact,
    ContextStrategy,
    CustomContext,
    SlidingWindow,
    Summarize,
    ToolResultCompression,
    as_context_strategy,
    as_tool_result_compression,
)
from ._steps import AskModel

__all__ = [
    "AskModel",
    "Compact",
    "ContextManager",
    "ContextStrategy",
    "CustomContext",
    "SlidingWindow",
    "Summarize",
    "ToolResultCompression",
    "as_context_strategy",
    "as_tool_result_compression",
    "open_context",
]
