"""The turn loop: ask the model, run the tools that it calls, until it answers without calling one.

One engine for ``run``, ``prompt`` and ``stream``: who wants to see the run while it happens gives the environment a
sink. Not here: hooks, time limits and what becomes of a failure (``_execution``). Invariants: the conversation is
private and append-only; the loop's only exits are the stop reasons and exceptions, and the caller closes the history
for both.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..adapters import LLMAdapter, LLMChatOptions, ModelCall, StreamEvent
from ..errors import StructuredOutputValidationError
from ..events import Event
from ..messages import ContentBlock, LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock, copy_blocks
from ..outcome import StopReason
from ._config import AgentConfig
from ._environment import EventSink, RunEnvironment
from ._events import (
    ReasoningDelta,
    TextDelta,
    ToolCalled,
    ToolInputReceived,
    ToolReturned,
    TurnFinished,
    TurnRestarted,
    TurnStarted,
    copy_block,
)
from ._model_seam import ModelSeam
from ._structured import OutputFormat, output_format
from ._tool_seam import ToolSeam
from ._turns import RunProgress

__all__ = ["AgentRunner"]

_STOP_REASONS: dict[str, StopReason] = {"max_tokens": "max_tokens", "content_filter": "content_filter"}
_OVER_BUDGET = "Not executed: the run's budget is used up."


class AgentRunner:
    """Runs one conversation to its end.

    Args:
        config: The agent.
        adapter: Its adapter.
        environment: The run's surroundings.
        progress: Where the run's state is kept; the caller reads it, also after an exception.
    """

    def __init__(
        self, config: AgentConfig, adapter: LLMAdapter, environment: RunEnvironment, progress: RunProgress
    ) -> None:
        self._config = config
        self._environment = environment
        self._progress = progress
        self.model = ModelSeam(config, adapter, environment)
        self._tools = ToolSeam(config, environment)
        self._provider = adapter.name
        self._output = None if config.output_schema is None else output_format(config.output_schema)
        self._corrections = 0
        self._options = chat_options(config, adapter, self._tools, self._output)

    async def run(self) -> None:
        """Go through the turns; why the run stopped is in the progress."""
        progress, scope = self._progress, self._environment.budget
        while True:
            if progress.turns >= self._config.max_turns:
                progress.stop_reason = "max_turns"
                if self._output is not None:
                    raise StructuredOutputValidationError(f"no answer within max_turns={self._config.max_turns} turns")
                return
            progress.turns += 1
            calls = await self._ask()
            if not calls:
                if self._output is None or self._accepts(self._output):
                    return
                continue
            if scope.overrun() is not None:
                # The model would never see what these calls come to.
                progress.close(_OVER_BUDGET)
                return
            await self._run_tools(calls)

    def _accepts(self, output: OutputFormat[Any]) -> bool:
        """Read the answer as what was asked for; else have the model correct it, as often as it may."""
        progress = self._progress
        try:
            progress.structured = output.read(progress.output())
        except StructuredOutputValidationError as error:
            self._corrections += 1
            if self._corrections > self._config.max_output_corrections or progress.turns >= self._config.max_turns:
                raise StructuredOutputValidationError(cause=error) from error
            progress.conversation.append(LLMMessage.user(output.correction(error)))
            return False
        return True

    async def _ask(self) -> list[ToolUseBlock]:
        progress, sink = self._progress, self._environment.sink
        turn = None if sink is None else _TurnSink(sink, self._config.name, progress.turns)
        if turn is not None:
            await turn.start()
        run_id = self._environment.identity.run_id
        response = await self.model.call(
            ModelCall(
                id=f"{run_id}/turn-{progress.turns}",
                run_id=run_id,
                agent=self._config.name,
                turn=progress.turns,
                phase=self._environment.phase,
                provider=self._provider,
                messages=progress.conversation,
                options=self._options,
                sink=turn,
            )
        )
        content = response.content if self.model.shares_content else copy_blocks(response.content)
        calls = progress.add_answer(content)
        progress.stop_reason = _STOP_REASONS.get(response.stop_reason, "end_turn")
        if turn is not None:
            await turn.finish(content, calls)
        return calls

    async def _run_tools(self, calls: list[ToolUseBlock]) -> None:
        progress, sink = self._progress, self._environment.sink
        await self._tools.run_turn(calls, progress)
        results = progress.close()
        if sink is not None:
            for block in results:
                await sink(ToolReturned(agent=self._config.name, payload=block, copy=copy_block))
            await sink(TurnFinished(agent=self._config.name, payload=progress.turns))


class _TurnSink:
    """Turns the pieces of one answer into events of the run's stream."""

    def __init__(self, sink: EventSink, agent: str, turn: int) -> None:
        self._sink = sink
        self._agent = agent
        self._turn = turn
        self._streamed = False

    async def start(self) -> None:
        await self._emit(TurnStarted, self._turn)

    async def begin(self) -> None:
        """Void what has been delivered, when the call of this turn is made again."""
        if self._streamed:
            self._streamed = False
            await self._emit(TurnRestarted, self._turn)

    async def deliver(self, event: StreamEvent) -> None:
        """Pass on one piece of the answer; complete tool calls wait for the end of the turn."""
        if event.type == "text":
            self._streamed = True
            await self._emit(TextDelta, event.data)
        elif event.type == "reasoning":
            self._streamed = True
            await self._emit(ReasoningDelta, event.data)
        elif event.type == "tool_input_delta":
            self._streamed = True
            await self._emit(ToolInputReceived, event.data)

    async def finish(self, content: list[ContentBlock], calls: list[ToolUseBlock]) -> None:
        """Deliver what was not streamed, and the complete tool calls.

        Args:
            content: The blocks of the answer.
            calls: The tool calls among them.
        """
        if not self._streamed:
            for block in content:
                if isinstance(block, TextBlock) and block.text:
                    await self._emit(TextDelta, block.text)
                elif isinstance(block, ReasoningBlock) and block.text:
                    await self._emit(ReasoningDelta, block.text)
        for call in calls:
            await self._sink(ToolCalled(agent=self._agent, payload=call, copy=copy_block))
        if not calls:
            await self._emit(TurnFinished, self._turn)

    async def _emit(self, kind: type[Event[Any]], payload: object) -> None:
        await self._sink(kind(agent=self._agent, payload=payload))


def chat_options(
    config: AgentConfig, adapter: LLMAdapter, tools: ToolSeam, output: OutputFormat[Any] | None
) -> LLMChatOptions:
    """Return the options of an agent's model calls.

    Args:
        config: The agent.
        adapter: Its adapter, whose name is the model when the agent has none.
        tools: The tools that the model is offered.
        output: What the answer has to be.
    """
    native = getattr(getattr(adapter, "capabilities", None), "structured_output", False)
    prompt = config.system_prompt
    if output is not None and not native:
        prompt = output.instruction() if not prompt else f"{prompt}\n\n{output.instruction()}"
    settings = config.settings
    sampling = {} if settings is None else {item.name: getattr(settings, item.name) for item in fields(settings)}
    return LLMChatOptions(
        model=adapter.name if config.model is None else config.model,
        system_prompt=prompt,
        tools=tuple(tools.registry.definitions()),
        max_tokens=config.max_tokens,
        output_schema=output.schema if output is not None and native else None,
        **sampling,
    )
