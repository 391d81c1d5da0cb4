"""Checks turn replies into S's behaviors: what was expected, what was observed, what was violated.

They are applied to columns of records, in whichever engine, before anything is measured. Results
are `{name, kind, rule, held, detail}`, in the record's field `checks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.checks.check import EXAMPLE, NamedCheck, read_list
from calipers.metrics.checks.combining import LISTS, RESULTS, Combining
from calipers.metrics.checks.kinds.own import Python
from calipers.metrics.declare.settings import Settings
from calipers.support.config.files import ConfigFile, read_config
from calipers.support.config.models import make_usage_error
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

JUDGED = "judgments"
_MOST_CODED = 39  # checks whose three outcomes fit into 64 bits together
_KEY = "_held"


@dataclass(frozen=True)
class Checks:
    """Checks in the order in which they are applied."""

    checks: tuple[NamedCheck, ...]

    def __bool__(self) -> bool:
        return bool(self.checks)

    def __add__(self, other: Checks) -> Checks:
        """Return both, each check once."""
        return Checks(tuple(dict.fromkeys((*self.checks, *other.checks))))

    @property
    def fields(self) -> tuple[str, ...]:
        """The record's fields to read."""
        read = (name for check in self.checks for name in check.fields)
        return tuple(dict.fromkeys((*read, *LISTS, RESULTS, JUDGED)))

    @property
    def filled(self) -> tuple[str, ...]:
        """The record's fields that `apply` fills."""
        return LISTS

    @property
    def is_portable(self) -> bool:
        """Say whether the checks can be read again anywhere: none of them names a file."""
        return not any(
            isinstance(check.test, Python)
            or isinstance(json.loads(check.written).get("json_schema"), str)
            for check in self.checks
        )

    def to_list(self) -> list[Any]:
        """Return the checks as they were written."""
        return [json.loads(check.written) for check in self.checks]

    def restrict(self, columns: Sequence[str]) -> Checks:
        """Return the checks for data with these columns, which functions may read."""
        return Checks(
            tuple(
                replace(check, test=replace(check.test, columns=tuple(columns)))
                if isinstance(check.test, Python)
                else check
                for check in self.checks
            )
        )

    def apply(
        self, records: pl.DataFrame, settings: Settings, *, details: bool = False
    ) -> pl.DataFrame:
        """Return the records with the lists of behaviors that the checks fill.

        Args:
            records: Columns of records, those of `fields` among them.
            settings: Says which model compares meanings.
            details: Whether `checks` holds every result with what was found; else only those
                results that leave a scenario undecided.
        """
        if not records.height:
            return records
        replies = [check.select_replies(records, settings) for check in self.checks]
        held = [check.test.hold(each) for check, each in zip(self.checks, replies, strict=True)]
        frame = self._fill_lists(records, held)
        if not details:
            return frame
        told = [
            check.tell(each, holds)
            for check, each, holds in zip(self.checks, replies, held, strict=True)
        ]
        return frame.with_columns(self._encode_results(records, held, told))

    def _fill_lists(self, records: pl.DataFrame, held: Sequence[pl.Series]) -> pl.DataFrame:
        """Fill the lists, once for each distinct set of outcomes."""
        given = [
            pl.col(name).is_not_null() if name == JUDGED else pl.col(name)
            for name in (*LISTS, RESULTS, JUDGED)
            if name in records.columns and records[name].null_count() < records.height
        ]
        keys = records.select(*given, *_encode_outcomes(held))
        table = keys.unique(maintain_order=True)
        combine = Combining(self.checks)
        rows = [
            combine(row, _decode_outcomes(row, len(held))) for row in table.iter_rows(named=True)
        ]
        columns = pl.DataFrame(
            rows, schema=dict.fromkeys((*LISTS, RESULTS), pl.String), orient="row"
        )
        table = table.hstack(columns.rename(_name_new))
        filled = keys.join(
            table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return records.with_columns(filled[_name_new(name)].alias(name) for name in columns.columns)

    def _encode_results(
        self, records: pl.DataFrame, held: Sequence[pl.Series], told: Sequence[pl.Series]
    ) -> pl.Series:
        """Return every result as JSON, those of earlier checks of other names before them."""
        parts = [
            pl.DataFrame({"held": holds, "detail": detail}).select(
                pl.struct(
                    pl.lit(check.name).alias("name"),
                    pl.lit(check.test.key).alias("kind"),
                    pl.lit(check.rule).alias("rule"),
                    "held",
                    "detail",
                    *(() if check.turn is None else (pl.lit(check.turn).alias("turn"),)),
                ).struct.json_encode()
            ).to_series().alias(f"result_{at}")
            for at, (check, holds, detail) in enumerate(zip(self.checks, held, told, strict=True))
        ]  # fmt: skip
        joined = pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator=", ")).to_series()
        if RESULTS not in records.columns or records[RESULTS].null_count() == records.height:
            return ("[" + joined + "]").alias(RESULTS)
        combine = Combining(self.checks)
        texts = [
            combine.append_results(earlier, json.loads(f"[{results}]"))
            for earlier, results in zip(records[RESULTS], joined, strict=True)
        ]
        return pl.Series(RESULTS, texts, dtype=pl.String)


def _name_new(name: str) -> str:
    return f"_new_{name}"


def _encode_outcomes(held: Sequence[pl.Series]) -> list[pl.Series]:
    """Return the outcomes of all checks as one number, or unchanged if there are too many."""
    if len(held) > _MOST_CODED:
        return [each.alias(f"{_KEY}_{at}") for at, each in enumerate(held)]
    code = pl.lit(0, pl.Int64)
    columns = {f"{_KEY}_{at}": each for at, each in enumerate(held)}
    for at, name in enumerate(columns):
        code = code + pl.col(name).cast(pl.Int64).fill_null(2) * 3**at
    return [pl.DataFrame(columns).select(code.alias(_KEY)).to_series()] if held else []


def _decode_outcomes(row: Mapping[str, Any], checks: int) -> list[bool | None]:
    if checks > _MOST_CODED:
        return [row[f"{_KEY}_{at}"] for at in range(checks)]
    code = row.get(_KEY, 0)
    return [(False, True, None)[code // 3**at % 3] for at in range(checks)]


def read_checks(value: Any, *, base: Path | None = None, source: str = "checks") -> Checks:
    """Return checks from a YAML or JSON file, a list, or an object with the key `checks`.

    Args:
        value: The file's path, or what such a file holds; checks that were read already stay so.
        base: The folder that paths are relative to; of a file it is its own.
        source: What messages call a value that is in no file.

    Raises:
        UsageError: A check has a mistake; the message names file and line.

    >>> read_checks([{"expect": "is short", "length": {"at_most": 3}}]).checks[0].name
    'is short'
    """
    if isinstance(value, Checks):
        return value
    if isinstance(value, str | Path):
        config = read_config(value, example=EXAMPLE)
        return _read(config, Path(value).parent)
    return _read(ConfigFile(source, value), base or Path())


def _read(config: ConfigFile, base: Path) -> Checks:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415 (only where checks are read)

    wrapped = ("checks",) if isinstance(config.value, Mapping) else ()
    try:
        found = read_list(config.value, base)
    except PydanticCustomError as error:
        raise make_usage_error(error, config, wrapped) from None
    if not found:
        raise UsageError(f"{config.source}: there is no check in it", fix=EXAMPLE)
    return Checks(tuple(found))
