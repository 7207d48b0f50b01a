"""Annotations that are strings, as with this import, and name types that only the enclosing function knows."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import ToolRegistry, tool
from tests.support import proves


@proves("TOL-2")
def test_types_of_the_enclosing_function_are_found() -> None:
    class Order(BaseModel):
        item: str

    @tool
    def buy(order: Order) -> str:
        return order.item

    @tool(name="sell")
    def sell(order: Order) -> str:
        return order.item

    assert buy.definition.input_schema["properties"] == {"order": {"$ref": "#/$defs/Order"}}
    assert sell.definition.input_schema == buy.definition.input_schema


class Clash(BaseModel):
    outer: int


def use(clash: Clash) -> int:
    return clash.outer


@proves("TOL-2")
def test_names_of_the_caller_do_not_shadow_those_of_the_function() -> None:
    class Clash(BaseModel):
        inner: int

    def use_inner(clash: Clash) -> int:
        return clash.inner

    assert list(tool(use).definition.input_schema["$defs"]["Clash"]["properties"]) == ["outer"]
    assert list(tool(use_inner).definition.input_schema["$defs"]["Clash"]["properties"]) == ["inner"]


@proves("TOL-6")
def test_types_that_cannot_be_found_are_named() -> None:
    class Order(BaseModel):
        item: str

    def buy(order: Order) -> str:
        return order.item

    with pytest.raises(ConfigurationError, match=r"'buy'.*'Order'"):
        ToolRegistry([buy])
