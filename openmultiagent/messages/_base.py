"""What all blocks and messages have in common: how they are made, copied and written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InvalidMessageError
from ._clone import clone_model
from ._faults import invalid_model

__all__ = ["Model"]


class Model(BaseModel):
    """A mutable value that is checked when it is made and again when it is handed to the library.

    Keys that it does not know are ignored.

    Raises:
        InvalidMessageError: By the constructor, for arguments that are not as they must be. ``model_validate`` and its
            kin raise pydantic's own ``ValidationError``.
    """

    # Built when the first one is made: importing this package is a tenth quicker for it.
    model_config = ConfigDict(extra="ignore", defer_build=True)

    def __init__(self, **data: Any) -> None:
        try:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
        except ValidationError as error:
            raise invalid_model(type(self), error) from None
        except Exception as error:  # isolation boundary: the repr of an argument, which an enumeration asks for
            raise InvalidMessageError(
                f"{type(self).__name__} cannot be made of these arguments: {type(error).__name__}"
            ) from error

    # Nested models are validated in pydantic's core, not through this constructor.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain JSON data with snake_case keys, without the fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return clone_model(self)

    __structural_copy__: ClassVar[Callable[..., Any]] = clone_model

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "__deepcopy__" in cls.__dict__:  # a subclass that knows better
            cls.__structural_copy__ = copy.deepcopy
