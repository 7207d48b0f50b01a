"""What a copy of messages costs against pydantic's own ways, side by side in one process and printed as ratios.

Run it with ``python benchmarks/bench_copy.py``. It should print at most 0.40 of pydantic's deep copy for texts, less
than 1 of a round trip through JSON, and at most 1.20 between images of a megabyte and of a kilobyte.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from openmultiagent.messages import LLMMessage, assert_valid_messages, coerce_messages, copy_messages

ROUNDS = 60
CALLS = 3

CONVERSATION: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


class PlainText(BaseModel):
    """A text block as anybody would write it with pydantic."""

    type: Literal["text"] = "text"
    text: str


class PlainMessage(BaseModel):
    """A message as anybody would write it with pydantic."""

    role: Literal["user", "assistant"]
    content: list[PlainText]


def texts(count: int) -> list[LLMMessage]:
    """Return messages of one text block each."""
    return [LLMMessage.user(f"What is {number} times {number}?") for number in range(count)]


def images(count: int, characters: int) -> list[LLMMessage]:
    """Return messages of a text and an image each."""
    data = "AAAA" * (characters // 4)
    return [LLMMessage.user_with_base64_image("What is shown?", data, "image/png") for _ in range(count)]


def best(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the shortest time of each call in microseconds; the calls take turns, so that noise hits all of them."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name] = min(found[name], (time.perf_counter() - start) / CALLS * 1e6)
    return found


def main() -> None:
    """Measure and print."""
    messages = texts(100)
    plain = [PlainMessage.model_validate(message.to_dict()) for message in messages]
    small, large = images(50, 1_000), images(50, 1_000_000)
    times = best(
        {
            "copy": lambda: copy_messages(messages),
            "pydantic": lambda: [BaseModel.__deepcopy__(message, {}) for message in plain],
            "json": lambda: CONVERSATION.validate_json(CONVERSATION.dump_json(messages)),
            "check": lambda: assert_valid_messages(messages),
            "coerce": lambda: coerce_messages(messages),
            "small": lambda: copy_messages(small),
            "large": lambda: copy_messages(large),
            "check_small": lambda: assert_valid_messages(small),
            "check_large": lambda: assert_valid_messages(large),
        }
    )
    for text, one, other in (
        ("100 texts, copy / pydantic's deep copy        (at most 0.40)", "copy", "pydantic"),
        ("100 texts, copy / pydantic's JSON round trip  (below 1.00)", "copy", "json"),
        ("100 texts, check and copy / pydantic's deep copy", "coerce", "pydantic"),
        ("100 texts, check / copy", "check", "copy"),
        ("50 images, copy of 1 MB / of 1 KB             (at most 1.20)", "large", "small"),
        ("50 images, check of 1 MB / of 1 KB            (at most 1.20)", "check_large", "check_small"),
    ):
        print(f"{text:64s}{times[one] / times[other]:6.2f}   {times[one]:8.1f} us / {times[other]:8.1f} us")


if __name__ == "__main__":
    main()
