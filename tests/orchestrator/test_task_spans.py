"""The spans of runs of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from openmultiagent import OpenMultiAgent, ToolUseBlock
from tests.support import proves
from tests.support.teams import Model, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


class Spans:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def paths(self) -> list[str]:
        """Every span with its ancestors, outermost first, sorted."""
        known = {span.context.span_id: span for span in self.all() if span.context}
        return sorted(" > ".join(each.name for each in _lineage(span, known)) for span in self.all())


def _lineage(span: ReadableSpan, known: dict[int, ReadableSpan]) -> list[ReadableSpan]:
    above = [] if span.parent is None else _lineage(known[span.parent.span_id], known)
    return [*above, span]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def links(span: ReadableSpan) -> set[tuple[int, Any]]:
    return {(link.context.span_id, (link.attributes or {})["openmultiagent.link.relation"]) for link in span.links}


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@proves("DSP-95")
async def test_the_tree_is_run_task_agent_call(spans: Spans) -> None:
    oma = OpenMultiAgent(default_adapter=Model(tokens=3), default_model="m", tracer_provider=spans.provider)
    tasks = [
        task("A", assignee="a", role="reader", metadata={"kind": "x"}),
        task("B", assignee="b", priority="high"),
        task("C", "A", "B", assignee="a"),
    ]
    result = await oma.run_tasks(team(), tasks, metadata={"who": "me"})
    assert spans.paths() == sorted(
        [
            "invoke_workflow crew",
            *(
                path
                for title, agent in (("A", "a"), ("B", "b"), ("C", "a"))
                for path in (
                    f"invoke_workflow crew > execute_task {title}",
                    f"invoke_workflow crew > execute_task {title} > invoke_agent {agent}",
                    f"invoke_workflow crew > execute_task {title} > invoke_agent {agent} > chat m",
                )
            ),
        ]
    )
    root, first = spans.named("invoke_workflow crew")[0], spans.named("execute_task A")[0]
    assert root.context is not None
    assert f"{root.context.trace_id:032x}" == result.identity.trace_id
    assert f"{root.context.span_id:016x}" == result.identity.root_span_id
    assert {span.context.trace_id for span in spans.all() if span.context} == {root.context.trace_id}
    assert links(spans.named("execute_task C")[0]) == {
        (span_id(first), "depends_on"),
        (span_id(spans.named("execute_task B")[0]), "depends_on"),
    }
    assert first.attributes is not None
    wanted = {
        "openmultiagent.task.id": "A",
        "openmultiagent.task.title": "A",
        "openmultiagent.task.role": "reader",
        "gen_ai.agent.name": "a",
        "openmultiagent.run.id": result.identity.run_id,
        "openmultiagent.status": "ok",
        "openmultiagent.task.retries": 0,
    }
    assert wanted.items() <= dict(first.attributes).items()
    assert "x" in first.attributes.values()
    assert all("gen_ai.usage.input_tokens" in (span.attributes or {}) for span in spans.named("chat m"))
    assert not any(
        "gen_ai.usage.input_tokens" in (span.attributes or {}) for span in spans.all() if span.name != "chat m"
    )


@proves("DSP-96")
async def test_a_delegated_agent_hangs_below_the_tool_call_and_is_linked_to_the_task(spans: Spans) -> None:
    call = ToolUseBlock.new("1", "delegate_to_agent", {"target_agent": "b", "prompt": "Help."})
    model = Model({"A": (answer("", blocks=[call]), "end")})
    crew = {"name": "crew", "agents": [{"name": "a", "tools": ["delegate_to_agent"]}, {"name": "b"}]}
    oma = OpenMultiAgent(default_adapter=model, default_model="m", tracer_provider=spans.provider)
    await oma.run_tasks(crew, [task("A", assignee="a")])
    above = "invoke_workflow crew > execute_task A > invoke_agent a"
    assert f"{above} > execute_tool delegate_to_agent > invoke_agent b > chat m" in spans.paths()
    assert len(spans.all()) == 8
    assert links(spans.named("invoke_agent b")[0]) == {(span_id(spans.named("execute_task A")[0]), "delegated_from")}
    assert links(spans.named("invoke_agent a")[0]) == set()


@proves("DSP-96")
async def test_of_several_delegations_at_once_each_has_the_span_of_its_own_call(spans: Spans) -> None:
    targets = {"1": "b", "2": "c", "3": "d"}
    calls = [
        ToolUseBlock.new(use, "delegate_to_agent", {"target_agent": who, "prompt": f"Help {use}."})
        for use, who in targets.items()
    ]
    agents = [{"name": "a", "tools": ["delegate_to_agent"]}, *({"name": name} for name in targets.values())]
    oma = OpenMultiAgent(
        default_adapter=Model({"A": (answer("", blocks=calls), "end")}), tracer_provider=spans.provider
    )
    result = await oma.run_tasks({"name": "crew", "agents": agents}, [task("A", assignee="a")])
    above = {
        span_id(span): (span.attributes or {})["gen_ai.tool.call.id"] for span in spans.all() if "_tool" in span.name
    }
    below = [span for who in targets.values() for span in spans.named(f"invoke_agent {who}")]
    assert [above[span.parent.span_id] for span in below if span.parent is not None] == list(targets)
    assert [(call.tool_use_id, call.output) for call in result.task_results["A"].tool_calls] == [
        (use, f"Help {use}. is done") for use in targets
    ]


@proves("DSP-97")
async def test_attempts_are_spans_of_their_own_and_a_failure_is_marked_on_task_and_agent(spans: Spans) -> None:
    model = Model({"A": (ValueError("sk-secret-text"), "yes"), "B": ValueError("sk-secret-text")})
    oma = OpenMultiAgent(default_adapter=model, default_model="m", tracer_provider=spans.provider)
    await oma.run_tasks(team("a"), [task("A", max_retries=1, retry_delay=0), task("B"), task("C", "B")])
    assert len(spans.named("invoke_agent a")) == 3
    ok, failed = spans.named("execute_task A")[0], spans.named("execute_task B")[0]
    assert (ok.attributes or {})["openmultiagent.task.retries"] == 1
    assert ok.status.status_code is not StatusCode.ERROR
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["openmultiagent.status"] == "error"
    assert spans.named("invoke_workflow crew")[0].status.status_code is StatusCode.ERROR
    assert spans.named("execute_task C") == []
    assert "secret" not in str([(span.attributes, span.events, span.status.description) for span in spans.all()])


@proves("DSP-97")
async def test_every_span_ends_when_a_run_is_cancelled(spans: Spans) -> None:
    reached = anyio.Event()

    async def hangs(_messages: object, _options: object) -> Any:
        reached.set()
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model({"A": hangs}), default_model="m", tracer_provider=spans.provider)
    async with anyio.create_task_group() as group:
        group.start_soon(oma.run_tasks, team("a"), [task("A")])
        await reached.wait()
        group.cancel_scope.cancel()
    assert spans.paths()[-1] == "invoke_workflow crew > execute_task A > invoke_agent a > chat m"
    assert len(spans.all()) == 4


@proves("DSP-98")
@pytest.mark.parametrize("tracer", [TracerProvider(sampler=ALWAYS_OFF), None])
async def test_without_recorded_spans_the_run_is_the_same(tracer: TracerProvider | None) -> None:
    oma = OpenMultiAgent(default_adapter=Model(), tracer_provider=tracer)
    result = await oma.run_tasks(team(), [task("A"), task("B", "A")])
    assert result.success
    assert len(result.identity.trace_id) == 32
    assert {each.identity for each in result.task_results.values()} == {result.identity}
