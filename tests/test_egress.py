"""Policies about where requests may go."""

import copy
import dataclasses
import ipaddress
import pickle
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openmultiagent.egress import (
    EgressPolicy,
    egress_denied,
    egress_unresolved,
    egress_unsupported,
    intersect_egress_policies,
    normalize_egress_policy,
    normalize_origin,
)
from openmultiagent.errors import ConfigurationError, EgressPolicyError
from tests.support import proves

OFFLINE = EgressPolicy("offline")


def listed(*origins: str) -> EgressPolicy:
    return EgressPolicy("allowlist", allowed_origins=origins)


# --- what a policy is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        (None, None),
        (OFFLINE, OFFLINE),
        ({"mode": "offline"}, OFFLINE),
        (MappingProxyType({"mode": "offline"}), OFFLINE),
        ({"mode": "allowlist", "allowed_origins": ["https://a.test"]}, listed("https://a.test")),
        ({"mode": "allowlist", "allowed_origins": ()}, listed()),
    ],
)
@proves("EGR-1")
def test_a_policy_is_an_object_a_mapping_or_none(given: object, policy: EgressPolicy | None) -> None:
    assert normalize_egress_policy(given) == policy


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("offline", "mapping with 'mode', got str"),
        ([("mode", "offline")], "mapping with 'mode', got list"),
        ({}, "mode must be 'offline' or 'allowlist', got None"),
        ({"mode": "online"}, "got 'online'"),
        ({"mode": ["offline"]}, "mode must be"),
        ({"mode": "offline", "ports": [80], 7: 1}, "has no field 'ports', 7"),
        ({"mode": "offline", "allowed_origins": ["https://a.test"]}, "'offline' takes no 'allowed_origins'"),
        ({"mode": "offline", "allowed_origins": None}, "'offline' takes no 'allowed_origins'"),
        ({"mode": "allowlist"}, "must be a list of origins such as 'https://api.openai.com', got none"),
        ({"mode": "allowlist", "allowed_origins": "https://a.test"}, "must be a list of origins"),
        ({"mode": "allowlist", "allowed_origins": {"https://a.test"}}, "got set"),
        ({"mode": "allowlist", "allowed_origins": ["https://a.test", ""]}, "allowed_origins[1] must be an origin"),
        ({"mode": "allowlist", "allowed_origins": ["  "]}, "allowed_origins[0] must be an origin"),
        ({"mode": "allowlist", "allowed_origins": [7]}, "allowed_origins[0] must be an origin"),
    ],
)
@proves("EGR-1")
def test_anything_else_is_no_policy(given: object, fault: str) -> None:
    with pytest.raises(EgressPolicyError) as caught:
        normalize_egress_policy(given)
    error = caught.value
    assert error.message.startswith("Invalid egress policy: ")
    assert fault in error.message
    assert (error.reason, error.code) == ("invalid-policy", "INVALID_EGRESS_POLICY")
    assert (error.provider, error.origin) == (None, None)


@pytest.mark.parametrize(
    ("origin", "fault"),
    [
        ("a.test", "absolute"),
        ("//a.test", "absolute"),
        ("ftp://a.test", "absolute"),
        ("https://", "absolute"),
        ("https://:443", "absolute"),
        ("https://[::1", "absolute"),
        ("https://[::1]evil.test", "absolute"),
        ("https://evil[::1]", "absolute"),
        ("https://a.test\\@b.test", "backslashes"),
        (" https://a.test", "spaces"),
        ("https://a.test\n", "spaces"),
        ("https://a.test:x", "absolute"),
        ("https://a.test:0", "a port from 1 to 65535"),
        ("https://a.test:65536", "a port from 1 to 65535"),
        ("https://me:hunter2@a.test", "credentials"),
        ("https://a.test/v1", "no path"),
        ("https://a.test//", "no path"),
        ("https://a.test?key=hunter2", "no path, query"),
        ("https://a.test/?", "no path, query"),
        ("https://a.test#", "no path, query or fragment"),
        ("https://a..test", "no name"),
        ("https://.", "no name"),
        ("https://a.test..", "no name"),
        ("https://*.a.test", "no name"),
        ("https://%61.test", "no name"),
        ("https://" + "a" * 64, "no name"),
        ("https://" + "a." * 127, "no name"),
        ("https://[v1.a]", "an IPv6 address between its brackets"),
        ("https://[fe80::1%25eth0]", "no zone"),
        ("https://\uff41.test", "no internationalised name"),
        ("https://a\u2100.test", "absolute"),
        ("https://a.test" + "x" * 70_000, "absolute"),
    ],
)
@proves("EGR-2")
def test_an_entry_that_is_no_origin_is_refused(origin: str, fault: str) -> None:
    with pytest.raises(EgressPolicyError) as caught:
        listed("https://fine.test", origin)
    assert caught.value.message.startswith("Invalid egress policy: allowed_origins[1] ")
    assert fault in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0x7f000001", "127.0.0.01", "127.0.0.1.", "1", "0x"])
