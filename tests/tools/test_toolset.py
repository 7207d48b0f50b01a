"""Opening, sharing and closing toolsets."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openmultiagent.errors import ConfigurationError, RunError
from openmultiagent.tools import PrefixedToolset, Tool, Toolset, ToolsetOwner, _toolset, tool
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


class Server:
    """A toolset that writes down what happens to it, and holds a task group while it is open."""

    def __init__(
        self, name: str = "server", *, tools: Any = (ping,), faults: dict[str, Exception] | None = None
    ) -> None:
        self.name = name
        self.events: list[str] = []
        self.group: Any = None
        self.blocked = anyio.Event()
        self._tools = tools
        self._faults = {} if faults is None else faults
        self._stack = AsyncExitStack()
        self.waits = False

    async def open(self) -> Sequence[Tool]:
        self.events.append("opening")
        await anyio.lowlevel.checkpoint()
        if self.waits:
            self.blocked.set()
            await anyio.sleep_forever()
        if "open" in self._faults:
            raise self._faults["open"]
        self._stack = AsyncExitStack()
        self.group = await self._stack.enter_async_context(anyio.create_task_group())
        self.group.start_soon(anyio.sleep_forever)
        self.events.append("open")
        tools: Sequence[Tool] = self._tools
        return tools

    async def aclose(self) -> None:
        self.events.append("closing")
        self.group.cancel_scope.cancel()
        await self._stack.aclose()
        if "close" in self._faults:
            raise self._faults["close"]
        self.events.append("closed")


CYCLE = ["opening", "open", "closing", "closed"]


@proves("TOL-61", "TOL-66")
async def test_a_toolset_is_opened_for_a_run_and_closed_after_it() -> None:
    server = Server()
    owner = ToolsetOwner()
    for rounds in (1, 2):
        opened = await owner.open([server])
        assert opened.tools == [("server", ping)]
        assert server.events[-1] == "open"
        await opened.aclose()
        assert server.events == CYCLE * rounds
        await opened.aclose()
        assert opened.tools == []
    assert server.events == CYCLE * 2


@proves("TOL-66")
async def test_it_may_be_opened_in_one_task_and_let_go_in_another() -> None:
    server, owner = Server(), ToolsetOwner()
    opened: list[Any] = []

    async def first() -> None:
        opened.append(await owner.open([server]))

    async def second() -> None:
        await opened[0].aclose()

    for step in (first, second):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert server.events == CYCLE


@proves("TOL-63")
async def test_runs_at_the_same_time_share_one_opening_which_the_last_one_closes() -> None:
    server = Server()
    owners = [ToolsetOwner(), ToolsetOwner()]
    opened: list[Any] = []

    async def run(owner: ToolsetOwner) -> None:
        opened.append(await owner.open([server]))

    async with anyio.create_task_group() as group:
        for owner in [*owners, *owners]:
            group.start_soon(run, owner)
    assert server.events == ["opening", "open"]
    for one in opened[:3]:
        await one.aclose()
    assert server.events == ["opening", "open"]
    await opened[3].aclose()
    assert server.events == CYCLE


@proves("TOL-63")
async def test_a_run_that_comes_while_it_is_closing_opens_it_again() -> None:
    class Slow(Server):
        release = anyio.Event()

        async def aclose(self) -> None:
            await self.release.wait()
            await super().aclose()

    server, owner = Slow(), ToolsetOwner()
    server.release = anyio.Event()
    opened = await owner.open([server])
    async with anyio.create_task_group() as group:
        group.start_soon(opened.aclose)
        await anyio.wait_all_tasks_blocked()

        async def late() -> None:
            again = await owner.open([server])
            assert server.events == [*CYCLE, "opening", "open"]
            await again.aclose()

        group.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        assert server.events == ["opening", "open"]
        server.release.set()
    assert server.events == CYCLE * 2


@proves("TOL-62")
async def test_a_started_owner_keeps_toolsets_open_until_it_is_closed() -> None:
    server, other = Server("a"), Server("b")
    owner = ToolsetOwner()
    owner.start()
    for toolsets in ([server], [server, other]):
        opened = await owner.open(toolsets)
        await opened.aclose()
    assert (server.events, other.events) == (["opening", "open"], ["opening", "open"])
    await owner.aclose()
    assert (server.events, other.events) == (CYCLE, CYCLE)
    await owner.aclose()
    opened = await owner.open([server])
    await opened.aclose()
    assert server.events == CYCLE * 2


@proves("TOL-62")
async def test_a_run_that_is_still_going_when_its_owner_closes_keeps_its_toolset() -> None:
    server, owner = Server(), ToolsetOwner()
    owner.start()
    opened = await owner.open([server])
    await owner.aclose()
    assert server.events == ["opening", "open"]
    await opened.aclose()
    assert server.events == CYCLE


@proves("TOL-62")
def test_runs_on_other_event_loops_open_their_own() -> None:
    server, owner = Server(), ToolsetOwner()

    async def keep() -> None:
        owner.start()

    async def run() -> None:
        opened = await owner.open([server])
        await opened.aclose()

    anyio.run(keep)
    for backend in ("asyncio", "trio"):
        anyio.run(run, backend=backend)
    assert server.events == CYCLE * 2


@proves("TOL-64")
async def test_one_that_cannot_be_opened_fails_the_run_by_name_and_the_others_are_closed() -> None:
    good, bad = Server("good"), Server("bad", faults={"open": OSError("no such host")})
    with pytest.raises(RunError) as raised:
        await ToolsetOwner().open([good, bad], agent="worker")
    assert str(raised.value) == "agent 'worker': toolset 'bad' could not be opened: OSError: no such host"
    assert isinstance(raised.value.__cause__, OSError)
    assert good.events == CYCLE
    assert bad.events == ["opening"]


@proves("TOL-64")
async def test_the_next_run_tries_again() -> None:
    faults: dict[str, Exception] = {"open": OSError("not yet")}
    server, owner = Server(faults=faults), ToolsetOwner()
    owner.start()
    with pytest.raises(RunError, match="not yet"):
        await owner.open([server])
    faults.clear()
    await owner.open([server])
    assert server.events == ["opening", "opening", "open"]
    await owner.aclose()


@proves("TOL-64")
@pytest.mark.parametrize(
    ("tools", "text"), [(None, "a list of Tool objects, got NoneType"), ("ping", "got str"), ([print], "Tool objects")]
)
async def test_one_that_opens_with_something_else_than_tools_is_closed_again(tools: Any, text: str) -> None:
    for prefix in (None, "p_"):
        server = Server(tools=tools)
        given: Toolset = server if prefix is None else PrefixedToolset(server, prefix)
        with pytest.raises(RunError, match=f"toolset 'server' could not be opened: ConfigurationError: .*{text}"):
            await ToolsetOwner().open([given])
        assert server.events == CYCLE


@proves("TOL-64")
async def test_a_cancellation_of_its_own_is_a_failure_too() -> None:
    class Lost(Server):
        async def open(self) -> Sequence[Tool]:
            raise asyncio.CancelledError

    with pytest.raises(RunError, match="toolset 'server' could not be opened"):
        await ToolsetOwner().open([Lost()])


@proves("TOL-64")
async def test_opening_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_toolset, "_OPEN_TIMEOUT", 0.05)
    server = Server()
    server.waits = True
    with pytest.raises(RunError, match=r"could not be opened: it took more than 0\.05s"):
        await ToolsetOwner().open([server])
    assert server.events == ["opening"]


@proves("TOL-61")
async def test_a_run_that_is_cancelled_while_it_opens_leaves_nothing_open() -> None:
    ready, stuck = Server("ready"), Server("stuck")
    stuck.waits = True
    async with anyio.create_task_group() as group:
        group.start_soon(ToolsetOwner().open, [ready, stuck])
        await stuck.blocked.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert ready.events == CYCLE
    assert stuck.events == ["opening"]


@proves("TOL-61", "TOL-63")
async def test_a_cancelled_run_does_not_take_the_opening_from_another() -> None:
    class Slow(Server):
        async def open(self) -> Sequence[Tool]:
            await self.blocked.wait()
            return await super().open()

    server, owner = Slow(), ToolsetOwner()
    opened: list[Any] = []

    async def patient() -> None:
        opened.append(await owner.open([server]))

    async with anyio.create_task_group() as group:
        group.start_soon(patient)
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await owner.open([server])
        assert scope.cancelled_caught
        server.blocked.set()
    assert opened[0].tools == [("server", ping)]
    await opened[0].aclose()
    assert server.events == CYCLE


@proves("TOL-61")
async def test_one_that_opens_in_spite_of_the_cancellation_is_closed() -> None:
    class Stubborn(Server):
        async def open(self) -> Sequence[Tool]:
            try:
                self.blocked.set()
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.events.append("ignored")
            return [ping]

        async def aclose(self) -> None:
            self.events.append("closed")

    server = Stubborn()
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(ToolsetOwner().open, [server])
            await server.blocked.wait()
            group.cancel_scope.cancel()
    assert server.events == ["ignored", "closed"]
    assert not lines


@proves("TOL-61")
@asyncio_only
async def test_a_native_cancellation_while_it_waits_for_the_end_still_closes() -> None:
    server, owner = Server(), ToolsetOwner()
    opened = await owner.open([server])
    task = asyncio.ensure_future(opened.aclose())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await anyio.wait_all_tasks_blocked()
    assert server.events == CYCLE


@proves("TOL-67")
async def test_closing_has_a_limit_and_its_failure_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Server):
        async def aclose(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                self.group.cancel_scope.cancel()
                await self._stack.aclose()

    monkeypatch.setattr(_toolset, "_CLOSE_TIMEOUT", 0.05)
    with capture_logs() as lines:
        for server in (Hanging("hanging"), Server("broken", faults={"close": OSError("gone")})):
            opened = await ToolsetOwner().open([server])
            await opened.aclose()
    assert [(line["event"], line["toolset"], line["error"]) for line in lines] == [
        ("toolset_failed", "hanging", "not closed within 0.05s"),
        ("toolset_failed", "broken", "OSError: gone"),
    ]


@proves("TOL-68")
async def test_one_that_dies_while_it_is_open_is_opened_again_by_the_next_run() -> None:
    async def die() -> None:
        raise OSError("connection lost")

    server, owner = Server(), ToolsetOwner()
    owner.start()
    with capture_logs() as lines:
        opened = await owner.open([server])
        server.group.start_soon(die)
        with anyio.fail_after(5):
            while not lines:
                await anyio.lowlevel.checkpoint()
    assert server.events == ["opening", "open", "closing"]
    assert [line["error"] for line in lines] == ["OSError: connection lost"]
    again = await owner.open([server])
    assert server.events == ["opening", "open", "closing", "opening", "open"]
    await opened.aclose()
    await again.aclose()
    await owner.aclose()
    assert server.events[3:] == ["opening", "open", "closing", "closed"]


@proves("TOL-65")
async def test_a_prefix_keeps_names_apart() -> None:
    server = Server()
    prefixed = PrefixedToolset(server, "srv_")
    opened = await ToolsetOwner().open([prefixed])
    ((name, item),) = opened.tools
    assert (name, item.name, item.definition.name) == ("server", "srv_ping", "srv_ping")
    assert item.description == ping.description
    assert await item() == "pong"
    await opened.aclose()
    assert server.events == CYCLE


@proves("TOL-65")
async def test_a_prefix_that_makes_no_name_fails_the_run() -> None:
    server = Server()
    with pytest.raises(RunError, match="tool name 'a b ping'"):
        await ToolsetOwner().open([PrefixedToolset(server, "a b ")])
    assert server.events == CYCLE


@proves("TOL-65")
def test_prefixes_are_for_toolsets_and_are_texts() -> None:
    with pytest.raises(ConfigurationError, match="expected a toolset"):
        PrefixedToolset(ping, "x")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="prefix must be a str"):
        PrefixedToolset(Server(), 3)  # type: ignore[arg-type]
