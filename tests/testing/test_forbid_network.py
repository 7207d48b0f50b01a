"""The guard that keeps tests off the network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.to_thread
import httpx
import pytest

from openmultiagent.adapters import LLMChatOptions, OpenAIAdapter, TransportOptions
from openmultiagent.errors import PolicyError
from openmultiagent.messages import LLMMessage, TextBlock
from openmultiagent.testing import FakeProviderServer, NetworkForbiddenError, forbid_network
from tests.support import proves

ELSEWHERE = ("203.0.113.7", 9)  # an address that stands for none

METHODS = ("connect", "connect_ex", "sendto", "sendmsg")
LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr")


def of_the_module() -> list[object]:
    return [vars(socket.socket).get(name) for name in METHODS] + [getattr(socket, name) for name in LOOKUPS]


def tcp(use: Callable[[socket.socket], object]) -> Callable[[], object]:
    def run() -> object:
        with socket.socket() as client:
            return use(client)

    return run


def udp(use: Callable[[socket.socket], object]) -> Callable[[], object]:
    def run() -> object:
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            return use(client)

    return run


@pytest.mark.parametrize(
    ("reach", "target"),
    [
        (tcp(lambda client: client.connect(ELSEWHERE)), "203.0.113.7"),
        (tcp(lambda client: client.connect_ex(ELSEWHERE)), "203.0.113.7"),
        (tcp(lambda client: client.connect(("example.com", 80))), "example.com"),
        (udp(lambda client: client.sendto(b"x", ELSEWHERE)), "203.0.113.7"),
        (udp(lambda client: client.sendmsg([b"x"], [], 0, ELSEWHERE)), "203.0.113.7"),
        (lambda: socket.create_connection(("example.com", 80)), "example.com"),
        (lambda: socket.create_connection(ELSEWHERE), "203.0.113.7"),
        (lambda: socket.getaddrinfo("example.com", 80), "example.com"),
        (lambda: socket.getaddrinfo(b"example.com", 80), "example.com"),
        (lambda: socket.gethostbyname("example.com"), "example.com"),
        (lambda: socket.gethostbyname_ex("example.com"), "example.com"),
        (lambda: socket.gethostbyaddr("example.com"), "example.com"),
    ],
)
@proves("TST-50")
def test_other_machines_are_out_of_reach(reach: Callable[[], object], target: str) -> None:
    with forbid_network(), pytest.raises(NetworkForbiddenError) as caught:
        reach()
    assert caught.value.target == target
    assert f"something wants to reach '{target}'" in str(caught.value)
    assert isinstance(caught.value, PolicyError)
    assert not isinstance(caught.value, OSError)


@proves("TST-50")
async def test_an_adapter_does_not_take_it_for_a_network_that_is_down() -> None:
    adapter = OpenAIAdapter(base_url="https://api.example.com/v1", transport=TransportOptions(max_retries=5))
    with forbid_network(), pytest.raises(NetworkForbiddenError, match=r"'api\.example\.com'"):
        await adapter.chat([LLMMessage.user("Hi")], LLMChatOptions(model="m"))
    await adapter.aclose()


@proves("TST-50")
async def test_every_thread_is_kept_off() -> None:
    with forbid_network(), pytest.raises(NetworkForbiddenError):
        await anyio.to_thread.run_sync(socket.getaddrinfo, "example.com", 80)


@proves("TST-51")
async def test_this_machine_can_be_reached() -> None:
    with forbid_network():
        async with FakeProviderServer(lambda _: "Hello") as server:
            adapter = OpenAIAdapter(base_url=server.openai_url)
            answer = await adapter.chat([LLMMessage.user("Hi")], LLMChatOptions(model="m"))
            assert answer.content == [TextBlock.new("Hello")]
            await adapter.aclose()
            async with httpx.AsyncClient() as client:
                response = await client.get(server.url.replace("127.0.0.1", "localhost"))
                assert response.status_code == 404
    assert len(server.requests) == 2


@proves("TST-51")
def test_loopback_in_all_its_forms() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, forbid_network():
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "127.42.0.9", "localhost", "LocalHost"):
            with suppress(ConnectionRefusedError), socket.create_connection((host, port)):
                pass
        for name in ("::1", "::ffff:127.0.0.1", "localhost.", "a.localhost", None, "", "203.0.113.7", "fe80::1%lo"):
            with suppress(socket.gaierror):  # a machine without IPv6 or such a name: it was asked all the same
                assert socket.getaddrinfo(name, port)
        with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as client:
            receiver.bind(("127.0.0.1", 0))
            assert client.sendto(b"x", receiver.getsockname()) == 1
            client.connect(receiver.getsockname())
            assert client.send(b"x") == 1


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
@proves("TST-51")
def test_unix_sockets_work(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("s") / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client, forbid_network():
        server.bind(path)
        server.listen()
        client.connect(path)


@proves("TST-52")
def test_everything_is_as_before() -> None:
    before = of_the_module()
    with forbid_network():
        during = of_the_module()
        assert all(one is not other for one, other in zip(before, during, strict=True))
    assert of_the_module() == before
    with pytest.raises(KeyError), forbid_network():
        raise KeyError
    assert of_the_module() == before


@proves("TST-52")
def test_nested_guards_may_end_in_any_order() -> None:
    before = of_the_module()
    first, second = forbid_network(), forbid_network()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(NetworkForbiddenError):
        socket.gethostbyname("example.com")
    second.__exit__(None, None, None)
    assert of_the_module() == before


@proves("TST-52")
def test_guards_of_several_threads() -> None:
    before = of_the_module()
    entered, leave = threading.Barrier(5), threading.Event()

    def guard() -> None:
        with forbid_network():
            entered.wait(10)
            leave.wait(10)

    threads = [threading.Thread(target=guard) for _ in range(4)]
    for thread in threads:
        thread.start()
    entered.wait(10)
    with pytest.raises(NetworkForbiddenError):
        socket.gethostbyname("example.com")
    leave.set()
    for thread in threads:
        thread.join()
    assert of_the_module() == before


@proves("TST-52")
def test_it_is_a_decorator_too() -> None:
    @forbid_network()
    def lookup() -> object:
        return socket.gethostbyname("example.com")

    with pytest.raises(NetworkForbiddenError):
        lookup()
