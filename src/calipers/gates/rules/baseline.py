"""`baseline`: how much worse than a recorded run may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainValidator

from calipers.gates.baselines import list_tolerances
from calipers.gates.demands import Ahead, Demand
from calipers.gates.policy_fields import Description, SchemaOf, make_metric_schema
from calipers.gates.policy_values import find_metric, read_by_name
from calipers.gates.result import Check
from calipers.gates.rule_check import Given, Judge
from calipers.gates.rules.kind import RuleKind
from calipers.metrics.thresholds import parse_margin, read_scale
from calipers.support.config.models import StrictModel
from calipers.support.errors import UsageError

_AT_THE_END = "compared with the baseline task by task, at the end"


def _read_margins(table: Any) -> dict[str, float]:
    """Return margins by metric, each in the metric's unit."""

    def read_margin(name: str, value: Any) -> tuple[str, float]:
        metric = find_metric(name)
        if metric.better is None:
            raise UsageError(
                f"{name}: neither direction is better", fix="leave it out of the margins"
            )
        return metric.name, parse_margin(value, read_scale(metric))

    return dict(read_by_name(table, read_margin).values())


Margins = Annotated[
    Mapping[str, float],
    PlainValidator(_read_margins),
    SchemaOf(lambda: make_metric_schema({"type": ["number", "string"]})),
]


class Baseline(RuleKind, StrictModel):
    """How much worse than a recorded run is acceptable; a negative margin requires improvement."""

    key: ClassVar[str] = "baseline"
    may_be_null: ClassVar[bool] = True

    description: Description = None
    file: str | None = Field(
        default=None,
        description="The recorded run, relative to the policy; --against overrides it.",
    )
    required: bool = Field(
        default=True,
        description="false: if no baseline is given yet, the other rules decide alone.",
    )
    margins: Margins = Field(
        default_factory=dict,
        description="Margins by metric; without any, every recorded metric, with a margin of 0.",
    )

    @classmethod
    def make_default(cls) -> Self:
        """Return one without margins, which holds where --against names a baseline."""
        return cls()

    def move_to(self, folder: Path) -> Self:
        if self.file is None:
            return self
        return self.model_copy(update={"file": str(folder / self.file)})

    def list_metrics(self, given: Given) -> Iterable[str]:
        recorded = () if given.recorded is None else given.recorded.groups
        return (*self.margins, *(name for group in recorded for name in group.metrics))

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check per metric that the policy, or the baseline by itself, holds to."""
        before = judge.before
        if before is None:
            return
        from calipers.gates.regressions import check_regression  # noqa: PLC0415 (only where asked for)

        for name, margin in list_tolerances(before, self.margins).items():
            yield check_regression(judge, before, name, margin)

    def list_demands(self, ahead: Ahead) -> Iterator[Demand]:
        for name in () if ahead.before is None else list_tolerances(ahead.before, self.margins):
            yield Demand(name=name, why_not=_AT_THE_END)
