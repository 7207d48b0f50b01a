"""Messages between agents: who gets which, who has read what, limits, subscribers, snapshots."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from openmultiagent import BusMessage, ConfigurationError, StoreError, Team, TeamConfig
from openmultiagent.team import MAX_CONTENT_BYTES, MAX_MESSAGES, MessageBus
from tests.support import proves


def contents(messages: list[BusMessage]) -> list[str]:
    return [message.content for message in messages]


def ids(*messages: BusMessage) -> list[str]:
    return [message.id for message in messages]


@proves("TEM-10")
def test_who_gets_which_message() -> None:
    bus = MessageBus()
    before = datetime.now(UTC)
    first = bus.send("a", "b", "for b")
    second = bus.broadcast("b", "for all")
    third = bus.send("c", "b", "for b again")
    assert bus.get_all("a") == bus.get_unread("a") == [second]
    assert bus.get_all("b") == bus.get_unread("b") == [first, third]
    assert bus.get_all("c") == [second]
    assert bus.get_all("latecomer") == bus.get_unread("latecomer") == [second]
    assert (first.sender, first.recipient, first.is_broadcast) == ("a", "b", False)
    assert (second.sender, second.recipient, second.is_broadcast) == ("b", "*", True)
    assert before <= first.timestamp <= second.timestamp <= datetime.now(UTC)
    assert len({*ids(first, second, third)}) == 3


@proves("TEM-10")
def test_the_order_is_that_of_sending_however_messages_came() -> None:
    bus = MessageBus(["a", "b"])
    bus.broadcast("b", "1")
    bus.send("b", "a", "2")
    assert contents(bus.get_unread("a")) == ["1", "2"]
    bus.send("b", "a", "3")
    bus.broadcast("b", "4")
    bus.send("b", "a", "5")
    assert contents(bus.get_unread("a")) == contents(bus.get_all("a")) == ["1", "2", "3", "4", "5"]


@proves("TEM-10")
def test_what_is_read_is_not_unread() -> None:
    bus = MessageBus()
    direct, both = bus.send("a", "b", "x"), bus.broadcast("a", "y")
    bus.mark_read("b", [])
    bus.mark_read("b", ["nobody knows it"])
    assert bus.get_unread("b") == [direct, both]
    bus.mark_read("b", ids(both, both))
    assert bus.get_unread("b") == [direct]
    assert bus.get_unread("c") == [both]
    bus.mark_read("c", ids(direct))  # not c's to read
    assert bus.get_unread("b") == [direct]
    bus.mark_read("b", ids(direct))
    assert bus.get_unread("b") == []
    assert bus.get_all("b") == [direct, both]
    later = bus.broadcast("c", "z")
    assert bus.get_unread("b") == [later]
    with pytest.raises(ConfigurationError, match="message_ids must be a list"):
        bus.mark_read("b", direct.id)


@proves("TEM-11")
def test_a_conversation_is_what_two_have_sent_to_each_other() -> None:
    bus = MessageBus()
    one = bus.send("a", "b", "1")
    bus.broadcast("a", "to all")
    bus.send("c", "b", "from another")
    bus.send("a", "c", "to another")
    two = bus.send("b", "a", "2")
    assert bus.get_conversation("a", "b") == bus.get_conversation("b", "a") == [one, two]
    assert bus.get_conversation("a", "nobody") == []
    own = bus.send("a", "a", "note")
    assert bus.get_conversation("a", "a") == [own]


@proves("TEM-12")
def test_only_agents_of_the_team_are_sent_to() -> None:
    team = Team(TeamConfig.of({"name": "t", "agents": [{"name": "a"}, {"name": "b"}]}))
    calls: list[Callable[[str], object]] = [
        lambda name: team.send_message("a", name, "x"),
        team.get_messages,
        team.get_unread_messages,
        lambda name: team.mark_messages_read(name, []),
        lambda name: team.bus.subscribe(name, print),
    ]
    for call in calls:
        for name in ("c", "A", "", "*"):
            with pytest.raises(ConfigurationError, match=f"{name!r} is no agent of the team".replace("*", r"\*")) as e:
                call(name)
            assert "its agents are: 'a', 'b'" in str(e.value)
    with pytest.raises(ConfigurationError, match="its agents are: none"):
        Team({"name": "t", "agents": []}).send_message("a", "b", "x")
    assert team.send_message("user", "a", "from outside").sender == "user"
    assert contents(team.get_messages("a")) == ["from outside"]
    team.broadcast("user", "to all")
    assert contents(team.get_unread_messages("b")) == ["to all"]
    team.mark_messages_read("b", ids(*team.get_messages("b")))
    assert team.get_unread_messages("b") == []


@proves("TEM-12")
@pytest.mark.parametrize("name", ["", "*", "a:b", "a/b", "a\n## b", "__x", 3, None, ["a"]])
def test_names_that_make_no_sense_are_refused(name: Any) -> None:
    bus, bound = MessageBus(), MessageBus(["a"])
    calls: list[Callable[[], object]] = [
        lambda: bus.send(name, "a", "x"),
        lambda: bus.broadcast(name, "x"),
        lambda: bus.send("a", name, "x"),
        lambda: bus.get_unread(name),
        lambda: bound.send("a", name, "x"),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"sender|recipient|agent"):
            call()
    assert bus.snapshot()["messages"] == bound.snapshot()["messages"] == []


@proves("TEM-13")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "not blank"),
        (" \n", "not blank"),
        (None, "must be a text"),
        (b"x", "must be a text"),
        ("x\ud83d", "lone surrogate"),
        ("ü" * (MAX_CONTENT_BYTES // 2) + "x", "65,537 bytes; 65,536 at most"),
    ],
)
def test_content_that_cannot_be_sent_is_refused(content: Any, text: str) -> None:
    bus = MessageBus()
    with pytest.raises(ConfigurationError, match=text):
        bus.send("a", "b", content)
    with pytest.raises(ConfigurationError, match=text):
        bus.broadcast("a", content)
    assert bus.get_all("b") == []
    assert bus.send("a", "b", "ü" * (MAX_CONTENT_BYTES // 2)).content[0] == "ü"


@proves("TEM-13")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"max_messages": 0}, "max_messages of a MessageBus must be a whole number from 1"),
        ({"max_content_bytes": 1.5}, "max_content_bytes of a MessageBus must be a whole number from 1"),
        ({"names": "ab"}, "names of a MessageBus must be a list"),
    ],
)
def test_a_bus_that_makes_no_sense_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        MessageBus(**arguments)


@proves("TEM-13")
def test_a_full_bus_takes_nothing_more() -> None:
    bus = MessageBus(max_messages=2)
    heard: list[BusMessage] = []
    bus.subscribe("b", heard.append)
    bus.send("a", "b", "1")
    bus.broadcast("a", "2")
    sends: list[Callable[[], object]] = [lambda: bus.send("a", "b", "3"), lambda: bus.broadcast("a", "3")]
    for send in sends:
        with pytest.raises(StoreError, match="2 messages, which is its limit") as caught:
            send()
        assert caught.value.code == "MESSAGE_LIMIT"
    assert contents(bus.get_all("b")) == contents(heard) == ["1", "2"]


@proves("TEM-13")
def test_the_limit_that_is_documented() -> None:
    bus = MessageBus()
    for number in range(MAX_MESSAGES):
        bus.send("a", "b", str(number))
    with pytest.raises(StoreError, match="10,000"):
        bus.send("a", "b", "x")


class Counted(str):
    """A name that counts how often it is compared, and so how many messages are looked at."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__ne__(self, other)

    __hash__ = str.__hash__


