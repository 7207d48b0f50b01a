"""Masking of credentials in texts and data."""

import json
import re
from collections import OrderedDict
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openmultiagent.redaction import (
    REDACTED,
    is_sensitive_name,
    redact_known_secrets,
    redact_sensitive_object,
    redact_sensitive_text,
    redact_start,
)
from tests.support import proves

LENGTH = 100_000


@proves("RED-1")
@pytest.mark.parametrize(
    "name",
    [
        *[
            "api_key",
            "api-key",
            "apikey",
            "API KEY",
            "OPENAI_API_KEY",
            "x-api-key",
            "apiKey",
            "client_secret",
            "SECRETS",
        ],
        *["password", "db_password_2", "passwd", "pwd", "private_key", "privateKey", "access-key", "s3.access.key"],
        *["accessToken", "refreshToken", "idToken", "githubToken", "Authorization", "authToken", "auth-token"],
        *["Cookie", "set-cookie", "sessionId", "session", "credentials", "bearer", "BearerValue"],
    ],
)
def test_names_that_tell_of_a_secret_are_sensitive(name: str) -> None:
    assert is_sensitive_name(name)


@proves("RED-2")
@pytest.mark.parametrize(
    "name", ["token", "TOKEN", "access_token", "github-token", "slack token", "token_value", "token-x"]
)
def test_names_with_the_word_token_first_or_last_are_sensitive(name: str) -> None:
    assert is_sensitive_name(name)


@proves("RED-3")
@pytest.mark.parametrize(
    "name",
    [
        *["token_budget", "token-limit", "session_count", "token_budgets", "api_key_usage"],
        *["secretary", "secretariat", "secretion", "tokens", "max_tokens", "tokenizer", "nextTokenizer", "my_token_x"],
        *["user", "key", "apiary", "name", ""],
    ],
)
def test_amounts_and_similar_words_are_not_sensitive(name: str) -> None:
    assert not is_sensitive_name(name)


@proves("RED-3")
@pytest.mark.parametrize("text", ["token_budget=5000", "secretary=Bob", "max_tokens: 100, tokens=7"])
def test_harmless_assignments_stay(text: str) -> None:
    assert redact_sensitive_text(text) == text


@proves("RED-10")
@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_are_masked(kind: str) -> None:
    key = f"-----BEGIN {kind}PRIVATE KEY-----\nMIIE+/=\nabc\n-----END {kind}PRIVATE KEY-----"
    assert redact_sensitive_text(f"one {key} two\n{key}") == f"one {REDACTED} two\n{REDACTED}"


@proves("RED-10")
def test_a_private_key_without_an_end_is_masked_to_the_end() -> None:
    assert redact_sensitive_text("x -----BEGIN PRIVATE KEY-----\nMIIE\nabc") == f"x {REDACTED}"


@proves("RED-10")
def test_public_keys_and_certificates_stay() -> None:
    text = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"
    assert redact_sensitive_text(text) == text


