"""A record is a frozen dataclass with slots, made in another way."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

import pytest

from openmultiagent._record import maker, record

T = TypeVar("T")


@record
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)
    secret: str = field(default="s", repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class Model:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)
    secret: str = field(default="s", repr=False, hash=False)


@record(kw_only=True)
class Named:
    name: str
    size: float = 1.0
    label: str = field(init=False, default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.name.upper())


@record
class Odd:  # noqa: PLW1641 - that it has no hash is what is tested
    value: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    def __repr__(self) -> str:
        return "odd"


@record
class Labelled(Point):
    label: str = ""


@record
class Box(Generic[T]):
    inside: T
    size: int = 1


@record
class Empty:
    pass


@record
class Knot:
    inside: list[Any]


@pytest.mark.parametrize(
    "arguments", [((1,), {}), ((1, 3), {}), ((), {"x": 1, "tags": ["a"]}), ((1, 2, ["t"], "z"), {})]
)
def test_it_is_like_a_frozen_dataclass(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    given, named = arguments
    one, other = Point(*given, **named), Model(*given, **named)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert repr(one) == repr(other).replace("Model", "Point")
    assert hash(one) == hash(other)
    assert one == Point(*given, **named)
    assert replace(one, x=9) == Point(9, one.y, one.tags, one.secret)
    assert [item.name for item in fields(one)] == [item.name for item in fields(other)]
    assert Point.__match_args__ == Model.__match_args__
    assert str(inspect.signature(Point)) == str(inspect.signature(Model))


def test_defaults_are_made_for_each() -> None:
    assert Point(1).tags is not Point(1).tags


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, [], "s", 5), {}), ((1,), {"z": 1}), ((1,), {"x": 1})])
def test_wrong_arguments_are_refused(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    with pytest.raises(TypeError):
        Point(*arguments[0], **arguments[1])


def test_fields_by_keyword_and_what_happens_after_them() -> None:
    assert (Named(name="a").label, Named(name="a", size=2.0).size) == ("A", 2.0)
    with pytest.raises(TypeError):
        Named("a")  # type: ignore[call-arg]
    assert inspect.signature(Named).parameters["name"].kind is inspect.Parameter.KEYWORD_ONLY


def test_it_is_frozen_and_has_no_other_attributes() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 1
    assert point.x == 1
    assert not hasattr(point, "__dict__")


def test_copies_and_pickles_are_equal() -> None:
    point = Point(1, 5, ["a"], "z")
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
        assert (other.tags, other.secret) == (["a"], "z")
    assert copy.deepcopy(point).tags is not point.tags
    named = pickle.loads(pickle.dumps(Named(name="b")))
    assert (named, named.label) == (Named(name="b"), "B")


def test_what_differs_is_not_equal() -> None:
    assert Point(1) != Point(2)
    assert Point(1, tags=["a"]) == Point(1)
    assert Point(1, secret="t") != Point(1)
    assert hash(Point(1, secret="t")) == hash(Point(1))
    other: Any = Model(1)
    assert Point(1) != other
    assert Point(math.nan) == Point(math.nan)  # type: ignore[arg-type]  # the very same object, as in a dataclass


def test_what_a_class_defines_itself_stays() -> None:
    assert Odd(1) == Odd(2)
    assert repr(Odd(1)) == "odd"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Odd(1))


def test_nothing_and_itself() -> None:
    assert (Empty() == Empty(), repr(Empty())) == (True, "Empty()")
    knot = Knot([])
    knot.inside.append(knot)
    assert repr(knot) == "Knot(inside=[...])"


def test_a_maker_makes_what_the_class_makes_and_wants_every_field() -> None:
    make = maker(Point)
    made = make(x=1, y=3, tags=["a"], secret="t")
    assert made == Point(1, 3, ["a"], "t")
    assert (type(made), made.tags, made.secret) == (Point, ["a"], "t")
    with pytest.raises(FrozenInstanceError):
        made.x = 2  # type: ignore[misc]  # that is what is tested
    with pytest.raises(TypeError, match="tags"):
        make(x=1, y=3, secret="t")


@pytest.mark.parametrize(
    ("cls", "values"),
    [(Labelled, (1, 2, ["a"], "s", "l")), (Box, ({"a": 1}, 2)), (Empty, ())],
    ids=["inherits fields", "generic", "no fields"],
)
def test_a_maker_makes_whole_records_of_every_kind(cls: Any, values: tuple[Any, ...]) -> None:
    make = maker(cls)
    made, expected = make(*values), cls(*values)
    assert type(made) is cls
    assert made == expected
    assert repr(made) == repr(expected)
    assert pickle.loads(pickle.dumps(made)) == expected
    assert copy.deepcopy(made) == expected
    assert not hasattr(made, "__dict__")
    for name in [*cls.__record_names__, "another"]:
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, 1)
        with pytest.raises(FrozenInstanceError):
            delattr(made, name)
