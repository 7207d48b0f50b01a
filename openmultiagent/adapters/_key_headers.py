"""The headers of adapters that log in with a key. Not here: signatures, and tokens that expire.

Invariant: a header that cannot be sent is refused when the adapter is made, and a missing key when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import LLMAuthenticationError
from ._transport import checked_header

__all__ = ["KeyHeaders"]

_AUTHORIZATION = "authorization"


class KeyHeaders:
    """The headers of an adapter that shows a key, and what must not be shown of them.

    Args:
        owner: Name of the adapter, for errors.
        api_key: The key.
        key_header: The header that shows it; ``authorization`` shows it as a bearer token.
        key_variable: The environment variable that the key should have come from, when there must be one.
        fixed: What the protocol wants in every request.
        headers: Further headers; they win, and one of them may log in instead of the key.

    Raises:
        ConfigurationError: The key or a header cannot be sent.
    """

    def __init__(
        self,
        *,
        owner: str,
        api_key: str | None,
        key_header: str = _AUTHORIZATION,
        key_variable: str | None = None,
        fixed: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._owner = owner
        self._values = dict(fixed or {})
        if api_key:
            key = checked_header(api_key, owner=owner, what="api_key")
            self._values[key_header] = f"Bearer {key}" if key_header == _AUTHORIZATION else key
        for name, value in (headers or {}).items():
            header = checked_header(name, owner=owner, what="the name of a header").lower()
            self._values[header] = checked_header(value, owner=owner, what=f"the value of header {header}")
        shown = [self._values[name] for name in {key_header, _AUTHORIZATION} if name in self._values]
        self._missing_key = None if shown else key_variable
        # Also the token without its "Bearer", and a key that a header has replaced.
        tokens = [*shown, *(value.rpartition(" ")[2] for value in shown), *([api_key] if api_key else [])]
        self.secrets = tuple(dict.fromkeys(tokens))
        """What must be in no error."""

    def get(self) -> Mapping[str, str]:
        """Return the headers.

        Raises:
            LLMAuthenticationError: There must be a key, and is none.
        """
        if self._missing_key is not None:
            # Without a colon or an equals sign behind "key": redaction would take what follows for the key itself.
            raise LLMAuthenticationError(
                f"{self._owner} needs an API key; set {self._missing_key}, or give api_key",
                provider=self._owner,
                attempts=0,
            )
        return self._values
