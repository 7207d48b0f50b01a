"""OpenTelemetry's global providers, asked for at the start of every run.

The API's own getters look for an environment variable each time that nobody has set a provider, which takes longer
than anything else that a run without tracing does. Here the variables are looked for once. Invariants: a provider that
is set later is seen by the next run; none is ever set here but by the API itself, for its variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.environment_variables import OTEL_PYTHON_METER_PROVIDER, OTEL_PYTHON_TRACER_PROVIDER
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

__all__ = ["GlobalProvider", "global_meter_provider", "global_tracer_provider"]

P = TypeVar("P")


class GlobalProvider(Generic[P]):
    """One of the global providers.

    Args:
        get: The API's getter.
        variable: The environment variable that the getter looks for.
        name: Name of the variable of the getter's module that holds the provider.
    """

    def __init__(self, get: Callable[[], P], variable: str, name: str) -> None:
        self._get = get
        self._name = name
        namespace: Mapping[str, Any] = getattr(get, "__globals__", {})
        self._namespace = namespace
        # Where the API keeps it otherwise, or has to make it, the getter is always asked.
        self._may_be_none = name in namespace and variable not in os.environ

    @property
    def is_unset(self) -> bool:
        """Whether nobody has set it."""
        return self._may_be_none and self._namespace[self._name] is None

    def get(self) -> P | None:
        """Return the provider; None when nobody has set one."""
        return None if self.is_unset else self._get()


def global_tracer_provider() -> GlobalProvider[TracerProvider]:
    """Return where to ask for the global tracer provider."""
    return GlobalProvider(trace.get_tracer_provider, OTEL_PYTHON_TRACER_PROVIDER, "_TRACER_PROVIDER")


def global_meter_provider() -> GlobalProvider[MeterProvider]:
    """Return where to ask for the global meter provider."""
    return GlobalProvider(metrics.get_meter_provider, OTEL_PYTHON_METER_PROVIDER, "_METER_PROVIDER")
