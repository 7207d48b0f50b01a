"""Model providers: the adapter protocol and the adapters that speak it."""

from ._anthropic import AnthropicAdapter
from ._aws_credentials import AwsCredentials
from ._azure import AzureOpenAIAdapter
from ._bedrock import BedrockAdapter
from ._call import ModelCall, ModelMiddleware, ModelNext, StreamSink, copy_options
from ._copilot import CopilotAdapter, format_copilot_multiplier, get_copilot_multiplier
from ._embedded import EmbeddedAdapter
from ._fallback import FallbackAdapter, FallbackEntry
from ._fallback_trail import FallbackAttempt, FallbackError, FallbackResponse
from ._gemini import GeminiAdapter
from ._openai import OpenAIAdapter
from ._openai_profile import OpenAIProfile
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
from ._responses import OpenAIResponsesAdapter
from ._settings import ModelSettings, ReasoningCompression, ThinkingConfig
from ._transport import TransportOptions

__all__ = [
    "AdapterCapabilities",
    "AdapterLease",
    "AdapterOwner",
    "AnthropicAdapter",
    "AwsCredentials",
    "AzureOpenAIAdapter",
    "BedrockAdapter",
    "CopilotAdapter",
    "EmbeddedAdapter",
    "FallbackAdapter",
    "FallbackAttempt",
    "FallbackEntry",
    "FallbackError",
    "FallbackResponse",
    "GeminiAdapter",
    "LLMAdapter",
    "LLMChatOptions",
    "LLMResponse",
    "LLMToolDef",
    "ModelCall",
    "ModelMiddleware",
    "ModelNext",
    "ModelSettings",
    "OpenAIAdapter",
    "OpenAIProfile",
    "OpenAIResponsesAdapter",
    "ReasoningCompression",
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
    "format_copilot_multiplier",
    "get_copilot_multiplier",
    "provider_names",
]
