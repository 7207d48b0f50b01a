"""Agents: their definition, their turn loop, and the run as the steps around it see it."""

from ._agent import Agent, AgentState
from ._attempts import RunAttempts
from ._call import RunCall, RunKind, RunMiddleware, RunNext, TraceIds, copy_input_payload, input_payload
from ._config import AgentConfig
from ._context import Compact, ContextStrategy, CustomContext, SlidingWindow, Summarize, ToolResultCompression
from ._environment import DEFAULT_PROVIDER, EventSink, RunEnvironment, lease_adapter
from ._events import (
    AgentFinished,
    AgentStarted,
    AgentStreamEvent,
    BudgetExceeded,
    LoopDetected,
    ReasoningDelta,
    StreamDone,
    StreamFailed,
    TextDelta,
    ToolCalled,
    ToolInputReceived,
    ToolReturned,
    TurnFinished,
    TurnRestarted,
    TurnStarted,
)
from ._execution import as_failure, cancelled_result, execute_agent, failed_result
from ._hooks import BeforeRunContext
from ._loops import LoopAction, LoopDetection, LoopInfo
from ._model_seam import ModelSeam
from ._pool import AgentPool, PoolRun, PoolStatus
from ._stream import AgentStream, RunStream, StreamSink
from ._wrap_up import WrapUp

__all__ = [
    "DEFAULT_PROVIDER",
    "Agent",
    "AgentConfig",
    "AgentFinished",
    "AgentPool",
    "AgentStarted",
    "AgentState",
    "AgentStream",
    "AgentStreamEvent",
    "BeforeRunContext",
    "BudgetExceeded",
    "Compact",
    "ContextStrategy",
    "CustomContext",
    "EventSink",
    "LoopAction",
    "LoopDetected",
    "LoopDetection",
    "LoopInfo",
    "ModelSeam",
    "PoolRun",
    "PoolStatus",
    "ReasoningDelta",
    "RunAttempts",
    "RunCall",
    "RunEnvironment",
    "RunKind",
    "RunMiddleware",
    "RunNext",
    "RunStream",
    "SlidingWindow",
    "StreamDone",
    "StreamFailed",
    "StreamSink",
    "Summarize",
    "TextDelta",
    "ToolCalled",
    "ToolInputReceived",
    "ToolResultCompression",
    "ToolReturned",
    "TraceIds",
    "TurnFinished",
    "TurnRestarted",
    "TurnStarted",
    "WrapUp",
    "as_failure",
    "cancelled_result",
    "copy_input_payload",
    "execute_agent",
    "failed_result",
    "input_payload",
    "lease_adapter",
]
