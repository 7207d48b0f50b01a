"""Attempts, waits, clients and addresses."""

from collections.abc import Callable

import anyio
import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters import TransportOptions
from openmultiagent.adapters._transport import HttpTransport, checked_base_url, checked_header, retry_delay
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
)
from openmultiagent.redaction import redact_sensitive_text
from tests.support import proves

URL = "http://model.test/v1/chat/completions"


class Waits:
    """Stands for the clock: notes how long the transport wants to wait, and does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await anyio.lowlevel.checkpoint()


def transport(
    *,
    waits: Callable[[float], object] | None = None,
    max_retries: int = 2,
    jitter: float = 0.0,
    http_client: httpx.AsyncClient | None = None,
) -> HttpTransport:
    return HttpTransport(
        provider="openai",
        options=TransportOptions(max_retries=max_retries),
        redact=redact_sensitive_text,
        http_client=http_client,
        sleep=waits or Waits(),  # type: ignore[arg-type]
        jitter=lambda: jitter,
    )


async def post(sender: HttpTransport) -> bytes:
    return await sender.read(await sender.post(URL, headers={}, content=b"{}"))


# --- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (6, 8.0), (100_000, 8.0)]
)
@proves("MOD-34")
def test_waits_double_up_to_eight_seconds(attempt: int, seconds: float) -> None:
    assert retry_delay(attempt, None, 0.0) == seconds
    assert retry_delay(attempt, None, 1.0) == 0.75 * seconds


@pytest.mark.parametrize(("asked", "seconds"), [(0.001, 0.001), (60.0, 60.0), (0.0, 0.5), (60.1, 0.5), (None, 0.5)])
@proves("MOD-34")
def test_the_servers_wish_counts_up_to_a_minute(asked: float | None, seconds: float) -> None:
    assert retry_delay(1, asked, 0.0) == seconds


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1e9), st.floats(0, 1))
@proves("MOD-34")
def test_no_wait_is_longer_than_a_minute(attempt: int, asked: float | None, jitter: float) -> None:
    assert 0 < retry_delay(attempt, asked, jitter) <= 60


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"connect_timeout": 0},
        {"retries": 3},
    ],
)
@proves("MOD-41")
def test_senseless_limits_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="TransportOptions"):
        TransportOptions(**options)  # type: ignore[arg-type]


# --- attempts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
@proves("MOD-33")
async def test_a_passing_fault_is_tried_again(respx_mock: respx.MockRouter, status: int) -> None:
    route = respx_mock.post(URL).mock(side_effect=[httpx.Response(status), httpx.Response(200, content=b"answer")])
    waits = Waits()
    sender = transport(waits=waits)
    assert await post(sender) == b"answer"
    assert route.call_count == 2
    assert waits.seconds == [0.5]
    await sender.aclose()


@proves("MOD-61")
async def test_an_adapter_that_is_closed_before_another_attempt_makes_none(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(503))

    async def close(seconds: float) -> None:
        await sender.aclose()

    sender = transport(waits=close)
    with pytest.raises(LLMConnectionError, match="the adapter was closed while this request was going on") as caught:
        await post(sender)
    assert isinstance(caught.value.__cause__, LLMServerError)
    assert (caught.value.retryable, caught.value.attempts, route.call_count) == (False, 1, 1)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422])
@proves("MOD-33", "MOD-32")
async def test_a_lasting_fault_is_not_tried_again(respx_mock: respx.MockRouter, status: int) -> None:
    elsewhere = respx_mock.post("http://elsewhere.test/").mock(return_value=httpx.Response(200))
    route = respx_mock.post(URL).mock(
        return_value=httpx.Response(status, headers={"location": "http://elsewhere.test/"})
    )
    with pytest.raises(AdapterError) as caught:
        await post(transport())
    assert caught.value.status == status
    assert caught.value.attempts == 1
    assert route.call_count == 1
    assert not elsewhere.called


@proves("MOD-33")
async def test_one_cap_holds_for_a_mixture_of_faults(respx_mock: respx.MockRouter) -> None:
    faults: list[httpx.Response | Exception] = [
        httpx.ConnectError("refused"),
        httpx.Response(429),
        httpx.ReadTimeout(""),
        httpx.Response(500),
    ]
    route = respx_mock.post(URL).mock(side_effect=faults * 3)
    waits = Waits()
    with pytest.raises(LLMServerError) as caught:
        await post(transport(waits=waits, max_retries=3, jitter=1.0))
    assert caught.value.attempts == route.call_count == 4
    assert waits.seconds == [0.375, 0.75, 1.5]


@proves("MOD-33")
async def test_the_server_decides_about_trying_again(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(
        side_effect=[
            httpx.Response(400, headers={"x-should-retry": "true"}),
            httpx.Response(500, headers={"x-should-retry": "false"}),
        ]
    )
    with pytest.raises(LLMServerError) as caught:
        await post(transport())
    assert caught.value.attempts == 2


@proves("MOD-34")
async def test_the_transport_waits_as_long_as_the_server_asks(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(429, headers={"retry-after": "12"}))
    waits = Waits()
    with pytest.raises(LLMRateLimitError) as caught:
        await post(transport(waits=waits))
    assert waits.seconds == [12, 12]
    assert caught.value.retry_after == 12


@proves("MOD-34", "MOD-5")
async def test_waiting_can_be_cancelled_and_blocks_nobody(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(500))
    waiting = anyio.Event()

    async def for_ever(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post, transport(waits=for_ever))
        await waiting.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("raised", "hint"),
    [
        (httpx.ConnectError("All connection attempts failed"), "whether the server runs"),
        (httpx.ConnectTimeout(""), "whether the server runs"),
        (httpx.ReadTimeout(""), "raise TransportOptions.timeout"),
        (httpx.RemoteProtocolError("Server disconnected"), "whether the server runs"),
    ],
)
@proves("MOD-31")
async def test_no_response_is_a_connection_error(
    respx_mock: respx.MockRouter, raised: httpx.TransportError, hint: str
) -> None:
    respx_mock.post(URL).mock(side_effect=raised)
    with pytest.raises(LLMConnectionError) as caught:
        await post(transport(max_retries=0))
    error = caught.value
    assert type(error.__cause__) is type(raised)
    assert error.status is None
    assert error.retryable
    assert "http://model.test" in error.message
    assert type(raised).__name__ in error.message
    assert hint in error.message


class _Body(httpx.AsyncByteStream):
    """A body that breaks off, as httpx would tell it."""

    def __init__(self, *steps: bytes | Exception) -> None:
        self._steps = steps
        self.closed = False

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            yield step

    async def aclose(self) -> None:
        self.closed = True


@proves("MOD-35", "MOD-31")
async def test_an_answer_that_has_begun_is_not_asked_for_again(respx_mock: respx.MockRouter) -> None:
    body = _Body(b"half", httpx.ReadError("reset"))
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=body))
    with pytest.raises(LLMConnectionError):
        await post(transport())
    assert route.call_count == 1
    assert body.closed


# httpx leaves its own generators behind when its decoder fails; on trio they complain.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@proves("MOD-16")
async def test_a_body_with_the_wrong_encoding_is_a_protocol_error(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(
        return_value=httpx.Response(200, headers={"content-encoding": "gzip"}, stream=_Body(b"plain"))
    )
    with pytest.raises(LLMProtocolError, match="content-encoding"):
        await post(transport())


@proves("MOD-29")
async def test_a_broken_error_body_does_not_hide_the_status(respx_mock: respx.MockRouter) -> None:
    body = _Body(b'{"error": ', httpx.ReadError("reset"))
    respx_mock.post(URL).mock(return_value=httpx.Response(404, stream=body))
    with pytest.raises(LLMBadRequestError) as caught:
        await post(transport())
    assert caught.value.status == 404
    assert caught.value.body == '{"error": '
    assert body.closed


@proves("MOD-30")
async def test_an_endless_error_body_is_not_read_to_its_end(respx_mock: respx.MockRouter) -> None:
    body = _Body(*[b"x" * 10_000] * 100)
    respx_mock.post(URL).mock(return_value=httpx.Response(400, stream=body))
    with pytest.raises(LLMBadRequestError) as caught:
        await post(transport())
    assert caught.value.body == "x" * 2_000
    assert body.closed


@pytest.mark.parametrize("location", ["http://:bad", "http://xn--/", "http://\u2028", "https://elsewhere.test", "/v2"])
@pytest.mark.parametrize("given", [False, True])
@proves("MOD-32", "MOD-33")
async def test_a_redirect_is_refused_wherever_it_leads(
    respx_mock: respx.MockRouter, location: str, given: bool
) -> None:
    headers = [(b"location", location.encode())]
    route = respx_mock.post(URL).mock(return_value=httpx.Response(302, headers=headers))
    async with httpx.AsyncClient() as client:
        with pytest.raises(LLMBadRequestError, match=r"the server redirects to .*, and redirects are not") as caught:
            await post(transport(http_client=client if given else None))
    assert not caught.value.retryable
    assert route.call_count == 1


# --- clients ---------------------------------------------------------------------------------------------------------


@proves("MOD-6")
async def test_a_given_client_is_used_as_it_is_and_not_closed(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"answer"))
    async with httpx.AsyncClient(headers={"x-mine": "1"}, follow_redirects=True) as client:
        sender = transport(http_client=client)
        assert await post(sender) == b"answer"
        await sender.aclose()
        assert not client.is_closed
    assert route.calls.last.request.headers["x-mine"] == "1"
    with pytest.raises(ConfigurationError, match="http_client that the adapter was given is closed"):
        await post(sender)


@proves("MOD-6")
async def test_tasks_share_one_client(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"answer"))
    sender = transport()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(post, sender)
    assert len(sender._clients._by_loop) == 1
    await sender.aclose()
    await sender.aclose()
    assert len(sender._clients._by_loop) == 0


# --- addresses and headers -------------------------------------------------------------------------------------------


@proves("MOD-40")
async def test_a_host_that_cannot_be_looked_up_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ConfigurationError, match="base_url cannot be used"):
        await transport().post("http://xn--/v1", headers={}, content=b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:11434/v1",
        "https://api.openai.com/v1",
        "https://[::1]:8000",
        "http://127.0.0.1",
        "HTTPS://Host.example/x",
    ],
)
@proves("MOD-40")
def test_a_base_url_is_kept(url: str) -> None:
    assert checked_base_url(url, owner="openai") == url
    assert checked_base_url(url + "/", owner="openai") == url


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        (None, "must be a string"),
        ("", "absolute"),
        ("localhost:11434", "absolute"),
        ("/v1", "absolute"),
        ("ftp://host/v1", "absolute"),
        ("http://", "absolute"),
        ("http:///v1", "absolute"),
        ("http://host:0", "absolute"),
        ("http://host:port", "is not a URL"),
        ("http://host:99999", "is not a URL"),
        ("http://[::1", "is not a URL"),
        ("http://user:hunter2@host/v1", "credentials"),
        ("http://host/v1?key=hunter2", "query"),
        ("http://host/v1?", "query"),
        ("http://host/v1#x", "fragment"),
        ("http://host /v1", "spaces"),
        ("http://host/v1\n", "spaces"),
        ("http://host\\@evil/v1", "backslashes"),
    ],
)
@proves("MOD-40")
def test_anything_else_is_no_base_url(url: object, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked_base_url(url, owner="openai")
    assert fault in caught.value.message
    assert "openai" in caught.value.message
    assert "hunter2" not in caught.value.message


@proves("MOD-40")
async def test_a_host_that_no_name_server_could_know_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="base_url cannot be used"):
        await transport().post("http://a\u200b.\ufffd/v1", headers={}, content=b"")


@pytest.mark.parametrize("value", ["sk-1", "a b", "~!"])
@proves("MOD-40")
def test_a_header_value_is_kept(value: str) -> None:
    assert checked_header(value, owner="openai", what="api_key") == value


@pytest.mark.parametrize("value", ["", " ", "key ", "key\n", "key\r\nx: y", "kéy", None, 7])
@proves("MOD-40")
def test_anything_else_is_no_header_value(value: object) -> None:
    with pytest.raises(ConfigurationError, match="openai: api_key must be printable ASCII") as caught:
        checked_header(value, owner="openai", what="api_key")
    assert "kéy" not in caught.value.message
