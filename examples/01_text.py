"""Run an agent on a text: what happens, what comes out, and what it cost.

It needs no key and no network: the provider ``embedded`` is a small text engine that ships with the library. For a
language model, write ``provider="openai", model="gpt-5-mini"`` and set OPENAI_API_KEY.

    python examples/01_text.py              # on the text below
    python examples/01_text.py README.md    # on a file of yours
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from openmultiagent import AgentConfig, Event, OpenMultiAgent

TEXT = """
The lighthouse at Cape Ann was built in 1861 of granite from the quarry nearby. Its lamp burned whale oil for two
decades and kerosene for the four after that. The keeper climbed 156 steps each evening to light it. Electric light came
in 1932, and the last keeper left in 1980. Today the lamp is switched by a sensor, and the tower belongs to the town,
which opens it to visitors on the first Sunday of each month.
"""


def show(event: Event[Any]) -> None:
    """Print an event; each listener gets its own, with ``event.data`` for the details."""
    print(f"[{event.sequence}] {event.type} {event.agent}")


async def main(text: str) -> None:
    """Run the agent twice: once for the result, once for the answer while it is being written."""
    agent = AgentConfig("reader", provider="embedded")

    async with OpenMultiAgent(on_progress=show, max_token_budget=1_000_000) as oma:
        # A run that fails is a result as well: look at `success` before you use the output.
        result = await oma.run_agent(agent, f"Summarise this in two sentences.\n\n{text}")
        print(result.output if result.success else f"failed: {result.error_info}")
        usage = result.token_usage
        print(f"{usage.input_tokens} tokens in, {usage.output_tokens} out; stopped because of {result.stop_reason}")

    # The same as a stream; in `async with oma.stream_agent(...)` the run ends when the block is left, whatever happens.
    async with OpenMultiAgent() as oma, oma.stream_agent(agent, f"List the key terms.\n\n{text}") as stream:
        async for event in stream:
            if event.type == "text":
                print(event.data, end="", flush=True)
    print(f"\n{stream.result.status}")


asyncio.run(main(Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 else TEXT))
