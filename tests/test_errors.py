"""The tree of errors: families, codes, texts, and what is left of an error that was stored."""

import copy
import json
import pickle
import threading
from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent import errors
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    CostBudgetExceededError,
    DependencyPayloadError,
    DurableApprovalError,
    EgressPolicyError,
    EgressReason,
    InvalidMessageError,
    InvalidTaskDependenciesError,
    InvalidTaskRequirementsError,
    LimitExceededError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMCallTimeoutError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
    OpenMultiAgentError,
    PlanInvalidError,
    PolicyError,
    RoutingDeclarationRequiredError,
    RoutingProfilerFailedError,
    RoutingTimeoutError,
    RunError,
    StoreError,
    StructuredOutputValidationError,
    TokenBudgetExceededError,
    UnsupportedContentError,
    UnsupportedToolCallError,
    UnsupportedToolResultContentError,
)
from tests.support import proves

HTTP: dict[str, Any] = {
    "provider": "openai",
    "status": 418,
    "retryable": True,
    "error_type": "teapot",
    "request_id": "req_1",
    "retry_after": 1.5,
    "attempts": 3,
    "body": '{"error":"ü"}',
    "code": "vendor_code",
}

SAMPLES: list[OpenMultiAgentError] = [
    OpenMultiAgentError("base", code="MY_CODE"),
    ConfigurationError('option "x" is unknown: remove it', code="UNKNOWN_OPTION"),
    InvalidMessageError("messages[1].content must be a ContentBlock[], got null", path="messages[1].content"),
    InvalidTaskRequirementsError([{"code": "NO_AGENT", "task_title": "Read"}, {"code": "NO_TOOL", "task_title": "Go"}]),
    InvalidTaskDependenciesError("the tasks form a cycle: a, b", issues=[{"code": "CYCLE", "tasks": ["a", "b"]}]),
    RoutingDeclarationRequiredError("declare the risk", reasons=["writes files"]),
    RunError("the run stopped"),
    TokenBudgetExceededError(agent="ann", tokens_used=90, budget=100, needed=30),
    CostBudgetExceededError(agent="ann", cost_used=0.75, budget=1.0, needed=0.5),
    LimitExceededError(agent="ann", limit="requests", used=3, budget=3),
    LLMCallTimeoutError(timeout=0.5, agent="ann"),
    StructuredOutputValidationError(cause="field a is missing"),
    DependencyPayloadError("the output of a is no JSON"),
    PlanInvalidError("the plan has two faults", issues=[{"code": "NO_TASKS", "message": "no tasks"}]),
    RoutingTimeoutError(timeout=2.0, stage="profiler"),
    RoutingProfilerFailedError("the profiler failed", cause="no model"),
    AdapterError("openai API error 418: no", **HTTP),
    LLMAuthenticationError("no key", **HTTP),
    LLMRateLimitError("slow down", **HTTP),
    LLMBadRequestError("no", **HTTP),
    LLMServerError("down", **HTTP),
    LLMConnectionError("lost", **HTTP),
    LLMProtocolError("garbage", **HTTP),
    UnsupportedToolCallError(provider="openai", tool_type="custom"),
    UnsupportedToolResultContentError(provider="Anthropic Messages", content_type="image:image/bmp", detail="use png"),
    UnsupportedContentError(provider="Anthropic Messages", content_type="file:text/csv"),
    PolicyError("forbidden"),
    EgressPolicyError("refused", reason="denied", provider="openai", origin="https://api.openai.com"),
    DurableApprovalError("the approval is for another call"),
    StoreError("cannot write", field="metadata", code="STORE_FULL"),
]

