"""Stand-ins for models and providers in tests of code that uses the library. Nothing here needs a test framework."""

from ._fake_server import FakeProviderServer
from ._network import NetworkForbiddenError, forbid_network
from ._script import Reply, Response, Scripted, ScriptExhaustedError
from ._scripted import ScriptedAdapter, ScriptedCall, ScriptedStream
from ._served import (
    FakeRequest,
    Hangup,
    Quirk,
    RawBody,
    Refused,
    Served,
    ServerReply,
    ServerResponse,
    Silence,
)

__all__ = [
    "FakeProviderServer",
    "FakeRequest",
    "Hangup",
    "NetworkForbiddenError",
    "Quirk",
    "RawBody",
    "Refused",
    "Reply",
    "Response",
    "ScriptExhaustedError",
    "Scripted",
    "ScriptedAdapter",
    "ScriptedCall",
    "ScriptedStream",
    "Served",
    "ServerReply",
    "ServerResponse",
    "Silence",
    "forbid_network",
]
