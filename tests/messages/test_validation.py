"""The check of a conversation: which fault is told, and where it is."""

import enum
import math
from collections import UserDict, deque
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
    assert_valid_messages,
    coerce_messages,
    replace_lone_surrogates,
)
from tests.support import proves

TEXT = {"type": "text", "text": "x"}
PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


def fault(messages: object) -> InvalidMessageError:
    with pytest.raises(InvalidMessageError) as caught:
        assert_valid_messages(messages)
    assert caught.value.message.startswith(caught.value.path)
    return caught.value


def block_fault(block: object, role: str = "user") -> InvalidMessageError:
    return fault([{"role": role, "content": [block]}])


def tool_result(**fields: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": "1", "content": "ok", **fields}


def tool_use(value: object) -> dict[str, object]:
    return {"type": "tool_use", "id": "1", "name": "x", "input": value}


@proves("MSG-10", "MSG-11")
def test_valid_conversations_pass() -> None:
    assert_valid_messages([])
    assert_valid_messages(({"role": "user", "content": (TEXT,)},))
    assert_valid_messages(
        [
            {"role": "user", "content": [TEXT]},
            {"role": "assistant", "content": [TEXT, tool_use({"a": [1]})]},
            {"role": "user", "content": [tool_result(content=[TEXT, {"type": "image", "source": PNG}])]},
            {"role": "tool", "content": [tool_result(is_error=True), tool_result(is_error=None)]},
            {"role": "user", "content": []},
            {"role": "system", "content": []},
            {"role": "assistant", "content": []},
        ]
    )


@proves("MSG-10", "MSG-11")
@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ("nope", "messages must be an array, got string"),
        (None, "messages must be an array, got null"),
        ({"role": "user"}, "messages must be an array, got object"),
        (5, "messages must be an array, got number"),
        (True, "messages must be an array, got boolean"),
        ({1}, "messages must be an array, got set"),
        (b"x", "messages must be an array, got bytes"),
        (["x"], "messages[0] must be an object, got string"),
        ([None], "messages[0] must be an object, got null"),
        ([[TEXT]], "messages[0] must be an object, got array"),
        ([TextBlock], "messages[0] must be an object, got ModelMetaclass"),
        ([{}], "messages[0].content must be a ContentBlock[], got null"),
        ([{"role": "user"}], "messages[0].content must be a ContentBlock[], got null"),
        ([{"role": "user", "content": {}}], "messages[0].content must be a ContentBlock[], got object"),
        ([{"role": "user", "content": 1.5}], "messages[0].content must be a ContentBlock[], got number"),
        (
            [{"role": "user", "content": [TEXT]}, {"role": "user", "content": "x"}],
            "messages[1].content must be a ContentBlock[], got string",
        ),
    ],
)
def test_the_frame_of_a_conversation(messages: object, text: str) -> None:
    error = fault(messages)
    assert error.message.startswith(text)
    assert error.path == text.partition(" ")[0]


