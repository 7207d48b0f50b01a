"""What users write, checked by two type checkers and run by nobody: a fault found here would be found in their code."""

from __future__ import annotations

from typing import Literal, assert_type

from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    EgressPolicyError,
    EgressReason,
    InvalidMessageError,
    OpenMultiAgentError,
)
from openmultiagent.usage import TokenUsage


def usage(parts: list[TokenUsage]) -> int:
    total = sum(parts, TokenUsage())
    assert_type(total, TokenUsage)
    assert_type(total.to_dict(), dict[str, int])
    return total.total_tokens + TokenUsage.unknown().unknown_calls


def errors(error: OpenMultiAgentError) -> str:
    assert_type(error.code, str)
    assert_type(OpenMultiAgentError.from_dict(error.to_dict()), OpenMultiAgentError)
    match error:
        case InvalidMessageError(path=path):
            return path
        case EgressPolicyError():
            assert_type(error.reason, Literal["invalid-policy", "denied", "unresolved-target", "unsupported"])
            reason: EgressReason = error.reason
            return reason
        case AdapterError():
            assert_type(error.retryable, bool)
            return str(error.status)
        case ConfigurationError():
            return error.message
        case _:
            return ""


def an_invalid_message_is_a_value_error(error: InvalidMessageError) -> ValueError:
    return error
