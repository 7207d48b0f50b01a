"""Scorers and online evaluation."""

import asyncio
import functools
import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import ConfigurationError, ImageBlock, LLMMessage, OpenMultiAgent, RunCall, TextBlock
from openmultiagent.evaluation import (
    EvalRecord,
    InMemoryEvalStore,
    OnlineEvaluation,
    Score,
    Scorer,
    ScorerContext,
    scorer,
)
from openmultiagent.evaluation._records import payload_text
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

SECRET = "sk-abcdefghijklmnop1234"


def judged_by(*functions: Any, answers: int = 1, **options: Any) -> tuple[OpenMultiAgent, InMemoryEvalStore]:
    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter([f"answer {n}" for n in range(answers)]),
        evaluation=OnlineEvaluation(list(functions), store=store, **options),
    )
    return oma, store


class Callable_:  # noqa: N801 - a callable object, not a type that anybody names
    async def __call__(self, context: ScorerContext[Any]) -> float:
        return 0.25


def plain(context: ScorerContext[Any]) -> float:
    return 0.25


async def in_place(context: ScorerContext[Any]) -> Score:
    return Score(0.25)


@proves("OBS-20")
@pytest.mark.parametrize(
    "function",
    [plain, in_place, Callable_(), functools.partial(plain), lambda c: in_place(c)],  # noqa: PLW0108 - it looks plain
)
async def test_what_a_scorer_may_be(function: Any) -> None:
    oma, store = judged_by(function)
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    assert [(record.status, record.score) for record in store.records] == [("scored", 0.25)]


@proves("OBS-20")
@pytest.mark.parametrize(
    ("returned", "score", "passed"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (0, 0.0, None),
        (1, 1.0, None),
        (0.5, 0.5, None),
        (Score(0.5, passed=False, reason="so so", details={"n": 1}), 0.5, False),
    ],
)
async def test_what_a_scorer_may_return(returned: Any, score: float, passed: bool | None) -> None:
    oma, store = judged_by(lambda context: returned)
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    (record,) = store.records
    assert (record.status, record.score, record.passed) == ("scored", score, passed)
    assert isinstance(record.score, float)


