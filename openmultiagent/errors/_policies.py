"""Errors of the application's own rules and stores."""

from __future__ import annotations

from typing import Literal

from ._base import OpenMultiAgentError

__all__ = [
    "DurableApprovalError",
    "EgressPolicyError",
    "EgressReason",
    "PolicyError",
    "StoreError",
]


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
