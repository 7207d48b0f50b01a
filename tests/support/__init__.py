"""What the tests share."""

from tests.support.behaviour import proves

__all__ = ["proves"]
