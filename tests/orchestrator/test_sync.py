"""`run_agent_sync`: from scripts, threads, running loops and notebooks; and closing, from anywhere."""

import asyncio
import contextvars
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from blockbuster import BlockBuster
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    Event,
    InvalidMessageError,
    OpenMultiAgent,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import AdapterOwner, LLMChatOptions, LLMResponse
from openmultiagent.evaluation import InMemoryEvalStore, OnlineEvaluation
from openmultiagent.orchestrator import _lifetime
from openmultiagent.orchestrator._sync import LoopThread
from openmultiagent.testing import FakeProviderServer, ScriptedAdapter
from tests.support import proves


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "openmultiagent-sync":
            thread.join(5)
            assert not thread.is_alive()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell does for Ctrl-C: programs that it starts in the background ignore it, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def oma() -> Iterator[OpenMultiAgent]:
    made = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda messages, options: "ok"))
    yield made
    made.aclose_sync()


async def hang(messages: object, options: LLMChatOptions) -> str:
    await anyio.sleep_forever()
    return ""


@proves("ORC-70")
def test_a_script_runs_agents_one_after_the_other(oma: OpenMultiAgent) -> None:
    for _ in range(3):
        result = oma.run_agent_sync({"name": "x"}, "q", run_id="r", metadata={"a": 1})
        assert (result.output, result.identity.run_id, result.metadata) == ("ok", "r", {"a": 1})
    assert sum(thread.name == "openmultiagent-sync" for thread in threading.enumerate()) == 1


@proves("ORC-70")
def test_many_threads_run_agents_at_the_same_time(oma: OpenMultiAgent) -> None:
    together = threading.Barrier(8)

    def call(number: int) -> str:
        together.wait(5)
        return oma.run_agent_sync({"name": "x"}, "q", run_id=f"r{number}").identity.run_id

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [f"r{number}" for number in range(8)]
    assert sum(thread.name == "openmultiagent-sync" for thread in threading.enumerate()) == 1


@proves("ORC-70")
@pytest.mark.parametrize("kind", ["asyncio", "anyio", "trio"])
def test_it_works_where_an_event_loop_is_running(
    kind: str, oma: OpenMultiAgent, blocking_calls_are_errors: BlockBuster
) -> None:
    blocking_calls_are_errors.deactivate()  # that it blocks the loop is what is asked for

    async def cell() -> list[str]:
        return [oma.run_agent_sync({"name": "x"}, "q").output for _ in range(2)]

    got = asyncio.run(cell()) if kind == "asyncio" else anyio.run(cell, backend=kind.replace("anyio", "asyncio"))
    assert got == ["ok", "ok"]


@proves("ORC-70")
@pytest.mark.parametrize("other", ["run_agent_sync", "stream_agent"])
def test_it_takes_what_run_agent_takes(other: str) -> None:
    wanted = inspect.signature(OpenMultiAgent.run_agent).parameters
    assert inspect.signature(getattr(OpenMultiAgent, other)).parameters == wanted


@proves("ORC-70")
def test_what_is_wrong_is_raised_in_the_caller(oma: OpenMultiAgent) -> None:
    with pytest.raises(InvalidMessageError):
        oma.run_agent_sync({"name": "x"}, [])
    with pytest.raises(ConfigurationError):
        oma.run_agent_sync({"name": "x", "nonsense": 1}, "q")


@proves("ORC-70")
def test_a_token_cancels_a_synchronous_run() -> None:
    token = CancelToken()

    async def cancelled(messages: object, options: LLMChatOptions) -> str:
        threading.Thread(target=token.cancel, args=("enough",)).start()
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(cancelled))
    assert oma.run_agent_sync({"name": "x"}, "q", cancel=token).status.message == "enough"
    oma.aclose_sync()


