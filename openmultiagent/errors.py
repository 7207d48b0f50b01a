"""The errors that the library raises, and nothing else.

The tree says who has to act::

    OpenMultiAgentError
    ├── ConfigurationError              misuse, raised before any side effect
    │   ├── InvalidMessageError         (also a ValueError) has the path of the fault
    │   ├── InvalidTaskRequirementsError
    │   ├── InvalidTaskDependenciesError
    │   └── RoutingDeclarationRequiredError
    ├── RunError                        a run could not go on
    │   ├── TokenBudgetExceededError
    │   ├── CostBudgetExceededError
    │   ├── LLMCallTimeoutError
    │   ├── StructuredOutputValidationError
    │   ├── DependencyPayloadError
    │   ├── PlanInvalidError
    │   ├── RoutingTimeoutError
    │   └── RoutingProfilerFailedError
    ├── AdapterError                    a model provider said no, or could not be reached
    │   ├── LLMAuthenticationError      401, 403
    │   ├── LLMRateLimitError           429
    │   ├── LLMBadRequestError          other 4xx, and refused redirects
    │   ├── LLMServerError              5xx
    │   ├── LLMConnectionError          no response
    │   ├── LLMProtocolError            a response that cannot be read
    │   ├── UnsupportedToolCallError
    │   ├── UnsupportedToolResultContentError
    │   └── UnsupportedContentError
    ├── PolicyError
    │   ├── EgressPolicyError
    │   └── DurableApprovalError
    └── StoreError

Failures of a tool are values (``ToolResult(is_error=True)``), never errors; signals that steer a run are private and
are not here. Invariant: every error pickles and survives ``to_dict`` / ``from_dict`` with its type, message and fields,
so that it can be stored in a checkpoint or sent to another process. A field that JSON cannot hold (a cause) becomes its
text there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

__all__ = [
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
]


class OpenMultiAgentError(Exception):
    """Base of every error that the library raises.

    Args:
        message: What went wrong, where, and how to mend it.
        code: A stable code for programs; the class's own unless given.
    """

    code: str = "OPENMULTIAGENT_ERROR"
    """Stable, upper-case name of the kind of error."""

    field_names: ClassVar[tuple[str, ...]] = ()
    """The typed attributes that belong to the error's record, besides its message and code."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        """The text that the error was made with."""
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not the class's own constructor: it takes other arguments than Exception.args holds.
        return _rebuild, (type(self), self.message, self.__dict__.copy())

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON data: ``type``, ``code``, ``message`` and ``fields``."""
        fields = {name: _plain(getattr(self, name)) for name in self.field_names}
        return {"type": type(self).__name__, "code": self.code, "message": self.message, "fields": fields}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> OpenMultiAgentError:
        """Make the error that ``to_dict`` described; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.

        Raises:
            ConfigurationError: The record names no error of this library.
        """
        name = record.get("type")
        cls = _registry().get(name) if isinstance(name, str) else None
        if cls is None:
            raise ConfigurationError(f"error record has type {name!r}, which is no error of openmultiagent")
        known = {key: value for key, value in record.get("fields", {}).items() if key in cls.field_names}
        code = record.get("code", cls.code)
        return _rebuild(cls, str(record.get("message", "")), known if code == cls.code else {**known, "code": code})


def _registry() -> dict[str, type[OpenMultiAgentError]]:
    found: dict[str, type[OpenMultiAgentError]] = {}
    pending: list[type[OpenMultiAgentError]] = [OpenMultiAgentError]
    while pending:
        cls = pending.pop()
        if cls.__module__.partition(".")[0] == "openmultiagent":
            found[cls.__name__] = cls
        pending.extend(cls.__subclasses__())
    return found


def _rebuild(cls: type[OpenMultiAgentError], message: str, state: Mapping[str, Any]) -> OpenMultiAgentError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    for name in cls.field_names:
        setattr(error, name, None)
    error.__dict__.update(state)
    return error


def _plain(value: object) -> object:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)


# --- misuse ----------------------------------------------------------------------------------------------------------


class ConfigurationError(OpenMultiAgentError):
    """Something was asked for that cannot be done as asked; nothing has happened yet."""

    code = "CONFIGURATION_ERROR"


class InvalidMessageError(ConfigurationError, ValueError):
    """A message, block or media source does not have the shape that it must have.

    Args:
        message: The fault; where there is a path, the text begins with it.
        path: Where the fault is, such as ``messages[1].content[0].source.url``; empty for constructors.
    """

    code = "INVALID_MESSAGE"
    field_names = ("path",)

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class InvalidTaskRequirementsError(ConfigurationError):
    """Tasks need what no agent of the team offers.

    Args:
        issues: One mapping per fault, with ``code`` and ``task_title``.
    """

    code = "INVALID_TASK_REQUIREMENTS"
    field_names = ("issues",)

    def __init__(self, issues: Sequence[Mapping[str, Any]]) -> None:
        listed = ", ".join(f'{issue.get("code")} for "{issue.get("task_title")}"' for issue in issues)
        super().__init__(f"Task requirements are unsatisfied: {listed}")
        self.issues = [dict(issue) for issue in issues]


class InvalidTaskDependenciesError(ConfigurationError):
    """The task graph cannot be run: cycles, unknown or ambiguous references.

    Args:
        message: All faults of the graph.
        issues: One mapping per fault.
    """

    code = "INVALID_TASK_DEPENDENCIES"
    field_names = ("issues",)

    def __init__(self, message: str, *, issues: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.issues = [dict(issue) for issue in issues]


class RoutingDeclarationRequiredError(ConfigurationError):
    """A governed run needs a declaration that was not made.

    Args:
        message: What has to be declared.
        reasons: Why it has to be.
    """

    code = "ROUTING_DECLARATION_REQUIRED"
    field_names = ("reasons",)

    def __init__(self, message: str, *, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = list(reasons)


# --- runs ------------------------------------------------------------------------------------------------------------


class RunError(OpenMultiAgentError):
    """A run could not go on."""

    code = "RUN_ERROR"


class TokenBudgetExceededError(RunError):
    """A run used more tokens than it was allowed to.

    Args:
        agent: Name of the agent.
        tokens_used: Input and output tokens used when the limit was noticed.
        budget: The limit, in tokens.
    """

    code = "TOKEN_BUDGET_EXCEEDED"
    field_names = ("agent", "tokens_used", "budget")

    def __init__(self, *, agent: str, tokens_used: int, budget: int) -> None:
        super().__init__(f'Agent "{agent}" exceeded token budget: {tokens_used} tokens used (budget: {budget})')
        self.agent, self.tokens_used, self.budget = agent, tokens_used, budget


class CostBudgetExceededError(RunError):
    """A run cost more than it was allowed to.

    Args:
        agent: Name of the agent.
        cost_used: Estimated cost when the limit was noticed, in the caller's unit.
        budget: The limit, in the same unit.
    """

    code = "COST_BUDGET_EXCEEDED"
    field_names = ("agent", "cost_used", "budget")

    def __init__(self, *, agent: str, cost_used: float, budget: float) -> None:
        super().__init__(f'Agent "{agent}" exceeded cost budget: {cost_used} estimated cost used (budget: {budget})')
        self.agent, self.cost_used, self.budget = agent, cost_used, budget


class LLMCallTimeoutError(RunError):
    """One model call took longer than ``call_timeout``.

    Args:
        timeout: The limit, in seconds.
        agent: Name of the agent, when the call was made for one.
    """

    code = "LLM_CALL_TIMEOUT"
    field_names = ("timeout", "agent")

    def __init__(self, *, timeout: float, agent: str | None = None) -> None:
        subject = "LLM call" if agent is None else f'Agent "{agent}" LLM call'
        super().__init__(f"{subject} exceeded per-call timeout of {timeout:g}s")
        self.timeout, self.agent = timeout, agent


class _CausedError(RunError):
    field_names = ("cause",)

    def __init__(self, message: str, *, cause: BaseException | str | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class StructuredOutputValidationError(_CausedError):
    """The answer did not match ``output_schema``, also after it was corrected.

    Args:
        message: What did not match.
        cause: The last validation error, or its text.
    """

    code = "STRUCTURED_OUTPUT_VALIDATION_FAILED"

    def __init__(
        self,
        message: str = "Structured output validation failed after retry.",
        *,
        cause: BaseException | str | None = None,
    ) -> None:
        super().__init__(message, cause=cause)


class DependencyPayloadError(RunError):
    """The result of a task cannot be handed to the tasks that depend on it."""

    code = "DEPENDENCY_PAYLOAD_INVALID"


class PlanInvalidError(RunError):
    """The coordinator wrote no plan that can be run.

    Args:
        message: The faults of the plan.
        issues: One text per fault.
    """

    code = "PLAN_INVALID"
    field_names = ("issues",)

    def __init__(self, message: str, *, issues: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.issues = list(issues)


class RoutingTimeoutError(RunError):
    """Routing took longer than it may.

    Args:
        timeout: The limit, in seconds.
        stage: The step of routing that was too slow.
    """

    code = "ROUTING_TIMEOUT"
    field_names = ("timeout", "stage")

    def __init__(self, *, timeout: float, stage: str) -> None:
        super().__init__(f"Execution routing {stage} exceeded its timeout of {timeout:g}s")
        self.timeout, self.stage = timeout, stage


class RoutingProfilerFailedError(_CausedError):
    """The profiler that routing relies on failed.

    Args:
        message: What failed.
        cause: The profiler's error, or its text.
    """

    code = "ROUTING_PROFILER_FAILED"


# --- adapters --------------------------------------------------------------------------------------------------------


class AdapterError(OpenMultiAgentError):
    """A model provider refused a call, could not be reached, or answered something that cannot be read.

    Args:
        message: What the provider said, redacted.
        provider: Name of the adapter.
        status: HTTP status, when there was a response.
        retryable: Whether the same call may succeed later.
        error_type: The provider's own name for the fault.
        request_id: The provider's id of the request, for its support.
        retry_after: Seconds after which the provider asks to try again.
        attempts: How many requests were sent before giving up.
        body: The start of the response body, redacted and cut to 2,000 characters.
        code: The provider's code; the class's own unless given.
    """

    code = "ADAPTER_ERROR"
    default_retryable: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = (
        "provider",
        "status",
        "retryable",
        "error_type",
        "request_id",
        "retry_after",
        "attempts",
        "body",
    )

    def __init__(  # noqa: PLR0913 - the fields of one record, all by keyword
        self,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retryable: bool | None = None,
        error_type: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
        body: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.provider = provider
        self.status = status
        self.retryable = self.default_retryable if retryable is None else retryable
        self.error_type = error_type
        self.request_id = request_id
        self.retry_after = retry_after
        self.attempts = attempts
        self.body = body


class LLMAuthenticationError(AdapterError):
    """The provider does not accept the key, or there is none (401, 403)."""

    code = "LLM_AUTHENTICATION"


class LLMRateLimitError(AdapterError):
    """The provider asks to slow down (429)."""

    code = "LLM_RATE_LIMIT"
    default_retryable = True


class LLMBadRequestError(AdapterError):
    """The provider does not accept the request (other 4xx), or answered with a redirect, which is never followed."""

    code = "LLM_BAD_REQUEST"


class LLMServerError(AdapterError):
    """The provider failed (5xx)."""

    code = "LLM_SERVER"
    default_retryable = True


class LLMConnectionError(AdapterError):
    """There was no response: the server is down, the name is unknown, or the network failed."""

    code = "LLM_CONNECTION"
    default_retryable = True


class LLMProtocolError(AdapterError):
    """The provider answered something that its protocol does not allow, or broke off in the middle."""

    code = "LLM_PROTOCOL"
    default_retryable = True


class UnsupportedToolCallError(AdapterError):
    """The model called a kind of tool that this library does not run.

    Args:
        provider: Name of the adapter.
        tool_type: The kind of call.
    """

    code = "UNSUPPORTED_TOOL_CALL"
    field_names = (*AdapterError.field_names, "tool_type")

    def __init__(self, *, provider: str, tool_type: str) -> None:
        super().__init__(f'{provider} returned unsupported tool-call type "{tool_type}"', provider=provider)
        self.tool_type = tool_type


class _UnsupportedPartError(AdapterError):
    what: ClassVar[str] = ""
    field_names = (*AdapterError.field_names, "content_type", "detail")

    def __init__(self, *, provider: str, content_type: str, detail: str | None = None) -> None:
        text = f'{provider} cannot represent {self.what} "{content_type}"'
        super().__init__(text if detail is None else f"{text}: {detail}", provider=provider)
        self.content_type, self.detail = content_type, detail


class UnsupportedToolResultContentError(_UnsupportedPartError):
    """A part of a tool result cannot be sent to this provider.

    Args:
        provider: Name of the protocol.
        content_type: The kind of part.
        detail: Why, or what to do instead.
    """

    code = "UNSUPPORTED_TOOL_RESULT_CONTENT"
    what = "tool-result content type"


class UnsupportedContentError(_UnsupportedPartError):
    """A content block cannot be sent to this provider.

    Args:
        provider: Name of the protocol.
        content_type: The kind of block.
        detail: Why, or what to do instead.
    """

    code = "UNSUPPORTED_CONTENT"
    what = "content type"


# --- policies and stores ---------------------------------------------------------------------------------------------


class PolicyError(OpenMultiAgentError):
    """A rule that the application set forbids what was about to happen."""

    code = "POLICY_ERROR"


EgressReason = Literal["invalid-policy", "denied", "unresolved-target", "unsupported"]
"""Why a request may not leave."""

_EGRESS_CODES: dict[EgressReason, str] = {
    "invalid-policy": "INVALID_EGRESS_POLICY",
    "denied": "EGRESS_POLICY_DENIED",
    "unresolved-target": "EGRESS_POLICY_TARGET_UNRESOLVED",
    "unsupported": "EGRESS_POLICY_UNSUPPORTED",
}


class EgressPolicyError(PolicyError):
    """A request would leave for a host that the egress policy does not allow.

    Args:
        message: What was refused.
        reason: ``invalid-policy``, ``denied``, ``unresolved-target`` or ``unsupported``.
        provider: Name of the adapter, except for an invalid policy.
        origin: The refused origin, when the reason is ``denied``.
    """

    code = "EGRESS_POLICY_ERROR"
    field_names = ("reason", "provider", "origin")

    def __init__(
        self, message: str, *, reason: EgressReason, provider: str | None = None, origin: str | None = None
    ) -> None:
        super().__init__(message, code=_EGRESS_CODES[reason])
        self.reason: EgressReason = reason
        self.provider, self.origin = provider, origin


class DurableApprovalError(PolicyError):
    """A stored approval does not fit the call that it was asked for."""

    code = "DURABLE_APPROVAL_ERROR"


class StoreError(OpenMultiAgentError):
    """A store could not read or write.

    Args:
        message: What failed.
        field: The field that cannot be stored, when one is to blame.
        code: A more precise code than the class's own.
    """

    code = "STORE_ERROR"
    field_names = ("field",)

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.field = field
