"""Token counts as values."""

import dataclasses
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.usage import TokenUsage
from tests.support import proves

COUNTS = [field.name for field in dataclasses.fields(TokenUsage)]

usages = st.builds(TokenUsage, **{name: st.integers(0, 10**12) for name in COUNTS})


@proves("ERR-20")
@pytest.mark.parametrize("name", COUNTS)
def test_a_usage_cannot_be_changed(name: str) -> None:
    usage = TokenUsage()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(usage, name, 1)
    assert usage == TokenUsage()


@proves("ERR-20")
def test_adding_in_place_leaves_what_others_hold() -> None:
    first, second = TokenUsage(input_tokens=1), TokenUsage(input_tokens=2)
    total = first
    total += second
    total += total
    assert total == TokenUsage(input_tokens=6)
    assert (first, second) == (TokenUsage(input_tokens=1), TokenUsage(input_tokens=2))


@proves("ERR-20")
def test_equal_counts_are_equal_values() -> None:
    assert TokenUsage(input_tokens=1) == TokenUsage(input_tokens=1)
    assert len({TokenUsage(input_tokens=1), TokenUsage(input_tokens=1), TokenUsage(output_tokens=1)}) == 2


@proves("ERR-21", "ERR-22")
@settings(max_examples=30)
@given(st.lists(usages, max_size=5))
def test_every_count_adds_up_by_itself(calls: list[TokenUsage]) -> None:
    total = sum(calls, TokenUsage())
    for name in COUNTS:
        assert getattr(total, name) == sum(getattr(call, name) for call in calls)


@proves("ERR-21")
def test_the_total_is_input_and_output() -> None:
    usage = TokenUsage(
        input_tokens=10, output_tokens=5, cache_read_tokens=4, cache_write_tokens=3, reasoning_tokens=2, unknown_calls=1
    )
    assert usage.total_tokens == 15


@proves("ERR-21")
@pytest.mark.parametrize("other", [1, 0, None, {"input_tokens": 1}])
def test_only_usages_can_be_added(other: object) -> None:
    with pytest.raises(TypeError):
        TokenUsage() + other


@proves("ERR-22")
def test_unknown_is_not_zero() -> None:
    assert TokenUsage.unknown() != TokenUsage()
    assert TokenUsage.unknown().total_tokens == 0
    total = TokenUsage(input_tokens=3) + TokenUsage.unknown() + TokenUsage.unknown()
    assert (total.input_tokens, total.unknown_calls) == (3, 2)


@proves("ERR-23")
def test_a_usage_pickles_and_survives_json() -> None:
    usage = TokenUsage(**{name: number for number, name in enumerate(COUNTS, 1)})
    assert pickle.loads(pickle.dumps(usage)) == usage
    written = json.loads(json.dumps(usage.to_dict()))
    assert list(written) == COUNTS
    assert TokenUsage(**written) == usage