@proves("MSG-10", "MSG-12")
@pytest.mark.parametrize(
    ("block", "text"),
    [
        (None, ' must be a content block with a string "type"'),
        ("x", ' must be a content block with a string "type"'),
        ([], ' must be a content block with a string "type"'),
        ({"text": "x"}, ' must be a content block with a string "type"'),
        ({"type": 5}, ' must be a content block with a string "type"'),
        ({"role": "user", "content": []}, ' must be a content block with a string "type"; this is a message'),
        ({"type": "audio"}, '.type "audio" is not supported'),
        ({"type": "\ud800"}, '.type "\ufffd" is not supported'),
        ({"type": "text"}, ".text must be a string"),
        ({"type": "text", "text": 5}, ".text must be a string"),
        ({"type": "reasoning", "text": None}, ".text must be a string"),
        ({"type": "reasoning", "text": "", "signature": 5}, ".signature must be a string"),
        ({"type": "reasoning", "text": "", "redactedData": []}, ".redactedData must be a string"),
        ({"type": "tool_use", "name": "x", "input": {}}, ".id must be a string"),
        ({"type": "tool_use", "id": "1", "name": None, "input": {}}, ".name must be a string"),
        ({"type": "tool_use", "id": "1", "name": "x"}, ".input must be an object"),
        (tool_use([]), ".input must be an object"),
        ({**tool_use({}), "input_error": {}}, ".input_error must be a string"),
        ({"type": "image"}, ".source must be a media source object"),
        ({"type": "image", "source": "x"}, ".source must be a media source object"),
        ({"type": "image", "source": PNG, "detail": "huge"}, ".detail must be one of low, high, auto"),
        ({"type": "image", "source": PNG, "detail": []}, ".detail must be one of low, high, auto"),
        ({"type": "image", "source": {**PNG, "type": "file"}}, '.source.type must be "base64" or "url"'),
        (
            {"type": "image", "source": {"type": "url", "url": "javascript:alert(1)"}},
            ".source.url must use HTTP or HTTPS",
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a", "media_type": ""}},
            ".source.media_type must be",
        ),
        ({"type": "image", "url": "ftp://a"}, ".url is invalid: image URL must start with http://, https://, or data:"),
        ({"type": "file", "source": PNG}, ".filename must be a non-empty string"),
        ({"type": "file", "filename": "a"}, ".source must be a media source object"),
        (
            {"type": "file", "filename": "a", "source": {**PNG, "data": "@"}},
            ".source.data must contain raw base64 data",
        ),
    ],
)
def test_blocks(block: object, text: str) -> None:
    role = "assistant" if isinstance(block, dict) and block.get("type") in {"reasoning", "tool_use"} else "user"
    error = block_fault(block, role)
    assert error.message.startswith(f"messages[0].content[0]{text}")


@proves("MSG-12")
@pytest.mark.parametrize("role", ["robot", "User", None, 5, ["user"]])
def test_unknown_roles(role: object) -> None:
    error = fault([{"role": role, "content": [TEXT]}])
    assert error.message == "messages[0].role must be one of system, user, assistant, tool"
    assert error.path == "messages[0].role"


BLOCKS: dict[str, object] = {
    "text": TEXT,
    "reasoning": {"type": "reasoning", "text": "hm"},
    "tool_use": tool_use({}),
    "tool_result": tool_result(),
    "image": {"type": "image", "source": PNG},
    "file": {"type": "file", "filename": "a", "source": PNG},
}

ALLOWED = {
    "system": {"text"},
    "user": {"text", "image", "file", "tool_result"},
    "assistant": {"text", "reasoning", "tool_use"},
    "tool": {"tool_result"},
}


@proves("MSG-13")
@pytest.mark.parametrize("role", ALLOWED)
@pytest.mark.parametrize("kind", BLOCKS)
def test_which_blocks_stand_under_which_role(role: str, kind: str) -> None:
    messages = [{"role": role, "content": [*[BLOCKS[name] for name in ALLOWED[role]], BLOCKS[kind]]}]
    if kind in ALLOWED[role]:
        assert_valid_messages(messages)
    else:
        error = fault(messages)
        assert error.path == f"messages[0].content[{len(ALLOWED[role])}]"
        assert f'type "{kind}", which is not allowed in a message of role "{role}"' in error.message


@proves("MSG-11", "MSG-13")
def test_a_tool_message_has_a_result() -> None:
    assert fault([{"role": "tool", "content": []}]).path == "messages[0].content"


@proves("MSG-14")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tool_use_id": 5, "is_error": 1, "content": None}, ".tool_use_id must be a string"),
        ({"is_error": 1, "content": None}, ".is_error must be a boolean when provided"),
        ({"is_error": "yes"}, ".is_error must be a boolean when provided"),
        ({"is_error": True, "content": []}, ".content must not be an empty content-part array"),
        ({"is_error": True, "content": [TEXT]}, ".content must be a string for an error tool result"),
    ],
)
def test_tool_results_are_checked_in_order(fields: dict[str, object], text: str) -> None:
    assert block_fault(tool_result(**fields)).message == f"messages[0].content[0]{text}"


