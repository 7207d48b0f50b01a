"""Many agents under one cap on how many run at a time.

Not here: tracing, events and budgets over several runs (an orchestrator has them), and the decision which agent is the
right one. Invariants: a registered agent has one run at a time; a run that waits for its agent holds no slot; agents
and slots are given back on every path; whoever waits can be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskStatus

from .._log import get_logger
from .._record import record
from .._shown import shown
from ..budget import BudgetScope
from ..cancellation import CancelToken
from ..errors import ConfigurationError
from ..identity import new_identity
from ..messages import AgentRunInput, Conversation, read_run_input
from ..outcome import AgentRunResult, ErrorKind, describe_error
from ._agent import Agent
from ._environment import RunEnvironment
from ._events import AgentStreamEvent
from ._execution import failed_result
from ._inside import Inside

__all__ = ["AgentPool", "PoolRun", "PoolStatus"]

_log = get_logger(__name__)

Result: TypeAlias = AgentRunResult[Any]
Results: TypeAlias = list[Result]
EventCallback: TypeAlias = Callable[[AgentStreamEvent], object]

_MAX_NAMES = 20
"""Names that an error lists."""


@record
class PoolRun:
    """One run for ``AgentPool.run_parallel``."""

    agent: str
    """Name of a registered agent."""
    input: AgentRunInput
    """As for ``Agent.run``."""
    _: KW_ONLY
    cancel: CancelToken | None = None
    """Stops this run, also while it waits; its result then has the status ``cancelled``."""
    on_event: EventCallback | None = None
    """Called with each event of the run's stream; must not block. Once it has raised it is called no more."""


@record(kw_only=True)
class PoolStatus:
    """How many registered agents are in which state."""

    total: int
    idle: int
    """Agents that have not run yet."""
    running: int
    completed: int
    """Agents whose last run ended with a result that is no failure."""
    error: int


class _Member:
    """A registered agent, and the lock that lets it run one thing at a time."""

    __slots__ = ("agent", "inside", "lock")

    def __init__(self, agent: Agent[Any]) -> None:
        self.agent = agent
        self.lock = anyio.Lock(fast_acquire=True)
        self.inside = Inside()


