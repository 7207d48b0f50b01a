"""How long operations take and how many tokens they use, through the OpenTelemetry metrics API.

The steps stand inside the spans, so that an exemplar leads to its span. Invariants: attributes are few and have few
values (no run, agent, tool, tenant or text); tokens are counted for model calls only, so that sums count nothing
twice; no provider is ever set here, and without one nothing is measured.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import Histogram, MeterProvider, NoOpHistogram, NoOpMeterProvider

from .._log import get_logger
from .._version import __version__
from ..adapters import LLMResponse, ModelCall, ModelNext
from ..agent import RunCall, RunNext
from ..outcome import AgentRunResult
from ..tools import ToolCall, ToolNext, ToolResult
from . import _names as names
from ._failures import TOOL_ERROR, run_error_type
from ._first_chunk import FirstChunk
from ._providers import global_meter_provider

__all__ = ["Metrics"]

_log = get_logger(__name__)

_SECONDS = tuple(0.01 * 2**power for power in range(14))
"""Bucket boundaries of durations, as the conventions advise: 10 ms to 82 s."""
_TOKENS = tuple(4**power for power in range(14))
"""Bucket boundaries of token counts, as the conventions advise: 1 to 67 million."""

Attributes = dict[str, str]


class Metrics:
    """The measuring steps of the run, model and tool seams.

    Args:
        meter_provider: Makes the meter; OpenTelemetry's global one unless given.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        self._provider = meter_provider
        self._global = global_meter_provider()
        self._instruments: _Instruments | None = None

    @property
    def is_active(self) -> bool:
        """Whether anybody measures: a global provider may be set after the orchestrator was made."""
        if self._instruments is None:
            if self._provider is None and self._global.is_unset:
                return False
            provider = self._real_provider()
            if provider is None:
                return False
            try:
                self._instruments = _Instruments(provider)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: the application's provider
                _log.error("metrics_failed", error=type(error).__name__)
                self._instruments = _Instruments(NoOpMeterProvider())
        return not isinstance(self._instruments.duration, NoOpHistogram)

    def _real_provider(self) -> MeterProvider | None:
        provider = self._provider
        # What the API package itself hands out, before an SDK has set a provider, measures nothing.
        if provider is None or (_belongs_to_api(provider) and not isinstance(provider, NoOpMeterProvider)):
            provider = self._global.get()
        return None if provider is None or _belongs_to_api(provider) else provider

    async def run(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        """Measure a run.

        Args:
            call: The run.
            call_next: The rest of the run.
        """
        attributes = {names.OPERATION_NAME: "invoke_agent" if call.kind == "agent" else "invoke_workflow"}
        config = call.source_config
        if config is not None:
            provider = config.provider if config.adapter is None else config.adapter.name
            if provider is not None:
                attributes[names.PROVIDER_NAME] = names.provider_name(provider)
            if config.model is not None:
                attributes[names.REQUEST_MODEL] = config.model
        with _Operation(self._instruments, attributes):
            result = await call_next()
            cause = run_error_type(result)
            if cause is not None:
                attributes[names.ERROR_TYPE] = cause
            return result

    async def chat(self, call: ModelCall, call_next: ModelNext) -> LLMResponse:
        """Measure a model call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        attributes = {
            names.OPERATION_NAME: "chat",
            names.PROVIDER_NAME: names.provider_name(call.provider),
            names.REQUEST_MODEL: call.source_options.model,
        }
        call.sink = clock = FirstChunk.around(call.sink)
        with _Operation(self._instruments, attributes) as instruments:
            response = await call_next(call)
            if response.model:
                attributes[names.RESPONSE_MODEL] = response.model
            if clock is not None and clock.seconds is not None:
                instruments.record(instruments.first_chunk, clock.seconds, attributes)
            usage = response.usage
            if usage is not None and not usage.unknown_calls:  # an unknown count is not zero
                tokens = instruments.tokens
                instruments.record(tokens, usage.input_tokens, {**attributes, names.TOKEN_TYPE: "input"})
                instruments.record(tokens, usage.output_tokens, {**attributes, names.TOKEN_TYPE: "output"})
            return response

    async def execute_tool(self, call: ToolCall, call_next: ToolNext) -> ToolResult:
        """Measure a tool call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        attributes = {names.OPERATION_NAME: "execute_tool"}
        with _Operation(self._instruments, attributes):
            result = await call_next(call)
            if result.is_error:
                attributes[names.ERROR_TYPE] = TOOL_ERROR
            return result


class _Instruments:
    def __init__(self, provider: MeterProvider) -> None:
        meter = metrics.get_meter("openmultiagent", __version__, provider, names.SCHEMA_URL)
        self.duration: Histogram = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of an operation.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.tokens: Histogram = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Tokens that went into a model call, and that came out of it.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.first_chunk: Histogram = meter.create_histogram(
            names.FIRST_CHUNK_DURATION,
            unit="s",
            description="Time from a streamed model call to the first piece of its answer.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._has_failed = False

    def record(self, histogram: Histogram, value: float, attributes: Attributes) -> None:
        """Record a value; never raises.

        Args:
            histogram: One of these.
            value: What was measured.
            attributes: Of what.
        """
        try:
            histogram.record(value, attributes)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: the application's provider, views and reservoirs
            if not self._has_failed:  # it will go on like this
                self._has_failed = True
                _log.error("metrics_failed", error=type(error).__name__)


class _Operation:
    """Records how long its block took, on every path."""

    __slots__ = ("_attributes", "_instruments", "_started")

    def __init__(self, instruments: _Instruments | None, attributes: Attributes) -> None:
        assert instruments is not None  # noqa: S101 - no step runs unless `is_active` made them
        self._instruments = instruments
        self._attributes = attributes

    def __enter__(self) -> _Instruments:
        self._started = time.perf_counter()
        return self._instruments

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._attributes[names.ERROR_TYPE] = kind.__name__ if issubclass(kind, Exception) else "cancelled"
        seconds = time.perf_counter() - self._started
        self._instruments.record(self._instruments.duration, seconds, self._attributes)


def _belongs_to_api(provider: MeterProvider) -> bool:
    return type(provider).__module__.startswith("opentelemetry.metrics")
