"""Which tools an agent may call."""

from collections.abc import Sequence
from typing import Any

import pytest

from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import (
    BUILT_IN_TOOLS,
    TOOL_PRESETS,
    Grants,
    Tool,
    as_given_tools,
    check_preset,
    default_preset,
    tool,
)
from tests.support import proves

BUILT_IN = {
    name: Tool(name, input_schema={}, execute=print)
    for name in ("bash", "delegate_to_agent", "file_edit", "file_read", "file_write", "glob", "grep")
}
"""Stands for the built-in tools of a version that has some."""


def own(name: str = "own") -> Tool:
    return Tool(name, input_schema={}, execute=print)


class Server:
    """A toolset that nobody opens here."""

    name = "server"

    async def open(self) -> Sequence[Tool]:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


def granted(*given: Any, available: Any = BUILT_IN, **rules: Any) -> list[str]:
    tools = as_given_tools("worker", given, available=available)
    return [item.name for item in Grants("worker", tools, available=available, **rules).tools]


@proves("TOL-50")
def test_nothing_is_granted_unless_somebody_grants_it() -> None:
    assert granted() == []
    assert granted(denied=["bash"]) == []
    assert granted(own()) == ["own"]


@proves("TOL-52")
@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("readonly", ["file_read", "grep", "glob"]),
        ("readwrite", ["file_read", "file_write", "file_edit", "grep", "glob"]),
        ("full", ["file_read", "file_write", "file_edit", "grep", "glob", "bash"]),
    ],
)
def test_a_preset_grants_its_built_in_tools_besides_what_was_given(preset: str, names: list[str]) -> None:
    assert list(TOOL_PRESETS[preset]) == names
    assert granted(own(), preset=preset) == [*names, "own"]


@proves("TOL-51")
def test_grants_add_up_and_denials_take_away() -> None:
    assert granted("bash", "grep") == ["bash", "grep"]
    assert granted("delegate_to_agent", "grep", preset="readonly") == ["file_read", "grep", "glob", "delegate_to_agent"]
    assert granted(own(), "bash", preset="readonly", denied=["grep", "bash"]) == ["file_read", "glob", "own"]
    assert granted(own(), preset="readonly", denied=["own", "file_write"]) == ["file_read", "grep", "glob"]


@proves("TOL-51")
def test_an_own_tool_may_have_the_name_of_a_built_in_one_that_is_not_granted() -> None:
    bash = own("bash")
    assert Grants("worker", [bash], available=BUILT_IN).tools == (bash,)
    assert granted(bash, denied=["bash"]) == []
    with pytest.raises(ConfigurationError, match="agent 'worker' has two tools named 'bash'"):
        granted(bash, preset="full")


@proves("TOL-53")
@pytest.mark.parametrize(
    ("given", "rules", "text"),
    [
        (["bsah"], {}, "tools has the name 'bsah': there is no such built-in tool"),
        ([own()], {"denied": ["onw"]}, "disallowed_tools names 'onw', which is not among its tools"),
        ([], {"preset": "all"}, "tool preset 'all' is none of readonly, readwrite, full"),
        ([own(), own()], {}, "two tools named 'own'"),
        ([3], {}, "takes Tool objects, typed functions and toolsets, got 3"),
        ([Server], {}, "expected a function"),
    ],
)
def test_names_that_mean_nothing_are_refused(given: Any, rules: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        granted(*given, **rules)


@proves("TOL-53")
@pytest.mark.parametrize("name", TOOL_PRESETS["full"])
def test_this_version_has_built_in_tools_for_teams_only_and_says_so(name: str) -> None:
    assert set(BUILT_IN_TOOLS) == {"delegate_to_agent", "send_message"}
    with pytest.raises(ConfigurationError, match=f"agent 'worker': tools has the name '{name}': this version ships no"):
        granted(name, available=BUILT_IN_TOOLS)


@proves("TOL-53")
@pytest.mark.parametrize("preset", TOOL_PRESETS)
def test_presets_need_built_in_tools(preset: str) -> None:
    with pytest.raises(ConfigurationError, match=f"agent 'worker': tool preset '{preset}': this version ships no"):
        granted(preset=preset, available=BUILT_IN_TOOLS)
    with pytest.raises(ConfigurationError, match="this version ships no built-in tools"):
        check_preset(preset)
    assert check_preset(preset, available=BUILT_IN) == preset
    assert check_preset(None) is None


@proves("TOL-54")
@pytest.mark.parametrize(
    ("preset", "given", "effective"),
    [
        (None, [], "full"),
        (None, [own(), Server()], "full"),
        (None, ["grep"], None),
        ("readonly", [], "readonly"),
        ("readonly", ["grep"], "readonly"),
    ],
)
def test_the_default_preset_is_for_agents_that_choose_nothing(
    preset: str | None, given: Any, effective: str | None
) -> None:
    assert default_preset(preset, given, "full") == effective


@proves("TOL-65")
def test_names_that_toolsets_may_have_are_looked_at_when_they_are_open() -> None:
    server = Server()
    grants = Grants("worker", [own(), server], denied=["hidden", "own"])
    assert grants.toolsets == (server,)
    assert grants.tools == ()
    opened = [("server", own("hidden")), ("server", own("shown"))]
    assert [item.name for item in grants.with_opened(opened)] == ["shown"]
    with pytest.raises(ConfigurationError, match="agent 'worker': disallowed_tools names 'hidden', which is not among"):
        grants.with_opened(opened[1:])


@proves("TOL-65")
def test_tools_of_one_name_are_refused_with_where_they_come_from() -> None:
    grants = Grants("worker", [own("read"), Server()])
    with pytest.raises(ConfigurationError, match="named 'read' comes from its own tools and from toolset 'server'"):
        grants.with_opened([("server", own("read"))])
    with pytest.raises(ConfigurationError, match="named 'x' comes from toolset 'server' and from toolset 'other'"):
        grants.with_opened([("server", own("x")), ("other", own("x"))])
    denying = Grants("worker", [own("read"), Server()], denied=["x"])
    assert [item.name for item in denying.with_opened([("a", own("x")), ("b", own("x"))])] == ["read"]


@proves("TOL-65")
def test_a_toolset_may_not_be_given_twice() -> None:
    server = Server()
    with pytest.raises(ConfigurationError, match="agent 'worker': tools has the same toolset twice"):
        Grants("worker", [server, server])


@proves("TOL-51")
def test_functions_become_tools_and_the_rest_stays_itself() -> None:
    def plain(text: str) -> str:
        return text

    server, made = Server(), tool(plain, name="made")
    given = as_given_tools("worker", [plain, made, server])
    assert isinstance(given[0], Tool)
    assert given[1:] == (made, server)
