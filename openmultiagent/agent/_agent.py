"""An agent with a conversation of its own.

Without an orchestrator around it there are no spans, progress events or online evaluation; the turn loop, the tools,
the hooks and the agent's own middleware are the same. Invariant: whatever is given to an agent is checked and copied
at the call, and whatever it gives out is a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Self

from typing_extensions import TypeVar

from ..adapters import AdapterOwner, create_adapter
from ..budget import BudgetScope, Limits
from ..cancellation import CancelToken, check_cancel
from ..errors import ConfigurationError, PolicyError
from ..identity import new_identity, new_run_id
from ..messages import (
    AgentPromptInput,
    AgentRunInput,
    LLMMessage,
    copy_messages,
    prepare_prompt_input,
    read_run_input,
)
from ..outcome import AgentRunResult, joined_messages
from ..tools import ToolsetOwner
from ._config import AgentConfig
from ._environment import EventSink, RunEnvironment, lease_adapter
from ._execution import execute_agent
from ._inside import Inside
from ._stream import AgentStream
from ._turnstile import Turnstile

__all__ = ["Agent", "AgentState"]

T = TypeVar("T", default=Any)

AgentState = Literal["idle", "running", "completed", "error"]
"""What an agent is doing, or how its last run ended."""


class Agent(Generic[T]):
    """An agent that can be run, streamed, and talked to.

    ``run`` and ``stream`` are fresh conversations and may be used by several tasks at once; ``prompt`` goes on with the
    agent's history, one turn at a time. Used as ``async with Agent(...)``, it keeps its connection and its toolsets
    between runs.

    Args:
        config: The definition, or a mapping with its fields.

    Raises:
        ConfigurationError: The definition is wrong, or has no model.
        InvalidMessageError: Its ``history`` holds something that is no message.
    """

    def __init__(self, config: AgentConfig[T] | Mapping[str, Any]) -> None:
        self.config: AgentConfig[T] = AgentConfig.of(config)
        self.name = self.config.name
        self._owner = AdapterOwner(create_adapter)
        self._toolsets = ToolsetOwner()
        self._history: list[LLMMessage] = _initial_history(self.config)
        budget = self.config.max_token_budget
        self._limits = None if budget is None else Limits(tokens=budget)
        self._turn = Turnstile()
        self._inside = Inside()
        self._conversations = 0
        """Counts the resets, so that a prompt that was going on meanwhile does not bring back what was forgotten."""
        self._running = 0
        self._last_state: AgentState = "idle"
        with suppress(PolicyError):  # what a policy forbids is the result of a run
            lease_adapter(
                self.config, self._owner
            )  # a missing model or unknown provider shows here, not in the first run

    @property
    def state(self) -> AgentState:
        """``running`` while a run goes on; else how the last one ended: ``completed``, or ``error`` by an exception."""
        return "running" if self._running else self._last_state

    def run(self, input: AgentRunInput, *, cancel: CancelToken | None = None) -> Coroutine[Any, Any, AgentRunResult[T]]:  # noqa: A002 - pinned
        """Return a coroutine that runs a fresh conversation; the history is neither read nor changed.

        Args:
            input: A string (one user message), or the complete conversation as messages.
            cancel: Stops the run, which then returns a result with status ``cancelled``.

        Raises:
            InvalidMessageError: The input is no conversation; raised by the call itself, before anything happens.
        """
        if cancel is not None:
            check_cancel(cancel)
        messages = read_run_input(input)
        return self._execute(messages, cancel=cancel)

    def stream(self, input: AgentRunInput, *, cancel: CancelToken | None = None) -> AgentStream[T]:  # noqa: A002 - pinned
        """Return the stream of a fresh conversation; the run starts when it is entered or iterated.

        Args:
            input: As for ``run``.
            cancel: As for ``run``.

        Raises:
            InvalidMessageError: The input is no conversation; raised by the call itself.
        """
        check_cancel(cancel)
        messages = read_run_input(input)
        run_id = new_run_id()

        async def runner(sink: EventSink) -> AgentRunResult[T]:
            return await self._execute(messages, cancel=cancel, sink=sink, run_id=run_id)

        return AgentStream(run_id, runner)

    def prompt(
        self,
        input: AgentPromptInput,  # noqa: A002 - pinned
        *,
        cancel: CancelToken | None = None,
    ) -> Coroutine[Any, Any, AgentRunResult[T]]:
        """Return a coroutine that adds a user turn to the history, runs it, and adds the answer.

        Turn and answer are added together, when the run has succeeded; a failed run leaves the history as it was.

        Args:
            input: A string, or one user turn as content blocks.
            cancel: As for ``run``.

        Raises:
            InvalidMessageError: The input is no user turn; raised by the call itself, and never added to the history.
            ConfigurationError: It is called inside a turn of this very conversation, by a tool or a hook for example,
                and would wait for itself.
        """
        check_cancel(cancel)
        self._refuse_from_inside()
        turn = prepare_prompt_input(input)
        return self._prompt(turn, cancel)

    def get_history(self) -> list[LLMMessage]:
        """Return a copy of the turns that ``prompt`` goes on from."""
        return copy_messages(self._history)

    def reset(self) -> None:
        """Forget the history, also the part that came from the definition, and how the last run ended."""
        self._history = []
        self._conversations += 1
        self._last_state = "idle"

    async def aclose(self) -> None:
        """Close the connections and toolsets that the agent keeps; a given adapter stays open."""
        try:
            await self._toolsets.aclose()
        finally:
            await self._owner.aclose()

    async def __aenter__(self) -> Self:
        self._owner.is_open = True
        self._toolsets.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __deepcopy__(self, memo: dict[int, Any]) -> Agent[T]:
        # Connections and locks are live handles; a copy has its own.
        other: Agent[T] = Agent(copy.deepcopy(self.config, memo))
        other._history = copy_messages(self._history)
        return other

    async def _prompt(self, turn: LLMMessage, cancel: CancelToken | None) -> AgentRunResult[T]:
        self._refuse_from_inside()  # it may be awaited elsewhere than it was called
        async with self._turn:
            with self._inside.entered():
                return await self._take_turn(turn, cancel)

    async def _take_turn(self, turn: LLMMessage, cancel: CancelToken | None) -> AgentRunResult[T]:
        conversation = self._conversations
        # The run gets a list of its own and shares the messages, which nobody changes: a turn costs what is new.
        result = await self._execute([*self._history, turn], cancel=cancel)
        if result.success and conversation == self._conversations:
            self._history += [turn, *joined_messages([result]).copy()]
        return result

    def _refuse_from_inside(self) -> None:
        if self._inside.is_here:
            raise ConfigurationError(
                f"agent {self.name!r}: prompt was called inside a turn of the same conversation, and would wait for "
                "itself; use run(...), or another Agent"
            )

    async def _execute(
        self,
        messages: list[LLMMessage],
        *,
        cancel: CancelToken | None = None,
        sink: EventSink | None = None,
        run_id: str | None = None,
    ) -> AgentRunResult[T]:
        scope = BudgetScope(self.name, self._limits)
        environment = RunEnvironment(new_identity(run_id), scope, toolsets=self._toolsets, sink=sink, cancel=cancel)
        scope.start()
        self._running += 1
        ended: AgentState = "error"
        try:
            result = await execute_agent(self.config, messages, environment, self._owner)
            ended = "error" if result.status.code in ("error", "rejected") else "completed"
        finally:
            self._running -= 1
            self._last_state = ended
        return result


def _initial_history(config: AgentConfig) -> list[LLMMessage]:
    # The config checked them when it was made; they are copied, since whoever holds the config holds its messages, too.
    return copy_messages([message for message in config.history if isinstance(message, LLMMessage)])
