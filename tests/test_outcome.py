"""Statuses, failures and results: classified, without secrets, copied, pickled and written as JSON."""

import asyncio
import copy
import json
import math
import pickle
import threading
from dataclasses import FrozenInstanceError, fields
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, field_serializer

from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    CostBudgetExceededError,
    EgressPolicyError,
    InvalidMessageError,
    LimitExceededError,
    LLMAuthenticationError,
    LLMCallTimeoutError,
    LLMRateLimitError,
    LLMServerError,
    RoutingTimeoutError,
    RunError,
    TokenBudgetExceededError,
)
from openmultiagent.identity import RunIdentity, RunLink
from openmultiagent.messages import LLMMessage, TextBlock, ToolUseBlock, UnreadMessages
from openmultiagent.outcome import (
    AgentRunResult,
    ErrorInfo,
    ErrorKind,
    RunStatus,
    ToolCallRecord,
    classify_failure,
    copy_result,
    describe_error,
    is_retryable_error,
)
from openmultiagent.usage import TokenUsage, UsageEntry
from tests.support import proves


class Answer(BaseModel):
    numbers: list[float]


class Unwritable(BaseModel):
    """An answer whose class has a fault."""

    at: int = 0

    @field_serializer("at")
    def _at(self, value: int) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        return self.model_dump_json()


NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


class PlainError(Exception):
    """Has whatever attributes it is given."""

    def __init__(self, message: str = "failed", **attributes: object) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)


