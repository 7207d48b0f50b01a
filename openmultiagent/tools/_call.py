"""A tool call on its way from the model to the tool, as each middleware sees it.

Not here: running it. Invariant: nobody can change the input that anybody else sees. A step that wants another input
makes a new call with ``replace``, or changes its own copy and passes that on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from ._result import ToolResult

__all__ = ["ToolCall", "ToolMiddleware", "ToolNext", "copy_json"]


class ToolCall:
    """One call of a tool.

    Args:
        id: Deterministic id of the call within the run: the same when the run is repeated.
        tool_call_id: The model's id of the call.
        tool_name: The tool that the model asked for.
        input: What the model passed. It is not copied until somebody reads it.
        agent: Name of the agent that calls.
        run_id: The run that the call belongs to.
        turn: The turn of the run, counted from 1.
        input_error: Why the model's arguments could not be read; the tool is not run then.
    """

    __slots__ = (
        "_copy",
        "_source",
        "agent",
        "id",
        "input_error",
        "run_id",
        "tool_call_id",
        "tool_name",
        "turn",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the name that a reader expects
        tool_call_id: str,
        tool_name: str,
        input: dict[str, Any],  # noqa: A002 - the name in the protocol of every provider
        agent: str = "",
        run_id: str = "",
        turn: int = 0,
        input_error: str | None = None,
    ) -> None:
        self.id: Final = id
        self.tool_call_id: Final = tool_call_id
        self.tool_name: Final = tool_name
        self.agent: Final = agent
        self.run_id: Final = run_id
        self.turn: Final = turn
        self.input_error: Final = input_error
        self._source = input
        self._copy: Any = None

    @property
    def input(self) -> dict[str, Any]:
        """The input, as a copy of its own that is made when it is first read."""
        if self._copy is None:
            self._copy = copy_json(self._source)
        copied: dict[str, Any] = self._copy
        return copied

    @property
    def source(self) -> dict[str, Any]:
        """The input as it will be passed on, uncopied: to be read, never changed or kept."""
        source: dict[str, Any] = self._source if self._copy is None else self._copy
        return source

    def fork(self) -> ToolCall:
        """Return the same call for the next step; what happens to this one's input afterwards does not reach it."""
        return self._with(self._source if self._copy is None else copy_json(self._copy), self.input_error)

    def replace(self, *, input: dict[str, Any]) -> ToolCall:  # noqa: A002 - see the constructor
        """Return the call with another input, which is checked like the model's own.

        Args:
            input: The new input; copied. It also takes the place of arguments that could not be read.
        """
        return self._with(copy_json(input), None)

    def _with(self, source: dict[str, Any], input_error: str | None) -> ToolCall:
        return ToolCall(
            id=self.id,
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            input=source,
            agent=self.agent,
            run_id=self.run_id,
            turn=self.turn,
            input_error=input_error,
        )

    def __repr__(self) -> str:
        # Without the input, which may hold secrets.
        return f"ToolCall(id={self.id!r}, tool_name={self.tool_name!r}, agent={self.agent!r}, turn={self.turn})"


ToolNext = Callable[[ToolCall], Awaitable[ToolResult]]
"""The rest of the chain: runs the call that it is given and returns its result."""

ToolMiddleware = Callable[[ToolCall, ToolNext], Awaitable[ToolResult]]
"""A step around tool calls: ``async def step(call, call_next)``; it may rewrite, repeat, answer or refuse the call."""


def copy_json(value: Any) -> Any:
    """Return a structural copy of JSON-like data: new dicts and lists, the same leaves.

    Deep nesting and cycles are fine.

    Args:
        value: The data.
    """
    root = [value]
    copies: dict[int, Any] = {}
    pending: list[Any] = [root]
    while pending:
        holder = pending.pop()
        for key, item in list(holder.items()) if isinstance(holder, dict) else enumerate(holder):
            if not isinstance(item, dict | list):
                continue
            copied = copies.get(id(item))
            if copied is None:
                copied = dict(item) if isinstance(item, dict) else list(item)
                copies[id(item)] = copied
                pending.append(copied)
            holder[key] = copied
    return root[0]
