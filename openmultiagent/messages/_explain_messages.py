"""What is said when a helper that takes valid messages is given something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..errors import InvalidMessageError
from ._explain import explained
from ._models import LLMMessage
from ._validation import as_list, is_sequence, read_message

__all__ = ["takes_message", "takes_messages"]

P = ParamSpec("P")
R = TypeVar("R")


def takes_messages(helper: Callable[P, R]) -> Callable[P, R]:
    """Return a helper so that its error for a wrong first argument names the message.

    Args:
        helper: A function of ``messages``, which are valid.
    """
    return explained(helper, "messages", fits=is_sequence, refuse=_refuse_messages)


def takes_message(helper: Callable[P, R]) -> Callable[P, R]:
    """Return a helper so that its error for a wrong first argument names the place in the message.

    Args:
        helper: A function of a ``message``, which is valid.
    """
    return explained(helper, "message", fits=lambda value: isinstance(value, LLMMessage), refuse=_refuse_message)


def _refuse_messages(value: object, root: str) -> None:
    for index, message in enumerate(as_list(value, root)):
        _refuse_message(message, f"{root}[{index}]")


def _refuse_message(value: object, path: str) -> None:
    if read_message(value, path) is not value:
        raise InvalidMessageError(
            f"{path} must be a message made of models, not of mappings; make one with coerce_messages", path=path
        )