class HostileError(Exception):
    """Fails when it is looked at."""

    def __str__(self) -> str:
        raise ValueError("no text")

    @property
    def status(self) -> int:
        raise RuntimeError("no status")

    @property
    def code(self) -> str:
        raise RuntimeError("no code")

    @property
    def provider(self) -> str:
        raise RuntimeError("no provider")


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class WrongArgumentsError(Exception):
    """Pickles, but cannot be made again: a common fault of exceptions."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"because {reason}")


ENTRY = UsageEntry(
    agent="adder",
    model="m",
    provider="p",
    phase="agent",
    usage=TokenUsage(input_tokens=5, output_tokens=2),
    cost=0.5,
    requests=1,
)


def make_result(**changes: Any) -> AgentRunResult[Any]:
    values: dict[str, Any] = {
        "success": True,
        "status": RunStatus("ok"),
        "stop_reason": "end_turn",
        "output": "The sum is 3.",
        "structured": Answer(numbers=[1.0, 2.0]),
        "messages": [
            LLMMessage.assistant([ToolUseBlock.new("c1", "add", {"numbers": [1, 2]})]),
            LLMMessage.assistant("The sum is 3."),
        ],
        "token_usage": TokenUsage(input_tokens=5, output_tokens=2),
        "usage_report": (ENTRY,),
        "tool_calls": (
            ToolCallRecord(
                tool_name="add",
                tool_use_id="c1",
                input={"numbers": [1, 2]},
                output="3",
                is_error=False,
                duration=0.5,
            ),
        ),
        "identity": RunIdentity("run", 2, "a" * 32, "b" * 16, (RunLink("c" * 32, "d" * 16, "continued_from"),)),
        "metadata": {"tags": ["x"], "n": 0},
        "flags": ("flag",),
        "agent": "adder",
        "duration": 1.5,
    }
    return AgentRunResult(**{**values, **changes})


def poison(result: AgentRunResult[Any]) -> None:
    """Change everything that can be changed without force."""
    for message in result.messages:
        for block in message.content:
            if isinstance(block, TextBlock):
                block.text = "poison"
            elif isinstance(block, ToolUseBlock):
                block.input["numbers"].append("poison")
        message.content.clear()
    result.messages.clear()
    if isinstance(result.structured, Answer):
        result.structured.numbers.append(666.0)
    for call in result.tool_calls:
        call.input["numbers"].append("poison")
    if result.metadata is not None:
        tags: Any = result.metadata["tags"]
        tags.append("poison")
        result.metadata["n"] = 666


@proves("RUN-10")
def test_a_status_reads_as_its_code() -> None:
    assert str(RunStatus("budget_exhausted", "used up")) == "budget_exhausted"
    assert f"{RunStatus('ok')}" == "ok"


CLASSIFIED: list[tuple[BaseException, str, str]] = [
    (TokenBudgetExceededError(agent="a", tokens_used=2, budget=1), "budget_exhausted", "budget"),
    (CostBudgetExceededError(agent="a", cost_used=2.0, budget=1.0), "budget_exhausted", "budget"),
    (LimitExceededError(agent="a", limit="seconds", used=2.0, budget=1.0), "budget_exhausted", "budget"),
    (LLMCallTimeoutError(timeout=1.0), "timeout", "timeout"),
    (RoutingTimeoutError(timeout=1.0, stage="profile"), "timeout", "timeout"),
    (EgressPolicyError("no", reason="denied"), "rejected", "validation"),
    (asyncio.CancelledError(), "cancelled", "cancellation"),
]


@proves("RUN-11")
@pytest.mark.parametrize("kind", [None, "provider", "callback"])
@pytest.mark.parametrize(("error", "code", "expected"), CLASSIFIED)
def test_some_errors_say_themselves_what_they_are(
    error: BaseException, code: str, expected: str, kind: ErrorKind | None
) -> None:
    status, info = classify_failure(error, kind=kind)
    assert (status.code, info.kind) == (code, expected)


@proves("RUN-11")
@pytest.mark.parametrize(
    ("error", "kind", "code", "expected"),
    [
        (LLMServerError("down", provider="p", status=500), None, "error", "provider"),
        (PlainError(status=503), None, "error", "provider"),
        (PlainError(status_code=404), None, "error", "provider"),
        (PlainError(), None, "error", "unknown"),
        (TimeoutError("slow"), None, "timeout", "timeout"),
        (httpx.ReadTimeout("slow"), "provider", "timeout", "timeout"),
        (TimeoutError("slow"), "callback", "error", "callback"),
        (httpx.ConnectError("refused"), None, "error", "unknown"),
        (PlainError(status=503), "callback", "error", "callback"),
        (PlainError(), "tool", "error", "tool"),
        (PlainError(), "cancellation", "cancelled", "cancellation"),
        (InvalidMessageError("bad"), "validation", "error", "validation"),
    ],
)
def test_other_errors_are_what_the_caller_says_then_what_their_status_says(
    error: BaseException, kind: ErrorKind | None, code: str, expected: str
) -> None:
    status, info = classify_failure(error, kind=kind)
    assert (status.code, info.kind) == (code, expected)


@proves("RUN-12")
def test_a_failure_is_described_with_all_that_its_error_knows() -> None:
    error = LLMRateLimitError("slow down", provider="openai", status=429, code="quota")
    status, info = classify_failure(error, provider="other", attempt=3)
    assert status == RunStatus("error", "slow down")
    assert info == ErrorInfo(
        kind="provider",
        name="LLMRateLimitError",
        code="quota",
        message="slow down",
        retryable=True,
        http_status=429,
        provider="openai",
        attempt=3,
    )
    assert info.to_dict() == {
        "kind": "provider",
        "name": "LLMRateLimitError",
        "code": "quota",
        "message": "slow down",
        "retryable": True,
        "http_status": 429,
        "provider": "openai",
        "attempt": 3,
    }


@proves("RUN-12")
def test_what_is_not_known_is_left_out_and_false_is_not_unknown() -> None:
    _, info = classify_failure(RunError("stopped"))
    assert info.to_dict() == {
        "kind": "unknown",
        "name": "RunError",
        "code": "RUN_ERROR",
        "message": "stopped",
        "retryable": False,
    }


@proves("RUN-12")
@pytest.mark.parametrize(
    ("attributes", "code", "status", "provider"),
    [
        ({"code": 17, "status": 500}, "17", 500, "mine"),
        ({"code": "E1", "status": HTTPStatus.BAD_GATEWAY, "provider": "theirs"}, "E1", 502, "theirs"),
        ({"code": True, "status": True}, None, None, "mine"),
        ({"code": ["x"], "status": "500", "status_code": 418.0}, None, 418, "mine"),
        ({"response": SimpleNamespace(status_code=503, status="no")}, None, 503, "mine"),
        ({"code": None, "status": math.nan, "provider": ""}, None, None, ""),
        ({"provider": object()}, None, None, "mine"),
    ],
)
def test_attributes_of_foreign_errors_are_used_when_they_make_sense(
    attributes: dict[str, Any], code: str | None, status: int | None, provider: str
) -> None:
    _, info = classify_failure(PlainError(**attributes), provider="mine")
    assert (info.code, info.http_status, info.provider) == (code, status, provider)
    json.dumps(info.to_dict())


@proves("RUN-13")
def test_texts_are_redacted_before_they_are_cut() -> None:
    secret = "sk-" + "a1b2" * 10
    status, info = classify_failure(PlainError(f"{'x' * 245} {secret} {'y' * 5000}"))
    assert status.message is not None
    assert info.message is not None
    assert len(status.message) == 256
    assert len(info.message) == 1024
    assert "sk-" not in status.message
    assert "sk-" not in info.message


@proves("RUN-13")
def test_an_error_without_text_is_described_by_its_class() -> None:
    status, info = classify_failure(KeyError())
    assert (status.message, info.message) == ("KeyError", "KeyError")


@proves("RUN-14")
@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (LLMRateLimitError("x", provider="p"), True),
        (LLMAuthenticationError("x", provider="p"), False),
        (AdapterError("x", provider="p", retryable=True), True),
        (LLMCallTimeoutError(timeout=1.0), True),
        (RoutingTimeoutError(timeout=1.0, stage="s"), True),
        (TokenBudgetExceededError(agent="a", tokens_used=2, budget=1), False),
        (ConfigurationError("x"), False),
        (PlainError(status=401), False),
        (PlainError(status=304), False),
        (PlainError(status=408), True),
        (PlainError(status=409), True),
        (PlainError(status=429), True),
        (PlainError(status=499), False),
        (PlainError(status=500), True),
        (PlainError(status_code=503), True),
        (PlainError(), True),
        ("just a text", True),
        (asyncio.CancelledError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_may_succeed_when_tried_again(error: object, retryable: bool) -> None:
    assert is_retryable_error(error) is retryable


@proves("RUN-15")
def test_describing_a_failure_never_fails() -> None:
    status, info = classify_failure(HostileError(), provider="p")
    assert status == RunStatus("error", "HostileError")
    assert info.to_dict() == {
        "kind": "unknown",
        "name": "HostileError",
        "message": "HostileError",
        "retryable": True,
        "provider": "p",
    }
    assert describe_error(HostileError()) == "HostileError"


class HostileText(str):
    """Its characters are harmless; asking for them is not."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")

    def __format__(self, spec: str) -> str:
        raise ValueError("no")


