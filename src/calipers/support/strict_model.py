"""Strict models of configuration: unknown keys are refused, and every error says how to fix it.

A model's own checks call `refuse`; what pydantic itself finds is reworded here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NoReturn, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from calipers.support.config import ConfigFile, shown
from calipers.support.errors import UsageError, nearest

_REFUSED = "refused"
_KINDS = {
    "string_type": "not a text; put it in quotes",
    "int_type": "not a whole number",
    "float_type": "not a number",
    "finite_number": "not a finite number",
    "bool_type": "neither true nor false",
    "list_type": "not a list",
    "tuple_type": "not a list",
    "dict_type": "not a mapping of keys to values",
    "model_type": "not a mapping of keys to values",
    "model_attributes_type": "not a mapping of keys to values",
}


class StrictModel(BaseModel):
    """Types as written, no unknown keys, frozen once read."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        """Refuse unknown keys, naming the nearest known one; pydantic would not."""
        if isinstance(value, Mapping):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in value:
                if key not in known:
                    refuse(
                        f"{shown(key)} is not a known key", fix=nearest(str(key), known), at=(key,)
                    )
        return value

    @classmethod
    def of(cls, config: ConfigFile, *, example: str) -> Self:
        """Return the model of a file's content; raise UsageError for the first problem in it."""
        if not isinstance(config.value, Mapping):
            what = "it is empty" if config.value is None else "no mapping of keys to values"
            raise UsageError(f"{config.source}: {what}", fix=example)
        model = cls.__new__(cls)
        try:  # as `__init__` does, which a subclass may have of its own for users of Python
            cls.__pydantic_validator__.validate_python(dict(config.value), self_instance=model)
        except ValidationError as error:
            raise describe_first(error, config, example=example) from None
        return model


def refuse(message: str, *, fix: str, at: tuple[Hashable, ...] = ()) -> NoReturn:
    """Refuse a value from within a model; `at` is the path from the model to the value."""
    # The text is a template to pydantic: what users wrote goes in as a value.
    raise PydanticCustomError(_REFUSED, "{message}", {"message": message, "fix": fix, "at": at})


def describe_first(error: ValidationError, config: ConfigFile, *, example: str) -> UsageError:
    """Return the first problem that pydantic found in a file, in our words and with its line."""
    details = error.errors(include_url=False, include_input=False)
    first = min(details, key=lambda detail: config.lines.get(_find_place(detail), 0))
    return _describe_error(first, config, example)


def make_usage_error(
    error: PydanticCustomError, config: ConfigFile, within: tuple[Hashable, ...] = ()
) -> UsageError:
    """Return the error that `refuse` raised, with its line; `within` is the path to the part."""
    context = error.context or {}
    where = config.locate((*within, *context["at"]))
    return UsageError(f"{where}: {context['message']}", fix=context["fix"])


def _find_place(error: ErrorDetails) -> tuple[Hashable, ...]:
    return (*error["loc"], *error.get("ctx", {}).get("at", ()))


def _describe_error(error: ErrorDetails, config: ConfigFile, example: str) -> UsageError:
    place = _find_place(error)
    where = config.locate(place)
    if error["type"] == _REFUSED:
        context = error["ctx"]
        around = _join_place(error["loc"])
        text = f"{around}: {context['message']}" if around else context["message"]
        return UsageError(f"{where}: {text}", fix=context["fix"])
    if error["type"] == "missing":
        return UsageError(f"{where}: {_join_place(place)} is missing", fix=example)
    if error["type"] == "literal_error":
        choices = error["ctx"]["expected"].replace("'", "")
        return UsageError(f"{where}: {_join_place(place)}: no such choice", fix=choices)
    what = _KINDS.get(error["type"], error["msg"].removeprefix("Input ").replace("'", ""))
    joint = " is " if error["type"] in _KINDS else " "
    return UsageError(f"{where}: {_join_place(place)}{joint}{what}", fix=example)


def _join_place(place: tuple[Hashable, ...]) -> str:
    """Return a path of keys as people write it: `systems.0.name`."""
    return shown(".".join(str(part) for part in place))
