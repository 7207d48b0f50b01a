"""A guard for test runs: nothing may be connected to but this machine.

It stands in Python's ``socket`` module, which asyncio, trio and their clients use; what opens sockets in C of its own,
such as uvloop, is not seen. Invariant: after the last guard is gone, the module is what it was before the first.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import PolicyError

__all__ = ["NetworkForbiddenError", "forbid_network"]


class NetworkForbiddenError(PolicyError):
    """A test was about to reach another machine.

    Args:
        target: The host that it would have reached, or looked up.
    """

    code = "NETWORK_FORBIDDEN"
    field_names = ("target",)

    def __init__(self, *, target: str) -> None:
        super().__init__(
            f"the network is forbidden here, and something wants to reach {target!r:.200}: use a ScriptedAdapter or a "
            "FakeProviderServer, or leave forbid_network()"
        )
        self.target = target


_METHODS = tuple(name for name in ("connect", "connect_ex", "sendto", "sendmsg") if hasattr(socket.socket, name))
_LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr")
_MISSING = object()
_lock = threading.Lock()
_guards = 0
_before: list[tuple[object, str, object]] = []


@contextmanager
def forbid_network() -> Iterator[None]:
    """Make every attempt to reach another machine fail, for all threads, until the context ends.

    Connections to loopback addresses, Unix sockets and lookups of ``localhost`` work. Contexts may be nested and may
    end in any order. As a fixture of pytest::

        @pytest.fixture(autouse=True)
        def no_network():
            with forbid_network():
                yield

    Raises:
        NetworkForbiddenError: By whatever tries to connect, to send, or to look up a name; it is no ``OSError``, so
            that nobody takes it for a network that is down and tries again.
    """
    global _guards  # noqa: PLW0603 - the socket module is global, too
    with _lock:
        _guards += 1
        if _guards == 1:
            _install()
    try:
        yield
    finally:
        with _lock:
            _guards -= 1
            if not _guards:
                _restore()


def _install() -> None:
    for name in _METHODS:
        _replace(socket.socket, name, _guarded_method(name, getattr(socket.socket, name)))
    for name in _LOOKUPS:
        _replace(socket, name, _guarded_lookup(getattr(socket, name)))


def _replace(owner: Any, name: str, guard: object) -> None:
    _before.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, guard)


def _restore() -> None:
    while _before:
        owner, name, value = _before.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


def _guarded_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def guard(self: socket.socket, *args: Any) -> Any:
        # connect(address), sendto(data[, flags], address), sendmsg(buffers, ancillary, flags, address)
        address = args[-1] if args else None
        if self.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple) and not _is_here(address[0]):
            if name == "connect":
                self.close()  # socket.create_connection and others close it for an OSError only
            raise NetworkForbiddenError(target=str(address[0]))
        return method(self, *args)

    return guard


def _guarded_lookup(lookup: Callable[..., Any]) -> Callable[..., Any]:
    def guard(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name and not _is_here(name) and _address(name) is None:
            raise NetworkForbiddenError(target=str(name))
        return lookup(host, *args, **kwargs)

    return guard


def _is_here(host: object) -> bool:
    name = str(host).lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