class HostileNumber(float):
    """A number that is none."""

    def __int__(self) -> int:
        raise ValueError("no")


class HostileTextError(Exception):
    """Says something that cannot be put into another text."""

    def __str__(self) -> str:
        return HostileText("said")


@proves("RUN-12", "RUN-15")
@pytest.mark.parametrize(
    ("attributes", "code", "provider"),
    [
        ({"status": 10**400, "status_code": math.nan}, None, "p"),
        ({"status": -1, "status_code": 1000}, None, "p"),
        ({"status": HostileNumber(4)}, None, "p"),
        ({"response": SimpleNamespace(status_code=10**400)}, None, "p"),
        ({"code": 10**5000, "provider": 5}, None, "p"),
        ({"code": HostileText("x"), "provider": HostileText("x")}, None, "p"),
        ({"code": "\ud800", "provider": "\ud800"}, "\ufffd", "\ufffd"),
        ({"code": "c" * 10**6, "provider": "p" * 10**6}, "c" * 256, "p" * 256),
        (
            {"code": "password=hunter2", "provider": "at password=hunter2"},
            "password=[redacted]",
            "at password=[redacted]",
        ),
        ({"code": True}, None, "p"),
    ],
)
def test_attributes_of_an_error_are_described_short_and_safe(
    attributes: dict[str, Any], code: str | None, provider: str
) -> None:
    _, info = classify_failure(PlainError(**attributes), provider="p")
    assert (info.code, info.provider, info.http_status) == (code, provider, None)
    json.dumps(info.to_dict(), ensure_ascii=False).encode()


@proves("RUN-15")
def test_of_the_text_of_an_error_only_the_characters_are_taken() -> None:
    assert describe_error(HostileTextError()) == "HostileTextError: said"


@proves("RUN-15")
def test_an_error_in_a_log_line_has_its_type_and_no_secret() -> None:
    assert describe_error(ValueError("password=hunter2 failed")) == "ValueError: password=[redacted]"
    assert describe_error(ValueError()) == "ValueError"
    assert len(describe_error(ValueError("x" * 5000))) == 1024


@proves("RUN-15")
def test_lone_surrogates_in_the_text_of_an_error_are_replaced() -> None:
    _, info = classify_failure(OSError("file \udcff \ud83d\ude00"))
    assert info.message == "file \ufffd \U0001f600"
    json.dumps(info.to_dict(), ensure_ascii=False).encode()