@proves("EGR-3")
def test_a_number_in_short_is_neither_listed_nor_loopback(host: str) -> None:
    with pytest.raises(EgressPolicyError, match="a number in short"):
        listed(f"http://{host}")
    assert not OFFLINE.allows(f"http://{host}:8000")
    with pytest.raises(EgressPolicyError, match="denied"):
        OFFLINE.check(f"http://{host}:8000", provider="openai")


@proves("EGR-4")
def test_origins_are_kept_in_their_normal_form_once_and_sorted() -> None:
    policy = listed(
        "https://b.test:443",
        "HTTPS://B.Test/",
        "http://a.test:80",
        "http://a.test:8080",
        "http://[0:0::1]:80",
        "https://straße.example",
        "https://xn--strae-oqa.example:",
    )
    assert policy.allowed_origins == (
        "http://[::1]",
        "http://a.test",
        "http://a.test:8080",
        "https://b.test",
        "https://xn--strae-oqa.example",
    )


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://API.OpenAI.com:443/v1/chat?x=1#y", "https://api.openai.com"),
        ("http://me:secret@host_1:8000/v1", "http://host_1:8000"),
        ("http://localhost.:11434", "http://localhost.:11434"),
        ("http://[2001:DB8:0::1]:8000/", "http://[2001:db8::1]:8000"),
        ("http://例え.テスト", "http://xn--r8jz45g.xn--zckzah"),
        ("http://127\u30020.0.1", "http://127.0.0.1"),
        ("https://a.test:080", "https://a.test:80"),
    ],
)
@proves("EGR-4")
def test_the_origin_of_a_url(url: str, origin: str) -> None:
    assert normalize_origin(url) == origin
    assert normalize_origin(origin) == origin


@pytest.mark.parametrize("url", ["", "/v1", "mailto:me@a.test", None, 7])
@proves("EGR-4")
def test_what_is_no_url_has_no_origin(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="the URL must be an absolute"):
        normalize_origin(url)


@pytest.mark.parametrize(
    "host", ["straße.example", "BÜCHER.example", "\uff45.test", "例え。テスト", "\uff21\uff22.test", "a\u00ad.test"]
)
@proves("EGR-4")
def test_other_scripts_are_read_as_the_http_client_reads_them(host: str) -> None:
    try:
        sent = httpx.URL(f"http://{host}/").raw_host.decode("ascii")
    except httpx.InvalidURL:
        with pytest.raises(ConfigurationError):
            normalize_origin(f"http://{host}/")
    else:
        assert normalize_origin(f"http://{host}/") == f"http://{sent}"


PIECES = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "evil.test",
    ".",
    "@",
    ":",
    "8",
    "%",
    "[",
    "]",
    "/",
    "\u3002",
    "\u2100",
    "?",
]


@given(st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=6).map(lambda some: "http://" + "".join(some)))
@proves("EGR-4", "EGR-6")
def test_no_url_is_read_in_one_way_and_sent_in_another(url: str) -> None:
    if not OFFLINE.allows(url):
        return
    try:
        host = httpx.URL(url).raw_host.decode("ascii")
    except httpx.InvalidURL:
        return  # it cannot be sent at all
    name = host.removesuffix(".")
    assert host in ("127.0.0.1", "::1") or name == "localhost" or name.endswith(".localhost")


def spelled(text: str) -> st.SearchStrategy[str]:
    """A text in any mixture of cases."""
    return st.tuples(*(st.sampled_from(sorted({letter.lower(), letter.upper()})) for letter in text)).map("".join)