FAMILIES: dict[type[OpenMultiAgentError], set[type[OpenMultiAgentError]]] = {
    ConfigurationError: {
        InvalidMessageError,
        InvalidTaskRequirementsError,
        InvalidTaskDependenciesError,
        RoutingDeclarationRequiredError,
    },
    RunError: {
        TokenBudgetExceededError,
        CostBudgetExceededError,
        LimitExceededError,
        LLMCallTimeoutError,
        StructuredOutputValidationError,
        DependencyPayloadError,
        PlanInvalidError,
        RoutingTimeoutError,
        RoutingProfilerFailedError,
    },
    AdapterError: {
        LLMAuthenticationError,
        LLMRateLimitError,
        LLMBadRequestError,
        LLMServerError,
        LLMConnectionError,
        LLMProtocolError,
        UnsupportedToolCallError,
        UnsupportedToolResultContentError,
        UnsupportedContentError,
    },
    PolicyError: {EgressPolicyError, DurableApprovalError},
    StoreError: set(),
}


def public_classes() -> set[type[OpenMultiAgentError]]:
    found = {getattr(errors, name) for name in errors.__all__}
    return {item for item in found if isinstance(item, type) and issubclass(item, OpenMultiAgentError)}


def record(error: OpenMultiAgentError) -> tuple[Any, ...]:
    return (
        type(error),
        error.code,
        error.message,
        str(error),
        {name: getattr(error, name) for name in error.field_names},
    )


each_sample = pytest.mark.parametrize("error", SAMPLES, ids=[type(error).__name__ for error in SAMPLES])


@proves("ERR-1", "ERR-10", "ERR-11")
def test_every_class_has_a_sample_that_sets_all_its_fields() -> None:
    assert {type(error) for error in SAMPLES} == public_classes()
    assert len(SAMPLES) == len(public_classes())
    for error in SAMPLES:
        unset = {name for name in error.field_names if getattr(error, name) is None}
        assert not unset or isinstance(error, AdapterError), f"{type(error).__name__}: {unset}"


@proves("ERR-1")
def test_every_class_of_the_module_is_public_unless_its_name_says_otherwise() -> None:
    defined = {
        item
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, OpenMultiAgentError) and not name.startswith("_")
    }
    assert defined == public_classes()


@proves("ERR-1")
@pytest.mark.parametrize(("family", "members"), FAMILIES.items(), ids=[family.__name__ for family in FAMILIES])
def test_families(family: type[OpenMultiAgentError], members: set[type[OpenMultiAgentError]]) -> None:
    assert {cls for cls in public_classes() if issubclass(cls, family) and cls is not family} == members
    assert issubclass(family, OpenMultiAgentError)


@proves("ERR-1")
def test_the_families_are_the_whole_tree() -> None:
    assert {OpenMultiAgentError, *FAMILIES, *set.union(*FAMILIES.values())} == public_classes()


@proves("ERR-2")
def test_codes_are_upper_case_and_each_class_has_its_own() -> None:
    codes = [cls.code for cls in public_classes()]
    assert len(set(codes)) == len(codes)
    assert all(code.isupper() and code.replace("_", "").isalnum() for code in codes)


@proves("ERR-2")
@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (InvalidMessageError, "INVALID_MESSAGE"),
        (UnsupportedToolCallError, "UNSUPPORTED_TOOL_CALL"),
        (UnsupportedToolResultContentError, "UNSUPPORTED_TOOL_RESULT_CONTENT"),
        (UnsupportedContentError, "UNSUPPORTED_CONTENT"),
        (LLMCallTimeoutError, "LLM_CALL_TIMEOUT"),
        (StructuredOutputValidationError, "STRUCTURED_OUTPUT_VALIDATION_FAILED"),
        (TokenBudgetExceededError, "TOKEN_BUDGET_EXCEEDED"),
        (CostBudgetExceededError, "COST_BUDGET_EXCEEDED"),
        (LimitExceededError, "LIMIT_EXCEEDED"),
        (InvalidTaskRequirementsError, "INVALID_TASK_REQUIREMENTS"),
        (RoutingTimeoutError, "ROUTING_TIMEOUT"),
        (RoutingProfilerFailedError, "ROUTING_PROFILER_FAILED"),
        (RoutingDeclarationRequiredError, "ROUTING_DECLARATION_REQUIRED"),
    ],
)
def test_codes_stay_as_they_are(cls: type[OpenMultiAgentError], code: str) -> None:
    assert cls.code == code