@proves("ORC-70")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_reaches_the_caller_and_the_thread_goes_on(error: type[BaseException]) -> None:
    async def leave(call: Any, call_next: Any) -> Any:
        if call.input == "leave":
            raise error
        return await call_next()

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"), middleware=[leave])
    with pytest.raises(error):
        oma.run_agent_sync({"name": "x"}, "leave")
    assert oma.run_agent_sync({"name": "x"}, "stay").output == "ok"
    oma.aclose_sync()


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@proves("ORC-71")
def test_a_run_sees_the_context_of_its_caller() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    seen: list[str] = []

    def note(messages: object, options: LLMChatOptions) -> str:
        seen.append(variable.get())
        variable.set("changed")
        return "ok"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(note), tracer_provider=provider)
    token = variable.set("caller")
    with provider.get_tracer("test").start_as_current_span("caller") as span:
        oma.run_agent_sync({"name": "x"}, "q")
    variable.reset(token)
    oma.run_agent_sync({"name": "x"}, "q")
    oma.aclose_sync()
    assert seen == ["caller", "unset"]
    runs = [item for item in exporter.get_finished_spans() if item.name == "invoke_agent x"]
    assert runs[0].parent is not None
    assert runs[0].parent.span_id == span.get_span_context().span_id
    assert runs[1].parent is None


@proves("ORC-72")
def test_a_call_that_would_wait_for_itself_is_refused(oma: OpenMultiAgent) -> None:
    errors: list[str] = []

    def recurse(messages: object, options: LLMChatOptions) -> str:
        for call in (lambda: oma.run_agent_sync({"name": "x"}, "q"), oma.aclose_sync):
            try:
                call()
            except ConfigurationError as error:
                errors.append(str(error))
        return "done"

    assert oma.run_agent_sync(AgentConfig("x", adapter=ScriptedAdapter(recurse)), "q").output == "done"
    assert "await oma.run_agent(...)" in errors[0]
    assert "await oma.aclose()" in errors[1]


@proves("ORC-72")
def test_a_tool_in_a_thread_may_call_it(oma: OpenMultiAgent) -> None:
    @tool
    def ask() -> str:
        """Ask another agent."""
        return oma.run_agent_sync({"name": "inner"}, "q").output

    call = LLMResponse([ToolUseBlock(id="c", name="ask", input={})])
    config = AgentConfig("outer", adapter=ScriptedAdapter([call, "done"]), tools=[ask])
    result = oma.run_agent_sync(config, "q")
    assert result.output == "done"
    assert result.tool_calls[0].output == "ok"


@proves("ORC-73")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are delivered otherwise")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_run_and_is_raised_when_it_has_ended() -> None:
    events: list[str] = []
    closed: list[str] = []

    async def interrupt(messages: object, options: LLMChatOptions) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            closed.append("closed")
        return ""

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(interrupt), on_progress=lambda event: events.append(event.type)
    )
    with pytest.raises(KeyboardInterrupt):
        oma.run_agent_sync({"name": "x"}, "q")
    assert closed == ["closed"]
    assert events == ["agent_start", "agent_complete"]
    oma.aclose_sync()


@proves("ORC-74")
def test_connections_are_kept_between_calls_and_closed_at_the_end() -> None:
    with FakeProviderServer(lambda _: "Hello") as server:
        oma = OpenMultiAgent()
        config = {"name": "x", "model": "m", "provider": "openai", "base_url": server.openai_url, "api_key": "k"}
        for _ in range(3):
            assert oma.run_agent_sync(config, "q").output == "Hello"
        assert {request.connection for request in server.requests} == {1}
        oma.aclose_sync()
        assert oma.run_agent_sync(config, "q").output == "Hello"
        assert oma.run_agent_sync(config, "q").output == "Hello"
        assert [request.connection for request in server.requests[3:]] == [2, 3]
        oma.aclose_sync()


@proves("ORC-74")
def test_finished_runs_are_evaluated_in_the_background() -> None:
    judged = threading.Event()

    def note(context: Any) -> bool:
        judged.set()
        return True

    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(lambda *_: "ok"), evaluation=OnlineEvaluation([note], store=store)
    )
    oma.run_agent_sync({"name": "x"}, "q")
    assert judged.wait(5)
    oma.run_agent_sync({"name": "x"}, "q")
    oma.aclose_sync()
    assert len(store.records) == 2


