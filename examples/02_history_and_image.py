"""Go on with a conversation that your application keeps, and show the model an image.

As it is, a script plays the model, so that you see what would be sent. With a server that speaks the OpenAI chat
protocol and a model that can see, set two variables (and OPENAI_API_KEY, if the server wants a key):

    OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=llava python examples/02_history_and_image.py
"""

from __future__ import annotations

import asyncio
import os

from openmultiagent import AgentConfig, ImageBlock, LLMMessage, ModelCall, OpenMultiAgent, TextBlock
from openmultiagent.adapters import LLMResponse, ModelNext
from openmultiagent.testing import ScriptedAdapter

# A PNG of a single dot. From a file: LLMMessage.user_with_image_file("What is shown here?", "photo.jpg").
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def show(call: ModelCall, call_next: ModelNext) -> LLMResponse:
    """Print what is sent, and send it: a middleware around model calls, with its own copy of the conversation."""
    for message in call.messages:
        for block in message.content:
            if isinstance(block, TextBlock):
                print(f"-> {message.role}: {block.text}")
            elif isinstance(block, ImageBlock):
                print(f"-> {message.role}: an image, {block.url[:30]}... of {len(block.url)} characters")
    return await call_next(call)


def make_agent() -> AgentConfig:
    """Return the agent: with a real model if there is one, else with a script."""
    if os.environ.get("OPENAI_BASE_URL"):
        return AgentConfig("viewer", provider="openai", model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"))
    return AgentConfig("viewer", adapter=ScriptedAdapter(["A single dot."]))


async def main() -> None:
    """Run the agent on a conversation whose last turn has an image."""
    conversation = [
        LLMMessage.user("Keep your answers short."),
        LLMMessage.assistant("Understood."),
        LLMMessage.user_with_base64_image("What is shown here?", DOT, "image/png"),
    ]
    async with OpenMultiAgent(model_middleware=[show]) as oma:
        # The conversation is checked and copied here: the list stays yours, and the run adds nothing to it.
        result = await oma.run_agent(make_agent(), conversation)
    if not result.success:
        raise SystemExit(f"failed: {result.status.message}")
    print(f"<- {result.output}")

    # What the run produced is in `result.messages`: append it to go on.
    conversation += result.messages
    print(f"The conversation has {len(conversation)} messages now.")


asyncio.run(main())