@proves("RED-11")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sent Bearer abcdefgh to x", "sent Bearer [redacted] to x"),
        ("bearer  abc.def-ghi/jkl+mno=]", "bearer  [redacted]]"),
        ("the bearer of it", "the bearer of it"),
        ("Bearer abcdefg", "Bearer abcdefg"),
    ],
)
def test_bearer_tokens_are_masked(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-12")
@pytest.mark.parametrize("sign", ["=", ":", " = ", ": ", " := ", "=>", " == "])
def test_assigned_values_are_masked(sign: str) -> None:
    assert redact_sensitive_text(f"the password{sign}hunter2") == f"the password{sign}{REDACTED}"


@proves("RED-12")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("API key: abc", "API key: [redacted]"),
        ("Auth Token = abc", "Auth Token = [redacted]"),
        ("secret = abc", "secret = [redacted]"),
        ("--api-key=abc", "--api-key=[redacted]"),
        ("spring.datasource.password=abc", "spring.datasource.password=[redacted]"),
        ('os.environ["API_KEY"] = "abc"', 'os.environ["API_KEY"] = "[redacted]"'),
        ("Пароль_password=abc", "Пароль_password=[redacted]"),
        ("password=", "password="),
        ("password=, x", "password=, x"),
        ('{"password": ""}', '{"password": ""}'),
        ("password", "password"),
        ("a password is needed here", "a password is needed here"),
    ],
)
def test_what_counts_as_an_assignment(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-13")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('password="my secret, value" x', 'password="[redacted]" x'),
        ("password = 'a;b'", "password = '[redacted]'"),
        ('{"api_key":"v","user":"alice"}', '{"api_key":"[redacted]","user":"alice"}'),
        ("{'api_key': 'v', 'user': 'alice'}", "{'api_key': '[redacted]', 'user': 'alice'}"),
        ('{"password":\n  "v"}', '{"password":\n  "[redacted]"}'),
        (r'{"password": "a\"b\\", "user": "alice"}', '{"password": "[redacted]", "user": "alice"}'),
        (r'"{\"password\": \"a, b\", \"n\": 1}"', r'"{\"password\": \"[redacted]\", \"n\": 1}"'),
        ("password='unclosed", "password=[redacted]"),
        ('password=\\\\"odd" x', "password=[redacted]"),
    ],
)
def test_quoted_values_are_masked_and_the_quotes_stay(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-13")
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_json_within_json_stays_json(levels: int) -> None:
    text: Any = {"password": 'pä"s\\s}, "x": [', "user": 'ali"ce'}
    for _ in range(levels):
        text = json.dumps(text)
    read: Any = redact_sensitive_text(text)
    for _ in range(levels):
        read = json.loads(read)
    assert read == {"password": REDACTED, "user": 'ali"ce'}


@proves("RED-14")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=secret value", "password=[redacted]"),
        ("password=a\tb\nnext line", "password=[redacted]\nnext line"),
        ("password=a, username=alice", "password=[redacted], username=alice"),
        ("{password: a; b}", "{password: [redacted]; b}"),
        ("[password: a] b", "[password: [redacted]] b"),
        ("password=hunter2 mode=fast", "password=[redacted] mode=fast"),
        ("password=hunter2 mode = fast", "password=[redacted] mode = fast"),
        ("password: hunter2 mode: fast", "password: [redacted] mode: fast"),
        ("token=abc&user=bob", "token=[redacted]&user=bob"),
        ("password=a&b", "password=[redacted]"),
        ("password=my c2VjcmV0IHg=", "password=[redacted]"),
        ("password=my c2VjcmV0eA== ,x", "password=[redacted],x"),
        ('{password: it\'s "mine"}', '{password: [redacted]"}'),
        ('text "the password: abc"', 'text "the password: [redacted]"'),
        ("password=a\\b\\", "password=[redacted]"),
        ("password=[a", "password=[redacted]"),
        ("password=a[b", "password=[redacted]"),
        ('"token": 12345}', '"token": [redacted]}'),
    ],
)
def test_where_an_unquoted_value_ends(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-15")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user=alice password=hunter2", "user=alice password=[redacted]"),
        ("a: b: password: c", "a: b: password: [redacted]"),
        ("password=a password=b token=c", "password=[redacted] password=[redacted] token=[redacted]"),
        ("password=a\ntoken: b\nuser: c", "password=[redacted]\ntoken: [redacted]\nuser: c"),
        ("error: login failed: user=bob pwd=x, retry", "error: login failed: user=bob pwd=[redacted], retry"),
    ],
)
def test_each_assignment_is_looked_at_by_itself(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-16")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h/?token=abc", "https://h/?token=[redacted]"),
        ("see https://h/p?a=1&api_key=a,b;c&z=2 for more", "see https://h/p?a=1&api_key=[redacted]&z=2 for more"),
        ("<https://h/#access_token=abc&state=1>", "<https://h/#access_token=[redacted]&state=1>"),
        ('"https://h/?token=abc", x', '"https://h/?token=[redacted]", x'),
        ("https://h/?token=#top", "https://h/?token=#top"),
    ],
)
def test_parameters_of_urls(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-17")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer sk-abcdefghijklmnopqrst", "Authorization: [redacted]"),
        ("Authorization: Basic dXNlcjpwYXNz== x=1\nHost: h", "Authorization: [redacted]\nHost: h"),
        ("{Authorization: Bearer abc, user: bob}", "{Authorization: [redacted], user: bob}"),
        ("authorization = [Bearer abcdefgh12]", "authorization = [redacted]"),
        ("Cookie: a=b; c=d\nHost: h", "Cookie: [redacted]\nHost: h"),
        ("cookie=a; user=bob", "cookie=[redacted]; user=bob"),
        ('{"Authorization": "Basic abc", "user": "bob"}', '{"Authorization": "[redacted]", "user": "bob"}'),
    ],
)
def test_headers(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-18")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('run "PASSWORD=a b" now', 'run "PASSWORD=[redacted]" now'),
        ("curl -H 'Cookie: a=b; c=d' https://h", "curl -H 'Cookie: [redacted]' https://h"),
        ('curl -H "Authorization: Token a b" https://h', 'curl -H "Authorization: [redacted]" https://h'),
        (r'{"env": "PASSWORD=a\"b c", "n": 1}', '{"env": "PASSWORD=[redacted]", "n": 1}'),
        ('"PASSWORD=a, user=bob"', '"PASSWORD=[redacted], user=bob"'),
        ('"PASSWORD=a b', '"PASSWORD=[redacted]'),
    ],
)
def test_an_assignment_in_quotes_ends_with_them(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-19")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"credentials": {"a": ["}", 1]}, "x": 1}', '{"credentials": [redacted], "x": 1}'),
        ('{"secrets": ["a", "b"], "x": 1}', '{"secrets": [redacted], "x": 1}'),
        (r'"{\"secrets\": [\"a\", \"b\"], \"x\": 1}"', r'"{\"secrets\": [redacted], \"x\": 1}"'),
        ('{"secrets": ["a", "b", ... cut off', '{"secrets": [redacted]'),
        ("secrets: [a] and more, x", "secrets: [redacted], x"),
    ],
)
def test_objects_and_arrays_are_masked_whole(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-20")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:pass@host/x", "https://[redacted]@host/x"),
        ("postgres://u:p@ss:word@db:5432/x, y", "postgres://[redacted]@db:5432/x, y"),
        ("git clone https://abc123@host/x.git", "git clone https://[redacted]@host/x.git"),
        ("redis://:pass@host", "redis://[redacted]@host"),
        ("https://host/@scope/x?to=a@b", "https://host/@scope/x?to=a@b"),
        ("write to a@b.org, see http://host", "write to a@b.org, see http://host"),
    ],
)
def test_credentials_of_urls(text: str, expected: str) -> None:
    assert redact_sensitive_text(text) == expected


