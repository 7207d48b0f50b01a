"""Regular expressions that are compiled when they are first used.

Compiling the expressions of the whole library takes longer than ``import openmultiagent`` may take, and most programs
use few of them.
"""

from __future__ import annotations

import re
from typing import Any, cast

__all__ = ["lazy_pattern"]


class _Pattern:
    """Stands for a ``re.Pattern`` and becomes one, attribute by attribute."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Only what is not set yet comes here; ``re`` keeps the compiled expression if two threads come at once.
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression to be used like the result of ``re.compile``; a fault in it shows at its first use.

    Args:
        source: The expression.
        flags: As for ``re.compile``.
    """
    return cast(re.Pattern[str], _Pattern(source, flags))
