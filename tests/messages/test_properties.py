"""What holds for every conversation, and for everything that is none."""

import base64
import copy
import pickle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
    assert_valid_messages,
    coerce_messages,
    copy_messages,
    replace_lone_surrogates,
)
from tests.messages.shared import mutable_ids
from tests.support import proves

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
json_like = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
names = texts.filter(str.strip)
data = st.binary(min_size=1, max_size=6).map(lambda raw: base64.b64encode(raw).decode())


def sources(kind: str) -> st.SearchStrategy[Base64Source | UrlSource]:
    types = st.sampled_from([f"{kind}/png", f"{kind}/x.y+z"])
    return st.builds(Base64Source.new, types, data) | st.builds(UrlSource.new, st.just("https://example.com/é"), types)


text_blocks = st.builds(TextBlock.new, texts)
images = st.builds(ImageBlock, source=sources("image"), detail=st.sampled_from(ImageDetail))
parts = (
    st.builds(ToolResultTextPart.new, texts)
    | st.builds(ToolResultImagePart.new, sources("image"))
    | st.builds(ToolResultFilePart.new, names, sources("application"))
)
results = st.builds(ToolResultBlock.new, texts, st.lists(parts, min_size=1, max_size=2)) | st.builds(
    lambda id_, text, is_error: ToolResultBlock.new(id_, text, is_error=is_error),
    texts,
    texts,
    st.none() | st.booleans(),
)
reasoning = st.builds(ReasoningBlock, text=texts, signature=st.none() | texts, redacted_data=st.none() | texts)
calls = st.builds(ToolUseBlock, id=texts, name=texts, input=st.dictionaries(texts, json_like, max_size=3))
user_blocks = text_blocks | images | st.builds(FileBlock.new, names, sources("text")) | results
messages = st.lists(
    st.builds(LLMMessage.system, texts)
    | st.builds(LLMMessage.user_with_blocks, st.lists(user_blocks, max_size=3))
    | st.builds(LLMMessage.assistant, st.lists(text_blocks | reasoning | calls, max_size=3))
    | st.builds(LLMMessage.tool, st.lists(results, min_size=1, max_size=2)),
    max_size=4,
)

kinds = st.sampled_from(["text", "reasoning", "tool_use", "tool_result", "image", "file", "base64", "url", "audio"])
FIELDS = (
    "role content type text id name input tool_use_id is_error",
    "source detail url data media_type filename signature",
)
keys = st.sampled_from(" ".join(FIELDS).split()) | st.text(max_size=3)
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | kinds
    | st.sampled_from(["user", "tool"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)
nearly_blocks = st.builds(
    lambda kind, rest: {
        "text": "x",
        "tool_use_id": "1",
        "content": "x",
        "id": "1",
        "name": "x",
        "input": {},
        **rest,
        "type": kind,
    },
    kinds,
    st.dictionaries(keys, junk, max_size=2),
)
nearly_messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": st.lists(nearly_blocks | junk, max_size=3),
        }
    )
    | junk,
    max_size=3,
)


@proves("MSG-50", "MSG-51")
@given(messages)
@settings(deadline=None)
def test_every_copy_is_equal_and_shares_nothing_that_can_be_changed(original: list[LLMMessage]) -> None:
    for copied in (
        copy_messages(original),
        coerce_messages(original),
        copy.deepcopy(original),
        pickle.loads(pickle.dumps(original)),
    ):
        assert copied == original
        assert not mutable_ids(copied) & mutable_ids(original)


@proves("MSG-4", "MSG-17")
@given(messages)
@settings(deadline=None)
def test_every_conversation_reads_back_equal(original: list[LLMMessage]) -> None:
    assert_valid_messages(original)
    assert coerce_messages([message.to_dict() for message in original]) == original
    assert [
        LLMMessage.model_validate_json(message.model_dump_json(exclude_none=True)) for message in original
    ] == original


def read_or_refused(value: Any) -> list[LLMMessage] | None:
    """What is read of a value, or None when it is refused with a path; anything else that is raised fails the test."""
    try:
        return coerce_messages(value)
    except InvalidMessageError as refused:
        error = refused
    assert error.path.startswith("messages")
    assert error.message.startswith(error.path)
    return None


@proves("MSG-10", "MSG-16")
@given(junk | nearly_messages)
@settings(deadline=None)
def test_everything_is_accepted_or_refused_with_a_path(value: Any) -> None:
    accepted = read_or_refused(value)
    if accepted is not None:
        assert coerce_messages(accepted) == accepted
        assert [LLMMessage.model_validate_json(message.model_dump_json()) for message in accepted] == accepted


@proves("MSG-16")
@given(messages, st.lists(st.integers(0, 30), max_size=3), junk)
@settings(deadline=None)
def test_every_changed_model_is_accepted_or_refused_with_a_path(
    original: list[LLMMessage], steps: list[int], value: Any
) -> None:
    target: Any = original
    for step in steps:  # walk into the conversation, then put something foreign there
        inner = target.__dict__ if hasattr(target, "__pydantic_fields__") else target
        inside = list(inner.values()) if isinstance(inner, dict) else inner if isinstance(inner, list) else []
        target = inside[step % len(inside)] if inside else target
    if hasattr(target, "__pydantic_fields__"):
        target.__dict__[next(iter(target.__dict__))] = value
    elif isinstance(target, list):
        target.append(value)
    accepted = read_or_refused(original)
    if accepted is not None:
        assert coerce_messages(accepted) == accepted


@proves("MSG-21")
@given(
    st.recursive(
        leaves | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
    )
)
@settings(deadline=None)
def test_mended_data_is_always_accepted(value: Any) -> None:
    mended = replace_lone_surrogates(value)
    assert_valid_messages(
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "", "name": "", "input": {"a": mended}}]}]
    )
    assert replace_lone_surrogates(mended) is mended