@proves("TEM-14")
def test_unread_messages_are_found_without_a_look_at_the_others() -> None:
    bus = MessageBus()
    for number in range(500):
        bus.send(Counted("x"), "b", str(number))
        bus.broadcast(Counted("x"), str(number))
    bus.mark_read("b", ids(*bus.get_unread("b")))
    last = bus.broadcast(Counted("x"), "last")
    Counted.looks = 0
    assert bus.get_unread("b") == [last]
    assert 0 < Counted.looks <= 5
    Counted.looks = 0
    assert len(bus.get_all("b")) == 1001
    assert Counted.looks >= 500, "the count does not count"


@proves("TEM-15")
def test_subscribers_are_called_in_place_after_the_message_was_kept() -> None:
    bus = MessageBus()
    heard: list[tuple[str, str, bool]] = []

    def listen(agent: str) -> None:
        bus.subscribe(agent, lambda message: heard.append((agent, message.content, message in bus.get_all(agent))))

    for agent in ("a", "b", "c"):
        listen(agent)
    bus.send("a", "b", "1")
    assert heard == [("b", "1", True)]
    bus.broadcast("a", "2")
    assert heard[1:] == [("b", "2", True), ("c", "2", True)]


@proves("TEM-15")
def test_a_subscription_ends_and_ends_again() -> None:
    bus = MessageBus()
    heard: list[str] = []
    stop = bus.subscribe("b", lambda message: heard.append(f"one {message.content}"))
    stop_other = bus.subscribe("b", lambda message: heard.append(f"two {message.content}"))
    bus.send("a", "b", "1")
    stop()
    stop()
    bus.send("a", "b", "2")
    stop_other()
    stop_other()
    bus.broadcast("a", "3")
    assert heard == ["one 1", "two 1", "two 2"]
    bus.subscribe("b", lambda message: heard.append(message.content))
    bus.broadcast("a", "4")
    assert heard[3:] == ["4"]


