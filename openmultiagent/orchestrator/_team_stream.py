"""The stream of a run of a team or of tasks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from ..agent import RunStream, StreamSink
from ..events import Event
from ..tasks import TeamRunResult, copy_team_result
from ._progress import Progress
from ._team_runs import PreparedTeamRun

__all__ = ["TeamDone", "TeamStream"]


class TeamDone(Event[TeamRunResult]):
    """The run ended, in whatever way; ``data`` is its result. The last event of the stream."""

    type: ClassVar[Literal["done"]] = "done"
    __slots__ = ()


class TeamStream(RunStream[TeamRunResult]):
    """The events of a run of a team, for one consumer: its progress, and what its agents write.

    Progress events are those that listeners get. Between them stand the events of the streams of the agents, with
    ``agent`` and ``task`` set, so that the answers of agents that work at the same time can be told apart. The last
    event is ``done``; a run that failed says so in its result.
    """

    def __init__(self, prepared: PreparedTeamRun, progress: Progress) -> None:
        run_id = prepared.call.identity.run_id

        async def runner(sink: StreamSink) -> TeamRunResult:
            return await prepared.execute(progress.bus(run_id, sink.put), sink)

        super().__init__(run_id, runner, _done)


def _done(result: TeamRunResult) -> Event[Any]:
    return TeamDone(payload=result, copy=copy_team_result)
