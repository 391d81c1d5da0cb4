"""Checks turn replies into S's behaviors: what was expected, what was observed, what was violated.

They are applied to columns of records, in whichever engine, before anything is measured. Results
are `{name, kind, rule, held, detail}`, in the record's field `checks`. The outcomes are added to
the lists that a record has itself:

- `expected_behaviors`: the names of all that is expected.
- `observed_behaviors`: the names for which every check holds; where one does not hold, the record's
  own entry of that name does not count.
- `violations`: the names for which any check holds.
- An `expect` check that does not hold stays in `checks`: it fails the scenario, whatever is
  recorded.
- A `forbid` check that is undecided stays there too, and leaves the scenario undecided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.checks.check import EXAMPLE, NamedCheck, read_list
from calipers.metrics.checks.kinds.external import Python
from calipers.metrics.declare.settings import Settings
from calipers.records.fields import FIELDS, Author
from calipers.support.config import ConfigFile, read_config
from calipers.support.errors import DataError, UsageError
from calipers.support.strict_model import make_usage_error

EXPECTED, OBSERVED, VIOLATED = LISTS = ("expected_behaviors", "observed_behaviors", "violations")
RESULTS = "checks"
JUDGED = "judgments"
SELF_REPORTED = "reported"  # in a result: the record reports the same itself

Held = Sequence[bool | None]
_SHOWN = 60  # characters of a value


class BehaviorLists:
    """Adds the outcomes of some checks to the lists of records."""

    def __init__(self, checks: Sequence[NamedCheck]) -> None:
        self._checks = checks
        self._names = {
            rule: _drop_repeats(c.name for c in checks if c.rule == rule)
            for rule in ("expect", "forbid")
        }
        self._all = {name for names in self._names.values() for name in names}

    def __call__(self, row: Mapping[str, Any], held: Held) -> tuple[str | None, ...]:
        """Return the three lists and the results that may overrule them, each as JSON."""
        lists = {name: _read_list(row.get(name)) for name in LISTS}
        earlier = _read_list(row.get(RESULTS)) or []
        reported = self._remove_earlier(lists, earlier)
        expected, observed, violated = (reported[name] for name in LISTS)
        of_checks = {c.name for c in self._checks} | {_find_name(result) for result in earlier}
        unknown = observed is None and any(behavior not in of_checks for behavior in expected or ())
        found = self._list_held("expect", held, all)
        unmet = set(self._names["expect"]).difference(found)
        broken = self._list_held("forbid", held, any)
        if self._names["expect"]:
            expected = _drop_repeats((*(expected or ()), *self._names["expect"]))
        elif expected is None and not row.get(JUDGED):
            expected = []  # only forbidden things: a reply without any of them passes
        if not unknown and expected is not None:
            own_word = (name for name in observed or () if name not in unmet)
            observed = _drop_repeats((*own_word, *found))
        violated = _drop_repeats((*(violated or ()), *broken))
        deciding = [
            {"name": check.name, "kind": check.test.key, "rule": check.rule, "held": holds}
            for check, holds in zip(self._checks, held, strict=True)
            if (holds is None if check.rule == "forbid" else not holds)
        ]
        kept = [result for result in earlier if _find_name(result) not in self._all]
        results = [*kept, *deciding]
        return (_dump(expected), _dump(observed), _dump(violated), _dump(results or None))

    def append_results(self, earlier: str | None, results: list[Any]) -> str:
        """Return results after those of earlier checks of other names, as JSON."""
        others = [
            result for result in _read_list(earlier) or () if _find_name(result) not in self._all
        ]
        return json.dumps([*others, *results], ensure_ascii=False)

    def _remove_earlier(
        self, lists: Mapping[str, list[Any] | None], earlier: Iterable[Any]
    ) -> dict[str, list[Any] | None]:
        """Return the lists without what earlier checks of the same names have done to them."""
        results = [result for result in earlier if isinstance(result, Mapping) and "held" in result]
        gone = {
            _find_name(result) for result in results if not result.get(SELF_REPORTED)
        } & self._all
        kept = {
            name: values if values is None else [value for value in values if value not in gone]
            for name, values in lists.items()
        }
        if overruled := [name for name in list_overruled(results) if name in self._all]:
            kept[OBSERVED] = _drop_repeats((*(kept[OBSERVED] or ()), *overruled))
        return kept

    def _list_held(self, rule: str, held: Held, of: Callable[[Iterable[bool]], bool]) -> list[str]:
        """Return the names of a rule of which all, or any, of the checks hold."""
        outcomes: dict[str, list[bool]] = {name: [] for name in self._names[rule]}
        for check, holds in zip(self._checks, held, strict=True):
            if check.rule == rule:
                outcomes[check.name].append(holds is True)
        return [name for name, each in outcomes.items() if of(each)]


def list_overruled(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what a record reports as observed although a check of that name does not hold."""
    return [
        result["name"]
        for result in results
        if result.get(SELF_REPORTED) and result.get("rule") == "expect" and not result["held"]
    ]


def _drop_repeats(names: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(names))


def _find_name(result: Any) -> str | None:
    name = result.get("name") if isinstance(result, Mapping) else None
    return name if isinstance(name, str) else None


def _read_list(text: Any) -> list[Any] | None:
    """Return the list in a field of a record, which may be written as JSON.

    Raises:
        DataError: It is a text that is no JSON.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{RESULTS}: {json.dumps(text[:_SHOWN], ensure_ascii=False)} is not a list of results",
            fix=f"write {RESULTS} as a list, or give the field another name",
        ) from error
    if found is None:
        return None
    return found if isinstance(found, list) else []


def _dump(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


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
    def compared_fields(self) -> tuple[str, ...]:
        """The task's fields that replies are compared with, other than by a function."""
        tests = (check.test for check in self.checks if not isinstance(check.test, Python))
        return tuple(dict.fromkeys(name for test in tests for name in test.fields))

    @property
    def task_fields(self) -> tuple[str, ...]:
        """Those of them that a run does not write itself: without any, nothing can be compared."""
        return tuple(
            name
            for name in self.compared_fields
            if name not in FIELDS or FIELDS[name].author is Author.TASK
        )

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
        """Return True if the checks can be read again anywhere: none of them names a file."""
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
                results that fail a scenario or leave it undecided.
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
        combine = BehaviorLists(self.checks)
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
        combine = BehaviorLists(self.checks)
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