@proves("TEM-15")
def test_a_subscriber_that_raises_stops_nobody() -> None:
    bus = MessageBus()
    heard: list[BusMessage] = []

    def fails(message: BusMessage) -> None:
        raise ValueError(f"no: {message.content}")

    async def waits() -> None:
        raise AssertionError("nobody awaits it")

    bus.subscribe("b", fails)
    bus.subscribe("b", lambda message: waits())
    bus.subscribe("b", heard.append)
    with capture_logs() as lines:
        first, second = bus.send("a", "b", "1"), bus.send("a", "b", "2")
    assert bus.get_all("b") == heard == [first, second]
    assert [(line["event"], line["topic"]) for line in lines] == [("team_handler_failed", "b")] * 4
    assert "ValueError: no: 1" in lines[0]["error"]
    assert "nobody awaits" in lines[1]["error"]


@proves("TEM-15")
def test_async_subscribers_are_refused() -> None:
    async def plain(message: BusMessage) -> None: ...

    class Waiting:
        async def __call__(self, message: BusMessage) -> None: ...

    for handler in (plain, Waiting(), 3, None):
        with pytest.raises(ConfigurationError, match="must be a plain function of one argument"):
            MessageBus().subscribe("b", handler)  # type: ignore[arg-type]  # that is the point


@proves("TEM-15")
def test_a_subscriber_may_send() -> None:
    bus = MessageBus()
    bus.subscribe("b", lambda message: bus.send("b", "a", f"re: {message.content}"))
    bus.send("a", "b", "x")
    assert contents(bus.get_unread("a")) == ["re: x"]


@proves("TEM-16")
def test_a_snapshot_is_json_and_brings_everything_back() -> None:
    bus = MessageBus(["a", "b", "c"])
    direct, both = bus.send("a", "b", "x"), bus.broadcast("a", "y")
    bus.mark_read("b", ids(both))
    snapshot = json.loads(json.dumps(bus.snapshot()))
    assert snapshot == {
        "version": 1,
        "messages": [
            {
                "id": direct.id,
                "sender": "a",
                "recipient": "b",
                "content": "x",
                "timestamp": direct.timestamp.isoformat(),
            },
            {"id": both.id, "sender": "a", "recipient": "*", "content": "y", "timestamp": both.timestamp.isoformat()},
        ],
        "read_state": [{"agent_name": "b", "message_ids": [both.id]}],
    }
    other = MessageBus.from_snapshot(snapshot, ["a", "b", "c"])
    assert other.get_all("b") == [direct, both]
    assert other.get_unread("b") == [direct]
    assert other.get_unread("c") == [both]
    assert other.snapshot() == snapshot
    with pytest.raises(ConfigurationError, match="no agent of the team"):
        other.send("a", "d", "x")


@proves("TEM-16")
def test_restoring_keeps_subscribers_and_a_new_bus_has_none() -> None:
    bus = MessageBus()
    heard: list[BusMessage] = []
    bus.subscribe("b", heard.append)
    snapshot = bus.snapshot()
    bus.send("a", "b", "gone")
    bus.restore(snapshot)
    assert bus.get_all("b") == []
    bus.send("a", "b", "new")
    assert contents(heard) == ["gone", "new"]
    for other in (MessageBus.from_snapshot(snapshot), bus.fork()):
        other.send("a", "b", "unheard")
    assert len(heard) == 2
    assert contents(bus.get_all("b")) == ["new"]