@proves("ORC-74")
def test_an_orchestrator_that_is_dropped_ends_its_thread() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]))
    oma.run_agent_sync({"name": "x"}, "q")
    gone = weakref.ref(oma)
    (thread,) = [item for item in threading.enumerate() if item.name == "openmultiagent-sync"]
    del oma
    gc.collect()
    assert gone() is None
    thread.join(5)
    assert not thread.is_alive()


SCRIPT = """
import sys, threading
from openmultiagent import AgentConfig, OpenMultiAgent, ToolUseBlock, tool
from openmultiagent.adapters import LLMResponse
from openmultiagent.evaluation import OnlineEvaluation
from openmultiagent.testing import ScriptedAdapter

@tool
def look() -> str:
    "Look."
    return threading.current_thread().name

async def listener(event):
    pass

def judge(context):
    return 1.0

call = LLMResponse([ToolUseBlock(id="c", name="look", input={})])
oma = OpenMultiAgent(on_progress=listener, evaluation=OnlineEvaluation([judge]))
for _ in range(2):
    config = AgentConfig("x", adapter=ScriptedAdapter([call, "done"]), tools=[look])
    print(oma.run_agent_sync(config, "q").output)
"""


@proves("ORC-74")
@pytest.mark.parametrize("end", ["", "oma.aclose_sync()", "sys.exit(0)", "import asyncio; asyncio.run(oma.aclose())"])
def test_a_process_ends_at_once(end: str) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT + end],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\ndone\n", "")
    assert time.monotonic() - started < 10


@proves("ORC-74")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_starts_a_thread_of_its_own() -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from openmultiagent import OpenMultiAgent
from openmultiagent.testing import ScriptedAdapter
oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
print(oma.run_agent_sync({"name": "x"}, "q").output, flush=True)
child = os.fork()
print(oma.run_agent_sync({"name": "x"}, "q").output, flush=True)
oma.aclose_sync()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\nok\nok\n", "")


@proves("ORC-75")
async def test_closing_may_be_repeated_and_needs_no_opening() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
    await oma.aclose()
    await oma.aclose()
    async with oma:
        await oma.run_agent({"name": "x"}, "q")
        await oma.aclose()
        async with anyio.create_task_group() as group:
            group.start_soon(oma.aclose)
            group.start_soon(oma.aclose)
    assert (await oma.run_agent({"name": "x"}, "q")).output == "ok"


@proves("ORC-75")
@pytest.mark.parametrize("inner", ["asyncio", "trio"])
async def test_an_orchestrator_may_be_closed_on_another_event_loop(inner: str) -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        store = InMemoryEvalStore()
        oma = OpenMultiAgent(evaluation=OnlineEvaluation([lambda context: 1.0], store=store))
        await oma.__aenter__()
        config = {"name": "x", "model": "m", "provider": "openai", "base_url": server.openai_url, "api_key": "k"}
        await oma.run_agent(config, "q")
        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(lambda: anyio.run(oma.aclose, backend=inner))
        assert len(store.records) == 1
        assert (await oma.run_agent(config, "q")).output == "Hello"
        assert [request.connection for request in server.requests] == [1, 2]


@proves("ORC-70", "ORC-75")
async def test_synchronous_and_other_runs_share_an_orchestrator() -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        config = {"name": "x", "model": "m", "provider": "openai", "base_url": server.openai_url, "api_key": "k"}
        store = InMemoryEvalStore()
        oma = OpenMultiAgent(evaluation=OnlineEvaluation([lambda context: 1.0], store=store))
        with anyio.fail_after(15):
            async with oma:
                for _ in range(2):
                    await oma.run_agent(config, "q")
                    await anyio.to_thread.run_sync(oma.run_agent_sync, config, "q")
        assert [request.connection for request in server.requests] == [1, 2, 1, 2]
        assert len(store.records) == 4


