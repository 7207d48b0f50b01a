"""``oma agent``: one run, told as it happens.

Invariant: everything that can be wrong with the arguments is found before the run begins.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import anyio

from openmultiagent import AgentConfig, AgentRunResult, LLMMessage, OpenMultiAgent
from openmultiagent.adapters import provider_names
from openmultiagent.evaluation import InMemoryEvalStore, OnlineEvaluation, ScorerContext, scorer

from ._console import Console
from ._inputs import InputError, read_input
from ._logs import logs_on
from ._spans import SpanCollector, span_dict
from ._teller import Teller

__all__ = ["AgentOptions", "run_agent"]

_EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The arguments of ``oma agent``."""

    prompt: str
    files: Sequence[str]
    images: Sequence[str]
    provider: str
    base_url: str | None
    model: str | None
    system: str | None
    max_tokens: int | None
    max_token_budget: int | None
    timeout: float | None
    as_json: bool
    quiet: bool


@scorer
async def answered(context: ScorerContext[AgentRunResult[Any]]) -> bool:
    """Judge whether there is an answer at all."""
    return context.result.success and bool(context.output.strip())


def run_agent(options: AgentOptions, console: Console) -> bool:
    """Run an agent, write what happens, and return whether it succeeded.

    Args:
        options: The arguments.
        console: Where it is written.

    Raises:
        InputError: The prompt, an option or a file is not as it must be.
        ConfigurationError: An option or an image is not as it must be. Either way nothing has been run.
    """
    _check(options)
    console.is_quiet = options.quiet
    spans, store = SpanCollector(), InMemoryEvalStore()
    teller = Teller(console, writes_answer=not options.as_json)
    with logs_on(console):
        message = read_input(options.prompt, options.files, options.images)
        result = anyio.run(
            _run, options, message, teller, spans, store, backend_options={"use_uvloop": _can_use_uvloop()}
        )
    teller.report(result, spans.spans, store.records)
    if options.as_json:
        document = {
            "result": result.to_dict(),
            "events": teller.events,
            "spans": [span_dict(span) for span in spans.spans],
            "evaluation": [record.to_dict() for record in store.records],
        }
        console.write_document(json.dumps(document, indent=2, ensure_ascii=not console.writes_unicode))
    if not result.success:
        info = result.error_info
        console.error((info.message if info is not None else None) or f"the run ended: {result.status}")
    return result.success


def _can_use_uvloop() -> bool:
    """Say whether the faster event loop of the extra ``speed`` is there; it is not made for Windows."""
    if sys.platform == "win32" or find_spec("uvloop") is None:
        return False
    try:
        for descriptor in range(3):
            os.fstat(descriptor)
    except OSError:  # closed: uvloop would get its number for a file of its own, and abort the process
        return False
    return True


async def _run(
    options: AgentOptions,
    message: str | list[LLMMessage],
    teller: Teller,
    spans: SpanCollector,
    store: InMemoryEvalStore,
) -> AgentRunResult[Any]:
    config = AgentConfig(
        "assistant",
        provider=options.provider,
        base_url=options.base_url,
        model=options.model,
        system_prompt=options.system,
        max_tokens=options.max_tokens,
        timeout=options.timeout,
    )
    async with OpenMultiAgent(
        on_progress=teller.progress,
        tracer_provider=spans.provider,
        evaluation=OnlineEvaluation([answered], store=store),
    ) as oma:
        async with oma.stream_agent(config, message, max_token_budget=options.max_token_budget) as stream:
            async for event in stream:
                teller.stream(event)
        await oma.evaluation.flush()
        return stream.result


def _check(options: AgentOptions) -> None:
    texts = (("PROMPT", options.prompt), ("--system", options.system), ("--model", options.model))
    for name, text in texts:
        if text is not None and any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"{name} is not valid UTF-8")
    if options.provider not in provider_names():
        known = ", ".join(provider_names())
        raise InputError(
            f"--provider {options.provider} is unknown; known are {known}. "
            "Any server that speaks the OpenAI chat protocol works as openai, with --base-url"
        )
    if options.provider != _EMBEDDED and options.model is None:
        raise InputError(f"--model is missing; provider {options.provider} has no default model")
    for name, value in (("--model", options.model), ("--base-url", options.base_url)):
        if options.provider == _EMBEDDED and value is not None:
            raise InputError(f"{name} is not for the provider embedded; name another one, such as --provider openai")
