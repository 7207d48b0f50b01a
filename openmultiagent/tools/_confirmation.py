"""Confirming calls of tools that have consequences: who confirmed them in a run, and what its result tells of it.

Not here: what has consequences (``Tool.consequential`` says so; no text is looked at), and which runs ask for a
confirmation. Invariants: where one is asked for, no such call runs that neither a gate nor the approval of a plan has
let through; a run that came upon one that was not let through cannot succeed any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..outcome import RunStatus
from ..redaction import redact_start
from ._gate import ToolCallContext, ToolDecision, ToolGate
from ._grants import Grants
from ._tool import Tool

__all__ = ["Confirmation"]

_UNDECLARED = "consequential-no-independence"
"""Flag: tools with consequences were granted, and nobody has said what independent look there is at what is done."""
_UNCONFIRMED = "confirmation-required"
"""Flag: a call of such a tool was not made, since nobody was there to confirm it."""
_OK = RunStatus("ok")
_MAX_STATUS_TEXT = 256


class Confirmation:
    """What one run knows of the calls that have consequences.

    Args:
        is_required: Whether such calls need a confirmation.
        is_granted: Whether it is known already that tools of that kind are granted.
        whole: The run that this one is a part of: what it allows is allowed here, and it learns of what happens here.
    """

    __slots__ = ("_whole", "flags", "is_given", "is_required", "status")

    def __init__(self, *, is_required: bool, is_granted: bool, whole: Confirmation | None = None) -> None:
        self._whole = whole
        self.is_required = is_required
        self.is_given = False
        """Whether whoever approved the plan has confirmed what follows from it."""
        self.flags: tuple[str, ...] = ()
        """What the result of the run tells about such tools."""
        self.status = _OK
        """``ok``, or how the run ends if nothing worse happens."""
        if is_granted:
            self._flag(_UNDECLARED)

    def part(self, grants: Grants) -> Confirmation | None:
        """Return the one for the run of an agent inside this run; None where it cannot come upon such a tool.

        Args:
            grants: What the agent may call.
        """
        if not (grants.is_consequential or grants.toolsets):
            return None
        return Confirmation(is_required=self.is_required, is_granted=grants.is_consequential, whole=self)

    def look_at(self, tools: Iterable[Tool]) -> None:
        """Learn what is granted, toolsets included.

        Args:
            tools: The tools.
        """
        if any(item.consequential for item in tools):
            self._flag(_UNDECLARED)

    def missing_gate(self) -> ToolGate | None:
        """Return what stands in for the gate that a call with consequences has not; None where it is confirmed."""
        if self.is_given or (self._whole is not None and self._whole.is_given):
            return None
        self._flag(_UNCONFIRMED)
        return _deny

    def reject(self, agent: str, why: str) -> None:
        """Learn that a call with consequences was not let through.

        Args:
            agent: Who called.
            why: What the model reads instead.
        """
        for each in self._concerned():
            if each.status is _OK:  # the first one is told of
                each.status = RunStatus("rejected", redact_start(f"agent {agent!r}: {why}", _MAX_STATUS_TEXT))

    def _flag(self, flag: str) -> None:
        for each in self._concerned():
            if flag not in each.flags:
                each.flags += (flag,)

    def _concerned(self) -> tuple[Confirmation, ...]:
        return (self,) if self._whole is None else (self, self._whole)


def _deny(_: ToolCallContext) -> ToolDecision:
    return ToolDecision.deny("it has consequences, and neither on_tool_call nor an approved plan has confirmed it")
