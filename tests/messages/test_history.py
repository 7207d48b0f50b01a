"""The check of histories, and their repair."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.adapters import LLMChatOptions
from openmultiagent.adapters._anthropic_request import encode_request as encode_anthropic
from openmultiagent.adapters._gemini_request import encode_request as encode_gemini
from openmultiagent.adapters._openai_request import encode_request as encode_openai
from openmultiagent.adapters._responses_request import encode_request as encode_responses
from openmultiagent.errors import ConfigurationError, InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    ContentBlock,
    Conversation,
    FileBlock,
    HistoryDialect,
    HistoryFaultCode,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
    check_history,
    copy_messages,
    repair_history,
    require_valid_history,
)
from openmultiagent.testing._strict import STRICT, Complaint
from tests.support import proves

DIALECTS: tuple[HistoryDialect, ...] = get_args(HistoryDialect)
HI = LLMMessage.user("Hi")


def call(call_id: str = "c1", name: str = "look", **fields: Any) -> ToolUseBlock:
    return ToolUseBlock(id=call_id, name=name, input={}, **fields)


def result(call_id: str = "c1", text: str = "found", *, is_error: bool | None = None) -> ToolResultBlock:
    return ToolResultBlock.new(call_id, text, is_error=is_error)


def says(*blocks: ContentBlock | str) -> LLMMessage:
    return LLMMessage.assistant([TextBlock.new(block) if isinstance(block, str) else block for block in blocks])


def user(*blocks: ContentBlock | str) -> LLMMessage:
    return LLMMessage.user_with_blocks([TextBlock.new(block) if isinstance(block, str) else block for block in blocks])


def codes(messages: list[LLMMessage], dialect: HistoryDialect = "any", **options: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in check_history(messages, dialect=dialect, **options)]


# --- what is a fault -------------------------------------------------------------------------------------------------


@proves("HIS-1")
def test_a_fault_says_where_what_and_what_to_do() -> None:
    history = [HI, says(call("c1"), call("c2")), user(result("c1")), says("Done")]
    before = copy_messages(history)
    (fault,) = check_history(history)
    assert (fault.path, fault.code) == ("messages[1].content[1]", "unanswered_call")
    assert (
        fault.message == "messages[1].content[1] is the call with id 'c2', which no result answers before the next turn"
    )
    assert fault.repair == "add a tool_result for it right behind messages[1], or see repair_history"
    assert history == before


@proves("HIS-1")
def test_faults_come_in_the_order_of_the_conversation() -> None:
    history = [says(call("a")), user(result("b")), LLMMessage.system("late"), says(call("a"))]
    assert codes(history) == [
        ("messages[0].role", "leading_assistant"),
        ("messages[0].content[0]", "unanswered_call"),
        ("messages[1].content[0]", "unknown_result"),
        ("messages[2].role", "late_system"),
        ("messages[3].content[0].id", "duplicate_call"),
        ("messages[3].content[0]", "unanswered_call"),
    ]


@proves("HIS-1")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_conversation_has_no_fault(dialect: HistoryDialect) -> None:
    assert check_history([], dialect=dialect) == []


@proves("HIS-1")
def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown dialect 'cohere'; known are openai, anthropic, .*, any"):
        check_history([HI], dialect="cohere")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="unknown dialect"):
        require_valid_history([HI], "cohere")  # type: ignore[arg-type]


@proves("HIS-2")
@pytest.mark.parametrize(
    ("history", "path"),
    [
        ("Hi", "messages"),
        ([{"role": "user", "content": "Hi"}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "file:///x"}}]}], None),
    ],
)
def test_what_is_no_message_is_one_fault(history: Any, path: str | None) -> None:
    (fault,) = check_history(history)
    assert fault.code == "invalid_message"
    assert fault.message.startswith(fault.path)
    assert path is None or fault.path == path


@proves("HIS-3")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "history",
    [
        [HI, says(call())],
        [HI, says("Let me look", call()), HI],
        [HI, says(call()), user("x"), says("y"), HI],
        [HI, says(call("c0")), user(result("c0")), says(call()), says("y")],
    ],
)
def test_a_call_without_a_result(history: list[LLMMessage], dialect: HistoryDialect) -> None:
    (fault,) = check_history(history, dialect=dialect)
    assert fault.code == "unanswered_call"


@proves("HIS-4")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_results_that_do_not_belong(dialect: HistoryDialect) -> None:
    assert codes([user(result("c1"))], dialect) == [("messages[0].content[0]", "unknown_result")]
    late = [HI, says(call()), HI, says("x"), user(result())]
    assert codes(late, dialect) == [
        ("messages[1].content[0]", "unanswered_call"),
        ("messages[4].content[0]", "misplaced_result"),
    ]
    early = [HI, says("x"), user(result()), says(call()), HI]
    assert [code for _, code in codes(early, dialect)] == ["misplaced_result", "unanswered_call"]
    twice = [HI, says(call()), user(result(), result())]
    assert codes(twice, dialect) == [("messages[2].content[1]", "duplicate_result")]
    again = [HI, says(call()), user(result()), says("x"), user(result())]
    assert codes(again, dialect) == [("messages[4].content[0]", "duplicate_result")]


@proves("HIS-4")
def test_the_repair_names_the_place_where_the_result_is_and_where_it_belongs() -> None:
    open_call, lost = check_history([HI, says(call()), HI, says("x"), user("y", result())])
    assert open_call.repair == "move messages[4].content[1] right behind messages[1], or see repair_history"
    assert lost.repair == "move it right behind messages[1]"
    assert lost.message.endswith("does not stand right behind messages[1]")


@proves("HIS-5")
def test_a_turn_of_several_messages() -> None:
    history = [HI, says(call("c1")), says("And", call("c2")), user(result("c1"), result("c2"))]
    for dialect in ("anthropic", "gemini", "bedrock"):
        assert codes(history, dialect) == []
    assert codes(history, "openai") == [
        ("messages[1].content[0]", "unanswered_call"),
        ("messages[3].content[0]", "misplaced_result"),
    ]


@proves("HIS-6")
def test_ids_of_calls() -> None:
    twice_in_a_turn = [HI, says(call(), call()), user(result())]
    for dialect in DIALECTS:
        assert codes(twice_in_a_turn, dialect) == [("messages[1].content[1].id", "duplicate_call")]
    in_two_turns = [HI, says(call()), user(result()), says(call()), user(result())]
    for dialect in ("openai", "gemini"):
        assert codes(in_two_turns, dialect) == []
    for dialect in ("anthropic", "bedrock", "any"):
        assert codes(in_two_turns, dialect) == [("messages[3].content[0].id", "duplicate_call")]
    blank = [HI, says(call(" ", "")), user(result(" "))]
    for dialect in DIALECTS:
        assert codes(blank, dialect) == [
            ("messages[1].content[0].id", "empty_id"),
            ("messages[1].content[0].name", "empty_name"),
        ]


@proves("HIS-7")
def test_roles() -> None:
    late = [LLMMessage.system("a"), HI, LLMMessage.system("b")]
    for dialect in DIALECTS:
        assert codes(late, dialect) == [("messages[2].role", "late_system")]
    leading = [LLMMessage.system("a"), says("Welcome"), HI]
    assert [codes(leading, dialect) for dialect in ("openai", "anthropic", "gemini")] == [[], [], []]
    assert codes(leading, "bedrock") == [("messages[1].role", "leading_assistant")]
    calling = [says("Welcome"), says(call()), user(result())]
    assert [codes(calling, dialect) for dialect in ("openai", "anthropic")] == [[], []]
    assert codes(calling, "gemini") == [("messages[1].role", "leading_assistant")]
    assert codes(calling, "bedrock") == [("messages[0].role", "leading_assistant")]


@proves("HIS-8")
def test_nothing_to_send() -> None:
    for dialect in DIALECTS:
        assert codes([LLMMessage.user_with_blocks([])], dialect) == [("messages", "nothing_to_send")]
        assert codes([says(ReasoningBlock.new("hm"))], dialect)[0] == ("messages", "nothing_to_send")
    for dialect in ("anthropic", "bedrock"):
        assert codes([LLMMessage.user(" ")], dialect) == [("messages", "nothing_to_send")]
    for dialect in ("openai", "gemini"):
        assert codes([LLMMessage.user("")], dialect) == []
    assert codes([says("")], "openai") == [("messages", "nothing_to_send")]
    alone = [LLMMessage.system("Tell a joke.")]
    assert codes(alone, "openai") == []
    assert codes(alone, "gemini") == [("messages", "nothing_to_send")]


@proves("HIS-8")
def test_a_failed_tool_that_says_nothing() -> None:
    history = [HI, says(call()), user(result("c1", " ", is_error=True))]
    for dialect in ("anthropic", "bedrock"):
        assert codes(history, dialect) == [("messages[2].content[0].content", "empty_error")]
    for dialect in ("openai", "gemini"):
        assert codes(history, dialect) == []  # type: ignore[arg-type]


PNG, TIFF = Base64Source.new("image/png", "AAAA"), Base64Source.new("image/tiff", "AAAA")
PDF, CSV = Base64Source.new("application/pdf", "AAAA"), Base64Source.new("text/csv", "AAAA")
REMOTE = UrlSource.new("https://example.com/x")


@proves("HIS-9")
@pytest.mark.parametrize(
    ("block", "refusing"),
    [
        (ImageBlock(source=PNG), set()),
        (ImageBlock(source=TIFF), {"anthropic", "bedrock"}),
        (ImageBlock(source=REMOTE), {"bedrock"}),
        (FileBlock.new("a.pdf", PDF), set()),
        (FileBlock.new("a.csv", CSV), {"anthropic"}),
        (FileBlock.new("a.pdf", REMOTE), {"openai", "bedrock"}),
    ],
)
def test_media(block: ContentBlock, refusing: set[str]) -> None:
    for dialect in ("openai", "anthropic", "gemini", "bedrock"):
        expected = [("messages[0].content[1]", "unsupported_media")] if dialect in refusing else []
        assert codes([user("Look", block)], dialect) == expected


@proves("HIS-9")
def test_media_in_results() -> None:
    parts = [
        ToolResultTextPart.new("seen"),
        ToolResultImagePart.new(TIFF),
        ToolResultFilePart.new("a.csv", CSV),
    ]
    history = [HI, says(call()), user(ToolResultBlock.new("c1", parts))]
    (fault,) = check_history(history, dialect="anthropic")
    assert (
        fault.message == "messages[2].content[0] has an image of type image/tiff, given as base64, which is not taken"
    )
    assert codes(history, "openai") == []
    (fault,) = check_history([user(ImageBlock(source=REMOTE))], dialect="bedrock")
    assert "an image given as URL" in fault.message


@proves("HIS-10")
def test_reasoning_that_lost_its_signature() -> None:
    def told(dialect: HistoryDialect, **fields: str) -> list[tuple[str, str]]:
        return codes([HI, says(ReasoningBlock.new("hm", **fields), "x")], dialect)

    lost = [("messages[1].content[0]", "unsigned_reasoning")]
    assert told("anthropic", provenance="anthropic") == told("bedrock", provenance="bedrock") == lost
    assert told("anthropic", provenance="anthropic", signature="s") == []
    assert told("anthropic", provenance="anthropic", redacted_data="r") == []
    assert told("openai", provenance="anthropic") == told("anthropic", provenance="deepseek") == []
    assert told("any") == told("gemini", provenance="gemini") == []


@proves("HIS-10")
def test_calls_that_lost_their_signature() -> None:
    old = [HI, says(call("a")), user(result("a")), says("Fine")]
    signed = [user("And?"), says(call("b", signature="s"), call("c")), user(result("b"), result("c"))]
    lost = [says(call("d"), call("e")), user(result("d"), result("e"))]
    assert codes([*old, *signed, *lost], "gemini") == [("messages[7].content[0]", "unsigned_call")]
    assert codes([*old, *signed, *lost], "openai") == []
    assert codes([*old, *signed, *lost, says("x"), HI], "gemini") == []
    assert codes([*old, *signed], "gemini") == codes([*old, user("And?"), *lost], "gemini") == []


@proves("HIS-11")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "history",
    [
        [HI, HI, says("a"), says("b"), HI],
        [HI, says(call("c1"), call("c2")), LLMMessage.tool([result("c1")]), LLMMessage.tool([result("c2")])],
        [HI, says(call("c1"), call("c2")), user(result("c2")), user("x"), user("y", result("c1"), "z")],
        [HI, says("", call()), user("", result(), " "), says("Fine")],
        [HI, LLMMessage.assistant([]), says(call()), LLMMessage.user_with_blocks([]), user(result())],
        [LLMMessage.system(""), LLMMessage.system("Be brief."), HI, says("Hello")],
    ],
)
def test_what_adapters_put_right_is_no_fault(history: list[LLMMessage], dialect: HistoryDialect) -> None:
    assert codes(history, dialect) == []


@proves("HIS-12")
def test_calls_that_wait() -> None:
    history = [HI, says(call("c1"), call("c2")), user(result("c1"))]
    assert codes(history, suspended={"c2"}) == []
    assert codes(history, suspended=["c1"]) == [("messages[1].content[1]", "unanswered_call")]
    with pytest.raises(ConfigurationError, match="suspended must be a collection"):
        check_history(history, suspended="c2")
    with pytest.raises(ConfigurationError, match="suspended must be a collection"):
        repair_history(history, suspended="c2")


# --- before a call ---------------------------------------------------------------------------------------------------


@proves("HIS-20")
def test_a_faulty_history_is_refused_with_its_repair() -> None:
    with pytest.raises(InvalidMessageError, match=r"which no result answers.*; add a tool_result for it") as caught:
        require_valid_history([HI, says(call())], "openai")
    assert caught.value.path == "messages[1].content[0]"
    assert str(caught.value).startswith(caught.value.path)
    require_valid_history([HI, says(call()), user(result())], "any")


@proves("HIS-20")
def test_what_adapters_answer_for_themselves_is_not_refused() -> None:
    require_valid_history([user(ImageBlock(source=TIFF))], "anthropic")
    require_valid_history([HI, says(ReasoningBlock.new("hm", provenance="anthropic"), "x")], "anthropic")
    require_valid_history(
        [HI, says(call("a", signature="s")), user(result("a")), says(call()), user(result())], "gemini"
    )


class Watched(Conversation):
    """Notes which messages are looked at."""

    def __init__(self, messages: list[LLMMessage]) -> None:
        super().__init__(messages)
        self.looked_at: list[int] = []

    def __getitem__(self, index: Any) -> Any:
        self.looked_at.append(index)
        return super().__getitem__(index)


@proves("HIS-21")
def test_a_growing_conversation_is_looked_at_once() -> None:
    conversation = Watched([HI, says(call()), user(result())])
    require_valid_history(conversation, "openai")
    conversation.extend([says("Fine"), HI])
    require_valid_history(conversation, "openai")
    require_valid_history(conversation, "openai")
    assert conversation.looked_at == [0, 1, 2, 3, 4]
    require_valid_history(conversation, "any")
    assert conversation.looked_at.count(4) == 4


@proves("HIS-21")
def test_what_is_wrong_with_a_growing_conversation_is_told_each_time() -> None:
    conversation = Conversation([HI, says(call())])
    for _ in range(2):
        with pytest.raises(InvalidMessageError, match="which no result answers"):
            require_valid_history(conversation, "openai")
    conversation.append(user(result()))
    require_valid_history(conversation, "openai")
    conversation.append(user(result()))
    with pytest.raises(
        InvalidMessageError, match=r"messages\[3\]\.content\[0\] answers the call with id 'c1' once more"
    ):
        require_valid_history(conversation, "openai")


# --- mending ---------------------------------------------------------------------------------------------------------


@proves("HIS-31")
def test_open_calls_are_closed_wherever_they_are() -> None:
    mended = repair_history([HI, says(call("a"), call("b")), user(result("a")), says(call("c")), says(call("d")), HI])
    first, second, third = mended[2], mended[4], mended[6]
    assert [message.role for message in mended] == ["user", "assistant"] + ["user", "assistant"] * 2 + ["user", "user"]
    assert first.content[0] == result("a")
    closed = [first.content[1], second.content[0], third.content[0]]
    assert [block.tool_use_id for block in closed if isinstance(block, ToolResultBlock)] == ["b", "c", "d"]
    assert all(isinstance(block, ToolResultBlock) and block.is_error for block in closed)
    assert mended[7] == HI


@proves("HIS-32")
def test_results_go_to_their_calls() -> None:
    mended = repair_history(
        [
            HI,
            says(call("a"), call("b")),
            says("Meanwhile"),
            LLMMessage.tool([result("b")]),
            user("x", result("a"), result("b", "again"), result("z")),
        ]
    )
    assert mended == [HI, says(call("a"), call("b")), user(result("a"), result("b")), says("Meanwhile"), user("x")]


@proves("HIS-32")
def test_results_of_one_turn_come_in_one_message() -> None:
    split = [HI, says(call("a"), call("b")), LLMMessage.tool([result("b")]), user("x", result("a")), user(result("z"))]
    assert repair_history(split)[2:] == [
        user(result("a"), result("b")).model_copy(update={"role": Role.TOOL}),
        user("x"),
    ]


@proves("HIS-32")
def test_a_result_before_its_call() -> None:
    mended = repair_history([HI, user(result("a")), says(call("a")), user("x", result("a", "stale"))])
    assert mended == [HI, says(call("a")), user(result("a"), "x")]


@proves("HIS-33")
def test_calls_that_wait_are_left_alone() -> None:
    history = [HI, says(call("a"), call("b"), call("c")), user(result("b")), HI]
    mended = repair_history(history, suspended={"a"})
    assert mended[1] == history[1]
    answered = [block.tool_use_id for block in mended[2].content if isinstance(block, ToolResultBlock)]
    assert answered == ["b", "c"]
    arrived = repair_history([*mended, says("x"), user(result("a", "approved"))], suspended={"a"})
    assert arrived[2].content[0] == result("a", "approved")
    assert codes(arrived) == []


@proves("HIS-33", "HIS-34")
def test_a_call_that_waits_keeps_its_id() -> None:
    history = [HI, says(call("a")), user(result("a")), says(call("a"))]
    mended = repair_history(history, suspended={"a"})
    assert mended == [HI, says(call("a-2")), user(result("a-2")), says(call("a"))]


@proves("HIS-34")
def test_ids_that_occur_twice() -> None:
    history = [
        HI,
        says(call("a"), call("a")),
        user(result("a", "1"), result("a", "2")),
        says(call("a")),
        user(result("a")),
    ]
    mended = repair_history([*history, says(call("a-2")), user(result("a-2"))])
    assert mended[1:] == [
        says(call("a"), call("a-3")),
        user(result("a", "1"), result("a-3", "2")),
        says(call("a-4")),
        user(result("a-4")),
        says(call("a-2")),
        user(result("a-2")),
    ]


@proves("HIS-34")
def test_a_result_belongs_to_the_last_turn_with_an_open_call_of_its_id() -> None:
    mended = repair_history([HI, says(call("a")), HI, says(call("a")), user(result("a")), user(result("a", "late"))])
    assert mended[2].content == [result("a", "late")]
    assert mended[5].content == [result("a-2")]


@proves("HIS-34")
def test_blank_ids_and_names() -> None:
    mended = repair_history([HI, says(call("", ""), call(" ", "look")), user(result(" ", "2"), result("", "1"))])
    assert mended == [
        HI,
        says(call("call-2", "unknown_tool"), call("call-3")),
        user(result("call-2", "1"), result("call-3", "2")),
    ]


@proves("HIS-35")
def test_system_messages_go_to_the_front() -> None:
    one, two = LLMMessage.system("one"), LLMMessage.system("two")
    assert repair_history([HI, one, says("x"), two, HI]) == [one, two, HI, says("x"), HI]


@proves("HIS-35")
@pytest.mark.parametrize(
    "history",
    [
        [says("Welcome"), HI],
        [LLMMessage.user(" "), says(call()), user(result())],
        [LLMMessage.user(" ")],
        [user(result("z")), says("Found it.")],
    ],
)
def test_a_missing_beginning(history: list[LLMMessage]) -> None:
    mended = repair_history([LLMMessage.system("Be brief."), *history])
    assert mended[:2] == [
        LLMMessage.system("Be brief."),
        LLMMessage.user("[The beginning of this conversation is missing.]"),
    ]


@proves("HIS-36")
def test_lost_texts_and_signatures() -> None:
    history = [
        HI,
        says(ReasoningBlock.new("hm", provenance="anthropic"), call("a", signature="s")),
        user(result("a", "", is_error=True)),
        says(ReasoningBlock.new("so", provenance="anthropic", signature="t"), call("b")),
        user(result("b")),
    ]
    assert repair_history(history) == [
        HI,
        says(ReasoningBlock.new("hm"), call("a", signature="s")),
        user(result("a", "The tool failed and did not say why.", is_error=True)),
        says(
            ReasoningBlock.new("so", provenance="anthropic", signature="t"),
            call("b", signature="skip_thought_signature_validator"),
        ),
        user(result("b")),
    ]


@proves("HIS-37")
def test_what_is_no_message_cannot_be_mended() -> None:
    with pytest.raises(InvalidMessageError, match=r"messages\[0\]"):
        repair_history([{"role": "user", "content": "Hi"}])


@proves("HIS-30")
def test_media_are_not_touched() -> None:
    history = [user(ImageBlock(source=TIFF)), says(call())]
    mended = repair_history(history)
    assert mended[0] == history[0]
    assert codes(mended, "anthropic") == [("messages[0].content[0]", "unsupported_media")]
    assert repair_history([history[0]]) == [history[0]]


# --- what holds for all histories ------------------------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "c", "", " "])
texts = st.sampled_from(["", " ", "hi"]).map(TextBlock.new)
calls = st.builds(call, ids, st.sampled_from(["t", ""]), signature=st.sampled_from([None, "s"]))
results = st.builds(result, ids, st.sampled_from(["", " ", "r"]), is_error=st.sampled_from([None, True]))
reasoning = st.builds(
    ReasoningBlock,
    text=st.just("r"),
    provenance=st.sampled_from(["anthropic", "bedrock", "gemini", None]),
    signature=st.sampled_from([None, "s"]),
)


def messages_of(role: Role, blocks: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[LLMMessage]:
    return st.lists(blocks, min_size=least, max_size=4).map(lambda content: LLMMessage.new(role, content))


any_message = st.one_of(
    messages_of(Role.USER, texts | results),
    messages_of(Role.ASSISTANT, texts | calls | reasoning),
    messages_of(Role.TOOL, results, 1),
    messages_of(Role.SYSTEM, texts),
)
histories = st.lists(any_message, max_size=9)


@proves("HIS-30", "HIS-33")
@given(histories, st.sets(st.sampled_from(["a", "b", "c"])))
@settings(deadline=None)
def test_mending_leaves_nothing_to_mend(history: list[LLMMessage], suspended: set[str]) -> None:
    before = copy_messages(history)
    mended = repair_history(history, suspended=suspended)
    assert history == before
    for dialect in DIALECTS:
        assert check_history(mended, dialect=dialect, suspended=suspended) == []
    assert repair_history(mended, suspended=suspended) == mended
    if not check_history(history, suspended=suspended):
        assert mended == history


OPTIONS = LLMChatOptions(model="m")
ENCODERS: dict[str, tuple[HistoryDialect, Callable[[list[LLMMessage]], bytes]]] = {
    "openai": ("openai", lambda history: encode_openai(history, OPTIONS, stream=False)),
    "openai-responses": (
        "openai",
        lambda history: encode_responses(history, OPTIONS, stream=False, adapter_name="openai"),
    ),
    "anthropic": ("anthropic", lambda history: encode_anthropic(history, OPTIONS, stream=False)),
    "gemini": ("gemini", lambda history: encode_gemini(history, OPTIONS, adapter_name="gemini")),
}


@pytest.mark.parametrize("protocol", ENCODERS)
@proves("HIS-13", "HIS-30")
@given(history=histories.filter(bool))
@settings(deadline=None)
def test_what_has_no_fault_becomes_a_request_that_is_taken(protocol: str, history: list[LLMMessage]) -> None:
    dialect, encode = ENCODERS[protocol]
    faults: set[HistoryFaultCode] = {fault.code for fault in check_history(history, dialect=dialect)}
    for candidate in [repair_history(history), *([history] if faults <= {"unsigned_reasoning"} else [])]:
        body = json.loads(encode(candidate))
        if body.get("input") == []:
            continue  # nothing but a system text, which Chat Completions takes and the Responses API does not
        STRICT[protocol](body, "/models/m:generateContent")


@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize(
    "history",
    [
        [HI, says(call())],
        [HI, says(call("a"), call("b")), user(result("a"))],
        [HI, user(result())],
        [HI, says(call()), user(result(), result())],
    ],
)
@proves("HIS-13")
def test_what_has_a_fault_would_not_be_taken(protocol: str, history: list[LLMMessage]) -> None:
    dialect, encode = ENCODERS[protocol]
    assert codes(history, dialect)
    with pytest.raises(Complaint):
        STRICT[protocol](json.loads(encode(history)), "/models/m:generateContent")
