"""The state machine of a run's tasks: what is ready, what waits, and what becomes of what waited in vain.

Not here: who works on a task, and when; changes of the plan (``TaskQueue``). Invariants: a task that has ended never
changes again; a task never waits for one that cannot be completed any more; handlers see the queue after a change,
never in the middle of one, and cannot disturb it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args, overload

from .._log import get_logger
from .._shown import shown
from ..errors import ConfigurationError
from ..outcome import describe_error
from ._board import TaskBoard
from ._spec import TaskSpec
from ._task import OPEN_STATUSES, TERMINAL_STATUSES, Task, TaskStatus, create_task, in_state

__all__ = ["QueueEvent", "TaskStates"]

_log = get_logger(__name__)

QueueEvent = Literal["task:ready", "task:complete", "task:failed", "task:skipped", "all:complete"]
"""What a queue tells its handlers."""
_TaskEvent = Literal["task:ready", "task:complete", "task:failed", "task:skipped"]
_EndStatus = Literal["failed", "skipped"]

_NEXT: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    "blocked": frozenset({"pending", "failed", "skipped"}),
    "pending": frozenset({"in_progress", "completed", "failed", "skipped"}),
    "in_progress": frozenset({"pending", "completed", "failed", "skipped"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "skipped": frozenset(),
}
"""What a task may become."""
_ENDS: Final[Mapping[str, _TaskEvent]] = {"failed": "task:failed", "skipped": "task:skipped"}
_KEEP: Final[Any] = object()
_SHOWN_REASON = 500
"""Characters of a reason that is told to the tasks which depended on it."""


class TaskStates(TaskBoard):
    """The tasks of one run, and what has become of them; ``TaskQueue`` without what changes its plan or keeps it.

    A method that asks for a change which a task's status does not allow raises a ``ConfigurationError`` and changes
    nothing; so does one that names a task which is not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unmet: dict[str, int] = {}
        """How many dependencies of a task that waits are not completed."""
        self._dependents: dict[str, list[str]] = {}
        """Who waits for a task, also for one that is not there yet."""
        self._handlers: dict[QueueEvent, dict[object, Callable[..., object]]] = {}
        self._untold: deque[tuple[QueueEvent, Task | None]] = deque()
        self._is_telling = False

    # --- adding ------------------------------------------------------------------------------------------------------

    def add(self, task: Task | TaskSpec | Mapping[str, Any]) -> Task:
        """Add a task and return it as it stands: ``pending`` if all that it depends on is completed, else ``blocked``.

        A task that depends on one that failed or was skipped ends in the same way at once.

        Args:
            task: A task, or a specification whose references are ids. One that has ended already stays as it is.

        Raises:
            ConfigurationError: There is a task of this id.
        """
        return self.add_batch([task])[0]

    def add_batch(self, tasks: Iterable[Task | TaskSpec | Mapping[str, Any]]) -> list[Task]:
        """Add tasks, all or none, and return them as they stand; they may depend on each other in any order.

        Args:
            tasks: As for ``add``.

        Raises:
            ConfigurationError: Two of them have one id, or one has that of a task which is there.
        """
        made = [task if isinstance(task, Task) else create_task(task) for task in tasks]
        ids = set()
        for task in made:
            if task.id in self._tasks or task.id in ids:
                raise ConfigurationError(
                    f"task id {shown(task.id, 150)} is taken; each task of a queue has an id of its own"
                )
            ids.add(task.id)
        was_complete = self.is_complete()
        now = datetime.now(UTC)
        for task in made:
            self._insert(task, now)
        for task in made:
            if task.is_terminal:
                self._settle(task, now)
        for task in made:
            self._fail_if_hopeless(task.id, now)
        if not was_complete or any(not task.is_terminal for task in made):
            self._note_completion()
        self._tell()
        return [self._tasks[task.id] for task in made]

    def _insert(self, task: Task, now: datetime) -> None:
        if task.is_terminal:
            self._put(task)
            return
        unmet = 0
        for each in dict.fromkeys(task.depends_on):
            known = self._tasks.get(each)
            if known is None or known.status != "completed":
                self._dependents.setdefault(each, []).append(task.id)
                unmet += 1
        status: TaskStatus = "blocked" if unmet else "pending"
        if unmet:
            self._unmet[task.id] = unmet
        added = task if task.status == status else in_state(task, status, task.result, now)
        self._put(added)
        if not unmet:
            self._note("task:ready", added)

    def _fail_if_hopeless(self, task_id: str, now: datetime) -> None:
        """Let a new task end with a dependency that ended before it was added."""
        task = self._tasks[task_id]
        if task.status != "blocked":
            return
        for each in task.depends_on:
            known = self._tasks.get(each)
            if known is not None and known.status in _ENDS:
                self._end_dependents(known, [task_id], now)
                return

    # --- changing ----------------------------------------------------------------------------------------------------

    def start(self, task_id: str, assignee: str | None = None) -> Task:
        """Say that a pending task is being worked on, and return it.

        Args:
            task_id: Its id.
            assignee: Name of the agent; the one it has unless given.
        """
        return self.update(task_id, status="in_progress", **({} if assignee is None else {"assignee": assignee}))

    def update(
        self,
        task_id: str,
        *,
        status: TaskStatus | None = None,
        result: str | None = _KEEP,
        assignee: str | None = _KEEP,
    ) -> Task:
        """Change what may be changed of a task without others noticing, and return it; no handler is told.

        Args:
            task_id: Its id.
            status: ``in_progress`` for a pending task, ``pending`` for one in progress; ends have their own methods.
            result: A text so far.
            assignee: Name of the agent, or None for nobody.
        """
        task = self._existing(task_id)
        if status is not None and status in TERMINAL_STATUSES:
            raise ConfigurationError(f"update cannot end task {shown(task_id, 150)}; call complete, fail or skip")
        if task.is_terminal:
            raise ConfigurationError(f"task {shown(task_id, 150)} is {task.status} and cannot be changed any more")
        if status is not None and status != task.status:
            if "blocked" in (status, task.status):
                raise _illegal(task, status)
            self._check(task, status)
        changed = in_state(
            task,
            status or task.status,
            task.result if result is _KEEP else result,
            datetime.now(UTC),
            assignee=task.assignee if assignee is _KEEP else assignee,
        )
        self._put(changed)
        return changed

    def complete(self, task_id: str, result: str | None = None) -> Task:
        """Say that a task is done, and let those start that waited for nothing else; return the task.

        Args:
            task_id: Its id; it is pending or in progress.
            result: Its output.
        """
        task = self._existing(task_id)
        self._check(task, "completed")
        now = datetime.now(UTC)
        done = in_state(task, "completed", result, now)
        self._put(done)
        self._note("task:complete", done)
        self._settle(done, now)
        self._note_completion()
        self._tell()
        return done

    def fail(self, task_id: str, error: str) -> Task:
        """Say that a task failed; all that waits for it, directly or through others, fails with it; return the task.

        Args:
            task_id: Its id; it has not ended yet.
            error: Why.
        """
        return self._end_one(task_id, "failed", error)

    def skip(self, task_id: str, reason: str) -> Task:
        """Leave a task out, and with it all that waits for it, directly or through others; return the task.

        Args:
            task_id: Its id; it has not ended yet.
            reason: Why.
        """
        return self._end_one(task_id, "skipped", reason)

    def skip_remaining(self, reason: str) -> list[Task]:
        """Leave out every task that has not ended, those in progress too, and return them.

        Args:
            reason: Why.
        """
        now = datetime.now(UTC)
        left = [task for task in self._tasks.values() if task.status in OPEN_STATUSES]
        skipped = [self._end(task, "skipped", reason, None, now) for task in left]
        if skipped:
            self._note_completion()
        self._tell()
        return skipped

    def _check(self, task: Task, status: TaskStatus) -> None:
        if status not in _NEXT[task.status]:
            raise _illegal(task, status)
        if task.id in self._held and status not in _ENDS:
            raise ConfigurationError(
                f"task {shown(task.title)} ({task.id}) cannot become {status} before its plan revision is published"
            )

    def _settle(self, task: Task, now: datetime) -> None:
        """Pass the end of a task on to those that wait for it."""
        waiting = self._dependents.pop(task.id, ())
        if task.status in _ENDS:
            self._end_dependents(task, waiting, now)
            return
        for each in waiting:
            if each not in self._unmet:
                continue  # it has ended meanwhile
            self._unmet[each] -= 1
            if not self._unmet[each]:
                del self._unmet[each]
                waited = self._tasks[each]
                ready = in_state(waited, "pending", waited.result, now)
                self._put(ready)
                self._note("task:ready", ready)

    def _end_one(self, task_id: str, status: _EndStatus, reason: str) -> Task:
        task = self._existing(task_id)
        self._check(task, status)
        now = datetime.now(UTC)
        ended = self._end(task, status, reason, None, now)
        self._settle(ended, now)
        self._note_completion()
        self._tell()
        return ended

    def _end_dependents(self, root: Task, waiting: Iterable[str], now: datetime) -> None:
        """End all that waits for a task, with a reason that names it and the dependency that passed it on."""
        status = cast("_EndStatus", root.status)
        reason = (root.result or "")[:_SHOWN_REASON]
        cause = f"dependency {shown(root.title, 120)} ({root.id}) {_VERBS[status]}: {reason}"
        chain = deque((root, each) for each in waiting)
        while chain:
            through, task_id = chain.popleft()
            task = self._tasks[task_id]
            if task.is_terminal:
                continue
            way = "" if through is root else f" (through {shown(through.title, 120)})"
            ended = self._end(task, status, cause + way, through.id, now)
            chain.extend((ended, each) for each in self._dependents.pop(task_id, ()))

    def _end(self, task: Task, status: _EndStatus, reason: str, through: str | None, now: datetime) -> Task:
        self._unmet.pop(task.id, None)
        ended = in_state(task, status, reason, now, failed_through=through)
        self._put(ended)
        self._note(_ENDS[status], ended)
        return ended

    # --- telling -----------------------------------------------------------------------------------------------------

    @overload
    def on(self, event: Literal["all:complete"], handler: Callable[[], object]) -> Callable[[], None]: ...
    @overload
    def on(self, event: _TaskEvent, handler: Callable[[Task], object]) -> Callable[[], None]: ...
    def on(self, event: QueueEvent, handler: Callable[..., object]) -> Callable[[], None]:
        """Have a function called after changes; what it raises is logged and changes nothing.

        Args:
            event: ``all:complete`` when the last task has ended, else what happened to a task.
            handler: Called with the task, as it is then; with nothing for ``all:complete``.

        Returns:
            A function that ends this; calling it again does nothing.
        """
        if event not in get_args(QueueEvent):
            raise ConfigurationError(f"event must be one of {', '.join(get_args(QueueEvent))}, got {shown(event)}")
        key = object()
        handlers = self._handlers.setdefault(event, {})
        handlers[key] = handler

        def unsubscribe() -> None:
            handlers.pop(key, None)

        return unsubscribe

    def _note(self, event: QueueEvent, task: Task | None) -> None:
        if self._handlers and self._handlers.get(event) and (task is None or task.id not in self._held):
            self._untold.append((event, task))

    def _note_completion(self) -> None:
        if self._handlers and self.is_complete() and self._tasks and not self._held:
            self._note("all:complete", None)

    def _tell(self) -> None:
        if self._is_telling or not self._untold:
            return  # nothing to tell, or a handler has changed something: it is told in its turn
        self._is_telling = True
        try:
            while self._untold:
                event, task = self._untold.popleft()
                for handler in [*self._handlers.get(event, {}).values()]:
                    self._call(event, handler, () if task is None else (task,))
        finally:
            self._is_telling = False

    def _call(self, event: QueueEvent, handler: Callable[..., object], arguments: tuple[Task, ...]) -> None:
        try:
            handler(*arguments)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: users' handlers
            _log.warning("queue_handler_failed", queue_event=event, error=describe_error(error))


_VERBS: Final = {"failed": "failed", "skipped": "was skipped"}


def _illegal(task: Task, status: TaskStatus) -> ConfigurationError:
    allowed = ", ".join(sorted(_NEXT[task.status])) or "nothing else"
    return ConfigurationError(
        f"task {shown(task.title)} ({task.id}) is {task.status} and cannot become {status}; it may become {allowed}"
    )