@proves("MSG-15")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, " must be a string or a non-empty content-part array, got null"),
        ({"type": "text", "text": "x"}, " must be a string or a non-empty content-part array, got object"),
        ([], " must not be an empty content-part array"),
        (["x"], "[0] must be a content-part object"),
        ([TEXT, None], "[1] must be a content-part object"),
        ([{"type": "text"}], "[0].text must be a string"),
        ([{"type": "audio", "data": "x"}], '[0].type must be "text", "image", or "file"'),
        ([{}], '[0].type must be "text", "image", or "file"'),
        ([{"type": "file", "filename": "", "source": None}], "[0].filename must be a non-empty string"),
        ([{"type": "file", "filename": " ", "source": None}], "[0].filename must be a non-empty string"),
        ([{"type": "file", "filename": "a"}], "[0].source must be a media source object"),
        ([{"type": "image", "source": [1]}], "[0].source must be a media source object"),
        ([{"type": "image", "source": {}}], "[0].source.media_type must be a non-empty string"),
        (
            [{"type": "image", "source": {"type": "url", "url": "https://a"}}],
            "[0].source.media_type must be a non-empty string",
        ),
        (
            [{"type": "image", "source": {"media_type": "image/png; q=1"}}],
            "[0].source.media_type must be a MIME type without parameters",
        ),
        ([{"type": "image", "source": {"media_type": "image/png"}}], '[0].source.type must be "base64" or "url"'),
        ([{"type": "image", "source": {**PNG, "data": ""}}], "[0].source.data must be a non-empty string"),
        ([{"type": "image", "source": {**PNG, "data": 5}}], "[0].source.data must be a non-empty string"),
        ([{"type": "image", "source": {**PNG, "data": "not base64!"}}], "[0].source.data must contain raw base64 data"),
        ([{"type": "image", "source": {**PNG, "type": "url"}}], "[0].source.url must be a non-empty string"),
        (
            [{"type": "image", "source": {**PNG, "type": "url", "url": "/a.png"}}],
            "[0].source.url must be an absolute HTTP(S) URL",
        ),
        (
            [{"type": "file", "filename": "a", "source": {**PNG, "type": "url", "url": "file:///etc/passwd"}}],
            "[0].source.url must use HTTP or HTTPS",
        ),
    ],
)
def test_parts_of_tool_results(content: object, text: str) -> None:
    assert block_fault(tool_result(content=content)).message.startswith(f"messages[0].content[0].content{text}")


class Child(TextBlock):
    """A user's own kind of text block."""

    extra: Any = None


def changed(message: LLMMessage, change: Callable[[Any], object]) -> LLMMessage:
    change(message)
    return message


def unchecked(cls: Any, **fields: object) -> Any:
    """A model of which nothing was checked."""
    return cls.model_construct(**fields)


