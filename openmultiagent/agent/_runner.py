"""The turn loop: ask the model, run the tools that it calls, until it answers without calling one.

One engine for ``run``, ``prompt`` and ``stream``: who wants to see the run while it happens gives the environment a
sink. Not here: hooks, time limits and what becomes of a failure (``_execution``). Invariants: the conversation is
private and append-only; the loop's only exits are the stop reasons and exceptions, and the caller closes the history
for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..adapters import LLMAdapter, LLMChatOptions, LLMResponse, ModelCall
from ..errors import StructuredOutputValidationError
from ..messages import Conversation, LLMMessage, ToolUseBlock, copy_blocks
from ..outcome import StopReason
from ..tools import Tool
from ._config import AgentConfig
from ._context import ContextManager, open_context
from ._environment import EventSink, RunEnvironment
from ._landing import Landing, LastTurn
from ._loops import LoopDetector, loop_warning
from ._model_seam import ModelSeam
from ._structured import OutputFormat, output_format
from ._tool_seam import ToolSeam
from ._turn_sink import TurnSink
from ._turns import RunProgress
from ._wrap_up import WrapUp

__all__ = ["AgentRunner"]

_STOP_REASONS: dict[str, StopReason] = {"max_tokens": "max_tokens", "content_filter": "content_filter"}
_OPTIONS = "_chat_options"
"""Where a definition keeps the options of its calls, and what they were made for."""
_OVER_BUDGET = "Not executed: the run's budget is used up."
_NO_MORE_TOOLS = "Not executed: this was the last turn of the run."
_IN_A_LOOP = "Not executed: the run was ended because the agent repeated itself."


class AgentRunner:
    """Runs one conversation to its end.

    Args:
        config: The agent.
        adapter: Its adapter.
        environment: The run's surroundings.
        progress: Where the run's state is kept; the caller reads it, also after an exception.
        tools: The tools that are granted.
    """

    __slots__ = (
        "_asides",
        "_config",
        "_context",
        "_corrections",
        "_environment",
        "_granted",
        "_landing",
        "_loops",
        "_options",
        "_output",
        "_progress",
        "_provider",
        "_tool_seam",
        "model",
    )

    def __init__(
        self,
        config: AgentConfig,
        adapter: LLMAdapter,
        environment: RunEnvironment,
        progress: RunProgress,
        tools: Sequence[Tool],
    ) -> None:
        self._config = config
        self._environment = environment
        self._progress = progress
        self.model = ModelSeam(config, adapter, environment)
        self._granted = tools
        self._tool_seam: ToolSeam | None = None
        self._provider = adapter.name
        self._output = None if config.output_schema is None else output_format(config.output_schema)
        self._corrections = 0
        self._asides = 0
        self._context: ContextManager | None = None
        if config.context_strategy is not None or config.compress_tool_results is not None:
            self._context = open_context(config.context_strategy, config.compress_tool_results, agent=config.name)
        self._loops = None if config.loop_detection is None else LoopDetector(config.loop_detection, agent=config.name)
        self._options = chat_options(config, adapter, tools, self._output)
        self._landing: Landing | None = None
        if isinstance(config.wrap_up, WrapUp):
            self._landing = Landing(config, config.wrap_up, environment.budget, self.model.meter)

    @property
    def _tools(self) -> ToolSeam:
        if self._tool_seam is None:  # most runs call no tool
            self._tool_seam = ToolSeam(self._config, self._environment, self._granted)
        return self._tool_seam

    async def run(self) -> None:
        """Go through the turns; why the run stopped is in the progress."""
        progress, scope = self._progress, self._environment.budget
        if self._loops is not None:
            self._loops.replay(progress.conversation)
        while True:
            if progress.turns >= self._config.max_turns:
                progress.stop_reason = "max_turns"
                if self._output is not None:
                    raise StructuredOutputValidationError(f"no answer within max_turns={self._config.max_turns} turns")
                return
            progress.turns += 1
            turn = None if self._environment.sink is None else self._new_turn(self._environment.sink)
            calls = await self._ask(turn, self._options, self._environment.phase)
            over = scope.is_limited and scope.overrun() is not None
            warning = None if over or self._loops is None else await self._loop_warning(self._loops, calls, turn)
            if progress.stop_reason == "loop":
                progress.close(_IN_A_LOOP)
                return
            if turn is not None:
                progress.announced = True
                await turn.announce(calls)
            if calls and not over:
                await self._tools.run_turn(calls, progress)
            landing = self._landing if calls and not over else None
            last = None if landing is None else await landing.due(progress.turns, progress.finished())
            # The model would never see what the calls of a run over budget come to, so they are not made.
            if calls or warning or turn is not None:
                await self._close_turn(turn, _OVER_BUDGET, warning, last)
            if last is not None:
                await self._wrap_up(last)
                return
            if calls and self._tools.refused is not None:
                raise self._tools.refused
            if over or not (calls or warning or (self._output is not None and not self._accepts(self._output))):
                return

    async def _close_turn(self, turn: TurnSink | None, why: str, *notes: str | LastTurn | None) -> None:
        told = [note.settings.instruction if isinstance(note, LastTurn) else note for note in notes if note]
        results = self._progress.close(why, note="\n\n".join(told) or None)
        self._progress.closed_early = ()
        if turn is not None:
            await turn.finish(results)

    async def _wrap_up(self, last: LastTurn) -> None:
        """Have the model answer once more, without tools."""
        progress = self._progress
        progress.turns += 1
        turn = None if self._environment.sink is None else self._new_turn(self._environment.sink)
        calls = await self._ask(turn, last.options(self._options), "wrap-up")
        progress.flags += ("wrapped-up",)
        if turn is not None:
            progress.announced = True
            await turn.announce(calls)
        await self._close_turn(turn, _NO_MORE_TOOLS)
        if self._output is not None:
            self._accepts(self._output, may_correct=False)
        if progress.stop_reason == "end_turn":
            progress.stop_reason = last.reason

    def _new_turn(self, sink: EventSink) -> TurnSink:
        return TurnSink(sink, self._config.name, self._progress.turns)

    async def _loop_warning(self, loops: LoopDetector, calls: list[ToolUseBlock], turn: TurnSink | None) -> str | None:
        """Return the warning that a repeating agent gets, if any; set the stop reason when the run has to end."""
        info = loops.record(calls, self._progress.output())
        if info is None:
            return None
        if turn is not None:
            await turn.tell_loop(info)
        action = await loops.decide(info)
        if action == "terminate":
            self._progress.stop_reason = "loop"
        return loop_warning(info) if action == "inject" else None

    def _accepts(self, output: OutputFormat[Any], *, may_correct: bool = True) -> bool:
        """Read the answer as what was asked for; else have the model correct it, as often as it may."""
        progress = self._progress
        try:
            progress.structured = output.read(progress.output())
        except StructuredOutputValidationError as error:
            self._corrections += 1
            may_correct = may_correct and self._corrections <= self._config.max_output_corrections
            if not may_correct or progress.turns >= self._config.max_turns:
                raise output.failure(error, corrected=self._corrections > 1) from error
            progress.conversation.append(LLMMessage.user(output.correction(error)))
            return False
        return True

    async def _ask(self, turn: TurnSink | None, options: LLMChatOptions, phase: str) -> list[ToolUseBlock]:
        progress = self._progress
        if turn is not None:
            await turn.start()
        messages: Sequence[LLMMessage] = progress.conversation
        if self._context is not None:
            prepared = await self._context.prepare(progress.conversation, self._ask_aside)
            # What a strategy returns is checked, so that the adapter need not check it again.
            messages = prepared if isinstance(prepared, Conversation) else Conversation(list(prepared))
        call = self._call(messages, options, phase, turn)
        response = await self.model.call(call)
        if self._context is not None:
            self._context.report(response.usage)
        content = response.content if self.model.shares_content else copy_blocks(response.content)
        calls = progress.add_answer(content)
        if self._landing is not None:
            answer = progress.conversation[-1]
            self._landing.observe(messages, options, answer, response.usage, self.model.pricing(call))
        progress.stop_reason = _STOP_REASONS.get(response.stop_reason, "end_turn")
        if turn is not None:
            await turn.deliver_rest(content)
        return calls

    async def _ask_aside(
        self, messages: Sequence[LLMMessage], *, system_prompt: str, max_tokens: int, model: str | None
    ) -> LLMResponse:
        """Make a model call that is no turn, for the context strategy; the same seams, no tools."""
        options = LLMChatOptions(
            model=self._options.model if model is None else model, system_prompt=system_prompt, max_tokens=max_tokens
        )
        self._asides += 1
        return await self.model.call(self._call(messages, options, "summary", None))

    def _call(
        self, messages: Sequence[LLMMessage], options: LLMChatOptions, phase: str, turn: TurnSink | None
    ) -> ModelCall:
        run_id = self._environment.identity.run_id
        call_id = f"{run_id}/turn-{self._progress.turns}"
        if phase == "summary":
            call_id = f"{call_id}/summary-{self._asides}"
        # By position, which takes a third of the time.
        return ModelCall(
            call_id, run_id, self._config.name, self._progress.turns, phase, self._provider, messages, options, turn
        )


def chat_options(
    config: AgentConfig, adapter: LLMAdapter, tools: Sequence[Tool], output: OutputFormat[Any] | None
) -> LLMChatOptions:
    """Return the options of an agent's model calls.

    Args:
        config: The agent.
        adapter: Its adapter, whose name is the model when the agent has none.
        tools: The tools that the model is offered.
        output: What the answer has to be.
    """
    native = output is not None and getattr(getattr(adapter, "capabilities", None), "structured_output", False)
    made_for = (adapter.name, native, tools)
    kept = config.__dict__.get(_OPTIONS)
    if kept is not None and kept[0] == made_for:
        options: LLMChatOptions = kept[1]
        return options  # they are frozen, so the runs of a definition may share them
    options = _make_options(config, adapter.name, tools, output, native=native)
    config.__dict__[_OPTIONS] = made_for, options
    return options


def _make_options(
    config: AgentConfig,
    adapter_name: str,
    tools: Sequence[Tool],
    output: OutputFormat[Any] | None,
    *,
    native: bool,
) -> LLMChatOptions:
    prompt = config.system_prompt
    if output is not None and not native:
        prompt = output.instruction() if not prompt else f"{prompt}\n\n{output.instruction()}"
    settings = config.settings
    sampling = {} if settings is None else {item.name: getattr(settings, item.name) for item in fields(settings)}
    return LLMChatOptions(
        model=adapter_name if config.model is None else config.model,
        system_prompt=prompt,
        tools=tuple(item.definition for item in tools),
        max_tokens=config.max_tokens,
        output_schema=output.schema if output is not None and native else None,
        **sampling,
    )
