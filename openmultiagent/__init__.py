"""Run LLM agents from Python services: bounded, isolated, and on record.

Layout; a module imports from lines above its own and, on its own line, from names to its left::

    words         _version _log _patterns _record _shown errors _spec redaction messages usage identity _plain
                  _failures outcome receipt
    mechanics     _sqlite _detached _deadlines cancellation egress budget events _middleware
    ports         stores adapters tools
    agents        agent tracing evaluation
    graphs        tasks team
    orchestration orchestrator
    beside it     testing
    front doors   cli

Public names are loaded with the part that defines them when they are first asked for, so that who imports this package,
or one part of it, waits for no other. What they are is written down for type checkers in ``__init__.pyi``.
"""

from importlib import import_module as _import_module

from ._version import __version__ as __version__

_NAMES = {
    "adapters": (
        "ModelCall",
        "ModelMiddleware",
        "ModelSettings",
        "ThinkingConfig",
    ),
    "agent": (
        "Agent",
        "AgentConfig",
        "AgentFinished",
        "AgentStarted",
        "AgentStream",
        "AgentStreamEvent",
        "BeforeRunContext",
        "BudgetExceeded",
        "ReasoningDelta",
        "RunCall",
        "RunMiddleware",
        "StreamDone",
        "StreamFailed",
        "TextDelta",
        "ToolCalled",
        "ToolInputReceived",
        "ToolReturned",
        "TurnFinished",
        "TurnRestarted",
        "TurnStarted",
        "WrapUp",
    ),
    "budget": ("Limits",),
    "cancellation": ("CancelToken",),
    "errors": (
        "AdapterError",
        "ConfigurationError",
        "CostBudgetExceededError",
        "DependencyPayloadError",
        "DurableApprovalError",
        "EgressPolicyError",
        "EgressReason",
        "InvalidMessageError",
        "InvalidTaskDependenciesError",
        "InvalidTaskRequirementsError",
        "LimitExceededError",
        "LLMAuthenticationError",
        "LLMBadRequestError",
        "LLMCallTimeoutError",
        "LLMConnectionError",
        "LLMProtocolError",
        "LLMRateLimitError",
        "LLMServerError",
        "OpenMultiAgentError",
        "PlanInvalidError",
        "PolicyError",
        "RoutingDeclarationRequiredError",
        "RoutingProfilerFailedError",
        "RoutingTimeoutError",
        "RunError",
        "StoreError",
        "StructuredOutputValidationError",
        "TokenBudgetExceededError",
        "UnsupportedContentError",
        "UnsupportedToolCallError",
        "UnsupportedToolResultContentError",
    ),
    "events": ("Event",),
    "identity": ("RunIdentity",),
    "messages": (
        "Base64Source",
        "ContentBlock",
        "FileBlock",
        "ImageBlock",
        "ImageDetail",
        "LLMMessage",
        "Message",
        "ReasoningBlock",
        "Role",
        "TextBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "UrlSource",
    ),
    "orchestrator": (
        "CoordinatorConfig",
        "OpenMultiAgent",
        "ProgressEvent",
        "TeamDone",
        "TeamStream",
    ),
    "outcome": (
        "AgentRunResult",
        "ErrorInfo",
        "RunStatus",
        "ToolCallRecord",
    ),
    "receipt": (
        "ExecutedTool",
        "ExecutionReceipt",
        "build_execution_receipt",
    ),
    "tasks": (
        "ModelRoutingPolicy",
        "PlanArtifact",
        "RunFailed",
        "RunFailure",
        "RunMetrics",
        "RunWarning",
        "Task",
        "TaskCompleted",
        "TaskCondition",
        "TaskExecutionMetrics",
        "TaskExecutionRecord",
        "TaskFailed",
        "TaskQueue",
        "TaskRequirements",
        "TaskRetried",
        "TaskRetry",
        "TaskSkipped",
        "TaskSpec",
        "TaskStarted",
        "TeamRunResult",
    ),
    "team": (
        "BusMessage",
        "Team",
        "TeamConfig",
    ),
    "tools": (
        "Tool",
        "ToolCall",
        "ToolContext",
        "ToolMiddleware",
        "ToolResult",
        "tool",
    ),
    "usage": (
        "TokenUsage",
        "UsageEntry",
    ),
}
"""The public names of each part."""
_PARTS = {*_NAMES, "egress", "evaluation", "redaction", "stores", "tracing"}
"""The parts that can be reached as attributes without being imported themselves."""
_HOMES = {name: part for part, names in _NAMES.items() for name in names}

__all__ = sorted(["__version__", *_HOMES])  # noqa: PLE0605 - a list


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return _import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS, *_HOMES})