@proves("MSG-16")
@pytest.mark.parametrize(
    ("message", "path"),
    [
        (changed(LLMMessage.user("x"), lambda m: setattr(m, "role", "robot")), ".role"),
        (changed(LLMMessage.user("x"), lambda m: setattr(m, "content", "x")), ".content"),
        (changed(LLMMessage.user("x"), lambda m: m.content.append(object())), ".content[1]"),
        (changed(LLMMessage.user("x"), lambda m: m.content.append(m)), ".content[1]"),
        (changed(LLMMessage.user("x"), lambda m: m.content.append(m.content)), ".content[1]"),
        (changed(LLMMessage.user("x"), lambda m: setattr(m.content[0], "text", 5)), ".content[0].text"),
        (changed(LLMMessage.user("x"), lambda m: setattr(m.content[0], "type", "image")), ".content[0].source"),
        (unchecked(LLMMessage, role="user"), ".content"),
        (unchecked(LLMMessage, role="user", content=[unchecked(TextBlock)]), ".content[0].text"),
        (
            unchecked(
                LLMMessage,
                role="user",
                content=[unchecked(ImageBlock, source=unchecked(UrlSource, url="javascript:alert(1)"))],
            ),
            ".content[0].source.url",
        ),
        (
            LLMMessage.assistant([unchecked(ToolUseBlock, id="1", name="x", input={"a": {1}})]),
            ".content[0].input.a",
        ),
        (LLMMessage.user_with_blocks([Child(text="x", extra=print)]), ".content[0].extra"),
    ],
)
def test_changed_and_unchecked_models_are_found_out(message: LLMMessage, path: str) -> None:
    assert fault([LLMMessage.user("first"), message]).path == f"messages[1]{path}"


@proves("MSG-16")
def test_changed_models_that_are_still_valid_are_read_as_what_they_have_become() -> None:
    message = LLMMessage.user("x")
    message.role = "assistant"  # type: ignore[assignment]
    message.content.append({"type": "tool_use", "id": "1", "name": "x", "input": {}})  # type: ignore[arg-type]
    message.content = tuple(message.content)  # type: ignore[assignment]
    (copied,) = coerce_messages([message])
    assert copied == LLMMessage.assistant([TextBlock.new("x"), ToolUseBlock.new("1", "x", {})])
    assert copied.role is Role.ASSISTANT
    assert type(copied.content) is list
    assert type(message.content) is not list


@proves("MSG-17")
@pytest.mark.parametrize("wrap", [dict, MappingProxyType, UserDict])
def test_mappings_of_any_kind_are_read_and_left_as_they_are(wrap: Callable[[dict[str, Any]], Any]) -> None:
    def wrapped(value: Any) -> Any:
        if isinstance(value, dict):
            return wrap({key: wrapped(item) for key, item in value.items()})
        return [wrapped(item) for item in value] if isinstance(value, list) else value

    plain: list[dict[str, Any]] = [
        {"role": "assistant", "name": "me", "content": [{**tool_use({"a": {"b": [1]}}), "cache": True}]},
        {
            "role": "user",
            "content": [tool_result(content=[{"type": "image", "source": {**PNG, "x": 1}}]), BLOCKS["file"]],
        },
    ]
    given = wrapped(plain)
    first, second = coerce_messages(given), coerce_messages(given)
    assert first == second == [LLMMessage.model_validate(item) for item in plain]
    assert given == wrapped(plain)


@proves("MSG-17")
def test_mappings_may_hold_models_and_models_mappings() -> None:
    image = ImageBlock(source=Base64Source.new("image/png", "AAAA"))
    image.source = PNG  # type: ignore[assignment]
    (message,) = coerce_messages([{"role": "user", "content": [TextBlock.new("x"), image]}])
    assert message.content == [TextBlock.new("x"), ImageBlock(source=Base64Source.new("image/png", "AAAA"))]
    part_as_block = unchecked(LLMMessage, role="user", content=[ToolResultTextPart.new("x")])
    assert coerce_messages([part_as_block]) == [LLMMessage.user("x")]


@proves("MSG-17")
def test_all_fields_of_mappings_arrive() -> None:
    reasoning = {"type": "reasoning", "text": "", "signature": "s", "redactedData": "r", "provenance": "p"}
    call = {**tool_use({}), "signature": "s", "input_error": "e"}
    (message, user) = coerce_messages(
        [
            {"role": "assistant", "content": [reasoning, call]},
            {"role": "user", "content": [{"type": "image", "url": "https://a.b/c", "detail": "low"}, BLOCKS["file"]]},
        ]
    )
    assert message.content[0] == ReasoningBlock.new("", signature="s", redacted_data="r", provenance="p")
    assert message.content[1] == ToolUseBlock(id="1", name="x", input={}, signature="s", input_error="e")
    assert user.content[0] == ImageBlock.from_url("https://a.b/c").with_detail("low")
    assert user.content[1] == FileBlock.new("a", Base64Source.new("image/png", "AAAA"))