GOOD = {
    "version": 1,
    "messages": [{"id": "m", "sender": "a", "recipient": "b", "content": "x", "timestamp": "2026-01-01T00:00:00Z"}],
    "read_state": [{"agent_name": "b", "message_ids": ["m"]}],
}


def broken(**change: Any) -> dict[str, Any]:
    return {**GOOD, "messages": [{**GOOD["messages"][0], **change}]}  # type: ignore[index]


@proves("TEM-16")
@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        ({**GOOD, "version": 2}, "must have version 1, got 2"),
        ({}, "must have version 1, got None"),
        ([], "must have version 1, got 'list'"),
        ({**GOOD, "messages": None}, "list of messages"),
        ({**GOOD, "messages": [3]}, r"messages\[0\] must be an object"),
        ({**GOOD, "messages": GOOD["messages"] * 2}, r"messages\[1\] has the id 'm' of an earlier message"),  # type: ignore[operator]
        ({**GOOD, "messages": [{}] * (MAX_MESSAGES + 1)}, "10,001 messages; 10,000 at most"),
        (broken(id=""), r"messages\[0\] is broken: id must be a text"),
        (broken(sender=None), "sender must be a text"),
        (broken(sender="a/b"), "sender 'a/b' must not contain"),
        (broken(recipient="a:b"), "recipient 'a:b' must not contain"),
        (broken(content=3), "content must be a text"),
        (broken(content="\ud83d"), "lone surrogate"),
        (broken(timestamp=3), "timestamp must be a time"),
        (broken(timestamp="soon"), "isoformat"),
        (broken(timestamp="2026-01-01T00:00:00"), "no time zone"),
        ({**GOOD, "read_state": {}}, "list of read_state"),
        ({**GOOD, "read_state": [3]}, r"read_state\[0\] must be an object"),
        ({**GOOD, "read_state": [{"agent_name": "b"}]}, r"read_state\[0\] must have a list of message_ids"),
    ],
)
def test_a_broken_snapshot_is_refused_whole(snapshot: Any, text: str) -> None:
    bus = MessageBus()
    kept = bus.send("a", "b", "kept")
    with pytest.raises(StoreError, match=text) as caught:
        bus.restore(snapshot)
    assert (caught.value.code == "STORE_VERSION") == ("version 1" in text)
    assert bus.get_unread("b") == [kept]
    bus.restore({**GOOD, "read_state": [*GOOD["read_state"], {"agent_name": "c", "message_ids": [3, "?"]}]})  # type: ignore[misc]
    assert bus.get_unread("b") == []


@proves("TEM-16")
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([*"abc", "*", "read"]), st.integers(0, 5)), max_size=30)
)
def test_a_bus_and_its_restored_copy_agree(steps: list[tuple[str, str, int]]) -> None:
    bus, sent, read = MessageBus(), list[BusMessage](), set[tuple[str, str]]()
    for agent, action, number in steps:
        if action == "read":
            chosen = bus.get_unread(agent)[:number]
            bus.mark_read(agent, ids(*chosen))
            read |= {(agent, message.id) for message in chosen}
        else:
            sent.append(bus.broadcast(agent, "x") if action == "*" else bus.send(agent, action, "x"))
    for other in (bus, bus.fork(), MessageBus.from_snapshot(json.loads(json.dumps(bus.snapshot())))):
        for agent in "abc":
            mine = [each for each in sent if each.recipient == agent or (each.is_broadcast and each.sender != agent)]
            assert other.get_all(agent) == mine
            assert other.get_unread(agent) == [each for each in mine if (agent, each.id) not in read]


@proves("TEM-17")
def test_a_bus_is_used_from_several_threads() -> None:
    bus = MessageBus(["a", "b"])
    seen: list[str] = []

    def send() -> None:
        for _ in range(200):
            bus.send("a", "b", "x")
            bus.broadcast("a", "y")

    def read() -> None:
        while len(seen) < 1600:
            unread = bus.get_unread("b")
            seen.extend(ids(*unread))
            bus.mark_read("b", ids(*unread))

    threads = [threading.Thread(target=send) for _ in range(4)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == len(set(seen)) == 1600


def test_a_message_never_changes_and_can_be_copied_and_stored() -> None:
    message = MessageBus().send("a", "b", "x")
    with pytest.raises(AttributeError):
        message.content = "y"  # type: ignore[misc]  # that is the point
    assert copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    assert BusMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message
