"""Who a run is: the ids that its results, events, spans and log lines carry."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .errors import ConfigurationError

__all__ = ["RunIdentity", "RunLink", "new_span_id", "new_trace_id", "validate_metadata", "validate_run_id"]