@proves("MSG-18")
@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        ({"a": print}, ".a", "got builtin_function_or_method"),
        ({"a": [0, {"b": {1, 2}}]}, ".a[1].b", "got set"),
        ({"a": b"x"}, ".a", "got bytes"),
        ({"a": object()}, ".a", "got object"),
        ({"a": 1j}, ".a", "got complex"),
        ({"a": math.nan}, ".a", "nan is no JSON number"),
        ({"a": [-math.inf]}, ".a[0]", "-inf is no JSON number"),
        ({"a": {5: "x"}}, ".a", "keys must be strings, got 5"),
        ({None: "x"}, "", "keys must be strings, got None"),
        ({"a": "\ud800"}, ".a", "lone surrogate U+D800 at character 0"),
        ({"a": {"b\udfff": 1}}, ".a", "lone surrogate U+DFFF at character 1"),
        ({"odd key": {"x" * 61: [print]}}, f"['odd key']['{'x' * 60}'...][0]", "got builtin_function_or_method"),
    ],
)
def test_tool_input_must_be_json_like(value: object, path: str, text: str) -> None:
    error = block_fault(tool_use(value), "assistant")
    assert error.path == f"messages[0].content[0].input{path}"
    assert "cloneable structured data" in error.message
    assert text in error.message


def nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@proves("MSG-19")
def test_nesting_is_bounded() -> None:
    assert_valid_messages([{"role": "assistant", "content": [tool_use({"a": nested(99)})]}])
    for depth in (100, 10_000, 200_000):
        error = block_fault(tool_use({"a": nested(depth)}), "assistant")
        assert error.path == "messages[0].content[0].input"
        assert "cloneable structured data" in error.message
        assert "nested more than 100 levels deep" in error.message


@proves("MSG-19")
def test_cycles_are_refused_where_they_close() -> None:
    loop: dict[str, Any] = {"a": [{}]}
    loop["a"][0]["again"] = loop["a"]
    error = block_fault(tool_use(loop), "assistant")
    assert error.path == "messages[0].content[0].input.a[0].again"
    assert "it contains itself" in error.message


@proves("MSG-19")
def test_parts_that_are_shared_without_end_are_refused() -> None:
    bomb: Any = "x"
    for _ in range(90):
        bomb = [bomb] * 10
    error = block_fault(tool_use({"a": bomb}), "assistant")
    assert "more than 1,000,000 values" in error.message


@proves("MSG-19")
def test_integers_that_python_refuses_to_write_are_refused() -> None:
    assert_valid_messages([{"role": "assistant", "content": [tool_use({"a": 2**13_999})]}])
    assert "an integer of 14,001 bits is too large" in block_fault(tool_use({"a": 2**14_000}), "assistant").message


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3

    def __str__(self) -> str:
        return "high"


class Grams(float):
    """A number with a name."""


@proves("MSG-20")
def test_tool_input_is_read_as_plain_json_data() -> None:
    given = {
        Colour.RED: (1, [Colour.RED]),
        "b": MappingProxyType({"c": Level.HIGH}),
        "d": Grams(2.5),
        "e": (True, None),
    }
    (message,) = coerce_messages([{"role": "assistant", "content": [tool_use(given)]}])
    expected = {"red": [1, ["red"]], "b": {"c": 3}, "d": 2.5, "e": [True, None]}
    for block in (message.content[0], ToolUseBlock.new("1", "x", given)):
        assert isinstance(block, ToolUseBlock)
        assert block.input == expected
        assert repr(block.input) == repr(expected)
        assert type(next(iter(block.input))) is str
    assert isinstance(given[Colour.RED], tuple)


