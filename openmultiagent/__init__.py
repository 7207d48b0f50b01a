"""Run LLM agents from Python services: bounded, isolated, and on record.

Layout; a module imports from lines above its own and, on its own line, from names to its left::

    words         _version _log errors _spec redaction messages usage identity outcome
    mechanics     _detached cancellation budget events _middleware
    ports         adapters tools
    agents        agent tracing evaluation
    orchestration orchestrator
    beside it     testing
    front doors   cli
"""

from ._version import __version__
from .adapters import ModelCall, ModelMiddleware, ModelSettings, ThinkingConfig
from .agent import (
    Agent,
    AgentConfig,
    AgentFinished,
    AgentStarted,
    AgentStream,
    BeforeRunContext,
    BudgetExceeded,
    RunCall,
    RunMiddleware,
)
from .cancellation import CancelToken
from .errors import (
    AdapterError,
    ConfigurationError,
    CostBudgetExceededError,
    DependencyPayloadError,
    DurableApprovalError,
    EgressPolicyError,
    EgressReason,
    InvalidMessageError,
    InvalidTaskDependenciesError,
    InvalidTaskRequirementsError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMCallTimeoutError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
    OpenMultiAgentError,
    PlanInvalidError,
    PolicyError,
    RoutingDeclarationRequiredError,
    RoutingProfilerFailedError,
    RoutingTimeoutError,
    RunError,
    StoreError,
    StructuredOutputValidationError,
    TokenBudgetExceededError,
    UnsupportedContentError,
    UnsupportedToolCallError,
    UnsupportedToolResultContentError,
)
from .events import Event
from .identity import RunIdentity
from .messages import (
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from .orchestrator import OpenMultiAgent, ProgressEvent
from .outcome import AgentRunResult, ErrorInfo, RunStatus, ToolCallRecord
from .tools import Tool, ToolCall, ToolContext, ToolMiddleware, ToolResult, tool
from .usage import TokenUsage

__all__ = [
    "AdapterError",
    "Agent",
    "AgentConfig",
    "AgentFinished",
    "AgentRunResult",
    "AgentStarted",
    "AgentStream",
    "Base64Source",
    "BeforeRunContext",
    "BudgetExceeded",
    "CancelToken",
    "ConfigurationError",
    "ContentBlock",
    "CostBudgetExceededError",
    "DependencyPayloadError",
    "DurableApprovalError",
    "EgressPolicyError",
    "EgressReason",
    "ErrorInfo",
    "Event",
    "FileBlock",
    "ImageBlock",
    "ImageDetail",
    "InvalidMessageError",
    "InvalidTaskDependenciesError",
    "InvalidTaskRequirementsError",
    "LLMAuthenticationError",
    "LLMBadRequestError",
    "LLMCallTimeoutError",
    "LLMConnectionError",
    "LLMMessage",
    "LLMProtocolError",
    "LLMRateLimitError",
    "LLMServerError",
    "Message",
    "ModelCall",
    "ModelMiddleware",
    "ModelSettings",
    "OpenMultiAgent",
    "OpenMultiAgentError",
    "PlanInvalidError",
    "PolicyError",
    "ProgressEvent",
    "ReasoningBlock",
    "Role",
    "RoutingDeclarationRequiredError",
    "RoutingProfilerFailedError",
    "RoutingTimeoutError",
    "RunCall",
    "RunError",
    "RunIdentity",
    "RunMiddleware",
    "RunStatus",
    "StoreError",
    "StructuredOutputValidationError",
    "TextBlock",
    "ThinkingConfig",
    "TokenBudgetExceededError",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallRecord",
    "ToolContext",
    "ToolMiddleware",
    "ToolResult",
    "ToolResultBlock",
    "ToolUseBlock",
    "UnsupportedContentError",
    "UnsupportedToolCallError",
    "UnsupportedToolResultContentError",
    "UrlSource",
    "__version__",
    "tool",
]
