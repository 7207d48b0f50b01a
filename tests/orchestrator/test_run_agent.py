"""Entry, defaults, identity and lifetime of `run_agent`."""

from typing import Any

import anyio
import pytest

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    InvalidMessageError,
    LLMMessage,
    OpenMultiAgent,
    TextBlock,
    TextDelta,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.evaluation import OnlineEvaluation, scorer
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves


def definition(adapter: Any, **fields: Any) -> AgentConfig:
    return AgentConfig("tester", adapter=adapter, **fields)


@proves("ORC-1")
async def test_a_definition_and_a_mapping_are_run_alike() -> None:
    adapter = ScriptedAdapter(["one", "two"])
    oma = OpenMultiAgent()
    fields: dict[str, Any] = {"name": "tester", "adapter": adapter}
    first = await oma.run_agent(fields, "q")
    second = await oma.run_agent(AgentConfig(**fields), [{"role": "user", "content": [{"type": "text", "text": "q"}]}])
    assert (first.output, second.output) == ("one", "two")
    assert adapter.calls[0].messages == adapter.calls[1].messages == [LLMMessage.user("q")]
    assert fields == {"name": "tester", "adapter": adapter}


@proves("ORC-1")
async def test_each_run_is_fresh() -> None:
    adapter = ScriptedAdapter(["one", "two"])
    config = definition(adapter, history=[LLMMessage.user("earlier"), LLMMessage.assistant("yes")])
    oma = OpenMultiAgent()
    await oma.run_agent(config, "a")
    await oma.run_agent(config, "b")
    assert [call.messages for call in adapter.calls] == [[LLMMessage.user("a")], [LLMMessage.user("b")]]


