"""AWS credentials: given, from the environment, from the shared credentials file, or from a function of the user's.

Not here: signatures. What needs the network (instance profiles, SSO, role assumption) is not here either: a function of
the user's can do it. Invariants: a secret is in no ``repr`` and no error; files are read in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path

import anyio.to_thread

from .._record import record
from ..errors import ConfigurationError, LLMAuthenticationError

__all__ = ["AwsCredentials", "CredentialsProvider", "SharedCredentialsFile", "credentials_from_environment"]

_KEY_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_HINT = (
    f"set AWS_BEARER_TOKEN_BEDROCK, or {_KEY_ID} and {_SECRET}, "
    "or give the adapter api_key, credentials or credentials_provider"
)


@record
class AwsCredentials:
    """An access key of AWS.

    Args:
        access_key_id: The id of the key.
        secret_access_key: The secret that requests are signed with.
        session_token: What belongs to a temporary key.

    Raises:
        ConfigurationError: One of them cannot be sent.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key_id", "secret_access_key", "session_token"):
            value = getattr(self, name)
            if value is None and name == "session_token":
                continue
            if (
                not isinstance(value, str)
                or not value.isascii()
                or not value.isprintable()
                or " " in value
                or not value
            ):
                raise ConfigurationError(f"AwsCredentials.{name} must be printable ASCII text without spaces")


CredentialsProvider = Callable[[], Awaitable[AwsCredentials]]
"""Returns the credentials for a request; called for each, so it should remember them until they expire."""


def credentials_from_environment() -> AwsCredentials | None:
    """Return the credentials of the environment variables; None when there are none. An empty variable is none.

    Raises:
        ConfigurationError: One of the two keys is missing, or cannot be sent.
    """
    key_id, secret, token = (os.environ.get(name) or None for name in (_KEY_ID, _SECRET, _TOKEN))
    if key_id is None and secret is None:
        return None
    if key_id is None or secret is None:
        missing = _KEY_ID if key_id is None else _SECRET
        raise ConfigurationError(f"bedrock: {missing} is not set, although the other half of the key is")
    return AwsCredentials(key_id, secret, token)


class SharedCredentialsFile:
    """The credentials of one profile of the file that AWS's tools share.

    The file is read for each request, so that a tool may renew the keys in it. Profiles that get their keys elsewhere
    (roles, SSO, processes) are told apart and refused.

    Args:
        provider: Name of the adapter, for errors.
        path: The file; ``~`` is the home directory.
        profile: The name of the profile.
    """

    def __init__(self, *, provider: str, path: str | os.PathLike[str], profile: str) -> None:
        self._provider = provider
        self._path = Path(path)
        self._profile = profile

    @classmethod
    def from_environment(cls, provider: str) -> SharedCredentialsFile:
        """Return the file and the profile that the environment names, or AWS's defaults.

        Args:
            provider: Name of the adapter, for errors.
        """
        path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
        return cls(provider=provider, path=path, profile=os.environ.get("AWS_PROFILE") or "default")

    async def __call__(self) -> AwsCredentials:
        """Return the credentials.

        Raises:
            LLMAuthenticationError: There are none.
        """
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> AwsCredentials:
        import configparser  # noqa: PLC0415 - import time

        file = configparser.RawConfigParser()
        try:
            file.read_string(self._path.expanduser().read_text(encoding="utf-8"))
        except (OSError, RuntimeError, UnicodeDecodeError) as error:  # RuntimeError: nobody's home
            raise self._refusal(f"{self._path} cannot be read ({type(error).__name__})") from None
        except configparser.Error:  # its text quotes the line, which may hold a key
            raise self._refusal(f"{self._path} is no credentials file") from None
        if not file.has_section(self._profile):
            raise self._refusal(f"{self._path} has no profile {self._profile!r}")
        values = dict(file.items(self._profile))
        try:
            return AwsCredentials(
                values["aws_access_key_id"], values["aws_secret_access_key"], values.get("aws_session_token") or None
            )
        except KeyError:
            raise self._refusal(f"profile {self._profile!r} of {self._path} holds no access key") from None
        except ConfigurationError as error:
            raise self._refusal(f"profile {self._profile!r} of {self._path}; {error}") from None

    def _refusal(self, reason: str) -> LLMAuthenticationError:
        text = f"{self._provider} needs credentials; {reason}; {_HINT}"
        return LLMAuthenticationError(text, provider=self._provider, attempts=0)
