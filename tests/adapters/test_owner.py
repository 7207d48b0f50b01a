"""Who keeps adapters open, who closes them, and that closing is bounded and never fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openmultiagent.adapters import (
    AdapterLease,
    AdapterOwner,
    LLMChatOptions,
    LLMResponse,
    _owner,
    close_adapter,
)
from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import LLMMessage, TextBlock
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Unclosable:
    name = "unclosable"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([TextBlock.new("ok")])


class Recorded(Unclosable):
    """An adapter that takes some steps to close."""

    def __init__(self, provider: str, *, api_key: str | None = None, base_url: str | None = None) -> None:
        self.name = provider
        self.key = (provider, base_url, api_key)
        self.entered = 0
        self.closed = 0

    async def aclose(self) -> None:
        self.entered += 1
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.closed += 1


class Factory:
    def __init__(self) -> None:
        self.made: list[Recorded] = []

    def __call__(self, provider: str, **given: Any) -> Recorded:
        if provider == "unknown":
            raise ConfigurationError("unknown provider")
        self.made.append(Recorded(provider, **given))
        return self.made[-1]


@proves("MID-12")
async def test_a_closed_owner_makes_an_adapter_for_each_run_which_closes_it() -> None:
    factory = Factory()
    owner = AdapterOwner(factory)
    first, second = owner.lease("p"), owner.lease("p")
    assert first.adapter is not second.adapter
    assert first.owned
    await first.aclose()
    assert [adapter.closed for adapter in factory.made] == [1, 0]


@proves("MID-12")
async def test_an_open_owner_keeps_one_adapter_for_each_provider_url_and_key() -> None:
    factory = Factory()
    owner = AdapterOwner(factory)
    owner.is_open = True
    keys: list[dict[str, Any]] = [
        {},
        {"base_url": "http://a"},
        {"base_url": "http://b"},
        {"api_key": "k"},
        {"api_key": ""},
        {"base_url": "http://a", "api_key": "k"},
    ]
    leases = [owner.lease("p", **key) for key in keys for _ in range(2)]
    assert len(factory.made) == len(keys)
    assert [adapter.key for adapter in factory.made] == [("p", key.get("base_url"), key.get("api_key")) for key in keys]
    assert all(leases[number].adapter is leases[number + 1].adapter for number in range(0, len(leases), 2))
    for lease in leases:
        await lease.aclose()
    assert not any(adapter.closed for adapter in factory.made)
    await owner.aclose()
    assert [adapter.closed for adapter in factory.made] == [1] * len(keys)
    await owner.aclose()
    assert [adapter.closed for adapter in factory.made] == [1] * len(keys)
    assert owner.lease("p").owned


@proves("MID-12")
async def test_an_owner_may_be_opened_again() -> None:
    factory = Factory()
    owner = AdapterOwner(factory)
    for _ in range(2):
        owner.is_open = True
        assert owner.lease("p").adapter is owner.lease("p").adapter
        await owner.aclose()
    assert [adapter.closed for adapter in factory.made] == [1, 1]


@proves("MID-13")
async def test_an_owner_keeps_a_bounded_number_of_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_owner, "_MAX_KEPT", 2)
    factory = Factory()
    owner = AdapterOwner(factory)
    owner.is_open = True
    leases = [owner.lease("p", api_key=str(number)) for number in range(4)]
    assert [lease.owned for lease in leases] == [False, False, True, True]
    assert owner.lease("p", api_key="1").adapter is leases[1].adapter
    for lease in leases:
        await lease.aclose()
    await owner.aclose()
    assert [adapter.closed for adapter in factory.made] == [1, 1, 1, 1]


@proves("MID-12")
def test_an_adapter_that_cannot_be_made_leaves_nothing_behind() -> None:
    owner = AdapterOwner(Factory())
    owner.is_open = True
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            owner.lease("unknown")
    assert not owner._adapters


@proves("MID-12")
async def test_an_adapter_that_was_given_is_not_closed() -> None:
    adapter = Recorded("p")
    await AdapterLease(adapter, owned=False).aclose()
    assert adapter.entered == 0


@proves("MID-14")
async def test_an_adapter_without_aclose_needs_no_closing() -> None:
    await close_adapter(Unclosable())
    await AdapterLease(Unclosable(), owned=True).aclose()


async def leak_a_cancellation() -> None:
    leaked: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            leaked = error
            raise
    assert leaked is not None
    raise leaked


async def fail() -> None:
    raise OSError("token=abc is gone")


@proves("MID-14")
@pytest.mark.parametrize(("fault", "name"), [(fail, "OSError: token=[redacted]"), (leak_a_cancellation, "Cancelled")])
async def test_a_failing_close_is_logged_and_hurts_nobody(
    fault: Callable[[], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = Factory()
    owner = AdapterOwner(factory)
    owner.is_open = True
    for provider in ("a", "b", "c"):
        owner.lease(provider)
    monkeypatch.setattr(factory.made[1], "aclose", fault)
    with capture_logs() as lines:
        await owner.aclose()
    assert [factory.made[0].closed, factory.made[2].closed] == [1, 1]
    assert [(line["event"], line["adapter"]) for line in lines] == [("adapter_close_failed", "b")]
    assert lines[0]["error"].startswith(name)


@proves("MID-14")
async def test_closing_takes_a_bounded_time_however_many_adapters_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_owner, "_CLOSE_TIMEOUT", 0.05)
    factory = Factory()
    owner = AdapterOwner(factory)
    owner.is_open = True
    for number in range(100):  # one after the other they would take five seconds
        owner.lease("p", api_key=str(number))
        monkeypatch.setattr(factory.made[-1], "aclose", anyio.sleep_forever)
    with capture_logs() as lines, anyio.fail_after(4):
        await owner.aclose()
    assert [line["event"] for line in lines] == ["adapter_close_timed_out"] * 100


@proves("MID-15")
async def test_a_cancelled_run_still_closes_its_adapter() -> None:
    adapter = Recorded("p")
    with anyio.CancelScope() as scope:
        try:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        finally:
            await close_adapter(adapter)
    assert adapter.closed == 1


@asyncio_only
@proves("MID-15")
@pytest.mark.parametrize("steps", range(1, 9))
@pytest.mark.parametrize("cancels", [1, 3])
async def test_native_cancellations_at_any_step_leave_no_adapter_half_closed(steps: int, cancels: int) -> None:
    factory = Factory()
    owner = AdapterOwner(factory)
    owner.is_open = True
    for provider in ("a", "b"):
        owner.lease(provider)
    task = asyncio.ensure_future(owner.aclose())
    for _ in range(steps):
        await asyncio.sleep(0)
    finished = task.done()
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert [adapter.closed for adapter in factory.made] == [1, 1]
    assert task.cancelled() is not finished