@proves("ERR-2")
def test_an_error_may_carry_a_more_precise_code() -> None:
    assert StoreError("full", code="STORE_FULL").code == "STORE_FULL"
    assert StoreError("full").code == StoreError.code == "STORE_ERROR"


@proves("ERR-3")
def test_an_invalid_message_is_a_value_error_with_a_path() -> None:
    error = InvalidMessageError("messages[0] must be an object, got string", path="messages[0]")
    assert isinstance(error, ValueError)
    assert str(error) == error.message == "messages[0] must be an object, got string"
    assert error.path == "messages[0]"
    assert InvalidMessageError("URL cannot be empty").path == ""


@proves("ERR-4")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            TokenBudgetExceededError(agent="ann", tokens_used=120, budget=100),
            'Agent "ann" exceeded token budget: 120 tokens used (budget: 100)',
        ),
        (
            CostBudgetExceededError(agent="ann", cost_used=1.25, budget=1),
            'Agent "ann" exceeded cost budget: 1.25 estimated cost used (budget: 1)',
        ),
        (
            TokenBudgetExceededError(agent="ann", tokens_used=90, budget=100, needed=30),
            'Agent "ann" exceeded token budget: 90 tokens used, and the next call may need 30 more (budget: 100)',
        ),
        (
            CostBudgetExceededError(agent="ann", cost_used=0.75, budget=1, needed=0.5),
            (
                'Agent "ann" exceeded cost budget: 0.75 estimated cost used, and the next call may need 0.5 more '
                "(budget: 1)"
            ),
        ),
        (
            LimitExceededError(agent="ann", limit="requests", used=3, budget=3),
            'Agent "ann" reached its limit of 3 model calls: 3 used',
        ),
        (
            LimitExceededError(agent="ann", limit="tool_calls", used=20, budget=20),
            'Agent "ann" reached its limit of 20 tool calls: 20 used',
        ),
        (
            LimitExceededError(agent="ann", limit="seconds", used=1.25, budget=1.0),
            'Agent "ann" reached its limit of 1 seconds: 1.25 used',
        ),
        (
            LimitExceededError(agent="crew", limit="seconds", used=2.0, budget=1.0, whose="Team"),
            'Team "crew" reached its limit of 1 seconds: 2 used',
        ),
        (
            CostBudgetExceededError(agent="crew", cost_used=2.0, budget=1, whose="Team"),
            'Team "crew" exceeded cost budget: 2.0 estimated cost used (budget: 1)',
        ),
        (LLMCallTimeoutError(timeout=600.0), "LLM call exceeded per-call timeout of 600s"),
        (LLMCallTimeoutError(timeout=0.02, agent="ann"), 'Agent "ann" LLM call exceeded per-call timeout of 0.02s'),
        (LLMCallTimeoutError(timeout=1234567.5), "LLM call exceeded per-call timeout of 1234567.5s"),
        (RoutingTimeoutError(timeout=2, stage="profiler"), "Execution routing profiler exceeded its timeout of 2s"),
        (StructuredOutputValidationError(), "Structured output validation failed after retry."),
        (UnsupportedToolCallError(provider="p", tool_type="x"), 'p returned unsupported tool-call type "x"'),
        (
            UnsupportedToolResultContentError(provider="p", content_type="x"),
            'p cannot represent tool-result content type "x"',
        ),
        (
            UnsupportedToolResultContentError(provider="p", content_type="x", detail="use y"),
            'p cannot represent tool-result content type "x": use y',
        ),
        (UnsupportedContentError(provider="p", content_type="x"), 'p cannot represent content type "x"'),
        (
            InvalidTaskRequirementsError([{"code": "A", "task_title": "one"}, {"code": "B", "task_title": "two"}]),
            'Task requirements are unsatisfied: A for "one", B for "two"',
        ),
    ],
)
def test_texts_that_are_made_from_fields(error: OpenMultiAgentError, text: str) -> None:
    assert str(error) == text


