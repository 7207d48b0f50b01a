"""Stand-ins for a model in tests of code that uses the library. Nothing here needs a test framework."""

from ._script import Reply, Response, Scripted, ScriptExhaustedError
from ._scripted import ScriptedAdapter, ScriptedCall, ScriptedStream

__all__ = ["Reply", "Response", "ScriptExhaustedError", "Scripted", "ScriptedAdapter", "ScriptedCall", "ScriptedStream"]