@proves("RED-21")
@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a" * 16,
        "sk-proj-Ab_1" + "c" * 10,
        *[f"gh{kind}_" + "A" * 20 for kind in "pousr"],
        "github_pat_" + "a1_B" * 5,
        "AKIA" + "0123456789ABCDEF",
        *[f"xox{kind}-1234567890" for kind in "baprs"],
    ],
)
@pytest.mark.parametrize("frame", ["{}", "a {} b", "({})", "ключ{}", "{}é", "x_{}"])
def test_known_tokens_are_masked(secret: str, frame: str) -> None:
    assert redact_sensitive_text(frame.format(secret)) == frame.format(REDACTED)


@proves("RED-21")
@pytest.mark.parametrize(
    "text", ["sk-" + "a" * 15, "ghp_" + "a" * 19, "github_pat_short", "AKIA0123", "xoxb-123456789", "task-" + "a" * 20]
)
def test_shorter_texts_are_no_tokens(text: str) -> None:
    assert redact_sensitive_text(text) == text


@proves("RED-22")
def test_extra_patterns_mask_every_match() -> None:
    pattern = re.compile(r"[\w.]+@[\w.]+")
    assert redact_sensitive_text("a@b.org and c@d.org: x", [pattern, "x"]) == "[redacted] and [redacted]: [redacted]"
    assert pattern == re.compile(r"[\w.]+@[\w.]+")


