"""The keys `metrics` and `checks` of suites and policies.

`metrics: [{name, field}, {name, python}]` declares user-defined metrics. `checks` is read with its
file, and is a part of the file's JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from calipers.metrics import METRICS, Metric, mean
from calipers.metrics.checks.check import NamedCheck, make_check_schema, read_list
from calipers.metrics.user_defined import MetricFunction
from calipers.support.config import ConfigFile
from calipers.support.errors import UsageError, nearest
from calipers.support.plugins import load_file
from calipers.support.strict_model import StrictModel, refuse

EXAMPLE = "for example metrics: [{name: toxicity, field: score_toxicity, better: lower}]"

_from_files: set[str] = set()  # names that a file gave, and another file may give again
_loaded: dict[tuple[Path, int], ModuleType] = {}


class OwnMetric(StrictModel):
    """The mean of a field, or of a function of each record."""

    name: str = Field(description="Name of the metric, in tables and in thresholds.")
    field: str | None = Field(
        default=None, description="A field of the records, or a dotted path into one."
    )
    python: str | None = Field(
        default=None,
        description="FILE.py:FUNCTION, relative to this file: def f(record: dict) -> float | bool",
    )
    better: Literal["higher", "lower"] | None = Field(
        default=None, description="Which values are better; by default neither."
    )
    range: list[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="The lowest and the highest possible value.",
    )
    unit: str | None = Field(default=None, description="Unit of the values, for example ms.")
    description: str | None = Field(default=None, description="One sentence for people.")

    @model_validator(mode="after")
    def _is_of_one_thing(self) -> Self:
        if (self.field is None) == (self.python is None):
            what = "neither field nor python" if self.field is None else "both field and python"
            refuse(f"{self.name} has {what}", fix=EXAMPLE)
        return self

    def make_metric(self, folder: Path) -> Metric:
        """Return the metric; `folder` is that of the file that declares it."""
        of = self.field if self.python is None else _load_function(self.python, folder)
        assert of is not None
        ends = None if self.range is None else (self.range[0], self.range[1])
        return mean(
            of,
            name=self.name,
            better=self.better,
            range=ends,
            unit=self.unit,
            says=self.description,
        )


class _Declared(StrictModel):
    metrics: list[OwnMetric]


def declare_metrics(config: ConfigFile, folder: Path) -> None:
    """Register the metrics under a suite's or a policy's key `metrics`, before its names are read.

    Raises UsageError with the file and the line of what is wrong.
    """
    if not isinstance(config.value, Mapping) or not config.value.get("metrics"):
        return
    part = ConfigFile(config.source, {"metrics": config.value["metrics"]}, config.lines)
    for place, each in enumerate(_Declared.of(part, example=EXAMPLE).metrics):
        where = config.locate(("metrics", place))
        try:
            metric = each.make_metric(folder)
            METRICS.add(each.name, metric, where, replace=each.name in _from_files)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}", fix=error.fix) from error
        _from_files.add(each.name)


def _load_function(reference: str, folder: Path) -> MetricFunction:
    file, _, name = reference.rpartition(":")
    if not (file and name.isidentifier()):
        raise UsageError(f"{reference} is not FILE.py:FUNCTION", fix="metrics.py:polite, say")
    module = _load_module((folder / file).resolve())
    found = getattr(module, name, None)
    if not callable(found):
        known = [attribute for attribute, value in vars(module).items() if callable(value)]
        raise UsageError(f"{folder / file} has no function {name}", fix=nearest(name, known))
    return found  # type: ignore[no-any-return]


def _load_module(path: Path) -> ModuleType:
    """Return a file's module; it is run once, and again when it has changed."""
    key = (path, path.stat().st_mtime_ns if path.is_file() else 0)
    if key not in _loaded:
        _loaded[key] = load_file(path, fix="fix the file, or leave the metric out")
    return _loaded[key]


_folder: ContextVar[Path] = ContextVar("folder", default=Path())


@contextmanager
def resolve_from(folder: Path) -> Iterator[None]:
    """Read, inside the block, checks whose paths are relative to a folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


class _CheckListSchema:
    """Says what a list of checks is, when a schema is asked for: it takes every kind of check."""

    def __get_pydantic_json_schema__(self, _: object, __: object) -> dict[str, Any]:
        return {"type": "array", "items": make_check_schema()}


WrittenChecks = Annotated[
    tuple[NamedCheck, ...],
    PlainValidator(lambda value: tuple(read_list(value, _folder.get()))),
    PlainSerializer(
        lambda checks: [json.loads(check.written) for check in checks], return_type=list
    ),
    _CheckListSchema(),
]