@proves("ORC-75")
def test_an_orchestrator_outlives_its_event_loops() -> None:
    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(lambda *_: "ok"),
        evaluation=OnlineEvaluation([lambda context: 1.0], store=store),
    )

    async def enter_and_run() -> None:
        await oma.__aenter__()
        await oma.run_agent({"name": "x"}, "q")

    asyncio.run(enter_and_run())
    anyio.run(enter_and_run, backend="trio")
    started = time.monotonic()
    asyncio.run(oma.aclose())
    oma.aclose_sync()
    assert time.monotonic() - started < 5
    assert len(store.records) == 2


@proves("ORC-75")
async def test_closing_while_a_synchronous_run_goes_on_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lifetime, "_RUNS_TIMEOUT", 0.05)
    entered = threading.Event()
    outcome: list[BaseException] = []

    async def wait(messages: object, options: LLMChatOptions) -> str:
        entered.set()
        return await hang(messages, options)

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(wait))

    def call() -> None:
        try:
            oma.run_agent_sync({"name": "x"}, "q")
        except RuntimeError as error:
            outcome.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, call)
            await anyio.to_thread.run_sync(entered.wait)
            await oma.aclose()
    assert "closed while this call was going on" in str(outcome[0])


@proves("ORC-75")
async def test_a_cancelled_caller_still_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(lambda *_: "ok"),
        evaluation=OnlineEvaluation([lambda context: 1.0], store=store),
    )
    with anyio.CancelScope() as scope:
        async with oma:
            await oma.run_agent({"name": "x"}, "q")
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert len(store.records) == 1


@proves("ORC-60", "ORC-74")
def test_async_listeners_are_served_beside_synchronous_runs() -> None:
    heard: list[str] = []

    async def slow(event: Event[Any]) -> None:
        await anyio.sleep(0.05)
        heard.append(event.type)

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), on_progress=slow)
    oma.run_agent_sync({"name": "x"}, "q")
    assert heard == []
    oma.aclose_sync()
    assert heard == ["agent_start", "agent_complete"]


@proves("ORC-75")
def test_calls_that_begin_while_the_thread_ends_are_told(blocking_calls_are_errors: BlockBuster) -> None:
    blocking_calls_are_errors.deactivate()  # that the loop is blocked is what is wanted
    thread = LoopThread()
    blocked, go_on = threading.Event(), threading.Event()
    outcomes: list[str] = []

    async def block() -> None:
        blocked.set()
        go_on.wait(5)

    def call() -> None:
        try:
            thread.run(anyio.sleep_forever())
        except RuntimeError as error:
            outcomes.append(str(error))

    thread.post(block())
    assert blocked.wait(5)
    thread.stop()
    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    while len(thread._calls) < 3:
        time.sleep(0.001)  # there is nothing to wait for
    go_on.set()
    for caller in callers:
        caller.join(10)
    thread.join(10)
    assert len(outcomes) == 3
    call()
    assert outcomes[3] == "Event loop is closed"
    thread.stop()


@proves("ORC-75")
def test_what_starts_something_when_it_is_cancelled_is_cancelled_again() -> None:
    thread = LoopThread()
    ended: list[str] = []

    async def stubborn(lives: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
            if lives:
                kept.append(asyncio.ensure_future(stubborn(lives - 1)))

    kept: list[Any] = []
    thread.post(stubborn(2))
    thread.run(asyncio.sleep(0))
    thread.stop()
    thread.join(10)
    assert ended == ["cancelled"] * 3


@proves("ORC-74")
def test_letting_go_of_a_thread_closes_its_connections_and_waits_at_the_end_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    class Owner(AdapterOwner):
        async def aclose(self) -> None:
            closed.append(threading.current_thread().name)

    for is_alive in (True, False):
        thread = LoopThread()
        monkeypatch.setattr(threading.main_thread(), "is_alive", lambda alive=is_alive: alive)
        _lifetime._release(thread, Owner(lambda *_: ScriptedAdapter([])))
        if not is_alive:
            assert not thread.is_alive
        monkeypatch.undo()
        thread.join(5)
        _lifetime._release(thread, Owner(lambda *_: ScriptedAdapter([])))
    assert closed == ["openmultiagent-sync"] * 2
