"""Where requests may go: policies that are checked against the address of every request of a built-in adapter.

A policy looks at origins as they are written (scheme, host and port) and never asks a name server, so what a name
resolves to does not matter. Not here: the sending of requests, and everything else that can reach the network: tools,
subprocesses, hooks, exporters and adapters of the application's own. Invariants: policies that meet only narrow each
other; what cannot be read is never allowed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from functools import reduce
from typing import Any, Literal
from urllib.parse import urlsplit

from ._patterns import lazy_pattern
from ._record import record
from ._shown import shown
from .errors import ConfigurationError, EgressPolicyError

__all__ = [
    "EgressPolicy",
    "egress_denied",
    "egress_unresolved",
    "egress_unsupported",
    "intersect_egress_policies",
    "normalize_egress_policy",
    "normalize_origin",
]

_FIELDS = ("mode", "allowed_origins")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = lazy_pattern(r"(?:(?P<user>.*)@)?(?P<host>\[[^\[\]@]*\]|[^:\[\]@]*)(?::(?P<port>[0-9]{0,5}))?")
_LABEL = lazy_pattern(r"[a-z0-9_-]{1,63}")
_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_HOST = 253  # characters that a name may have
_LONGEST_URL = 65_536  # as httpx has it; the part that is an origin is short


@record
class EgressPolicy:
    """The origins that requests of built-in adapters may go to.

    ``offline`` allows this machine alone: ``localhost``, names below it, ``127.0.0.0/8`` and ``[::1]``, at any port.
    ``allowlist`` allows the listed origins and any path below them; an empty list allows nothing.

    Args:
        mode: ``offline`` or ``allowlist``.
        allowed_origins: For an allowlist: origins such as ``https://api.openai.com`` or ``http://10.0.0.7:8000``.

    Raises:
        EgressPolicyError: The policy is not as described; its reason is ``invalid-policy``.
    """

    mode: Literal["offline", "allowlist"]
    _: KW_ONLY
    allowed_origins: Sequence[str] | None = None
    """A sorted tuple of origins in their normal form, see ``normalize_origin``; None when ``offline``."""

    def __post_init__(self) -> None:
        if self.mode not in ("offline", "allowlist"):
            raise _invalid(f"mode must be 'offline' or 'allowlist', got {shown(self.mode)}")
        if self.mode == "offline":
            if self.allowed_origins is not None:
                raise _invalid("mode 'offline' takes no 'allowed_origins'; use mode 'allowlist' to name origins")
            return
        if not isinstance(self.allowed_origins, list | tuple):
            got = "none" if self.allowed_origins is None else type(self.allowed_origins).__name__
            raise _invalid(f"allowed_origins must be a list of origins such as 'https://api.openai.com', got {got}")
        origins = {_listed_origin(origin, index) for index, origin in enumerate(self.allowed_origins)}
        object.__setattr__(self, "allowed_origins", tuple(sorted(origins)))

    def allows(self, url: str) -> bool:
        """Return whether a request may go to a URL.

        Args:
            url: An origin, or any URL below it. What is no absolute HTTP(S) URL is not allowed.
        """
        try:
            host, origin = _parsed(url)
        except ValueError:
            return False
        return self._allows(host, origin)

    def check(self, url: str, *, provider: str) -> None:
        """Refuse a URL that requests may not go to.

        Args:
            url: Where a request would go.
            provider: Name of the adapter that would send it.

        Raises:
            EgressPolicyError: The policy does not allow it; its reason is ``denied``.
            ConfigurationError: It is no absolute HTTP(S) URL.
        """
        try:
            host, origin = _parsed(url)
        except ValueError as error:
            raise ConfigurationError(f"{provider}: the address of a request {error}; see base_url") from None
        if not self._allows(host, origin):
            raise egress_denied(provider, origin)

    def _allows(self, host: str, origin: str) -> bool:
        return _is_loopback(host) if self.allowed_origins is None else origin in self.allowed_origins


def normalize_egress_policy(policy: object) -> EgressPolicy | None:
    """Return a policy that was given as an ``EgressPolicy``, as a mapping with its fields, or as None.

    Args:
        policy: Such as ``{"mode": "allowlist", "allowed_origins": ["https://api.openai.com"]}``; left as it is.

    Raises:
        EgressPolicyError: It is something else; its reason is ``invalid-policy``.
    """
    if policy is None or isinstance(policy, EgressPolicy):
        return policy
    if not isinstance(policy, Mapping):
        raise _invalid(f"it must be an EgressPolicy or a mapping with 'mode', got {type(policy).__name__}")
    extra = [shown(key) for key in policy if key not in _FIELDS]
    if extra:
        raise _invalid(f"it has no field {', '.join(extra)}; its fields are 'mode' and 'allowed_origins'")
    given: Mapping[str, Any] = policy
    if given.get("mode") == "offline" and "allowed_origins" in given:
        return EgressPolicy("offline", allowed_origins=given["allowed_origins"] or ())  # refused, also when it is None
    return EgressPolicy(given.get("mode"), allowed_origins=given.get("allowed_origins"))  # type: ignore[arg-type]  # checked there


def intersect_egress_policies(*policies: object) -> EgressPolicy | None:
    """Return the policy that allows what all of them allow; None, if there is none among them.

    Args:
        policies: Each as ``normalize_egress_policy`` takes it; None allows everything.

    Raises:
        EgressPolicyError: One of them is no policy; its reason is ``invalid-policy``.
    """
    given = [policy for policy in map(normalize_egress_policy, policies) if policy is not None]
    return reduce(_narrowed, given) if given else None


def normalize_origin(url: str) -> str:
    """Return the origin of a URL: scheme and host in lower case, and the port unless it is the scheme's own.

    Hosts in other scripts are written as IDNA 2008 has them, by the package ``idna``: what httpx sends to them, too. An
    IPv6 address gets its shortest form. A trailing dot stays, since it may make another name.

    Args:
        url: An absolute HTTP(S) URL; path, query and credentials do not matter.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        return _parsed(url)[1]
    except ValueError as error:
        raise ConfigurationError(f"the URL {error}") from None


