"""What every adapter and every store does, as checks that anybody who writes one can make; no test framework is needed.

With pytest, each check is a test of its own::

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_my_adapter(check: Check) -> None:
        await check(AdapterRig(lambda server: MyAdapter(base_url=server.openai_url, api_key=API_KEY)))

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
    async def test_my_store(check: StoreCheck) -> None:
        await check(StoreRig(lambda folder: MyStore(folder / "state"), is_durable=True))
"""

from ._rig import API_KEY, AdapterRig, Check, ConformanceError, MakeAdapter, Rigged
from ._stores import STORE_CHECKS, MakeStore, StoreCheck, StoreRig, check_store
from ._suite import CHECKS, check_adapter

__all__ = [
    "API_KEY",
    "CHECKS",
    "STORE_CHECKS",
    "AdapterRig",
    "Check",
    "ConformanceError",
    "MakeAdapter",
    "MakeStore",
    "Rigged",
    "StoreCheck",
    "StoreRig",
    "check_adapter",
    "check_store",
]
