"""Signatures of AWS requests.

The expected signatures were made with botocore 1.43 (``botocore.auth.SigV4Auth`` over an ``AWSRequest`` with the header
``Content-Type: application/json``) and copied here.
"""

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from openmultiagent.adapters._aws_credentials import AwsCredentials
from openmultiagent.adapters._sigv4 import signed_headers
from tests.support import proves

KEY = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwt"
    "hAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVX"
    "AkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
HAIKU = "anthropic.claude-3-5-haiku-20241022-v1:0"
ARN = (
    "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
)  # fmt: skip


def bedrock(region: str, model: str, operation: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com/model/{quote(model, safe='')}/{operation}"


@pytest.mark.parametrize(
    ("region", "url", "body", "token", "signature"),
    [
        (
            "us-east-1",
            bedrock("us-east-1", HAIKU, "converse"),
            '{"messages":[]}',
            None,
            "31b26d5d7e1c359a0fa86e3388f54b23919696afefd3e56617d426bd9e54375e",
        ),
        (
            "eu-central-1",
            bedrock("eu-central-1", ARN, "converse-stream"),
            '{"messages":[{"role":"user","content":[{"text":"Grüße 🎉"}]}]}',
            None,
            "da85b6ec3fe2614913aa19b8878be9fc2daeaa2ea4990b8dcc9b299db023f13a",
        ),
        (
            "us-west-2",
            bedrock("us-west-2", "amazon.nova-lite-v1:0", "converse"),
            "{}",
            TOKEN,
            "b55c6c8417eefd4eb7d77276834d12bb2b53c2e6bd9a31e3f3ad6a038a223d5f",
        ),
        (
            "us-east-1",
            "http://localhost:4566/bedrock/model/a~b%2Fc/converse",
            "{}",
            None,
            "ceaa43243468d7ced9d2f1e57eabeb6d77578ae4b977119f8a8202e99a4639d9",
        ),
    ],
)
@proves("BED-2", "BED-4")
def test_signatures_are_those_of_aws(region: str, url: str, body: str, token: str | None, signature: str) -> None:
    headers = signed_headers(
        url,
        body.encode(),
        credentials=AwsCredentials(*KEY, token),
        region=region,
        service="bedrock",
        now=datetime(2025, 1, 1, tzinfo=UTC),
    )
    names = "content-type;host;x-amz-date" + (";x-amz-security-token" if token else "")
    expected = {
        "content-type": "application/json",
        "x-amz-date": "20250101T000000Z",
        "authorization": (
            f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20250101/{region}/bedrock/aws4_request, "
            f"SignedHeaders={names}, Signature={signature}"
        ),
    }
    assert headers == expected | ({"x-amz-security-token": token} if token else {})


@proves("BED-4")
def test_the_same_time_and_host_give_the_same_signature_however_they_are_spelled() -> None:
    zone = timezone(timedelta(hours=2))
    times = (datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, 2, tzinfo=zone))
    made = [
        signed_headers(url, b"{}", credentials=AwsCredentials(*KEY), region="us-east-1", service="bedrock", now=now)
        for now in times
        for url in ("https://EXAMPLE.com:443/model/a", "https://example.com/model/a")
    ]
    assert made.count(made[0]) == 4
