"""Checks of failures: refusals, broken connections, answers that are none, and calls that cannot be read."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable

from ...errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMRateLimitError,
    LLMServerError,
)
from ...messages import LLMMessage, ToolUseBlock
from .._served import FakeRequest, Hangup, Quirk, RawBody, Refused, Served, ServerResponse
from ._rig import API_KEY, AdapterRig, Rigged, check, expect, raised

__all__ = ["FAILURE_CHECKS"]

_STATUSES: tuple[tuple[int, type[AdapterError], bool], ...] = (
    (400, LLMBadRequestError, False),
    (401, LLMAuthenticationError, False),
    (403, LLMAuthenticationError, False),
    (404, LLMBadRequestError, False),
    (429, LLMRateLimitError, True),
    (500, LLMServerError, True),
    (503, LLMServerError, True),
)
_GARBAGE = (b"", b"no JSON", b"null", b"[]", b"7", b'"text"', b"\xff\xfe", b'{"half": ')
_CALLS = [ToolUseBlock.new("call_1", "look", {"q": "one"}), ToolUseBlock.new("call_2", "look", {"q": "two"})]


@check()
async def tells_refusals_by_their_status(rig: AdapterRig) -> None:
    for status, kind, retryable in _STATUSES:
        async with rig.up(_always(Refused(status))) as up:
            error = await raised(kind, up.chat, f"status {status}")
            expect(error.status == status, f"status {status} is told as {error.status}")
            expect(error.retryable is retryable, f"status {status} must have retryable={retryable}")
            expect(error.provider == up.adapter.name, f"the error names {error.provider!r}")


@check()
async def tells_how_long_to_wait(rig: AdapterRig) -> None:
    async with rig.up([Refused(429, retry_after=7)]) as up:
        error = await raised(LLMRateLimitError, up.chat, "status 429")
        expect(error.retry_after == 7, f"Retry-After: 7 is told as {error.retry_after!r}")


@check()
async def shows_no_key_in_errors(rig: AdapterRig) -> None:
    for status in (401, 400):
        async with rig.up(_always(Refused(status, f"the key {API_KEY} is wrong: Bearer {API_KEY}"))) as up:
            error = await raised(AdapterError, up.chat, f"status {status}")
            shown = ["".join(traceback.format_exception(error)), repr(error), json.dumps(error.to_dict())]
            expect(all(API_KEY not in text for text in shown), f"the key is in the error of status {status}")


@check()
async def tells_a_broken_connection(rig: AdapterRig) -> None:
    async with rig.up([Hangup(), Served("Hello", cut_after=1)]) as up:
        error = await raised(LLMConnectionError, up.chat, "a connection that is reset")
        expect(error.retryable, "a broken connection can be tried again")
        await raised(AdapterError, up.chat, "an answer that is cut off")


@check()
async def takes_anything_for_a_body(rig: AdapterRig) -> None:
    async with rig.up([RawBody(body) for body in _GARBAGE for _ in range(2)]) as up:
        for body in _GARBAGE:
            await raised(AdapterError, up.chat, f"the body {body!r}")
            events = await up.stream()
            failed = up.streaming is None or isinstance(events[-1].data, AdapterError)
            expect(failed, f"a stream of {body!r} ended with {events[-1:]!r}")


@check()
async def reports_arguments_that_cannot_be_read(rig: AdapterRig) -> None:
    cut = Served(_CALLS, quirks=frozenset({"broken_arguments"}))
    async with rig.up(lambda _: cut) as up:
        for call in [*await _calls(up), *await _streamed_calls(up)]:
            expect(call.input_error, f"arguments that break off became {call!r}")
            expect(call.input == {}, f"arguments that break off became the input {call.input!r}")


@check()
async def reads_arguments_in_the_wrong_form(rig: AdapterRig) -> None:
    loose = Served(_CALLS, quirks=frozenset({"object_arguments"}))
    async with rig.up(lambda _: loose) as up:
        for call in [*await _calls(up), *await _streamed_calls(up)]:
            expect(
                call.input or call.input_error, f"arguments in another form became {call!r}: neither read nor refused"
            )


@check()
async def gives_every_call_an_id_of_its_own(rig: AdapterRig) -> None:
    quirks: tuple[Quirk, ...] = ("no_call_ids", "same_call_ids")
    async with rig.up([Served(_CALLS, quirks=frozenset({quirk})) for quirk in quirks for _ in range(2)]) as up:
        for quirk in quirks:
            for calls in (await _calls(up), await _streamed_calls(up)):
                ids = {call.id for call in calls}
                expect(len(ids) == len(calls) and "" not in ids, f"{quirk}: the ids are {[call.id for call in calls]}")


def _always(refused: Refused) -> Callable[[FakeRequest], ServerResponse]:
    """Return a script of one refusal; one of a list would be used up: an adapter may ask once more after a 401."""
    return lambda _: refused


async def _calls(up: Rigged) -> list[ToolUseBlock]:
    return [block for block in (await up.chat()).content if isinstance(block, ToolUseBlock)]


async def _streamed_calls(up: Rigged) -> list[ToolUseBlock]:
    if up.streaming is None:
        await up.adapter.chat([LLMMessage.user("Hello")], up.options)  # so that the script goes on
        return []
    return [event.data for event in await up.stream() if isinstance(event.data, ToolUseBlock)]


FAILURE_CHECKS = (
    tells_refusals_by_their_status,
    tells_how_long_to_wait,
    shows_no_key_in_errors,
    tells_a_broken_connection,
    takes_anything_for_a_body,
    reports_arguments_that_cannot_be_read,
    reads_arguments_in_the_wrong_form,
    gives_every_call_an_id_of_its_own,
)
