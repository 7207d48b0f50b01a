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
    │   ├── LimitExceededError          model calls, tool calls or time
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

from ._adapters import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
    UnsupportedContentError,
    UnsupportedToolCallError,
    UnsupportedToolResultContentError,
)
from ._base import (
    ConfigurationError,
    OpenMultiAgentError,
)
from ._misuse import (
    InvalidMessageError,
    InvalidTaskDependenciesError,
    InvalidTaskRequirementsError,
    RoutingDeclarationRequiredError,
)
from ._policies import (
    DurableApprovalError,
    EgressPolicyError,
    EgressReason,
    PolicyError,
    StoreError,
)
from ._runs import (
    CostBudgetExceededError,
    DependencyPayloadError,
    LimitExceededError,
    LLMCallTimeoutError,
    PlanInvalidError,
    RoutingProfilerFailedError,
    RoutingTimeoutError,
    RunError,
    StructuredOutputValidationError,
    TokenBudgetExceededError,
)

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
    "LimitExceededError",
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

for _name in __all__:
    if isinstance(_class := globals()[_name], type):
        _class.__module__ = __name__  # tracebacks and pickles name the public place