NAMES = ["localhost", "worker.localhost", "evil.test", "localhost.evil.test", "xn--bcher-kva.example", "a_b.test"]
OTHER_HOSTS = [
    *("127.0.0.0", "127.0.0.1", "127.255.255.255", "128.0.0.1", "1.2.3.4", "0.0.0.0", "127.0.0.1.nip.io"),
    *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "017700000001", "127.0.0.256", "127.0.0.%31"),
    *("[::1]", "[0:0::1]", "[::]", "[::2]", "[::FFFF:127.0.0.1]", "[::ffff:7f00:1]", "[::7f00:1]"),
    *("[::1%25lo]", "[::1%lo]", "%6cocalhost", "localhost%2eevil.test", "localhost%00", "localhost;x", "*", ""),
    *("b\u00fccher.example", "B\u00dcCHER.example", "stra\u00dfe.example", "127\u30020\u30020\u30021"),
    *("\u217cocalhost", "lo\u00adcalhost", "localhost\u3002", "\uff4cocalhost"),
]
USERS = ["", "@", ":@", "me:secret@", "evil.test@", "localhost:80@", "evil.test%2F@", "a@b@", "evil.test\\@", "\u00fc@"]
PORTS = ["", ":", ":80", ":443", ":080", ":8000", ":65535", ":65536", ":0", ":x"]
RESTS = ["", "/", "/v1", "/../v1", "?@evil.test", "#@evil.test", "/@evil.test", "//evil.test", "\\evil.test", " "]
DOTS = st.sampled_from(["", "", ".", ".."])
HOSTS = st.tuples(st.sampled_from(NAMES).flatmap(spelled) | st.sampled_from(OTHER_HOSTS), DOTS)
SPELLINGS = st.tuples(
    st.sampled_from(["http", "https"]).flatmap(spelled),
    st.sampled_from(["://", "://", "://", ":", ":/", ":///"]),
    st.sampled_from(USERS),
    HOSTS.map("".join),
    st.sampled_from(PORTS),
    st.sampled_from(RESTS),
).map("".join)


def goes_to_this_machine(sent: httpx.URL) -> bool:
    """Whether the host that httpx connects to is this machine beyond doubt, whatever a resolver makes of numbers."""
    try:
        address = ipaddress.ip_address(sent.host)
    except ValueError:
        name = sent.host.removesuffix(".")
        return name == "localhost" or name.endswith(".localhost")
    return address in ipaddress.ip_network("127.0.0.0/8" if address.version == 4 else "::1/128")


@given(SPELLINGS)
@example("HTTP://127.0.0.0")
@example("http://evil.test\\@localhost")
@settings(max_examples=4 * settings().max_examples)
@proves("EGR-4", "EGR-6")
def test_a_url_is_judged_as_the_http_client_sends_it(url: str) -> None:
    try:
        sent = httpx.URL(url)
    except httpx.InvalidURL:
        return  # no request can be made of it
    # The request is what is checked last of all, so it is judged by where it really goes.
    can_connect = sent.port is None or 0 < sent.port < 65_536
    assert OFFLINE.allows(str(sent)) == (goes_to_this_machine(sent) and can_connect)
    if OFFLINE.allows(url):
        assert OFFLINE.allows(str(sent))
    try:
        origin = normalize_origin(url)
    except ConfigurationError:
        assert not OFFLINE.allows(url)
        return
    host = f"[{ipaddress.IPv6Address(sent.host).compressed}]" if ":" in sent.host else sent.raw_host.decode("ascii")
    standard = {"http": 80, "https": 443}[sent.scheme]
    port = "" if sent.port in (None, standard) else f":{sent.port}"
    assert origin == f"{sent.scheme}://{host}{port}" == normalize_origin(str(sent))
    assert OFFLINE.allows(url) == goes_to_this_machine(sent)


@proves("EGR-5")
def test_a_policy_cannot_be_changed_and_copies_are_equal() -> None:
    origins = ["https://b.test", "https://a.test"]
    policy = EgressPolicy("allowlist", allowed_origins=origins)
    origins.append("https://evil.test")
    assert policy == listed("https://a.test", "https://b.test")
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.mode = "offline"  # type: ignore[misc]
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), dataclasses.replace(policy)):
        assert other == policy
        assert hash(other) == hash(policy)
    assert dataclasses.replace(OFFLINE) == OFFLINE


# --- what a policy allows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://LOCALHOST:11434/v1",
        "https://localhost.:8443",
        "http://worker.localhost:8080",
        "http://a.b.localhost.",
        "http://127.0.0.1:8000",
        "http://127.42.0.9:11434",
        "http://127.255.255.255",
        "http://[::1]:8000/v1/chat",
        "http://[0:0:0:0:0:0:0:1]",
    ],
)
@proves("EGR-6")
def test_offline_allows_this_machine(url: str) -> None:
    assert OFFLINE.allows(url)
    OFFLINE.check(url, provider="openai")


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com",
        "http://0.0.0.0:8000",
        "http://10.0.0.7",
        "http://192.168.1.2",
        "http://169.254.169.254",
        "http://128.0.0.1",
        "http://[::ffff:127.0.0.1]",
        "http://[::]",
        "http://[fe80::1]",
        "http://localhost.evil.test",
        "http://notlocalhost",
        "http://127.0.0.1.evil.test",
        "http://127.0.0.1.nip.io",
        "http://localtest.me",
        "http://localhost@evil.test",
    ],
)
@proves("EGR-6")
def test_offline_allows_nothing_else(url: str) -> None:
    assert not OFFLINE.allows(url)


