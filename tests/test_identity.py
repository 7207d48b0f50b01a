"""Run ids and metadata: what is accepted, what is refused, and what becomes of the caller's objects."""

import copy
import math
import os
import pickle
import re
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent.errors import ConfigurationError
from openmultiagent.identity import (
    RunIdentity,
    RunLink,
    copy_metadata,
    new_ids,
    new_run_id,
    new_span_id,
    new_trace_id,
    validate_metadata,
    validate_run_id,
)
from tests.support import proves


@proves("RUN-1")
@pytest.mark.parametrize("run_id", ["x", "x" * 128, "order 17/b", "Lauf-ü-😀"])
def test_a_run_id_of_the_caller_is_used_as_it_is(run_id: str) -> None:
    assert validate_run_id(run_id) == run_id


@proves("RUN-1")
def test_without_a_run_id_each_run_gets_a_random_uuid() -> None:
    first, second = validate_run_id(None), new_run_id()
    assert first != second
    assert {uuid.UUID(first).version, uuid.UUID(second).version} == {4}


@proves("RUN-1")
@pytest.mark.parametrize("run_id", ["", "x" * 129, 7, b"x", True, ["x"], 0])
def test_a_run_id_that_is_no_text_of_1_to_128_characters_is_refused(run_id: object) -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 128 characters"):
        validate_run_id(run_id)


@proves("RUN-1")
@pytest.mark.parametrize("run_id", ["a\nb", "a\x00", "\ud800", "\x1b[31m"])
def test_a_run_id_that_could_forge_log_lines_is_refused(run_id: str) -> None:
    with pytest.raises(ConfigurationError, match="printable"):
        validate_run_id(run_id)


@proves("RUN-2")
def test_span_ids_have_the_form_of_opentelemetry_and_are_never_zero() -> None:
    traces = {new_trace_id() for _ in range(50)}
    spans = {new_span_id() for _ in range(50)}
    assert len(traces) == len(spans) == 50
    assert all(re.fullmatch("[0-9a-f]{32}", item) and int(item, 16) for item in traces)
    assert all(re.fullmatch("[0-9a-f]{16}", item) and int(item, 16) for item in spans)


@proves("RUN-3")
def test_an_identity_is_a_value() -> None:
    identity = RunIdentity("r", links=(RunLink("t", "s", "continued_from"),))
    assert identity.attempt == 1
    traced = identity.with_trace("a" * 32, "b" * 16)
    assert (traced.trace_id, traced.root_span_id, traced.run_id) == ("a" * 32, "b" * 16, "r")
    assert identity.trace_id == ""
    with pytest.raises(FrozenInstanceError):
        identity.attempt = 2  # type: ignore[misc]
    assert copy.deepcopy(traced) == traced
    assert pickle.loads(pickle.dumps(traced)) == traced


class Number(IntEnum):
    ONE = 1


@proves("RUN-4", "RUN-5", "RUN-8")
@pytest.mark.parametrize(
    "value",
    ["", "text", 0, 1, -1.5, 0.0, False, True, [], ["a", ""], [1, 2], [0.5], [True, False], 2**63 - 1, -(2**63)],
)
def test_metadata_values_that_a_span_can_hold_are_kept_as_they_are(value: Any) -> None:
    kept = validate_metadata({"key.with_1": value})
    assert kept == {"key.with_1": value}
    assert kept is not None
    assert type(kept["key.with_1"]) is type(value)


@proves("RUN-5")
def test_a_tuple_of_metadata_values_becomes_a_list() -> None:
    assert validate_metadata({"tags": ("a", "b")}) == {"tags": ["a", "b"]}


@proves("RUN-5")
@pytest.mark.parametrize(
    "value",
    [
        None,
        math.nan,
        math.inf,
        {"a": 1},
        b"x",
        {"a"},
        object(),
        ["a", 1],
        [1, 2.0],
        [True, 1],
        [None],
        [["a"]],
        [math.nan],
        2**63,
        [-(2**63) - 1],
        "\ud83d",
        ["x\udc00"],
        3j,
    ],
)
def test_other_metadata_values_are_refused_with_their_key(value: object) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("metadata['where']")):
        validate_metadata({"fine": 1, "where": value})


@proves("RUN-4")
@pytest.mark.parametrize("key", ["", "Upper", "a b", "a" * 65, "ü", "a\n", "a-b", 1, None, ("a",)])
def test_metadata_keys_of_another_form_are_refused(key: Any) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"metadata key {key!r}")):
        validate_metadata({key: 1})


@proves("RUN-4")
@pytest.mark.parametrize("key", ["openmultiagent.x", "openmultiagent.", "_overridden"])
def test_reserved_metadata_keys_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved"):
        validate_metadata({key: 1})


@proves("RUN-4")
def test_metadata_has_at_most_32_keys() -> None:
    full = {f"k{number}": number for number in range(32)}
    assert validate_metadata(full) == full
    with pytest.raises(ConfigurationError, match="at most 32 keys, got 33"):
        validate_metadata({**full, "one_more": 1})


@proves("RUN-4")
@pytest.mark.parametrize("metadata", [[("a", 1)], "a=1", 5, {"a"}])
def test_metadata_is_a_mapping(metadata: object) -> None:
    with pytest.raises(ConfigurationError, match="metadata must be a mapping"):
        validate_metadata(metadata)


@proves("RUN-6")
def test_long_metadata_texts_are_cut() -> None:
    assert validate_metadata({"a": "x" * 1024, "b": "y" * 1025, "c": ["z" * 5000]}) == {
        "a": "x" * 1024,
        "b": "y" * 1024,
        "c": ["z" * 1024],
    }


@proves("RUN-7")
def test_what_the_caller_does_to_its_metadata_afterwards_changes_nothing() -> None:
    given: dict[str, Any] = {"tags": ["a"]}
    kept = validate_metadata(MappingProxyType(given))
    given["tags"].append("b")
    given["more"] = 1
    assert kept == {"tags": ["a"]}


@proves("RUN-7")
def test_a_copy_of_metadata_shares_nothing() -> None:
    first = validate_metadata({"tags": ["a"], "n": 1})
    second: Any = copy_metadata(first)
    assert second == first
    second["tags"].append("b")
    assert first == {"tags": ["a"], "n": 1}


@proves("RUN-8")
def test_no_metadata_is_not_the_same_as_empty_metadata() -> None:
    assert validate_metadata(None) is None
    assert copy_metadata(None) is None
    assert validate_metadata({}) == {}


@proves("RUN-5")
def test_an_enum_member_is_the_number_that_it_is() -> None:
    assert validate_metadata({"n": Number.ONE}) == {"n": 1}


def test_ids_are_told_apart_in_threads_and_forks() -> None:
    def take(_number: int) -> list[tuple[str, str, str]]:
        return [new_ids() for _ in range(200)]

    with ThreadPoolExecutor(4) as pool:
        taken = [ids for many in pool.map(take, range(8)) for ids in many]
    for kind in zip(*taken, strict=True):
        assert len(set(kind)) == len(taken)
    run_id, trace_id, span_id = new_ids("mine")
    assert (run_id, len(trace_id), len(span_id)) == ("mine", 32, 16)


FORKING = """
import os
from openmultiagent.identity import new_ids
new_ids()  # others are at hand now
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, new_ids()[0].encode())
    os._exit(0)
os.wait()
print(os.read(read, 36).decode() != new_ids()[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_process_has_ids_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