@proves("MSG-21")
@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "text", "text": "ab\ud83d"}, ".text"),
        (tool_result(content="\ud83d"), ".content"),
        (tool_result(content=[{"type": "text", "text": "\ud83d"}]), ".content[0].text"),
        (tool_result(tool_use_id="\ud83d"), ".tool_use_id"),
        ({"type": "file", "filename": "\ud83d", "source": PNG}, ".filename"),
        ({"type": "image", "source": {"type": "url", "url": "https://a/\ud83d"}}, ".source.url"),
    ],
)
def test_lone_surrogates_of_callers_are_refused(block: object, path: str) -> None:
    error = block_fault(block)
    assert error.path == f"messages[0].content[0]{path}"
    assert "surrogate" in error.message
    error.message.encode()


@proves("MSG-21")
def test_lone_surrogates_of_models_and_tools_are_replaced() -> None:
    assert replace_lone_surrogates("a\ud83db\ude00c") == "a\ufffdb\ufffdc"
    assert replace_lone_surrogates("\ud83d\ude00") == "\U0001f600"
    given = {"k\ud83d": ["\ud83d", ("x", 5, None, object)], "same": "ä"}
    assert replace_lone_surrogates(given) == {"k\ufffd": ["\ufffd", ["x", 5, None, object]], "same": "ä"}
    assert "k\ud83d" in given
    loop: list[Any] = ["\ud83d"]
    loop.append(loop)
    mended = replace_lone_surrogates(loop)
    assert mended[0] == "\ufffd"
    assert mended[1] is mended


@proves("MSG-21")
@pytest.mark.parametrize("value", ["", "plain", "ä\U0001f600", {"a": ["b", {"c": 1}]}, ("a",), None, 5, nested(10_000)])
def test_what_has_no_lone_surrogate_is_returned_as_it_is(value: object) -> None:
    assert replace_lone_surrogates(value) is value


@proves("MSG-22")
@pytest.mark.parametrize(
    "text", ["", "a\x00b", "\x1b[31m", "[/x]", "{0} %s {name}", "\u2028\u0085\r\n", "\U0001f600", "\ufffd"]
)
def test_other_text_passes_unchanged(text: str) -> None:
    (message,) = coerce_messages([{"role": "user", "content": [{"type": "text", "text": text}]}])
    assert message == LLMMessage.user(text)
    assert message.content[0].text == text  # type: ignore[union-attr]
    assert LLMMessage.model_validate_json(message.model_dump_json()) == message


@proves("MSG-23")
def test_texts_and_images_of_100_megabytes_pass() -> None:
    text = "a" * 100_000_000
    media = {"type": "image", "source": {**PNG, "data": text}}
    content = [{"type": "text", "text": text}, media, tool_result(content=text)]
    (message,) = coerce_messages([{"role": "user", "content": content}])
    assert message.content[0].text is text  # type: ignore[union-attr]
    assert message.content[1].source.data is text  # type: ignore[union-attr]
    assert fault([{"role": text, "content": []}]).path == "messages[0].role"
    assert len(block_fault({"type": text}).message) < 300


@proves("MSG-10")
def test_other_sequences_are_conversations_too() -> None:
    assert coerce_messages(deque([LLMMessage.user("x")])) == [LLMMessage.user("x")]
    error = fault(range(2))
    assert error.path == "messages[0]"


@proves("MSG-10")
def test_the_root_of_paths_can_be_named() -> None:
    with pytest.raises(InvalidMessageError) as caught:
        coerce_messages([{"role": "user"}], root="history")
    assert caught.value.path == "history[0].content"


@proves("MSG-16")
def test_a_tool_result_that_was_changed_is_checked_through_and_through() -> None:
    message = LLMMessage.tool([ToolResultBlock.new("1", [ToolResultTextPart.new("x")])])
    part: Any = message.content[0].content[0]  # type: ignore[union-attr]
    part.text = None
    assert fault([message]).path == "messages[0].content[0].content[0].text"