@proves("RUN-20")
def test_a_result_is_frozen_and_replace_makes_another() -> None:
    result = make_result()
    with pytest.raises(FrozenInstanceError):
        result.output = "x"  # type: ignore[misc]
    other = result.replace(output="other")
    assert (other.output, result.output) == ("other", "The sum is 3.")
    assert other.messages is result.messages
    assert copy.copy(result) == result


@proves("RUN-21")
@pytest.mark.parametrize("make_copy", [copy_result, copy.deepcopy])
def test_a_copy_is_equal_and_shares_nothing_that_can_change(make_copy: Any) -> None:
    error = UnpicklableError()
    result = make_result(error=error)
    first, second = make_copy(result), make_copy(result)
    assert first == result
    assert first.error is error
    poison(first)
    assert second == result == make_result(error=error)


class Curious:
    """Looks at another result when it is copied."""

    def __init__(self, other: AgentRunResult[Any]) -> None:
        self.other = other

    def __deepcopy__(self, memo: dict[int, Any]) -> str:
        return str(len(self.other.messages))


@proves("RUN-21")
def test_messages_may_be_read_while_others_are_copied() -> None:
    def unread(value: object) -> AgentRunResult[Any]:
        call = ToolUseBlock.new("1", "look", {})
        call.input["value"] = value
        return make_result(messages=UnreadMessages([LLMMessage.assistant([call])]))

    result = unread(Curious(unread("other")))
    # In a thread of its own: where it waits for itself, the test still ends.
    reader = threading.Thread(target=lambda: result.messages, daemon=True)
    reader.start()
    reader.join(5)
    assert not reader.is_alive()
    assert result.messages[0].to_dict()["content"][0]["input"] == {"value": "1"}


class Locked:
    """An answer that cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@proves("RUN-21")
def test_an_answer_that_cannot_be_copied_is_shared() -> None:
    answer = Locked()
    result = make_result(structured=answer)
    copied = copy_result(result)
    assert copied.structured is answer
    assert copied.messages == result.messages
    assert copied.messages[0] is not result.messages[0]


@proves("RUN-21")
def test_a_copy_has_every_field_in_its_place() -> None:
    values: dict[str, Any] = {item.name: object() for item in fields(AgentRunResult)}
    values |= {"structured": "the answer", "messages": [], "tool_calls": (), "metadata": {"tenant": "acme"}}
    copied = copy_result(AgentRunResult(**values))
    assert {name: getattr(copied, name) for name in values} == values


@proves("RUN-21")
def test_a_copy_keeps_what_is_not_there() -> None:
    result = make_result(structured=None, metadata=None, messages=[], tool_calls=())
    assert copy_result(result) == result


@proves("RUN-21", "RUN-22")
@pytest.mark.parametrize("make_copy", [copy_result, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_copy_is_of_the_same_class(make_copy: Any) -> None:
    copied = make_copy(Special(**{item.name: getattr(make_result(), item.name) for item in fields(AgentRunResult)}))
    assert type(copied) is Special
    assert copied.output == "The sum is 3."


class Special(AgentRunResult[Any]):
    """A user's own kind of result."""


@proves("RUN-22")
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_result_pickles_to_an_equal_and_independent_one(protocol: int) -> None:
    result = make_result()
    loaded = pickle.loads(pickle.dumps(result, protocol))
    assert loaded == result
    poison(loaded)
    assert result == make_result()


@proves("RUN-22")
def test_an_error_that_pickles_is_kept() -> None:
    error = TokenBudgetExceededError(agent="a", tokens_used=2, budget=1)
    loaded = pickle.loads(pickle.dumps(make_result(error=error)))
    assert isinstance(loaded.error, TokenBudgetExceededError)
    assert str(loaded.error) == str(error)


@proves("RUN-22")
def test_an_error_that_does_not_pickle_is_left_out_and_its_description_stays() -> None:
    class LocalError(Exception):
        pass

    for error in (UnpicklableError(), WrongArgumentsError(reason="x"), LocalError("local")):
        status, info = classify_failure(error)
        result = make_result(success=False, status=status, error_info=info, error=error)
        loaded = pickle.loads(pickle.dumps(result))
        assert loaded.error is None
        assert loaded.error_info == info
        assert result.error is error