@pytest.mark.parametrize("url", ["", "localhost", "file:///etc/passwd", "unix://localhost", "http://localhost..", 7])
@proves("EGR-6")
def test_what_cannot_be_read_is_not_allowed(url: Any) -> None:
    assert not OFFLINE.allows(url)


@proves("EGR-7")
def test_a_list_allows_the_exact_origin_and_every_path_of_it() -> None:
    policy = listed("https://a.test:8443", "http://b.test")
    assert policy.allows("https://a.test:8443/v1/chat/completions?x=1")
    assert policy.allows("HTTP://B.test:80")
    for url in ("https://a.test", "http://a.test:8443", "https://b.test", "https://x.a.test:8443", "http://b.test."):
        assert not policy.allows(url)
    assert not policy.allows("http://localhost")


@proves("EGR-7")
def test_an_empty_list_allows_nothing() -> None:
    assert not listed().allows("http://localhost")


@proves("EGR-8")
def test_a_denied_request() -> None:
    with pytest.raises(EgressPolicyError) as caught:
        OFFLINE.check("https://me:hunter2@API.openai.com:443/v1?key=hunter2", provider="openai")
    error = caught.value
    assert error.message == (
        'Egress policy denied framework-owned provider "openai" request to https://api.openai.com.'
    )
    assert (error.reason, error.code) == ("denied", "EGRESS_POLICY_DENIED")
    assert (error.provider, error.origin) == ("openai", "https://api.openai.com")


@proves("EGR-8")
def test_an_address_that_cannot_be_read_is_a_fault_of_the_configuration_and_not_of_the_policy() -> None:
    with pytest.raises(ConfigurationError, match="openai: the address of a request must be an absolute") as caught:
        OFFLINE.check("localhost:8000/hunter2", provider="openai")
    assert "hunter2" not in caught.value.message


@proves("EGR-8")
def test_the_other_errors() -> None:
    unsupported = egress_unsupported("mine", "it is not ours")
    assert unsupported.message == 'Egress policy cannot enforce provider "mine": it is not ours'
    assert (unsupported.reason, unsupported.code) == ("unsupported", "EGRESS_POLICY_UNSUPPORTED")
    assert (unsupported.provider, unsupported.origin) == ("mine", None)
    unresolved = egress_unresolved("azure-openai", "set the endpoint")
    assert unresolved.message == 'Egress policy cannot resolve provider "azure-openai" target: set the endpoint'
    assert (unresolved.reason, unresolved.code) == ("unresolved-target", "EGRESS_POLICY_TARGET_UNRESOLVED")
    assert (unresolved.provider, unresolved.origin) == ("azure-openai", None)
    assert egress_denied("p", "https://a.test").origin == "https://a.test"


# --- policies that meet ----------------------------------------------------------------------------------------------

LOCAL, AWAY, FAR = "http://localhost:8000", "https://a.test", "https://b.test:8443"


@pytest.mark.parametrize(
    ("policies", "result"),
    [
        ((), None),
        ((None, None), None),
        ((None, OFFLINE), OFFLINE),
        ((OFFLINE, OFFLINE), OFFLINE),
        ((OFFLINE, listed(LOCAL, AWAY)), listed(LOCAL)),
        ((listed(LOCAL, AWAY), None, {"mode": "offline"}), listed(LOCAL)),
        ((listed(LOCAL, AWAY), listed(AWAY, FAR)), listed(AWAY)),
        ((listed(LOCAL), listed(FAR)), listed()),
        ((listed(LOCAL, AWAY), listed(AWAY, LOCAL), OFFLINE), listed(LOCAL)),
    ],
)
@proves("EGR-9")
def test_policies_that_meet(policies: tuple[object, ...], result: EgressPolicy | None) -> None:
    assert intersect_egress_policies(*policies) == result


@proves("EGR-9")
def test_a_wrong_policy_among_others_is_refused() -> None:
    with pytest.raises(EgressPolicyError, match="Invalid egress policy: mode"):
        intersect_egress_policies(OFFLINE, {"mode": "none"})


POLICIES = st.none() | st.just(OFFLINE) | st.lists(st.sampled_from([LOCAL, AWAY, FAR])).map(lambda some: listed(*some))


@given(st.lists(POLICIES), st.sampled_from([LOCAL, AWAY, FAR, "http://127.0.0.1", "https://c.test"]))
@proves("EGR-9")
def test_policies_that_meet_allow_what_all_of_them_allow(policies: list[EgressPolicy | None], url: str) -> None:
    met = intersect_egress_policies(*policies)
    assert (met is None or met.allows(url)) == all(policy is None or policy.allows(url) for policy in policies)
