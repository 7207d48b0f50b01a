"""A run as one middleware sees it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Literal

from ..budget import BudgetScope
from ..identity import MetadataValue, RunIdentity, copy_metadata, new_span_id, new_trace_id
from ..messages import LLMMessage, PreparedRunInput, copy_messages
from ..outcome import AgentRunResult
from ._config import AgentConfig

__all__ = ["RunCall", "RunKind", "RunMiddleware", "RunNext", "TraceIds"]

RunKind = Literal["agent", "team", "tasks", "plan"]
"""The entry point of a run."""


class TraceIds:
    """The ids of a run's span, shared by all forks of its call: random until tracing puts in those of a real span.

    Args:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
    """

    __slots__ = ("_span_id", "_trace_id", "is_recorded")

    def __init__(self, trace_id: str, span_id: str) -> None:
        self.is_recorded = False
        """Whether they are those of a recorded span."""
        self._trace_id = trace_id
        self._span_id = span_id

    def set(self, trace_id: str, span_id: str) -> None:
        """Use the ids of a recorded span.

        Args:
            trace_id: 32 hexadecimal digits.
            span_id: 16 hexadecimal digits.
        """
        self._trace_id, self._span_id = trace_id, span_id
        self.is_recorded = True

    def fill(self, identity: RunIdentity) -> RunIdentity:
        """Return the identity with these ids.

        Args:
            identity: The call's identity.
        """
        return identity.with_trace(self._trace_id, self._span_id)


class RunCall:
    """An entry-point call on its way to the agent.

    Every step around a run gets a call of its own; ``input``, ``messages``, ``config`` and ``metadata`` are
    copies made when they are first read, so changing them changes nothing that anybody else sees.

    Args:
        kind: The entry point.
        name: Name of the agent or team.
        identity: Run id and attempt; the ids of the span are in the result's identity.
        budget: The run's scope of the ledger.
        source: The validated input, which nobody changes.
        config: The agent's definition, for ``agent``.
        metadata: The metadata that the caller gave.
        trace_ids: Shared by all forks.
    """

    def __init__(
        self,
        kind: RunKind,
        name: str,
        identity: RunIdentity,
        budget: BudgetScope,
        source: PreparedRunInput,
        config: AgentConfig | None = None,
        metadata: dict[str, MetadataValue] | None = None,
        trace_ids: TraceIds | None = None,
    ) -> None:
        self.kind: RunKind = kind
        self.name = name
        self.identity = identity
        self.budget = budget
        self.source_config = config
        """The agent's definition, uncopied: what is in it is to be read, never changed or kept."""
        self.source = source
        self.trace_ids = TraceIds(new_trace_id(), new_span_id()) if trace_ids is None else trace_ids
        self.source_metadata = metadata
        """The run's metadata, uncopied: to be read, never changed or kept."""

    @cached_property
    def messages(self) -> list[LLMMessage]:
        """This call's own copy of the input, as messages."""
        return self.source.copy()

    @property
    def input(self) -> str | list[LLMMessage]:
        """The input as it was given: the string, or this call's own copy of the messages."""
        return self.messages if self.source.prompt is None else self.source.prompt

    @cached_property
    def config(self) -> AgentConfig | None:
        """This call's own copy of the agent's definition, with the same adapter, tools and hooks; None for teams."""
        return copy.deepcopy(self.source_config)

    @cached_property
    def metadata(self) -> dict[str, MetadataValue] | None:
        """This call's own copy of the run's metadata."""
        return copy_metadata(self.source_metadata)

    def fork(self) -> RunCall:
        """Return a call of the same input that shares nothing mutable with this one."""
        return RunCall(
            self.kind,
            self.name,
            self.identity,
            self.budget,
            self.source,
            self.source_config,
            self.source_metadata,
            self.trace_ids,
        )

    def __repr__(self) -> str:
        return f"<RunCall {self.kind} {self.name!r} run_id={self.identity.run_id!r}>"


RunNext = Callable[[], Awaitable[AgentRunResult[Any]]]
"""The rest of a run: what the next step and the agent make of it."""
RunMiddleware = Callable[[RunCall, RunNext], Awaitable[AgentRunResult[Any]]]
"""Advice around a run: ``async def middleware(call, call_next)``, with ``await call_next()``."""


def input_payload(source: PreparedRunInput) -> dict[str, str | Sequence[LLMMessage]]:
    """Return the payload of ``agent_start``: ``{"prompt": str}`` or ``{"messages": [...]}``, sharing the messages.

    Args:
        source: The validated input.
    """
    return {"messages": source.messages} if source.prompt is None else {"prompt": source.prompt}


def copy_input_payload(payload: dict[str, str | Sequence[LLMMessage]]) -> dict[str, str | Sequence[LLMMessage]]:
    """Return an independent payload of ``agent_start``.

    Args:
        payload: What ``input_payload`` returned.
    """
    return {key: value if isinstance(value, str) else copy_messages(value) for key, value in payload.items()}
