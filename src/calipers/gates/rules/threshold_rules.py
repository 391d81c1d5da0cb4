"""Rules on metrics and pass rates: `thresholds`, `progressive` and `pass_criteria`.

`thresholds` are required values of metrics, which block or warn; `progressive` ones rise from
release to release; `pass_criteria` are pass rates, over everything and by category.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import polars as pl
from pydantic import Field, PlainValidator

from calipers.gates import policy_fields as fields
from calipers.gates import policy_fields as values
from calipers.gates.policy_fields import (
    FINAL_SCORE,
    PASS_RATE,
    SAFETY,
    Description,
    Rule,
    Share,
    Shares,
)
from calipers.gates.result import Check
from calipers.gates.rule_kind import Given, RuleChecker, RuleKind, join_checks
from calipers.gates.sequential_checks import CORRECTED, Demand, PlannedGroup, make_demand
from calipers.metrics.families.scenarios import ADVERSARIAL, passed
from calipers.metrics.provenance import PASSED
from calipers.metrics.thresholds import Threshold, read_scale
from calipers.scores.result import Measured
from calipers.support.config import shown
from calipers.support.errors import UsageError, nearest
from calipers.support.strict_model import StrictModel, refuse

_RELEASE = "release"


class MetricRules(RuleKind):
    """Thresholds of metrics that block."""

    source: ClassVar[str]  # of their checks

    @abstractmethod
    def get_row(self, release: str | None) -> Mapping[str, Rule]:
        """Return those that hold for a release."""

    def list_categories(self, given: Given) -> Iterable[str]:
        return list_categories(self.get_row(given.release))

    def list_blocking(self, given: Given) -> Iterable[str]:
        return self.get_row(given.release)

    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics, with that which a final score needs beside it."""
        return _add_safety(self.get_row(given.release))

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield a check per metric; S lets a final score pass only with all adversarial runs."""
        for name, rule in self.get_row(judge.given.release).items():
            check = judge.check_metric(rule, "blocking", self.source)
            if name == FINAL_SCORE:
                scale = read_scale(values.find_metric(SAFETY))
                safe = Rule(name=SAFETY, threshold=Threshold(operator="=", value=1.0, scale=scale))
                check = join_checks(check, judge.check_metric(safe, "blocking", self.source))
            yield check

    def list_demands(self, ahead: PlannedGroup) -> Iterator[Demand]:
        for rule in self.get_row(None).values():
            yield make_demand(rule, corrected=ahead.corrected)


class Thresholds(MetricRules, StrictModel):
    """Thresholds of metrics: some fail the build, some only warn."""

    key: ClassVar[str] = "thresholds"
    source: ClassVar[str] = "thresholds.blocking"

    description: fields.Description = None
    blocking: fields.Rules = Field(
        default_factory=dict, description="Thresholds by metric; if one is not met, the gate fails."
    )
    warning: fields.Rules = Field(
        default_factory=dict, description="Thresholds by metric; if one is not met, the gate warns."
    )

    @property
    def decides(self) -> bool:
        return bool(self.blocking or self.warning)

    def get_row(self, _release: str | None) -> Mapping[str, Rule]:
        """Return the thresholds that block, the same for every release."""
        return self.blocking

    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics with a threshold, and what these need beside them."""
        return (*super().list_metrics(given), *_add_safety(self.warning))

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        yield from super().list_checks(judge)
        for rule in self.warning.values():
            yield judge.check_metric(rule, "warning", "thresholds.warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressive(MetricRules):
    """A row of thresholds per release; all of them block."""

    key: ClassVar[str] = "progressive"
    source: ClassVar[str] = key
    label: ClassVar[str] = " (release)"

    release: str | None = None  # the current one, unless the command line names another
    rows: Mapping[str, Mapping[str, Rule]] = field(default_factory=dict)

    @classmethod
    def as_field(cls) -> tuple[Any, Any]:
        """Return the type of its key, whose names are the user's own."""
        return Annotated[
            cls, PlainValidator(_read_progressive), fields.SchemaOf(_make_schema)
        ] | None, None

    @classmethod
    def make_default(cls) -> Self:
        """Return one without rows, which refuses --release."""
        return cls()

    @property
    def decides(self) -> bool:
        return bool(self.rows)

    def get_row(self, asked: str | None) -> Mapping[str, Rule]:
        """Return the thresholds of the release asked for, or of the current one."""
        if not self.rows:
            if asked is not None:
                raise UsageError(
                    f"--release {shown(asked)}: the policy has no progressive thresholds",
                    fix="write them: progressive: {v1.0: {accuracy: 80}, v2.0: {accuracy: 85}}",
                )
            return {}
        chosen = asked or self.release
        if chosen is None:
            raise UsageError(
                "the policy's thresholds depend on the release, and none is named",
                fix=f"--release {' or '.join(map(shown, self.rows))}; or progressive.release",
            )
        if chosen not in self.rows:
            raise UsageError(
                f"--release {shown(chosen)}: there is no such row", fix=nearest(chosen, self.rows)
            )
        return self.rows[chosen]


def _read_progressive(table: Any) -> Progressive:
    """Return a row of thresholds per release, and perhaps the release that is the current one."""
    release = table.get(_RELEASE) if isinstance(table, Mapping) else None
    if release is not None:
        table = {key: row for key, row in table.items() if key != _RELEASE}
    rows = values.read_by_name(table, lambda _, row: values.read_rules(row))
    if release is not None and (isinstance(release, list | dict) or release not in rows):
        refuse(
            f"release is {shown(release)}, and there is no such row",
            fix=nearest(str(release), rows),
            at=(_RELEASE,),
        )
    return Progressive(release=release, rows=rows)


def _make_schema() -> fields.Schema:
    current = {"type": "string", "description": "The current release; --release overrides it."}
    row = fields.make_metric_schema(fields.THRESHOLD)
    return fields.make_name_schema(row, {_RELEASE: current})


def _add_safety(names: Collection[str]) -> tuple[str, ...]:
    return (*names, SAFETY) if FINAL_SCORE in names else tuple(names)


def list_categories(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the category that one of the metrics is about, if one is."""
    return (ADVERSARIAL,) if {SAFETY, FINAL_SCORE} & {*metrics} else ()


class PassCriteria(RuleKind, StrictModel):
    """Pass rates, over everything and by category; all of them block."""

    key: ClassVar[str] = "pass_criteria"

    description: Description = None
    overall: Share | None = Field(default=None, description="Required share of all runs that pass.")
    by_category: Shares = Field(
        default_factory=dict, description="Required share of runs that pass, by category."
    )

    @property
    def decides(self) -> bool:
        return bool(self.overall or self.by_category)

    def list_categories(self, _given: Given) -> Iterable[str]:
        return self.by_category

    def list_blocking(self, _given: Given) -> Iterable[str]:
        return () if self.overall is None else (PASS_RATE,)

    def list_metrics(self, _given: Given) -> Iterable[str]:
        return (PASS_RATE,) if self.decides else ()

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield a check of the whole, then one per category."""
        for category, rule in self._list_rules():
            if category is None:
                measured = judge.run.group.metrics[PASS_RATE]
            else:
                known = judge.run.scenarios.categories
                measured = judge.run.measure_category(category) or _measure_absent(category, known)
            yield judge.check_value(
                rule, measured, "category", self.key, of=PASS_RATE, category=category
            )

    def list_demands(self, ahead: PlannedGroup) -> Iterator[Demand]:
        """Yield the share of runs that pass, in all tasks or in those of a category."""
        for category, rule in self._list_rules():
            demand = Demand(
                name=rule.name,
                on=rule.threshold,
                value=pl.col(passed.name).cast(pl.Float64),
                metrics=(PASS_RATE,),
                category=category,
            )
            yield replace(demand, on=None, why_not=CORRECTED) if ahead.corrected else demand

    def list_judged_values(self, _check: Check, _judge: RuleChecker) -> tuple[str, ...]:
        return (PASSED,)

    def count_flagged(self, check: Check, judge: RuleChecker) -> int:
        """Return how many runs of the category judges decided whose text seems to address them."""
        if check.name in judge.run.scenarios.categories:
            return judge.run.scenarios.count_flagged(check.name)
        return judge.run.count_flagged((PASSED,))

    def _list_rules(self) -> Iterator[tuple[str | None, Rule]]:
        """Yield the thresholds, that of everything, whose category is None, first."""
        if self.overall is not None:
            yield None, self.overall
        yield from self.by_category.items()


def _measure_absent(category: str, known: Iterable[str]) -> Measured:
    """Return a pass rate without a value, and the category that may have been meant."""
    near = nearest(category, known)
    asked = f": {near}" if near.startswith("did you mean") else ""
    return Measured(value=None, n=0, missing=0, reason=f"no scenario has this category{asked}")
