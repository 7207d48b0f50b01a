"""Model providers: the adapter protocol and the adapters that speak it."""

from ._call import ModelCall, ModelMiddleware, ModelNext, StreamSink, copy_options
from ._embedded import EmbeddedAdapter
from ._openai import OpenAIAdapter
from ._owner import AdapterLease, AdapterOwner, close_adapter
from ._protocol import (
    AdapterCapabilities,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    StreamEvent,
    StreamEventType,
    StreamingAdapter,
    ToolInputDelta,
)
from ._providers import create_adapter, provider_names
from ._settings import ModelSettings, ThinkingConfig
from ._transport import TransportOptions

__all__ = [
    "AdapterCapabilities",
    "AdapterLease",
    "AdapterOwner",
    "EmbeddedAdapter",
    "LLMAdapter",
    "LLMChatOptions",
    "LLMResponse",
    "LLMToolDef",
    "ModelCall",
    "ModelMiddleware",
    "ModelNext",
    "ModelSettings",
    "OpenAIAdapter",
    "StreamEvent",
    "StreamEventType",
    "StreamSink",
    "StreamingAdapter",
    "ThinkingConfig",
    "ToolInputDelta",
    "TransportOptions",
    "close_adapter",
    "copy_options",
    "create_adapter",
    "provider_names",
]