@proves("RED-22")
def test_matches_of_nothing_change_nothing() -> None:
    assert redact_sensitive_text("abc", ["x*"]) == "abc"


@proves("RED-22", "RED-23")
def test_extra_patterns_leave_placeholders_alone() -> None:
    once = redact_sensitive_text("password=a, one red word", [r"\w*red\w*", "one.*"])
    assert once == "password=[redacted], [redacted]"
    assert redact_sensitive_text(once, [r"\w*red\w*", "one.*"]) == once


fragments = st.sampled_from(
    [
        *[
            "password",
            "token",
            "secret",
            "user",
            "api ",
            "key",
            "auth ",
            "Authorization",
            "Cookie",
            "bearer ",
            "x",
            "é",
            "1",
        ],
        *[
            "=",
            ":",
            "==",
            "=>",
            ":=",
            "://",
            "@",
            "?",
            "&",
            "#",
            ",",
            ";",
            "{",
            "}",
            "[",
            "]",
            "(",
            ")",
            "<",
            ">",
            "-",
            "_",
        ],
        *[
            "'",
            '"',
            "\\",
            "\\\\",
            '\\"',
            " ",
            "\t",
            "\n",
            "\r",
            ".",
            "/",
            REDACTED,
            "Bearer abcdefgh12",
            "xoxb-1234567890",
        ],
        *["sk-" + "a" * 20, "ghp_" + "a" * 24, "AKIAABCDEFGHIJKLMNOP"],
        *["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"],
    ]
)


@proves("RED-23")
@settings(max_examples=4 * settings().max_examples)
@given(st.lists(fragments, max_size=14).map("".join) | st.text(max_size=40))
@example("x://password=a/b,c@d")
@example("bearer :=[KEY sk-aaaaaaaaaaaaaaaaaaaabearer ://")
@example("AKIAABCDEFGHIJKLMNOPtoken=abc")
@example("password={a}b[redacted]c")
@example('token:"user&"bearer ://api :///api')
def test_a_second_pass_changes_nothing(text: str) -> None:
    once = redact_sensitive_text(text)
    assert redact_sensitive_text(once) == once


EXTRA_PATTERNS = [
    *[
        "us.r",
        "[a-z]{3}",
        "e",
        r"\d+",
        "Be",
        r"\]",
        "a.*k",
        "r ",
        "=",
        r"\b",
        r"(?<=\])\w",
        r"\w(?=\[)",
        "^.",
        ".$",
        r"\W+",
    ],
    re.compile("BEARER", re.IGNORECASE),
]


@proves("RED-22", "RED-23")
@settings(max_examples=4 * settings().max_examples)
@given(
    st.lists(fragments, max_size=10).map("".join) | st.text(alphabet='aeru1 =[]-"', max_size=20),
    st.lists(st.sampled_from(EXTRA_PATTERNS), min_size=1, max_size=3),
)
@example("userBearer abcdefgh12", ["us.r"])
@example("1token=.", ["^."])
@example("Cookie:=;", ["="])
@example("password=é)}", [".$"])
@example("12345678", [r"\b\d{4}"])
def test_a_second_pass_with_extra_patterns_changes_nothing(text: str, patterns: list[str | re.Pattern[str]]) -> None:
    once = redact_sensitive_text(text, patterns)
    assert redact_sensitive_text(once, patterns) == once