@proves("OBS-20")
@pytest.mark.parametrize("arguments", [{"name": " "}, {"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}])
def test_a_scorer_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        scorer(**arguments)(plain)
    with pytest.raises(ConfigurationError):
        scorer("text")  # type: ignore[call-overload]


@proves("OBS-20")
def test_a_scorer_has_a_name_and_a_version() -> None:
    made = scorer(name="short", version="2")(plain)
    assert (made.name, made.version) == ("short", "2")
    assert scorer(plain).name == "plain"
    assert scorer(Callable_()).name == "Callable_"


@proves("OBS-20")
@pytest.mark.parametrize("score", [1.1, -0.1, float("nan"), float("inf"), True, "1", None])
def test_a_score_is_a_number_from_0_to_1(score: Any) -> None:
    with pytest.raises(ConfigurationError, match="score must be"):
        Score(score)


@proves("OBS-20")
@pytest.mark.parametrize(
    "wrong",
    [
        {"passed": "yes"},
        {"passed": 1},
        {"reason": 5},
        {"usage": 5},
        {"details": ["a"]},
        {"details": {1: "a"}},
        {"details": {"a": object()}},
        {"details": {"a": {"b": 1}}},
        {"details": {"a": float("nan")}},
        {"details": {"a": ["x", None]}},
    ],
)
async def test_the_rest_of_a_score_is_what_it_says(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Score(0.5, **wrong)
    oma, store = judged_by(lambda context: Score(0.5, **wrong), plain)
    await oma.run_agent({"name": "x"}, "q")
    assert await oma.evaluation.flush()
    assert [record.status for record in store.records] == ["scorer_error", "scored"]


@proves("OBS-23")
@pytest.mark.parametrize("returned", [2, -1, float("nan"), "good", None])
async def test_nonsense_is_no_score(returned: Any) -> None:
    oma, store = judged_by(lambda context: returned, plain)
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    assert [(record.status, record.score) for record in store.records] == [("scorer_error", None), ("scored", 0.25)]
    assert oma.evaluation.stats().failed == 1


@proves("OBS-23", "OBS-25")
async def test_a_failing_scorer_is_an_error_without_secrets() -> None:
    def broken(context: ScorerContext[Any]) -> float:
        raise ValueError(f"no {SECRET}")

    @scorer(timeout=0.02)
    async def slow(context: ScorerContext[Any]) -> float:
        await anyio.sleep_forever()
        return 1.0

    oma, store = judged_by(broken, slow, plain)
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    first, second, third = store.records
    assert (first.status, second.status, third.status) == ("scorer_error", "scorer_error", "scored")
    assert first.error is not None
    assert first.error.startswith("ValueError: no")
    assert SECRET not in first.error
    assert second.error is not None
    assert "took longer than 0.02s" in second.error


async def always(call: RunCall) -> bool:
    return True


def returned(function: Any, call: RunCall) -> Any:
    return function(call)


@proves("OBS-21")
async def test_sampling_is_decided_before_the_outcome() -> None:
    seen: list[str] = []

    def sampled(call: RunCall) -> bool:
        seen.append(f"{call.kind} {call.name} {call.input}")
        call.messages.clear()
        return call.input == "yes"

    oma, store = judged_by(plain, answers=2, sample=sampled)
    await oma.run_agent({"name": "x"}, "yes")
    await oma.run_agent({"name": "x"}, "no")
    await oma.evaluation.flush()
    assert seen == ["agent x yes", "agent x no"]
    assert len(store.records) == 1


def cancelled(call: object) -> bool:
    raise asyncio.CancelledError  # as the result of a future that was cancelled does


@proves("OBS-21")
@pytest.mark.parametrize(
    "sampler", [lambda call: 1, lambda call: 1 / 0, functools.partial(returned, always), cancelled]
)
async def test_a_sampler_must_say_true(sampler: Any) -> None:
    oma, store = judged_by(plain, sample=sampler)
    assert (await oma.run_agent({"name": "x"}, "q")).success
    await oma.evaluation.flush()
    assert store.records == []


@proves("OBS-21")
async def test_a_share_of_runs_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([0.1, 0.3, 0.2, 0.9])
    monkeypatch.setattr("random.random", lambda: next(draws))
    oma, store = judged_by(plain, answers=4, sample=0.25)
    for _ in range(4):
        await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    assert len(store.records) == 2
    none, empty = judged_by(plain, sample=0)
    await none.run_agent({"name": "x"}, "q")
    assert none.evaluation.stats().sampled == 0
    assert empty.records == []


@proves("OBS-22")
async def test_scorers_get_input_and_result_of_their_own() -> None:
    contexts: list[ScorerContext[Any]] = []

    def keep(context: ScorerContext[Any]) -> float:
        contexts.append(context)
        return 1.0

    oma, store = judged_by(keep, keep, answers=2)
    given = [LLMMessage.user("structured")]
    await oma.run_agent({"name": "x"}, "text", metadata={"tenant": "acme"})
    result = await oma.run_agent({"name": "x"}, given)
    await oma.evaluation.flush()
    assert [context.input for context in contexts] == ["text", "text", given, given]
    assert contexts[2].input is not contexts[3].input
    assert contexts[0].metadata == {"tenant": "acme"}
    assert contexts[3].output == "answer 1"
    assert contexts[3].result == result
    assert contexts[3].identity == result.identity
    assert contexts[3].status.code == "ok"
    assert contexts[3].duration >= 0
    assert contexts[3].expected is None
    assert [record.identity for record in store.records][2:] == [result.identity] * 2


@proves("OBS-22", "OBS-30")
async def test_failed_runs_are_judged_too() -> None:
    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter([RuntimeError("down")]),
        evaluation=OnlineEvaluation([lambda context: context.result.success], store=store),
    )
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    assert [(record.passed, record.status, record.run_status) for record in store.records] == [
        (False, "scored", "error")
    ]


@proves("OBS-24", "OBS-28")
async def test_a_full_queue_drops_and_counts() -> None:
    oma, store = judged_by(plain, answers=5, max_queue=2)
    for _ in range(5):
        await oma.run_agent({"name": "x"}, "q")
    stats = oma.evaluation.stats()
    assert (stats.sampled, stats.enqueued, stats.dropped, stats.completed) == (5, 2, 3, 0)
    await oma.evaluation.flush()
    assert len(store.records) == 2
    assert oma.evaluation.stats().completed == 2
    assert stats.completed == 0


@proves("OBS-24")
async def test_a_slow_scorer_delays_no_answer() -> None:
    gate = anyio.Event()

    async def slow(context: ScorerContext[Any]) -> float:
        await gate.wait()
        return 1.0

    oma, store = judged_by(slow, answers=2)
    async with oma:
        with anyio.fail_after(5):
            await oma.run_agent({"name": "x"}, "q")
            await oma.run_agent({"name": "x"}, "q")
        assert store.records == []
        gate.set()
    assert len(store.records) == 2


@proves("OBS-25")
@pytest.mark.parametrize("mode", ["none", "redacted", "full"])
async def test_records_hold_what_the_mode_says(mode: Any) -> None:
    oma, store = judged_by(plain, store_payloads=mode)
    await oma.run_agent({"name": "x", "adapter": ScriptedAdapter([f"{SECRET}!"])}, f"{SECRET} " + "long " * 5000)
    await oma.run_agent({"name": "x"}, [LLMMessage.user(f"你好 {SECRET}")])
    await oma.evaluation.flush()
    first, second = store.records
    if mode == "none":
        assert (first.input, first.output, second.input) == (None, None, None)
        return
    assert first.input is not None
    assert second.input is not None
    assert first.output == (f"{SECRET}!" if mode == "full" else "[redacted]!")
    assert len(first.input) == 8192
    assert (SECRET in first.input, SECRET in second.input) == (mode == "full", mode == "full")
    assert "你好" in second.input


@proves("OBS-25")
async def test_of_a_long_conversation_the_beginning_is_stored_and_the_rest_not_looked_at() -> None:
    class Counted(Sequence[LLMMessage]):
        read = 0

        def __len__(self) -> int:
            return 1000

        def __getitem__(self, index: Any) -> Any:
            self.read += 1
            return messages[index]

    image = ImageBlock.from_base64("QUJD" * 100_000, "image/png")
    messages = [LLMMessage.new("user", [TextBlock.new("see"), image])] * 1000
    counted = Counted()
    assert payload_text(counted, "full") == json.dumps([m.to_dict() for m in messages[:2]])[:8192]
    assert counted.read < 3


@proves("OBS-25")
async def test_reasons_are_redacted_and_records_are_plain() -> None:
    oma, store = judged_by(lambda context: Score(1.0, reason=f"because {SECRET} " + "x" * 5000, details={"n": 1}))
    await oma.run_agent({"name": "x"}, "q", metadata={"tenant": "acme"})
    await oma.evaluation.flush()
    (record,) = store.records
    assert record.reason is not None
    assert SECRET not in record.reason
    assert len(record.reason) <= 1024
    plain_record = record.to_dict()
    assert plain_record["details"] == {"n": 1}
    assert plain_record["metadata"] == {"tenant": "acme"}
    assert isinstance(plain_record["timestamp"], str)


class BrokenStore:
    def __init__(self) -> None:
        self.batches = 0

    async def append(self, records: list[EvalRecord]) -> None:
        self.batches += 1
        raise OSError("disk full")


@proves("OBS-26")
async def test_a_failing_store_is_counted() -> None:
    store = BrokenStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a", "b"]),
        evaluation=OnlineEvaluation([plain, plain], store=store),  # type: ignore[arg-type]
    )
    assert (await oma.run_agent({"name": "x"}, "q")).success
    assert (await oma.run_agent({"name": "x"}, "q")).success
    assert await oma.evaluation.flush()
    assert store.batches == 2
    assert oma.evaluation.stats().store_failed == 4


@proves("OBS-27")
async def test_a_flush_that_runs_out_of_time_loses_nothing() -> None:
    gate = anyio.Event()

    async def slow(context: ScorerContext[Any]) -> float:
        await gate.wait()
        return 1.0

    oma, store = judged_by(slow, answers=2)
    await oma.run_agent({"name": "x"}, "q")
    await oma.run_agent({"name": "x"}, "q")
    assert not await oma.evaluation.flush(0.02)
    gate.set()
    assert await oma.evaluation.flush()
    assert len(store.records) == 2


@proves("OBS-28")
async def test_after_the_end_runs_are_dropped() -> None:
    oma, store = judged_by(plain)
    await oma.aclose()
    assert (await oma.run_agent({"name": "x"}, "q")).success
    assert oma.evaluation.stats().dropped == 1
    assert store.records == []


@proves("OBS-29")
@pytest.mark.parametrize(
    "arguments",
    [
        {"scorers": []},
        {"scorers": "plain"},
        {"scorers": [3]},
        {"scorers": [plain], "sample": 1.5},
        {"scorers": [plain], "sample": -1},
        {"scorers": [plain], "sample": "all"},
        {"scorers": [plain], "sample": always},
        {"scorers": [plain], "store_payloads": "some"},
        {"scorers": [plain], "max_queue": 0},
        {"scorers": [plain], "rate": 1},
        {"scorers": [plain], "store": "evals.db"},
        {"scorers": [plain], "store": InMemoryEvalStore},
        {"scorers": [plain], "logger_provider": "otlp"},
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        OnlineEvaluation(**arguments)


@proves("OBS-29")
def test_functions_become_scorers() -> None:
    (made,) = OnlineEvaluation([plain]).scorers
    assert isinstance(made, Scorer)
    assert (made.name, OnlineEvaluation([made]).scorers) == ("plain", (made,))


async def test_without_evaluation_there_is_nothing_to_flush() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a"]))
    result = await oma.run_agent({"name": "x"}, "q")
    oma.evaluation.offer("q", result, 0.1)
    assert await oma.evaluation.flush()
    assert oma.evaluation.stats().sampled == 0


async def test_the_store_in_memory_keeps_the_newest() -> None:
    store = InMemoryEvalStore(max_records=2)
    full = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a", "b", "c"]), evaluation=OnlineEvaluation([plain], store=store)
    )
    for number in range(3):
        await full.run_agent({"name": "x"}, "q", run_id=f"r{number}")
    await full.evaluation.flush()
    assert [record.identity.run_id for record in store.records] == ["r1", "r2"]
    await full.aclose()


@proves("OBS-29")
@pytest.mark.parametrize("size", [0, -1, 1.5, None])
def test_a_store_of_no_size_is_refused(size: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_records"):
        InMemoryEvalStore(size)


@pytest.mark.parametrize("way", ["async", "sync"])
async def test_the_runs_of_a_scorer_are_not_judged(way: str) -> None:
    async def ask(context: ScorerContext[Any]) -> float:
        return float(len((await oma.run_agent({"name": "judge"}, "q")).output) > 0)

    def ask_sync(context: ScorerContext[Any]) -> float:
        return float(len(oma.run_agent_sync({"name": "judge"}, "q").output) > 0)

    oma, store = judged_by(ask if way == "async" else ask_sync, answers=4)
    async with oma:
        await oma.run_agent({"name": "x"}, "q")
        await oma.evaluation.flush()
        await oma.run_agent({"name": "x"}, "q")  # that one is a user's again
        await oma.evaluation.flush()
    assert [(record.status, record.score) for record in store.records] == [("scored", 1.0)] * 2
    assert oma.evaluation.stats().sampled == 2


async def test_credentials_in_metadata_are_not_stored() -> None:
    oma, store = judged_by(plain)
    result = await oma.run_agent({"name": "x"}, "q", metadata={"api_key": "abc", "note": SECRET, "tags": ["a", SECRET]})
    await oma.evaluation.flush()
    assert store.records[0].metadata == {"api_key": "[redacted]", "note": "[redacted]", "tags": ["a", "[redacted]"]}
    assert result.metadata is not None
    assert result.metadata["note"] == SECRET  # the caller's own stays as it is


async def test_the_duration_of_a_run_is_measured() -> None:
    seen: list[float] = []

    async def slow(messages: object, options: object) -> str:
        await anyio.sleep(0.02)
        return "ok"

    def keep(context: ScorerContext[Any]) -> bool:
        seen.append(context.duration)
        return True

    oma, store = judged_by(keep)
    await oma.run_agent({"name": "x", "adapter": ScriptedAdapter(slow)}, "q")
    await oma.evaluation.flush()
    assert seen == [store.records[0].duration]
    assert seen[0] >= 0.02
