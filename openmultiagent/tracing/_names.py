"""Names of the OpenTelemetry semantic conventions for generative AI, and of this library's own attributes.

The conventions are in development, and their names have no Python package of their own; these are the ones of version
1.41 of the conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/). Names that the conventions have removed
(``gen_ai.system``, ``gen_ai.usage.prompt_tokens`` and the like) are never used.
"""

from __future__ import annotations

__all__ = ["PROVIDER_NAMES", "SCHEMA_URL", "SEMCONV_VERSION", "provider_name"]

SEMCONV_VERSION = "1.41.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_DESCRIPTION = "gen_ai.agent.description"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_STOP = "gen_ai.request.stop_sequences"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
USAGE_INPUT = "gen_ai.usage.input_tokens"
USAGE_OUTPUT = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"
USAGE_CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - input or output, no secret
REQUEST_STREAM = "gen_ai.request.stream"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
OUTPUT_TYPE = "gen_ai.output.type"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"

RUN_ID = "openmultiagent.run.id"
RUN_ATTEMPT = "openmultiagent.run.attempt"
STATUS = "openmultiagent.status"
STOP_REASON = "openmultiagent.stop_reason"
TURN = "openmultiagent.turn"
TOTAL_INPUT = "openmultiagent.usage.input_tokens"
TOTAL_OUTPUT = "openmultiagent.usage.output_tokens"
UNKNOWN_CALLS = "openmultiagent.usage.unknown_calls"
OMITTED_MESSAGES = "openmultiagent.input.omitted_messages"
RESPONSE_PROVIDER = "openmultiagent.response.provider"
LINK_RELATION = "openmultiagent.link.relation"
METADATA_PREFIX = "openmultiagent.meta."
WORKFLOW_NAME = "gen_ai.workflow.name"
TASK_ID = "openmultiagent.task.id"
TASK_TITLE = "openmultiagent.task.title"
TASK_ROLE = "openmultiagent.task.role"
TASK_PRIORITY = "openmultiagent.task.priority"
TASK_RETRIES = "openmultiagent.task.retries"
TASK_METADATA_PREFIX = "openmultiagent.task.meta."
PLAN_TASKS = "openmultiagent.plan.task_count"
PLAN_APPROVED = "openmultiagent.plan.approved"
ROUTING_STRATEGY = "openmultiagent.routing.semantic.strategy"
ROUTING_THRESHOLD = "openmultiagent.routing.semantic.confidence_threshold"
ROUTING_VERSION = "openmultiagent.routing.semantic.profiler_version"
ROUTING_OUTCOME = "openmultiagent.routing.semantic.recommendation"
ROUTING_CONFIDENCE = "openmultiagent.routing.semantic.confidence"
ROUTING_FALLBACK = "openmultiagent.routing.semantic.fallback_code"

OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - a metric's name
FIRST_CHUNK_DURATION = "gen_ai.client.operation.time_to_first_chunk"

PROVIDER_NAMES = {
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "grok": "x_ai",
    "mistral": "mistral_ai",
}
"""Registry names of the conventions that differ from the provider's key here."""


def provider_name(provider: str) -> str:
    """Return the conventions' name of a provider.

    Args:
        provider: Its key here.
    """
    return PROVIDER_NAMES.get(provider, provider)