@proves("ERR-4")
def test_why_requirements_are_unsatisfied_is_noted_for_tracebacks() -> None:
    issue = {"code": "A", "task_title": "one", "reasons": ["'z' is no agent", "x" * 1_000]}
    error = InvalidTaskRequirementsError([issue] * 30)
    assert error.__notes__[:1] == ["\"one\": 'z' is no agent"]
    assert [len(note) for note in error.__notes__] == [22, 500] * 20
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__


@proves("ERR-5")
@pytest.mark.parametrize(
    ("cls", "retryable"),
    [
        (AdapterError, False),
        (LLMAuthenticationError, False),
        (LLMBadRequestError, False),
        (LLMRateLimitError, True),
        (LLMServerError, True),
        (LLMConnectionError, True),
        (LLMProtocolError, True),
    ],
)
def test_which_calls_may_succeed_later(cls: type[AdapterError], retryable: bool) -> None:
    assert cls("no", provider="p").retryable is retryable
    assert cls("no", provider="p", retryable=not retryable).retryable is not retryable


@proves("ERR-5")
def test_what_a_provider_does_not_know_it_will_not_know_later() -> None:
    assert not UnsupportedToolCallError(provider="p", tool_type="x").retryable
    assert not UnsupportedContentError(provider="p", content_type="x").retryable


@proves("ERR-6")
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("invalid-policy", "INVALID_EGRESS_POLICY"),
        ("denied", "EGRESS_POLICY_DENIED"),
        ("unresolved-target", "EGRESS_POLICY_TARGET_UNRESOLVED"),
        ("unsupported", "EGRESS_POLICY_UNSUPPORTED"),
    ],
)
def test_the_code_of_an_egress_error_follows_from_its_reason(reason: EgressReason, code: str) -> None:
    assert EgressPolicyError("refused", reason=reason).code == code


@proves("ERR-7")
def test_an_error_keeps_what_it_was_given() -> None:
    issues = [{"code": "A", "task_title": "one"}]
    reasons = ["writes files"]
    requirements = InvalidTaskRequirementsError(issues)
    dependencies = InvalidTaskDependenciesError("cycle", issues=issues)
    declaration = RoutingDeclarationRequiredError("declare it", reasons=reasons)
    plan = PlanInvalidError("no", issues=issues)
    issues[0]["code"] = "B"
    issues.append({})
    reasons.clear()
    assert requirements.issues == dependencies.issues == plan.issues == [{"code": "A", "task_title": "one"}]
    assert declaration.reasons == ["writes files"]


@proves("ERR-10")
@each_sample
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_pickles(error: OpenMultiAgentError, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))
    assert record(again) == record(error)


@proves("ERR-10")
@each_sample
@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
def test_every_error_can_be_copied(error: OpenMultiAgentError, copier: Any) -> None:
    again = copier(error)
    assert again is not error
    assert record(again) == record(error)


@proves("ERR-10")
def test_notes_are_pickled_too() -> None:
    error = RunError("no")
    error.add_note("while planning")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while planning"]


@proves("ERR-11")
@each_sample
def test_every_error_survives_json(error: OpenMultiAgentError) -> None:
    written = json.loads(json.dumps(error.to_dict(), allow_nan=False))
    assert set(written) == {"type", "code", "message", "fields"}
    assert written["type"] == type(error).__name__
    assert record(OpenMultiAgentError.from_dict(written)) == record(error)


@proves("ERR-11")
@each_sample
def test_an_error_that_was_read_is_like_any_other(error: OpenMultiAgentError) -> None:
    again = OpenMultiAgentError.from_dict(error.to_dict())
    assert again.to_dict() == error.to_dict()
    assert record(pickle.loads(pickle.dumps(again))) == record(error)
    with pytest.raises(type(error)):
        raise again