@proves("ORC-2")
@pytest.mark.parametrize(
    ("config", "input_", "options", "error"),
    [
        ({"name": "x"}, "q", {}, ConfigurationError),
        ({"name": "x", "model": "m", "provider": "nobody"}, "q", {}, ConfigurationError),
        ({"nam": "x"}, "q", {}, ConfigurationError),
        (None, "q", {}, ConfigurationError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), [], {}, InvalidMessageError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), [{"role": "user", "content": "q"}], {}, InvalidMessageError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), "q", {"run_id": ""}, ConfigurationError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), "q", {"run_id": "r" * 129}, ConfigurationError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), "q", {"metadata": {"A": 1}}, ConfigurationError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), "q", {"max_token_budget": 0}, ConfigurationError),
        (AgentConfig("x", adapter=ScriptedAdapter([])), "q", {"max_cost_budget": 1.0}, ConfigurationError),
    ],
)
@pytest.mark.parametrize("method", ["run_agent", "stream_agent"])
def test_what_shows_without_running_raises_at_the_call(
    method: str, config: Any, input_: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    told: list[object] = []
    oma = OpenMultiAgent(on_progress=told.append, evaluation=OnlineEvaluation([lambda context: 1.0]))
    with pytest.raises(error):
        getattr(oma, method)(config, input_, **options)
    assert told == []
    assert oma.evaluation.stats().sampled == 0


@proves("ORC-2")
@pytest.mark.parametrize(
    "arguments",
    [
        {"max_token_budget": 0},
        {"max_token_budget": -1},
        {"max_cost_budget": 1.0},
        {"max_cost_budget": float("nan"), "estimate_cost": lambda usage, context: 0.0},
        {"evaluation": [lambda context: 1.0]},
        {"on_progress": "text"},
        {"listeners": [3]},
        {"middleware": ["text"]},
    ],
)
def test_an_orchestrator_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        OpenMultiAgent(**arguments)


@pytest.mark.parametrize("name", ["provider", "model", "adapter", "tool_preset"])
@proves("ORC-2")
def test_what_an_orchestrator_calls_otherwise_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no argument '{name}'; did you mean 'default_{name}'"):
        OpenMultiAgent(**{name: "x"})  # type: ignore[arg-type]


@proves("ORC-3")
async def test_defaults_fill_what_the_agent_leaves_open() -> None:
    default, own = ScriptedAdapter(["a", "b", "c"]), ScriptedAdapter(["own"])
    oma = OpenMultiAgent(default_adapter=default, default_model="m-default")
    config = AgentConfig("x")
    await oma.run_agent(config, "q")
    await oma.run_agent({"name": "x", "model": "m-own"}, "q")
    await oma.run_agent(AgentConfig("x", adapter=own), "q")
    assert [call.options.model for call in default.calls] == ["m-default", "m-own"]
    assert own.calls[0].options.model == "m-default"
    assert config.model is None
    assert config.adapter is None


@proves("ORC-5")
async def test_agents_that_share_an_adapter_keep_their_own_settings() -> None:
    adapter = ScriptedAdapter(["a", "b"])
    oma = OpenMultiAgent(default_adapter=adapter)
    await oma.run_agent({"name": "first", "settings": {"stop": ["END"], "temperature": 0.0}}, "q")
    await oma.run_agent({"name": "second"}, "q")
    assert [(call.options.stop, call.options.temperature) for call in adapter.calls] == [(("END",), 0.0), (None, None)]


@proves("ORC-3")
async def test_a_default_provider_is_used_only_without_one() -> None:
    oma = OpenMultiAgent(default_provider="embedded")
    result = await oma.run_agent({"name": "x"}, "Summarise: Water boils at 100 degrees. It freezes at 0 degrees.")
    assert result.success
    with pytest.raises(ConfigurationError, match="nobody"):
        await oma.run_agent({"name": "x", "model": "m", "provider": "nobody"}, "q")


@proves("ORC-4")
async def test_a_result_says_which_run_it_is() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a", "b"]))
    named = await oma.run_agent({"name": "x"}, "q", run_id="order-17", metadata={"tenant": "acme", "tries": [1, 2]})
    other = await oma.run_agent({"name": "x"}, "q")
    assert named.identity.run_id == "order-17"
    assert named.identity.attempt == 1
    assert len(named.identity.trace_id) == 32
    assert len(named.identity.root_span_id) == 16
    assert named.metadata == {"tenant": "acme", "tries": [1, 2]}
    assert other.metadata is None
    assert other.identity.run_id != named.identity.run_id
    assert other.identity.trace_id != named.identity.trace_id


@proves("ORC-5")
async def test_many_runs_at_once_do_not_mix() -> None:
    async def echo(messages: list[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        block = messages[-1].content[0]
        assert isinstance(block, TextBlock)
        await anyio.lowlevel.checkpoint()
        return LLMResponse([TextBlock(text=block.text)], usage=TokenUsage(input_tokens=int(block.text)))

    done: dict[str, tuple[str, int, str]] = {}
    starts: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        if event.type == "agent_start":
            starts.append((event.run_id, event.data["prompt"]))

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(echo),
        on_progress=note,
    )

    async def one(number: int) -> None:
        result = await oma.run_agent({"name": f"agent-{number}"}, str(number), run_id=f"run-{number}")
        done[f"run-{number}"] = (result.output, result.token_usage.input_tokens, result.identity.run_id)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert done == {f"run-{n}": (str(n), n, f"run-{n}") for n in range(100)}
    assert sorted(starts) == sorted((f"run-{n}", str(n)) for n in range(100))


@proves("ORC-41")
async def test_without_async_with_evaluations_wait_for_a_flush() -> None:
    judged: list[str] = []

    @scorer
    async def note(context: Any) -> bool:
        judged.append(context.output)
        return True

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a", "b"]), evaluation=OnlineEvaluation([note]))
    await oma.run_agent({"name": "x"}, "q")
    await anyio.wait_all_tasks_blocked()
    assert judged == []
    assert await oma.evaluation.flush()
    assert judged == ["a"]
    await oma.run_agent({"name": "x"}, "q")
    await oma.aclose()
    assert judged == ["a", "b"]


@proves("ORC-42")
async def test_inside_async_with_evaluation_goes_on_in_the_background() -> None:
    judged = anyio.Event()

    @scorer
    async def note(context: Any) -> bool:
        judged.set()
        return True

    async with OpenMultiAgent(default_adapter=ScriptedAdapter(["a"]), evaluation=OnlineEvaluation([note])) as oma:
        await oma.run_agent({"name": "x"}, "q")
        with anyio.fail_after(5):
            await judged.wait()
        assert await oma.evaluation.flush()
        assert (oma.evaluation.stats().sampled, oma.evaluation.stats().completed) == (1, 1)


@proves("ORC-42")
async def test_the_exit_drains_what_is_queued() -> None:
    judged: list[str] = []

    @scorer
    async def note(context: Any) -> bool:
        await anyio.lowlevel.checkpoint()
        judged.append(context.output)
        return True

    adapter = ScriptedAdapter([str(n) for n in range(20)])
    async with OpenMultiAgent(default_adapter=adapter, evaluation=OnlineEvaluation([note])) as oma:
        for _ in range(20):
            await oma.run_agent({"name": "x"}, "q")
    assert judged == [str(n) for n in range(20)]
    assert oma.evaluation.stats().completed == 20


@proves("ORC-42")
async def test_an_orchestrator_may_be_left_in_another_task() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a"]), evaluation=OnlineEvaluation([lambda context: 1.0]))

    async def enter() -> None:
        await oma.__aenter__()

    async def leave() -> None:
        await oma.__aexit__(None, None, None)

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
    await oma.run_agent({"name": "x"}, "q")
    async with anyio.create_task_group() as group:
        group.start_soon(leave)
    assert oma.evaluation.stats().completed == 1


@proves("ORC-43")
async def test_a_token_cancels_a_run() -> None:
    token = CancelToken()

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        token.cancel("user left")
        await anyio.sleep_forever()
        return ""

    result = await OpenMultiAgent(default_adapter=ScriptedAdapter(hang)).run_agent({"name": "x"}, "q", cancel=token)
    assert result.status.code == "cancelled"
    assert result.status.message == "user left"


@proves("ORC-40")
async def test_a_stream_is_the_same_run() -> None:
    told: list[str] = []
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["answer"]),
        on_progress=lambda event: told.append(event.type),
        evaluation=OnlineEvaluation([lambda context: context.output == "answer"]),
    )
    async with oma.stream_agent({"name": "x"}, "q", run_id="r1", metadata={"a": 1}) as stream:
        events = [event async for event in stream]
    assert [event.type for event in events if event.type in ("text", "done")][-1] == "done"
    assert "".join(event.data for event in events if isinstance(event, TextDelta)) == "answer"
    assert stream.result.identity.run_id == stream.run_id == "r1"
    assert stream.result.metadata == {"a": 1}
    assert told == ["agent_start", "agent_complete"]
    await oma.evaluation.flush()
    assert oma.evaluation.stats().completed == 1