class AgentPool:
    """Runs registered agents, at most so many at a time, and each of them one run at a time.

    Runs wait in the order in which they were asked for: first for their agent, then for a slot. A tool of an agent that
    runs in a pool must not wait for a run in the same pool, since both need a slot.

    Args:
        agents: The first agents; ``add`` adds more. They stay their giver's, who closes them.
        max_concurrency: The most runs at a time.

    Raises:
        ConfigurationError: ``max_concurrency`` is no integer of 1 or more, or two agents have the same name.
    """

    def __init__(self, agents: Iterable[Agent[Any]] = (), *, max_concurrency: int = 5) -> None:
        _check_cap(max_concurrency)
        self.max_concurrency = max_concurrency
        self._members: dict[str, _Member] = {}
        self._slots = anyio.Semaphore(max_concurrency, fast_acquire=True)
        self._active = 0
        self._pending = 0
        self._drained: anyio.Event | None = None
        self._inside = Inside()
        self._is_shut_down = False
        self._next = 0
        for agent in _items(agents, "agents", "Agent objects"):
            self.add(agent)

    @property
    def available_run_slots(self) -> int:
        """How many more runs could start now."""
        return self.max_concurrency - self._active

    def add(self, agent: Agent[Any]) -> None:
        """Register an agent under its name.

        Args:
            agent: The agent.

        Raises:
            ConfigurationError: It is no agent, or one of that name is registered already.
        """
        _check_agent(agent)
        if agent.name in self._members:
            raise ConfigurationError(f"agent {agent.name!r} is already registered in this pool; remove it first")
        self._members[agent.name] = _Member(agent)

    def get(self, name: str) -> Agent[Any] | None:
        """Return the agent of that name, or None.

        Args:
            name: Its name.
        """
        member = self._members.get(name)
        return None if member is None else member.agent

    def remove(self, name: str) -> Agent[Any]:
        """Take an agent out and return it; runs that were asked for before go on.

        Args:
            name: Its name.

        Raises:
            ConfigurationError: There is none of that name.
        """
        agent = self._member(name).agent
        del self._members[name]
        return agent

    def list(self) -> tuple[Agent[Any], ...]:
        """Return the agents in the order in which they were added."""
        return tuple(member.agent for member in self._members.values())

    def status(self) -> PoolStatus:
        """Return how many agents are in which state."""
        states = [agent.state for agent in self.list()]
        return PoolStatus(
            total=len(states),
            idle=states.count("idle"),
            running=states.count("running"),
            completed=states.count("completed"),
            error=states.count("error"),
        )

    def run(
        self,
        name: str,
        input: AgentRunInput,  # noqa: A002 - the word of `Agent.run`
        *,
        cancel: CancelToken | None = None,
        on_event: EventCallback | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Return a coroutine that runs a registered agent in a fresh conversation.

        Args:
            name: The agent's name.
            input: As for ``Agent.run``.
            cancel: As for ``PoolRun``.
            on_event: As for ``PoolRun``.

        Raises:
            ConfigurationError: There is no agent of that name, the pool has been shut down, or the call comes from
                inside a run of that agent, which it would wait for.
            InvalidMessageError: The input is no conversation. All are raised by the call itself.
        """
        self._refuse_when_shut_down()
        member = self._member(name)
        _refuse_from_inside(member)
        return self._run(member.agent, member, PoolRun(name, _copied(input), cancel=cancel, on_event=on_event))

    def run_ephemeral(
        self,
        agent: Agent[Any],
        input: AgentRunInput,  # noqa: A002 - the word of `Agent.run`
        *,
        cancel: CancelToken | None = None,
        on_event: EventCallback | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Return a coroutine that runs an agent that is not registered: it needs a slot, but waits for no agent.

        Args:
            agent: The agent, which may have several runs at a time.
            input: As for ``Agent.run``.
            cancel: As for ``PoolRun``.
            on_event: As for ``PoolRun``.

        Raises:
            ConfigurationError: It is no agent, or the pool has been shut down.
            InvalidMessageError: The input is no conversation. Both are raised by the call itself.
        """
        self._refuse_when_shut_down()
        _check_agent(agent)
        return self._run(agent, None, PoolRun(agent.name, _copied(input), cancel=cancel, on_event=on_event))

    def run_any(
        self,
        input: AgentRunInput,  # noqa: A002 - the word of `Agent.run`
        *,
        cancel: CancelToken | None = None,
        on_event: EventCallback | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Return a coroutine that runs the next agent; they take turns in the order in which they were added.

        Args:
            input: As for ``Agent.run``.
            cancel: As for ``PoolRun``.
            on_event: As for ``PoolRun``.

        Raises:
            ConfigurationError: The pool has no agents, or has been shut down.
            InvalidMessageError: The input is no conversation. All are raised by the call itself.
        """
        names = list(self._members)
        if not names:
            raise ConfigurationError("an empty pool has no agent to run; add one first")
        name = names[self._next % len(names)]
        run = self.run(name, input, cancel=cancel, on_event=on_event)
        self._next = (self._next % len(names)) + 1  # agents may have left since, or leave before the next one
        return run

    def run_parallel(self, runs: Sequence[PoolRun | tuple[str, AgentRunInput]]) -> Coroutine[Any, Any, Results]:
        """Return a coroutine that makes several runs and returns their results in the same order.

        One that fails, for whatever reason, is a result of its own and does not touch the others.

        Args:
            runs: Each a ``PoolRun``, or a name and an input; the same agent may occur several times.

        Raises:
            ConfigurationError: One is neither, or the pool has been shut down.
            InvalidMessageError: An input is no conversation. Both are raised by the call itself.
        """
        self._refuse_when_shut_down()
        return self._run_all(
            [_prepared(item, index) for index, item in enumerate(_items(runs, "runs", "PoolRun objects"))]
        )

    async def drain(self) -> None:
        """Wait until every run that was asked for has ended, those that wait included.

        Raises:
            ConfigurationError: It is called inside a run of this pool, and would wait for itself.
        """
        self._refuse_waiting_inside("drain")
        while self._pending:
            if self._drained is None:
                self._drained = anyio.Event()
            await self._drained.wait()

    async def shutdown(self) -> None:
        """Refuse new runs from now on, wait for those that there are, and reset the agents, which stay registered.

        Raises:
            ConfigurationError: It is called inside a run of this pool, and would wait for itself; nothing has happened.
        """
        self._refuse_waiting_inside("shutdown")
        self._is_shut_down = True
        await self.drain()
        for agent in self.list():
            agent.reset()

    def _member(self, name: str) -> _Member:
        member = self._members.get(name)
        if member is None:
            known = ", ".join([*self._members][:_MAX_NAMES]) or "none"
            raise ConfigurationError(f"agent {shown(name, 200)} is not registered in this pool; registered: {known}")
        return member

    def _refuse_when_shut_down(self) -> None:
        if self._is_shut_down:
            raise ConfigurationError("this pool has been shut down and takes no more runs; make another one")

    def _refuse_waiting_inside(self, what: str) -> None:
        if self._inside.is_here:
            raise ConfigurationError(
                f"AgentPool.{what} was called inside a run of the same pool, and would wait for itself; call it from "
                "outside"
            )

    async def _run_all(self, runs: Sequence[PoolRun]) -> Results:
        results: dict[int, Result] = {}

        async def run_one(index: int, run: PoolRun, *, task_status: TaskStatus[None]) -> None:
            task_status.started()  # the next one starts when this one waits, so they stand in line in their order
            kind: ErrorKind = "validation"
            try:
                member = self._member(run.agent)
                kind = "framework"
                results[index] = await self._run(member.agent, member, run)
            except Exception as error:  # noqa: BLE001 - isolation boundary: a failing run does not touch the others
                results[index] = _failed(run, error, kind)

        async with anyio.create_task_group() as group:
            for index, run in enumerate(runs):
                await group.start(run_one, index, run)
        return [results[index] for index in range(len(runs))]

    async def _run(self, agent: Agent[Any], member: _Member | None, run: PoolRun) -> Result:
        if member is not None:
            _refuse_from_inside(member)  # it may be awaited elsewhere than it was called
        lock = None if member is None else member.lock
        self._pending += 1
        try:
            if not await self._acquire(lock, run.cancel):
                return await agent.run(run.input, cancel=run.cancel)  # the token is cancelled: it ends at once
            self._active += 1
            try:
                with self._inside.entered(), nullcontext() if member is None else member.inside.entered():
                    return await _result(agent, run)
            finally:
                self._active -= 1
                self._slots.release()
                if lock is not None:
                    lock.release()
        finally:
            self._pending -= 1
            if not self._pending and self._drained is not None:
                self._drained.set()
                self._drained = None

    async def _acquire(self, lock: anyio.Lock | None, cancel: CancelToken | None) -> bool:
        """Wait for the agent and then for a slot; return False, holding neither, when the token is cancelled first."""
        is_acquired = False
        with nullcontext() if cancel is None else cancel.scope():
            if lock is not None:
                await lock.acquire()
            try:
                await self._slots.acquire()
                is_acquired = True
            finally:
                if not is_acquired and lock is not None:
                    lock.release()
        return is_acquired


def _refuse_from_inside(member: _Member) -> None:
    if member.inside.is_here:
        raise ConfigurationError(
            f"agent {member.agent.name!r} has one run at a time in this pool, and this call comes from inside "
            "that run: it would wait for itself; use run_ephemeral, or Agent.run"
        )


def _check_agent(value: object) -> None:
    if not isinstance(value, Agent):
        raise ConfigurationError(f"a pool takes Agent objects, got {shown(value)}; make one with Agent(config)")


def _items(values: object, name: str, what: str) -> Iterable[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} must be a list of {what}, got {shown(values)}")
    return values


def _check_cap(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"max_concurrency must be an integer of 1 or more, got {shown(value)}")


def _copied(given: AgentRunInput) -> Conversation:
    return Conversation(read_run_input(given))


def _prepared(item: object, index: int) -> PoolRun:
    if isinstance(item, tuple) and len(item) == 2:
        item = PoolRun(item[0], item[1])
    if not isinstance(item, PoolRun):
        raise ConfigurationError(f"runs[{index}] must be a PoolRun, or an agent's name and an input, got {shown(item)}")
    return PoolRun(item.agent, _copied(item.input), cancel=item.cancel, on_event=item.on_event)


async def _result(agent: Agent[Any], run: PoolRun) -> Result:
    callback = run.on_event
    if callback is None:
        return await agent.run(run.input, cancel=run.cancel)
    async with agent.stream(run.input, cancel=run.cancel) as stream:
        async for event in stream:
            if callback is None:
                continue
            try:
                callback(event)
            except Exception as error:  # noqa: BLE001 - isolation boundary: whoever watches a run cannot fail it
                _log.warning(
                    "pool_callback_failed", run_id=stream.run_id, agent=agent.name, error=describe_error(error)
                )
                callback = None
    return stream.result


def _failed(run: PoolRun, error: Exception, kind: ErrorKind) -> Result:
    environment = RunEnvironment(new_identity(), BudgetScope(run.agent))
    return failed_result(environment, error, kind=kind)
