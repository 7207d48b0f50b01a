"""The link between the behaviour pages (``docs/behaviour/``) and the tests that prove them."""

import re
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

RULE_ID = re.compile(r"[A-Z]{3}-\d+")


def proves(*ids: str) -> Callable[[F], F]:
    """Say which behaviour rules a test proves; ``tests/architecture`` checks the ids in both directions.

    Args:
        ids: Rule ids, such as ``MSG-14``.
    """
    for rule in ids:
        if RULE_ID.fullmatch(rule) is None:
            raise ValueError(f"{rule!r} is no rule id such as 'MSG-14'")

    def mark(test: F) -> F:
        return test

    return mark