@proves("RED-22")
@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("a[redacted]b", r"a\[", "[redacted]b"),
        ("a[redacted]b", r"d\]b", "a[redacted]"),
        ("a[redacted]b[redacted]c", r"\]b\[", "a[redacted]c"),
        ("a[redacted]b", r"a.*b", "[redacted]"),
        ("a[redacted]b", "red", "a[redacted]b"),
        ("[redacted][redacted]", r"\]\[", "[redacted]"),
        ("a[redacted]b", r"a\[|\]b", "[redacted][redacted]"),
    ],
)
def test_an_extra_pattern_takes_no_placeholder_apart(text: str, pattern: str, expected: str) -> None:
    assert redact_sensitive_text(text, [pattern]) == expected


@proves("RED-23", "RED-24")
@pytest.mark.timeout(10)
def test_a_text_that_never_settles_is_masked_whole() -> None:
    patterns = [r"(?<!\w)\d{4}"]  # each placeholder makes the next four digits a match
    assert redact_sensitive_text("1234" * (LENGTH // 4), patterns) == REDACTED
    assert redact_sensitive_text("x 1234" * 3, patterns) == "x [redacted]" * 3


@proves("RED-15", "RED-23")
@given(
    before=st.lists(st.sampled_from(["user=alice", "mode: x", "note", "n=1,", "https://h/?a=1"]), max_size=4),
    name=st.sampled_from(["password", "api_key", "TOKEN", "X-Session-Id", "client_secret"]),
    sign=st.sampled_from(["=", ": "]),
    after=st.lists(st.sampled_from(["user=alice", "mode: x", ", and so on"]), max_size=3),
)
def test_an_assigned_secret_never_stays(before: list[str], name: str, sign: str, after: list[str]) -> None:
    text = redact_sensitive_text(" ".join([*before, f"{name}{sign}hunter2", *after]))
    assert "hunter2" not in text
    assert text.startswith(" ".join([*before, f"{name}{sign}{REDACTED}"]))
    assert text.count("alice") == [*before, *after].count("user=alice")


@proves("RED-24")
@pytest.mark.timeout(10)  # linear time is below 0.3 s, the square of it hours
@pytest.mark.parametrize(
    "piece",
    [
        *[
            "a",
            "a-",
            "a_",
            "a=",
            "a:b ",
            "api ",
            "secret ",
            "secret key ",
            "token",
            "token_",
            "password=",
            "password = ",
        ],
        *[
            "secret={",
            "secret=[",
            'secret={"',
            "password:\n",
            'password="',
            'password=\\"',
            '"password=x\\"',
            "'secret=x \\",
        ],
        *["\\", '\\"', " ", "\t", "=", ":", "@", "a@", "://", "://a@", "://a:", "?token=", "&token", "password=a&"],
        *["-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----END PRIVATE KEY-----", "Bearer ", "bearer abcdefg "],
        *["sk-", "sk-" + "a" * 15 + " ", "ghp_", "xoxb-", "AKIA", REDACTED, f"password={REDACTED}", "cookie: a ;"],
    ],
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = "password " + piece * (LENGTH // len(piece))
    assert len(redact_sensitive_text(text)) <= len(text) * 4
    is_sensitive_name(text)


@proves("RED-24")
@pytest.mark.timeout(10)
def test_many_kinds_of_unclosed_quotes_take_linear_time() -> None:
    text = "".join("password=" + "\\" * depth + '"' for depth in range(1, 250)) + '"' * (LENGTH // 2)
    assert len(redact_sensitive_text(text)) <= len(text)


@proves("RED-25")
@pytest.mark.parametrize("text", ["", "nothing to hide", "time: 12:30, place: here", '{"a": [1, "b"]}', "x = y"])
def test_a_text_without_secrets_comes_back_as_it_is(text: str) -> None:
    assert redact_sensitive_text(text) is text


@proves("RED-40")
def test_values_of_sensitive_keys_are_masked_whole() -> None:
    data = {"password": {"a": [1]}, "token": None, "api_key": 5, "session": ["x"], "user": "bob", "token_budget": 5}
    assert redact_sensitive_object(data) == {
        "password": REDACTED,
        "token": REDACTED,
        "api_key": REDACTED,
        "session": REDACTED,
        "user": "bob",
        "token_budget": 5,
    }


@proves("RED-40")
def test_texts_in_data_are_redacted_and_other_values_stay() -> None:
    thing = object()
    when, day = datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)
    data = {"a": ["password=x", 1, 2.5, None, True, when, day, b"raw", thing], "b": {"c": "Bearer abcdefgh"}}
    assert redact_sensitive_object(data) == {
        "a": ["password=[redacted]", 1, 2.5, None, True, when, day, b"raw", thing],
        "b": {"c": "Bearer [redacted]"},
    }


@proves("RED-40")
@pytest.mark.parametrize("value", ["password=x", 5, None])
def test_data_may_be_a_single_value(value: object) -> None:
    assert redact_sensitive_object(value) == ("password=[redacted]" if value == "password=x" else value)


class Pair(NamedTuple):
    name: str
    value: str


@proves("RED-41")
def test_containers_come_back_new_and_of_the_same_shape() -> None:
    inner = ["token=a"]
    data = OrderedDict(
        a=inner, b=("x", {"password=a"}), c=frozenset({"y"}), d=Pair("n", "pwd=v"), e=MappingProxyType({})
    )
    redacted = redact_sensitive_object(data)
    assert redacted == {
        "a": ["token=[redacted]"],
        "b": ("x", {"password=[redacted]"}),
        "c": frozenset({"y"}),
        "d": ("n", "pwd=[redacted]"),
        "e": {},
    }
    assert inner == ["token=a"]
    assert redacted["a"] is not inner


@proves("RED-41")
def test_the_result_shares_no_container_with_the_input() -> None:
    data: dict[str, Any] = {"a": [{"b": []}]}
    redacted = redact_sensitive_object(data)
    redacted["a"][0]["b"].append(1)
    redacted["a"].append(2)
    assert data == {"a": [{"b": []}]}


@proves("RED-42")
def test_keys_that_hold_secrets_are_masked_and_stay_different() -> None:
    data = {"sk-" + "a" * 20: 1, "sk-" + "b" * 20: 2, "sk-" + "c" * 20: 3, "plain": 4, 5: "x", None: "token=a"}
    assert redact_sensitive_object(data) == {
        REDACTED: 1,
        f"{REDACTED} (2)": 2,
        f"{REDACTED} (3)": 3,
        "plain": 4,
        5: "x",
        None: "token=[redacted]",
    }


@proves("RED-43")
def test_cycles_keep_their_shape() -> None:
    data: dict[str, Any] = {"a": ["token=x"]}
    data["self"] = data
    data["a"].append((data["a"],))
    redacted = redact_sensitive_object(data)
    assert redacted["self"] is redacted
    assert redacted["a"][0] == "token=[redacted]"
    assert redacted["a"][1][0] is redacted["a"]


@proves("RED-43")
def test_shared_parts_are_visited_once() -> None:
    data: list[Any] = ["token=x"]
    for _ in range(90):  # 2 ** 90 paths
        data = [data, data]
    redacted = redact_sensitive_object(data)
    for _ in range(90):
        assert redacted[0] is redacted[1]
        redacted = redacted[0]
    assert redacted == ["token=[redacted]"]


@proves("RED-43")
def test_what_lies_too_deep_is_masked_whole() -> None:
    data: Any = "deep"
    for _ in range(100_000):
        data = [data]
    redacted = redact_sensitive_object(data)
    for _ in range(101):
        assert isinstance(redacted, list)
        redacted = redacted[0]
    assert redacted == REDACTED


@proves("RED-44")
@given(
    st.recursive(
        st.none() | st.integers() | st.lists(fragments, max_size=6).map("".join),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "password", "x=1"]), inner),
        max_leaves=8,
    )
)
def test_redacting_data_twice_changes_nothing(data: Any) -> None:
    once = redact_sensitive_object(data, ["us.r"])
    assert redact_sensitive_object(once, ["us.r"]) == once


@proves("RED-42")
@pytest.mark.parametrize("patterns", [[], [r"\d+"], [r"\(2\)"]])
def test_keys_stay_different_whatever_is_taken_already(patterns: list[str]) -> None:
    key = "sk-" + "a" * 20
    data = {REDACTED: 0, key + "1": 1, key + "2": 2, f"{REDACTED} (2)": 3, f"{REDACTED} (3)": 4, key + "3": 5}
    once = redact_sensitive_object(data, patterns)
    assert list(once.values()) == list(data.values())
    assert redact_sensitive_object(once, patterns) == once


@proves("RED-42")
def test_a_key_that_looks_masked_does_not_displace_one_that_was() -> None:
    once = redact_sensitive_object({"sk-" + "a" * 20: 1, REDACTED: 2})
    assert once == {REDACTED: 1, f"{REDACTED} (2)": 2}


@proves("RED-43")
@pytest.mark.timeout(10)  # linear time is below a second, the square of it minutes
def test_many_keys_that_are_secrets_take_linear_time() -> None:
    data = {f"sk-{'a' * 20}{number}": number for number in range(20_000)}
    assert list(redact_sensitive_object(data).values()) == list(data.values())


@proves("RED-26")
@pytest.mark.parametrize("before", range(80, 101))
def test_a_secret_across_the_end_of_what_is_kept_is_masked(before: int) -> None:
    text = "x" * before + " " + "sk-" + "a" * 40 + " " + "y" * 5000
    kept = redact_start(text, 100)
    assert len(kept) <= 100
    assert "sk-" not in kept
    assert redact_sensitive_text(text).startswith(kept)


@proves("RED-26")
def test_the_start_of_a_short_text_is_the_text() -> None:
    assert redact_start("a", 1) == "a"
    assert redact_start("password=abc", 100) == "password=[redacted]"
    assert len(redact_start("word " * 10_000, 100)) == 100


@proves("RED-26")
@pytest.mark.timeout(10)  # looking at all of it takes several minutes
def test_the_start_of_a_text_costs_what_the_start_is_long() -> None:
    text = "a b=c " * 1_000_000
    for _ in range(100):
        redact_start(text, 1000)


@proves("RED-44")
def test_extra_patterns_apply_to_all_texts_in_data() -> None:
    assert redact_sensitive_object({"a": ["id 42"], "b": "42"}, [re.compile(r"\d+")]) == {
        "a": ["id [redacted]"],
        "b": "[redacted]",
    }


@pytest.mark.parametrize(
    ("secret", "text", "cleaned"),
    [
        ("local", "localhost: key local, (local) local_1 local-1 1local", None),
        ("any", "company: any, many, Any", "company: [redacted], many, Any"),
        ("a.b+c*d", "xa.b+c*d a.b+c*d, a.bbcd", "xa.b+c*d [redacted], a.bbcd"),
        ("ключ", "ключи: ключ", "ключи: [redacted]"),
        ("12345678", "x12345678y", "x[redacted]y"),
        ("1234567", "x1234567y 1234567", "x1234567y [redacted]"),
    ],
)
@proves("RED-27")
def test_a_known_secret_that_is_short_is_masked_as_a_whole(secret: str, text: str, cleaned: str | None) -> None:
    expected = cleaned or "localhost: key [redacted], ([redacted]) local_1 local-1 1local"
    assert redact_known_secrets(text, [secret]) == expected
