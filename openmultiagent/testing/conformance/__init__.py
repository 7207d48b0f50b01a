"""What every adapter does, as checks that anybody who writes one can make; no test framework is needed.

With pytest, each check is a test of its own::

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_my_adapter(check: Check) -> None:
        await check(AdapterRig(lambda server: MyAdapter(base_url=server.openai_url, api_key=API_KEY)))
"""

from ._rig import API_KEY, AdapterRig, Check, ConformanceError, MakeAdapter, Rigged
from ._suite import CHECKS, check_adapter

__all__ = [
    "API_KEY",
    "CHECKS",
    "AdapterRig",
    "Check",
    "ConformanceError",
    "MakeAdapter",
    "Rigged",
    "check_adapter",
]