def egress_denied(provider: str, origin: str) -> EgressPolicyError:
    """Return the error for a request that may not leave.

    Args:
        provider: Name of the adapter.
        origin: Where it would have gone.
    """
    text = f'Egress policy denied framework-owned provider "{provider}" request to {origin}.'
    return EgressPolicyError(text, reason="denied", provider=provider, origin=origin)


def egress_unresolved(provider: str, detail: str) -> EgressPolicyError:
    """Return the error for an adapter of which nobody can say where its requests would go.

    Args:
        provider: Name of the adapter.
        detail: What is missing, and how to give it.
    """
    text = f'Egress policy cannot resolve provider "{provider}" target: {detail}'
    return EgressPolicyError(text, reason="unresolved-target", provider=provider)


def egress_unsupported(provider: str, detail: str) -> EgressPolicyError:
    """Return the error for an adapter whose requests cannot be checked.

    Args:
        provider: Name of the adapter.
        detail: Why, and what to do instead.
    """
    text = f'Egress policy cannot enforce provider "{provider}": {detail}'
    return EgressPolicyError(text, reason="unsupported", provider=provider)


def _invalid(detail: str) -> EgressPolicyError:
    return EgressPolicyError(f"Invalid egress policy: {detail}", reason="invalid-policy")


def _narrowed(first: EgressPolicy, second: EgressPolicy) -> EgressPolicy:
    if first.allowed_origins is None:
        first, second = second, first
    if first.allowed_origins is None:
        return first
    if second.allowed_origins is None:
        common = filter(second.allows, first.allowed_origins)
    else:
        common = filter(set(second.allowed_origins).__contains__, first.allowed_origins)
    return EgressPolicy("allowlist", allowed_origins=tuple(common))


def _listed_origin(value: object, index: int) -> str:
    where = f"allowed_origins[{index}]"
    if not isinstance(value, str) or not value.strip():
        raise _invalid(f"{where} must be an origin such as 'https://api.openai.com', got {shown(value)}")
    try:
        host, origin = _parsed(value)
        parts = urlsplit(value)
    except ValueError as error:
        raise _invalid(f"{where} {error}") from None
    if "@" in parts.netloc:
        raise _invalid(f"{where} must not contain credentials")  # and the error does not, either
    if parts.path not in ("", "/") or "?" in value or "#" in value:
        raise _invalid(f"{where} must have no path, query or fragment; every path of {origin} is allowed with it")
    if _is_number(host):
        raise _invalid(f"{where} has a number in short for its host; write out the four parts of the address")
    return origin


def _parsed(url: object) -> tuple[str, str]:
    """Return the host and the origin of a URL, both in their normal form; a ``ValueError`` says what it must be."""
    if not isinstance(url, str) or len(url) > _LONGEST_URL or re.search(r"[\s\x00-\x1f\x7f\\]", url):
        raise ValueError("must be an absolute http:// or https:// URL, without spaces and backslashes")
    try:
        scheme, netloc = urlsplit(url)[:2]
    except ValueError:  # brackets that do not match, or characters that turn into delimiters
        scheme = netloc = ""
    match = _AUTHORITY.fullmatch(netloc)
    if scheme not in _DEFAULT_PORTS or match is None or not match["host"]:
        raise ValueError("must be an absolute http:// or https:// URL with a host")
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise ValueError("must have a port from 1 to 65535")
    host = _normal_host(match["host"].lower())
    return host, f"{scheme}://{host}" + ("" if port == _DEFAULT_PORTS[scheme] else f":{port}")


def _normal_host(host: str) -> str:
    if host.startswith("["):
        address = host[1:-1]
        if "%" in address:
            raise ValueError("must have no zone in its IPv6 address")
        try:
            return f"[{ipaddress.IPv6Address(address).compressed}]"
        except ValueError:
            raise ValueError("must have an IPv6 address between its brackets") from None
    if not host.isascii():
        host = _encoded(host)
    labels = host.removesuffix(".").split(".")
    if len(host) > _LONGEST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("has a host that is no name; write it without %-signs and empty parts")
    return host


def _encoded(host: str) -> str:
    # The same package and the same call as in httpx: what is checked is what is sent.
    import idna  # noqa: PLC0415 - its tables take time to load, and hosts in other scripts are rare

    try:
        return idna.encode(host).decode("ascii")
    except UnicodeError:
        raise ValueError("has a host that is no internationalised name") from None


def _is_number(host: str) -> bool:
    """Say whether a host looks like a number that some resolvers would read as an IPv4 address, and is not written out.

    ``127.1``, ``2130706433`` and ``0x7f.1`` are such, and ``127.0.0.1.``, which httpx would take for a name.
    """
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None and not _is_ipv4(host)


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    name = host.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost") or host == "[::1]":
        return True
    return host.startswith("127.") and _is_ipv4(host)
