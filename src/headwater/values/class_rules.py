"""Which classes validate more than the types of their fields: their constructor may refuse fields that fit their types.

A class that is not known to be without rules counts as having some: a write to a part then also reads the whole.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_WITHOUT_RULES: Final = frozenset(
    {
        *("title", "frozen", "validate_assignment", "arbitrary_types_allowed", "from_attributes", "extra"),
        *("populate_by_name", "alias_generator", "validate_by_name", "validate_by_alias", "serialize_by_alias"),
        *("use_attribute_docstrings", "protected_namespaces", "defer_build", "json_schema_extra"),
    }
)
"""Configuration of a model that refuses no value."""

_CHECKS: Final = ("validators", "field_validators", "root_validators", "model_validators")


def is_ruled_dataclass(cls: Any) -> bool:  # noqa: ANN401  # a dataclass
    """Whether its constructor does more than assign the fields."""
    if hasattr(cls, "__post_init__") or hasattr(cls, "__pydantic_validator__"):
        return True
    if cls.__new__ is not object.__new__ or not _is_generated(cls.__init__):
        return True
    if cls.__setattr__ is not object.__setattr__ and not _is_generated(cls.__setattr__):
        return True
    # A property or another descriptor instead of a field; the descriptors of slots only store.
    return any(
        hasattr(type(attribute), "__set__") and type(attribute).__name__ != "member_descriptor"
        for name in cls.__dataclass_fields__
        for base in cls.__mro__
        if (attribute := vars(base).get(name)) is not None
    )


def _is_generated(function: Any) -> bool:  # noqa: ANN401
    """Whether `dataclasses` generated it: its source is not a file."""
    return getattr(getattr(function, "__code__", None), "co_filename", "") == "<string>"


def is_ruled_model(cls: Any) -> bool:  # noqa: ANN401  # a pydantic model
    """Whether a model checks more than each field by itself. Checks of one field are part of the field's type."""
    base: Any = sys.modules["pydantic"].BaseModel
    if any(getattr(cls.__pydantic_decorators__, kind) for kind in _CHECKS):
        return True
    own = ("__init__", "model_post_init", "__setattr__", "__new__")
    if any(getattr(cls, name) is not getattr(base, name) for name in own):
        return True
    if any("__get_pydantic_core_schema__" in vars(each) for each in cls.__mro__[: cls.__mro__.index(base)]):
        return True
    return any(value and name not in _WITHOUT_RULES for name, value in cls.model_config.items())


def is_ruled_tuple(cls: type) -> bool:
    """Whether a subclass of a named tuple has a constructor of its own."""
    return not _is_generated(cls.__new__) or cls.__init__ is not object.__init__  # type: ignore[misc]
