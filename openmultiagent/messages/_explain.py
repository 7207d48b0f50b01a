"""What is said when a helper that takes valid messages, or parts of them, is given something else.

Nothing is checked beforehand, since most of what comes is valid: only when a helper fails on its argument is the
argument looked at, for the place and the fault. Not here: the check of what enters a run (``_validation``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ..errors import InvalidMessageError
from ._faults import Fault
from ._reading import read_tool_result_content

__all__ = ["explained", "takes_tool_result"]

P = ParamSpec("P")
R = TypeVar("R")

_CAUGHT = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What code that relies on its types raises when they are others."""
_NOTHING = object()


def explained(
    helper: Callable[P, R], name: str, *, fits: Callable[[object], bool], refuse: Callable[[object, str], None]
) -> Callable[P, R]:
    """Return a helper so that its error for a wrong first argument says what is wrong, and where.

    Args:
        helper: A function of something valid.
        name: The first parameter.
        fits: Tells at once that an argument is nothing of the kind; the helper might take it for empty.
        refuse: Raises the error for an argument, given its name, when there is something wrong with it.
    """

    @wraps(helper)
    def explained(*args: P.args, **kwargs: P.kwargs) -> R:
        given = args[0] if args else kwargs.get(name, _NOTHING)
        if given is not _NOTHING and type(given) is not list and not fits(given):
            refuse(given, name)
        try:
            return helper(*args, **kwargs)
        except InvalidMessageError:
            raise
        except _CAUGHT as error:
            if given is not _NOTHING:
                refuse(given, name)
            if isinstance(error, RecursionError):
                raise InvalidMessageError(f"{name} is nested too deeply, or contains itself", path=name) from error
            raise

    return explained


def takes_tool_result(helper: Callable[P, R]) -> Callable[P, R]:
    """Return a helper so that its error for a wrong first argument names the place in the tool result.

    Args:
        helper: A function of the valid content of a tool result.
    """
    return explained(helper, "content", fits=lambda value: isinstance(value, str | list | tuple), refuse=_refuse)


def _refuse(value: object, root: str) -> None:
    try:
        content = read_tool_result_content(value)
    except Fault as fault:
        raise fault.at(root) from None
    if content is not value:
        raise InvalidMessageError(
            f"{root} must be made of parts, not of mappings; make it with copy_tool_result_content", path=root
        )
