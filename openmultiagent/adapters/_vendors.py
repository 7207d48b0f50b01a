"""The vendors and servers that speak the OpenAI chat protocol, as rows of a table. Not here: code.

Addresses, variables and profiles follow the vendors' documentation as of November 2026. Where a vendor has one address
for each region, the row has the international one, or the only one that is documented, and lists the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from .._record import record
from ._openai_profile import OpenAIProfile

__all__ = ["VENDORS", "Vendor", "is_vendor_host"]


_OPENAI = OpenAIProfile()


@record(kw_only=True)
class Vendor:
    """A server that speaks the OpenAI chat protocol."""

    base_url: str
    other_hosts: tuple[str, ...] = ()
    """Further hosts of the same vendor, of other regions or older ones."""
    key_variable: str | None = None
    """Environment variable of the key; None for servers that run without one."""
    base_url_variable: str | None = None
    header_variables: Mapping[str, str] = field(default_factory=dict)
    """Headers by name, with the environment variables that they come from; sent to the vendor's own hosts only."""
    profile: OpenAIProfile = _OPENAI

    def owns(self, base_url: str) -> bool:
        """Return whether an address is one of the vendor's own.

        Args:
            base_url: A checked base URL.
        """
        return _host(base_url) in (_host(self.base_url), *self.other_hosts)


def is_vendor_host(base_url: str) -> bool:
    """Return whether an address belongs to a vendor that needs a key.

    Args:
        base_url: A checked base URL.
    """
    return any(vendor.owns(base_url) for vendor in VENDORS.values() if vendor.key_variable is not None)


def _host(base_url: str) -> str:
    return urlsplit(base_url).netloc.lower()


# The words of a thinking switch and of an echo are in the vendors' pages on "thinking mode" or "reasoning".
_THINKING_ECHO = OpenAIProfile(echoes_reasoning="tool-use-only", structured_output=None)
_OPEN_SCHEMAS = OpenAIProfile(strict_schemas=False)
_NO_SCHEMAS = OpenAIProfile(structured_output=None)
_NOT_OPENAI = frozenset({"top_k", "min_p"})  # what OpenAI itself does not have, and strict servers refuse

VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        base_url_variable="OPENAI_BASE_URL",
        header_variables={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
    ),
    "deepseek": Vendor(
        base_url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        profile=OpenAIProfile(
            echoes_reasoning="tool-use-only",
            thinking="thinking",
            efforts=frozenset({"low", "medium", "high", "max"}),
            structured_output=None,
        ),
    ),
    "doubao": Vendor(
        base_url="https://ark.cn-beijing.volces.com/api/v3", key_variable="ARK_API_KEY", profile=_NO_SCHEMAS
    ),
    "fireworks": Vendor(
        base_url="https://api.fireworks.ai/inference/v1", key_variable="FIREWORKS_API_KEY", profile=_OPEN_SCHEMAS
    ),
    "grok": Vendor(base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY", profile=_OPEN_SCHEMAS),
    "groq": Vendor(
        base_url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        # Schemas work with a few models, and neither in streams nor beside tools.
        profile=OpenAIProfile(structured_output=None, unsent=_NOT_OPENAI),
    ),
    "hunyuan": Vendor(
        base_url="https://tokenhub.tencentmaas.com/v1",
        other_hosts=("tokenhub-intl.tencentmaas.com", "api.hunyuan.cloud.tencent.com"),
        key_variable="HUNYUAN_API_KEY",
        base_url_variable="HUNYUAN_BASE_URL",
        profile=_THINKING_ECHO,
    ),
    "kimi": Vendor(
        base_url="https://api.moonshot.ai/v1",
        other_hosts=("api.moonshot.cn",),
        key_variable="MOONSHOT_API_KEY",
        profile=OpenAIProfile(
            echoes_reasoning="tool-use-only", thinking="thinking", structured_output=None, unsent=_NOT_OPENAI
        ),
    ),
    "mimo": Vendor(
        base_url="https://api.xiaomimimo.com/v1",
        key_variable="MIMO_API_KEY",
        base_url_variable="MIMO_BASE_URL",
        profile=_THINKING_ECHO,
    ),
    "minimax": Vendor(
        base_url="https://api.minimax.io/v1",
        other_hosts=("api.minimaxi.com",),
        key_variable="MINIMAX_API_KEY",
        base_url_variable="MINIMAX_BASE_URL",
        profile=_NO_SCHEMAS,
    ),
    "mistral": Vendor(
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        # The server refuses every field that it does not know.
        profile=OpenAIProfile(
            strict_schemas=False,
            max_tokens_field="max_tokens",
            seed_field="random_seed",
            unsent=_NOT_OPENAI,
            usage_on_request=False,
        ),
    ),
    "openrouter": Vendor(base_url="https://openrouter.ai/api/v1", key_variable="OPENROUTER_API_KEY"),
    "qiniu": Vendor(base_url="https://api.qnaigc.com/v1", key_variable="QINIU_API_KEY", profile=_NO_SCHEMAS),
    "qwen": Vendor(
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        other_hosts=("dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com"),
        key_variable="DASHSCOPE_API_KEY",
        profile=OpenAIProfile(thinking="enable_thinking", structured_output=None),
    ),
    "together": Vendor(base_url="https://api.together.xyz/v1", key_variable="TOGETHER_API_KEY", profile=_OPEN_SCHEMAS),
    "zhipu": Vendor(
        base_url="https://open.bigmodel.cn/api/paas/v4",
        other_hosts=("api.z.ai",),
        key_variable="ZAI_API_KEY",
        base_url_variable="ZAI_BASE_URL",
        profile=OpenAIProfile(
            thinking="thinking", structured_output=None, max_tokens_field="max_tokens", usage_on_request=False
        ),
    ),
    # Servers on this machine, at the ports that they choose by themselves.
    "llamacpp": Vendor(
        base_url="http://localhost:8080/v1",
        # llama.cpp and its Python server both take the older form; the latter fails over the newer one.
        profile=OpenAIProfile(structured_output="json_object", strict_schemas=False),
    ),
    "lmstudio": Vendor(base_url="http://localhost:1234/v1", profile=_OPEN_SCHEMAS),
    "ollama": Vendor(base_url="http://localhost:11434/v1", profile=_OPEN_SCHEMAS),
    "vllm": Vendor(base_url="http://localhost:8000/v1", profile=_OPEN_SCHEMAS),
}
"""The rows, by the name of the provider."""
