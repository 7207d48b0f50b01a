"""The provider ``embedded``: a small text engine that ships with the package. It is no language model."""

from ._adapter import MODEL_NAME, EmbeddedAdapter

__all__ = ["MODEL_NAME", "EmbeddedAdapter"]
