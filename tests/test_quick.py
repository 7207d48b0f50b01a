"""Quicker constructors leave a class as it was."""

import copy
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field, replace

import pytest

from openmultiagent._quick import quick_init


@dataclass(frozen=True, slots=True)
class Plain:
    first: int
    second: list[int] = field(default_factory=list)
    _: KW_ONLY
    third: str
    fourth: str | None = "four"


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: list[int] = field(default_factory=list)
    _: KW_ONLY
    third: str
    fourth: str | None = "four"


def test_values_and_defaults_are_the_same() -> None:
    assert repr(Quick(1, third="c")) == repr(Plain(1, third="c")).replace("Plain", "Quick")
    made = Quick(1, [2], third="c", fourth=None)
    assert (made.first, made.second, made.third, made.fourth) == (1, [2], "c", None)
    assert Quick(1, third="c").second is not Quick(1, third="c").second
    assert Quick(1, third="c") == Quick(1, [], third="c")


def test_the_signature_is_the_same() -> None:
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))


@pytest.mark.parametrize("given", [((), {}), ((1,), {}), ((1, [], "c"), {}), ((1,), {"third": "c", "fifth": 5})])
def test_wrong_arguments_are_refused(given: tuple[tuple[object, ...], dict[str, object]]) -> None:
    positional, named = given
    for cls in (Plain, Quick):
        with pytest.raises(TypeError):
            cls(*positional, **named)  # type: ignore[arg-type]


def test_it_stays_frozen() -> None:
    made = Quick(1, third="c")
    with pytest.raises(FrozenInstanceError):
        made.first = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.first


def test_copies_and_pickles_are_equal() -> None:
    made = Quick(1, [2], third="c")
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert replace(made, first=3) == Quick(3, [2], third="c")


def test_a_constructor_that_does_more_is_not_replaced() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        first: int

        def __post_init__(self) -> None:
            """Check something."""

    @dataclass(frozen=True, slots=True)
    class Derived:
        first: int = field(init=False)

    for cls in (Checked, Derived):
        with pytest.raises(TypeError, match="has to do more in its constructor"):
            quick_init(cls)
