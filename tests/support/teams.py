"""What the tests of runs of tasks share: a model that answers by the title of the task, and what listeners saw."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from openmultiagent import AgentConfig, CancelToken, LLMMessage, TextBlock, TokenUsage
from openmultiagent.adapters import AdapterCapabilities, LLMChatOptions, LLMResponse
from openmultiagent.events import Event
from openmultiagent.messages import copy_messages

AgentConfig("first")  # pydantic looks for plugins on the disk when it builds its first validator: not in an event loop

__all__ = ["Model", "Seen", "answer", "prompt_of", "stopped_while", "title_of"]


R = TypeVar("R")


async def stopped_while(waiting: anyio.Event, token: CancelToken, run: Callable[[], Awaitable[R]]) -> R:
    """Return the result of a run that is cancelled, from another thread, when it waits."""
    results: list[R] = []

    async def keep() -> None:
        results.append(await run())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(keep)
            await waiting.wait()
            await anyio.to_thread.run_sync(token.cancel, "enough")
    return results[0]


def answer(text: str = "done", *, tokens: int = 0, blocks: Sequence[Any] = ()) -> LLMResponse:
    """A response whose usage is known."""
    content = [TextBlock(text=text), *blocks] if text else [*blocks]
    stop = "tool_use" if blocks else "end_turn"
    return LLMResponse(content, stop_reason=stop, usage=TokenUsage(input_tokens=tokens))


def prompt_of(messages: Sequence[LLMMessage]) -> str:
    """The text of the first user message that a run of a task was given."""
    return "\n".join(block.text for block in messages[0].content if isinstance(block, TextBlock))


def title_of(messages: Sequence[LLMMessage]) -> str:
    """The title of the task; the prompt itself where there is none, as in delegated runs."""
    prompt = prompt_of(messages)
    found = re.search(r"^# Task: (.*)$", prompt, re.MULTILINE)
    return prompt if found is None else found[1]


class Model:
    """An adapter that answers each task as it is told to.

    An answer is a text, a response, an exception to raise, a callable ``(messages, options)`` that returns one of
    these, plain or async, or a tuple of answers, one for each call, the last for all further ones.
    """

    capabilities = AdapterCapabilities(read_only=True)

    def __init__(self, answers: Mapping[str, Any] | None = None, *, tokens: int = 0, name: str = "model") -> None:
        self.name = name
        self.answers = dict(answers or {})
        self.tokens = tokens
        self.calls: list[str] = []
        """The titles of the tasks, one for each call."""
        self.prompts: list[str] = []
        self.sent: list[list[LLMMessage]] = []
        self.options: list[LLMChatOptions] = []
        self.used = TokenUsage()
        """The usage of all calls that were answered."""
        self.at_work = 0
        self.peak = 0
        self._turns: dict[str, int] = {}

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        title = title_of(messages)
        self.calls.append(title)
        self.prompts.append(prompt_of(messages))
        self.sent.append(copy_messages(messages))
        self.options.append(options)
        self.at_work += 1
        self.peak = max(self.peak, self.at_work)
        try:
            response = await self._answer(title, messages, options)
        finally:
            self.at_work -= 1
        self.used += response.usage or TokenUsage(unknown_calls=1)
        return response

    async def _answer(self, title: str, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        wanted = self.answers.get(title, f"{title} is done")
        if isinstance(wanted, tuple):
            turn = self._turns.get(title, 0)
            self._turns[title] = turn + 1
            wanted = wanted[min(turn, len(wanted) - 1)]
        if callable(wanted):
            wanted = wanted(messages, options)
            if inspect.isawaitable(wanted):
                wanted = await wanted
        if isinstance(wanted, BaseException):
            raise wanted
        return answer(wanted, tokens=self.tokens) if isinstance(wanted, str) else wanted


class Seen(list[Event[Any]]):
    """A listener that keeps what it is told."""

    def __call__(self, event: Event[Any]) -> None:
        self.append(event)

    def kinds(self, task: str | None = None) -> list[str]:
        """The kinds of events, in their order, perhaps only those of a task."""
        return [event.type for event in self if task is None or event.task == task]

    def of(self, kind: str) -> list[Event[Any]]:
        """The events of a kind."""
        return [event for event in self if event.type == kind]
