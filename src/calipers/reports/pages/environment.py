"""The one Jinja environment: everything is escaped, and a name that is not there is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined

from calipers.metrics import metric_named
from calipers.reports.figures import NOTHING, figure, group_name, reach
from calipers.reports.gate import check_reason, check_required, check_value, listed
from calipers.reports.pages.bars import bar_of, scale_of
from calipers.reports.pages.cards import card_groups
from calipers.reports.pages.families import family_title
from calipers.reports.pages.texts import clipped, shown
from calipers.reports.pages.vega import page_json
from calipers.reports.report import failure_name
from calipers.reports.tiers import HEADS, spread_rows, tier_groups, tier_notes, tier_rows

if TYPE_CHECKING:
    from calipers.metrics import Metric
    from calipers.scores.results import Measured


def environment(*others: BaseLoader) -> Environment:
    """The templates of the pages, behind those of `others`; both may use our filters."""
    made = Environment(
        loader=ChoiceLoader([*others, PackageLoader("calipers.reports.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "bar": bar_of,
        "check_reason": check_reason,
        "check_required": check_required,
        "check_value": check_value,
        "clipped": clipped,
        "failure_name": failure_name,
        "figure": figure,
        "group_name": group_name,
        "ids": listed,
        "page_json": page_json,
        "percent": _percent,
        "plain": _plain,
        "reach": _reach,
        "shown": shown,
        "unit": _unit,
    }
    made.globals |= {
        "card_groups": card_groups,
        "definition": definition_here,
        "family_title": family_title,
        "metric_named": metric_named,
        "scale_of": scale_of,
        "spread_rows": spread_rows,
        "tier_groups": tier_groups,
        "tier_heads": HEADS,
        "tier_notes": tier_notes,
        "tier_rows": tier_rows,
    }
    return made


def definition_here(name: str) -> str:
    """Where a metric is defined, within the page; a dashboard puts its own function in place."""
    return f"#def-{name}"


def _reach(measured: Measured, unit: str | None = None) -> str:
    """How far the interval reaches; nothing where there is none."""
    if measured.value is None or (measured.low is None and measured.high is None):
        return ""
    return reach(measured.value, measured.low, measured.high, unit)


def _percent(share: float | None) -> str:
    """A change as people say it: +12.30 %."""
    return NOTHING if share is None else f"{100 * share:+.2f} %".replace("-", "−")


def _plain(number: float) -> str:
    """A number as it was recorded: 1234.5, not 1,234.5000."""
    return f"{number:.12g}"


def _unit(metric: Metric) -> str:
    return metric.unit or ""
