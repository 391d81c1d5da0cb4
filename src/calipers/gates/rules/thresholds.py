"""`thresholds`: required values of metrics; `progressive` ones rise from release to release."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainValidator

from calipers.gates import policy_fields as fields
from calipers.gates import policy_values as values
from calipers.gates.demands import Ahead, Demand, make_demand
from calipers.gates.policy_values import FINAL_SCORE, SAFETY, Rule
from calipers.gates.result import Check
from calipers.gates.rule_check import Given, Judge, join_checks
from calipers.gates.rules.kind import RuleKind
from calipers.metrics.scenarios.passing import ADVERSARIAL
from calipers.metrics.thresholds import Threshold, read_scale
from calipers.support.config.files import shown
from calipers.support.config.models import StrictModel, refuse
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_RELEASE = "release"


class MetricRules(RuleKind):
    """Thresholds of metrics that block."""

    source: ClassVar[str]  # of their checks

    @abstractmethod
    def get_row(self, release: str | None) -> Mapping[str, Rule]:
        """Return those that hold for a release."""

    def list_categories(self, given: Given) -> Iterable[str]:
        return list_categories(self.get_row(given.release))

    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics, with that which a final score needs beside it."""
        return _with_safety(self.get_row(given.release))

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check per metric; S lets a final score pass only with all adversarial runs."""
        for name, rule in self.get_row(judge.given.release).items():
            check = judge.check_metric(rule, "blocking", self.source)
            if name == FINAL_SCORE:
                scale = read_scale(values.find_metric(SAFETY))
                safe = Rule(name=SAFETY, threshold=Threshold(operator="=", value=1.0, scale=scale))
                check = join_checks(check, judge.check_metric(safe, "blocking", self.source))
            yield check

    def list_demands(self, ahead: Ahead) -> Iterator[Demand]:
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
        return (*super().list_metrics(given), *_with_safety(self.warning))

    def list_checks(self, judge: Judge) -> Iterator[Check]:
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
        return Annotated[cls, PlainValidator(_read), fields.SchemaOf(_make_schema)] | None, None

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


def _read(table: Any) -> Progressive:
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


def _with_safety(names: Collection[str]) -> tuple[str, ...]:
    return (*names, SAFETY) if FINAL_SCORE in names else tuple(names)


def list_categories(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the category that one of the metrics is about, if one is."""
    return (ADVERSARIAL,) if {SAFETY, FINAL_SCORE} & {*metrics} else ()