class ForeignError(Exception):
    """An exception that cannot be pickled, as they exist."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()


class PickyError(Exception):
    """An exception that pickles, but cannot be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@proves("ERR-12")
@pytest.mark.parametrize("cause", [ForeignError("a", "b"), PickyError("a", "b")], ids=["unpicklable", "unmakeable"])
def test_a_cause_that_does_not_pickle_becomes_its_text(cause: Exception) -> None:
    error = StructuredOutputValidationError(cause=cause)
    assert pickle.loads(pickle.dumps(error)).cause == "a and b"
    assert error.cause is cause


@proves("ERR-12")
@pytest.mark.parametrize("cause", [ValueError("a", 1), InvalidMessageError("bad", path="messages")])
def test_a_cause_that_pickles_stays_an_exception(cause: Exception) -> None:
    again = pickle.loads(pickle.dumps(RoutingProfilerFailedError("no", cause=cause))).cause
    assert type(again) is type(cause)
    assert again.args == cause.args


@proves("ERR-12")
def test_a_cause_is_its_text_in_json() -> None:
    written = StructuredOutputValidationError(cause=ValueError("field a is missing")).to_dict()
    assert written["fields"] == {"cause": "field a is missing"}


@proves("ERR-12")
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"code": "A", "task_title": "one", "extra": {1}}, {"code": "A", "task_title": "one", "extra": "{1}"}),
        ({"code": "A", "limit": float("nan")}, None),
        ({"code": "A", (1, 2): "odd key"}, None),
    ],
)
def test_values_that_json_cannot_hold_become_text(value: dict[Any, Any], written: Any) -> None:
    fields = InvalidTaskDependenciesError("no", issues=[value]).to_dict()["fields"]
    assert fields == {"issues": str([value]) if written is None else [written]}
    json.dumps(fields, allow_nan=False)


@proves("ERR-13")
@each_sample
def test_reading_leaves_the_record_as_it_is(error: OpenMultiAgentError) -> None:
    written = error.to_dict()
    before = copy.deepcopy(written)
    again = OpenMultiAgentError.from_dict(MappingProxyType(written))
    for name in again.field_names:
        value = getattr(again, name)
        if isinstance(value, list):
            value.append("changed")
            if isinstance(value[0], dict):
                value[0]["changed"] = True
    assert written == before


@proves("ERR-13")
def test_unknown_fields_are_ignored_and_missing_ones_are_none() -> None:
    again = OpenMultiAgentError.from_dict(
        {"type": "LLMServerError", "message": "down", "fields": {"status": 500, "message": "x", "__class__": "y"}}
    )
    assert record(again)[:3] == (LLMServerError, "LLM_SERVER", "down")
    assert record(again)[-1] == {**dict.fromkeys(AdapterError.field_names), "status": 500}


@proves("ERR-13")
@pytest.mark.parametrize("fields", [None, [], "x", 5])
def test_fields_that_are_no_mapping_are_ignored(fields: object) -> None:
    again = OpenMultiAgentError.from_dict({"type": "StoreError", "code": None, "message": "no", "fields": fields})
    assert record(again) == (StoreError, "STORE_ERROR", "no", "no", {"field": None})


@proves("ERR-13")
@pytest.mark.parametrize("kind", ["ValueError", "Exception", "", None, 5, ["StoreError"]])
def test_a_record_of_no_known_error_is_refused(kind: object) -> None:
    with pytest.raises(ConfigurationError, match="no error of openmultiagent"):
        OpenMultiAgentError.from_dict({"type": kind, "message": "no"})


@proves("ERR-13")
def test_classes_outside_the_library_are_not_made() -> None:
    class StrangerError(OpenMultiAgentError):
        pass

    with pytest.raises(ConfigurationError, match="StrangerError"):
        OpenMultiAgentError.from_dict(StrangerError("x").to_dict())


def test_an_error_whose_arguments_were_taken_away_has_an_empty_text() -> None:
    error = RunError("no")
    error.args = ()
    assert error.message == ""