@proves("RUN-23")
def test_a_result_as_json_data() -> None:
    error = LLMServerError("down", provider="p", status=500)
    status, info = classify_failure(error)
    record = make_result(success=False, status=status, stop_reason="error", error_info=info, error=error).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["status"] == {"code": "error", "message": "down"}
    assert record["structured"] == {"numbers": [1.0, 2.0]}
    assert record["token_usage"]["input_tokens"] == 5
    assert record["usage_report"] == [
        {
            "agent": "adder",
            "model": "m",
            "provider": "p",
            "phase": "agent",
            "usage": TokenUsage(input_tokens=5, output_tokens=2).to_dict(),
            "cost": 0.5,
            "requests": 1,
        }
    ]
    assert record["tool_calls"][0]["input"] == {"numbers": [1, 2]}
    assert record["identity"] == {
        "run_id": "run",
        "attempt": 2,
        "trace_id": "a" * 32,
        "root_span_id": "b" * 16,
        "links": [{"trace_id": "c" * 32, "span_id": "d" * 16, "relation": "continued_from"}],
    }
    assert record["error_info"]["http_status"] == 500
    assert record["metadata"] == {"tags": ["x"], "n": 0}
    assert record["flags"] == ["flag"]
    assert len(record["messages"]) == 2
    assert "error" not in record


@proves("RUN-24")
def test_a_result_is_read_from_its_json_data() -> None:
    info = ErrorInfo(kind="provider", code="X", retryable=True)
    for result in (make_result(), make_result(success=False, status=RunStatus("error", "no"), error_info=info)):
        record = result.to_dict()
        before = copy.deepcopy(record)
        read = AgentRunResult.from_dict(json.loads(json.dumps(record)))
        assert read.to_dict() == record == before
        assert read.replace(structured=result.structured) == result
        assert AgentRunResult.from_dict(record).tool_calls[0].input is not record["tool_calls"][0]["input"]


@proves("RUN-24")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"status": {"code": "fine"}}, "'fine' is none of ok, error"),
        ({"stop_reason": "tired"}, "'tired' is none of end_turn"),
        ({"identity": {"nobody": 1}}, "cannot be read: TypeError"),
        ({"messages": [{"role": "nobody", "content": []}]}, r"messages\[0\].role must be one of"),
        ({"token_usage": None}, "cannot be read: TypeError"),
        ({"status": None}, "cannot be read: TypeError"),
        ({"duration": "long"}, "cannot be read: ValueError"),
        ({"token_usage": {"input_tokens": -1}}, "counts of tokens must be whole numbers from 0"),
        ({"token_usage": {"output_tokens": True}}, "counts of tokens must be whole numbers from 0"),
        ({"structured": NESTED}, "cannot be read: RecursionError"),
        ({"success": "no"}, "the record has success 'no': it must be bool"),
        ({"output": None}, "the record has output None: it must be str"),
    ],
)
def test_what_is_no_record_of_a_result_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AgentRunResult.from_dict(make_result().to_dict() | change)
    with pytest.raises(ConfigurationError, match="cannot be read: KeyError"):
        AgentRunResult.from_dict({})


@proves("RUN-23")
def test_the_json_data_of_a_result_is_independent_of_it() -> None:
    result = make_result()
    record = result.to_dict()
    record["messages"][0]["content"][0]["input"]["numbers"].append("poison")
    record["tool_calls"][0]["input"]["numbers"].append("poison")
    record["structured"]["numbers"].append("poison")
    record["metadata"]["tags"].append("poison")
    assert result == make_result()


@proves("RUN-23")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (0, 0),
        ("", ""),
        ([], []),
        (math.nan, None),
        ([math.inf, 1.5], [None, 1.5]),
        (b"text", "text"),
        ("\ud83d", "\ufffd"),
        (Answer(numbers=[math.nan]), {"numbers": [None]}),
        ({"when": {1}}, {"when": [1]}),
        (ENDLESS, "[[...]]"),
        ({"count": 10**5000}, "<dict whose repr raises ValueError>"),
        (Unwritable(), "<Unwritable whose repr raises PydanticSerializationError>"),
    ],
)
def test_a_structured_answer_of_any_kind_becomes_json_data(value: object, expected: object) -> None:
    record = make_result(structured=value).to_dict()
    assert record["structured"] == expected
    json.dumps(record, allow_nan=False)


@proves("RUN-23")
def test_an_answer_that_json_does_not_know_is_written_as_its_text() -> None:
    assert make_result(structured=UnpicklableError()).to_dict()["structured"] == "holds a lock"
