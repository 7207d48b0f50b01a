"""Tracing: OpenTelemetry spans by the conventions for generative AI."""

from ._spans import Tracing

__all__ = ["Tracing"]
