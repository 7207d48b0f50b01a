"""Trees of runs under one budget: whatever fails, is repeated or happens at the same time, the ledger has it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmultiagent import AgentConfig, Limits, LLMMessage, ModelCall, RunIdentity, TextBlock, TokenUsage, ToolUseBlock
from openmultiagent.adapters import (
    AdapterCapabilities,
    AdapterOwner,
    LLMChatOptions,
    LLMResponse,
    ModelNext,
    create_adapter,
)
from openmultiagent.agent import RunEnvironment, execute_agent
from openmultiagent.budget import BudgetScope, CostEstimateContext
from openmultiagent.messages import ToolResultBlock
from openmultiagent.tools import tool
from tests.support import proves


@tool
def look() -> str:
    """Look around, and say what there is."""
    return "seen ✓"


@dataclass(frozen=True)
class Step:
    """What becomes of a model call."""

    kind: str
    """``known``, ``unknown`` or ``fails``."""
    share_in: float
    """How many tokens its request has, as a part of its bytes."""
    share_out: float
    """How many tokens its answer has, as a part of what it may have."""
    pauses: int
    """How long it takes."""


@dataclass
class World:
    """What the adapters of a tree saw."""

    limit: int
    reported: list[TokenUsage] = field(default_factory=list)
    """What each call reported; unknown where it reported nothing."""
    used: int = 0
    """Tokens that were really used, whoever knows of them."""
    flying: dict[object, int] = field(default_factory=dict)
    """Tokens that the calls that are in flight will report."""
    slack: int | None = None
    """Tokens of the calls in flight at the moment at which the limit was reached."""

    @property
    def known(self) -> int:
        return sum(usage.total_tokens for usage in self.reported)


class Model:
    """An adapter that goes through its steps, and keeps to ``max_tokens``."""

    name = "model"
    capabilities = AdapterCapabilities(read_only=True)

    def __init__(self, world: World, steps: Sequence[Step]) -> None:
        self._world = world
        self._steps = list(steps)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        world = self._world
        step = self._steps.pop(0) if self._steps else None
        if step is None:
            world.reported.append(TokenUsage())
            return LLMResponse([TextBlock(text="done")], usage=TokenUsage())
        most = 400 if options.max_tokens is None else options.max_tokens
        usage = TokenUsage(
            input_tokens=int(step.share_in * read_bytes(messages, options)), output_tokens=int(step.share_out * most)
        )
        flight = object()
        world.flying[flight] = usage.total_tokens if step.kind == "known" else 0
        for _ in range(step.pauses):
            await checkpoint()
        world.used += usage.total_tokens
        world.reported.append(usage if step.kind == "known" else TokenUsage.unknown())
        if world.known >= world.limit and world.slack is None:
            world.slack = sum(world.flying.values())
        del world.flying[flight]
        if step.kind == "fails":
            raise RuntimeError("down")
        call = ToolUseBlock(id=f"c{len(messages)}", name="look", input={})
        return LLMResponse([TextBlock(text="…"), call], usage=usage if step.kind == "known" else None)


def read_bytes(messages: Sequence[LLMMessage], options: LLMChatOptions) -> int:
    """The bytes of what a model surely reads."""
    texts = [options.system_prompt or "", *(f"{each.name}{each.description}" for each in options.tools)]
    for message in messages:
        for block in message.content:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, ToolResultBlock) and isinstance(block.content, str):
                texts.append(block.content)
    return sum(len(text.encode()) for text in texts)


async def twice(call: ModelCall, call_next: ModelNext) -> LLMResponse:
    """Repeat a call that has failed."""
    try:
        return await call_next(call)
    except RuntimeError:
        return await call_next(call)


def price(usage: TokenUsage, context: CostEstimateContext) -> float:
    return usage.total_tokens / 8  # eighths add up exactly


@dataclass(frozen=True)
class Child:
    """A run of the tree."""

    steps: list[Step]
    limit: int | None
    max_tokens: int | None
    repeats: bool
    nested: bool
    """Whether it is below the first child, not beside it."""


steps = st.builds(
    Step,
    kind=st.sampled_from(["known", "known", "unknown", "fails"]),
    share_in=st.floats(0, 1),
    share_out=st.floats(0, 1),
    pauses=st.integers(0, 4),
)
children = st.builds(
    Child,
    steps=st.lists(steps, max_size=6),
    limit=st.none() | st.integers(50, 1500),
    max_tokens=st.none() | st.integers(1, 60),
    repeats=st.booleans(),
    nested=st.booleans(),
)


async def grow(tree: list[Child], mode: Any, limit: int, *, cost: float | None = None) -> tuple[World, BudgetScope]:
    """Run the tree, all its runs at the same time."""
    world = World(limit)
    root = BudgetScope("root", Limits(tokens=limit, cost=cost), estimate_cost=price, mode=mode)
    scopes: list[BudgetScope] = []
    for number, child in enumerate(tree):
        parent = scopes[0] if child.nested and scopes else root
        scopes.append(parent.child(f"run {number}", None if child.limit is None else Limits(tokens=child.limit)))

    async def one(number: int, child: Child) -> None:
        config = AgentConfig(
            f"agent {number}", adapter=Model(world, child.steps), tools=[look], max_tokens=child.max_tokens
        )
        environment = RunEnvironment(
            identity=RunIdentity(f"run-{number}"),
            budget=scopes[number],
            model_middleware=[twice] if child.repeats else [],
        )
        question = [LLMMessage.user("What do you see? Größe?")]
        result = await execute_agent(config, question, environment, AdapterOwner(create_adapter))
        total = sum((entry.usage for entry in result.usage_report), TokenUsage())
        assert total == result.token_usage

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number, child in enumerate(tree):
                group.start_soon(one, number, child)
    return world, root


def check_totals(world: World, root: BudgetScope) -> None:
    report = root.usage_report()
    assert root.usage == sum(world.reported, TokenUsage()) == sum((entry.usage for entry in report), TokenUsage())
    assert root.requests == len(world.reported) == sum(entry.requests for entry in report)
    assert root.cost == price(root.usage, report[0] if report else None) == sum(entry.cost for entry in report)  # type: ignore[arg-type]  # it does not look at its context


@proves("BUD-1", "BUD-33", "BUD-50", "BUD-51", "ORC-33")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=st.lists(children, max_size=5), limit=st.integers(50, 2000))
async def test_in_soft_mode_only_calls_in_flight_go_over_a_limit(tree: list[Child], limit: int) -> None:
    world, root = await grow(tree, "soft", limit)
    check_totals(world, root)
    assert (root.reserved, root.reserved_cost) == (0, 0.0)
    assert world.known < limit if world.slack is None else world.known <= limit + world.slack


@proves("BUD-1", "BUD-32", "BUD-33", "BUD-50", "BUD-51", "ORC-33")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=st.lists(children, max_size=5), limit=st.integers(50, 2000), cost=st.none() | st.integers(50, 500).map(float)
)
async def test_in_hard_mode_no_limit_is_exceeded(tree: list[Child], limit: int, cost: float | None) -> None:
    world, root = await grow(tree, "hard", limit, cost=cost)
    check_totals(world, root)
    # Not even by what nobody reported.
    assert world.used <= root.usage.total_tokens + root.reserved <= limit
    if cost is not None:
        assert price(TokenUsage(input_tokens=world.used), None) <= root.cost + root.reserved_cost <= cost  # type: ignore[arg-type]  # it does not look at its context
    assert bool(root.reserved) == bool(root.usage.unknown_calls)
