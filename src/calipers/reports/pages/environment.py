"""The one Jinja environment: everything is escaped, and a name that is not there is an error."""

from __future__ import annotations

from functools import cache

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calipers.metrics import metric_named
from calipers.reports.audit import audit_tables
from calipers.reports.calibration import calibration_table
from calipers.reports.comparison import pair_table
from calipers.reports.figures import (
    PLAIN,
    Estimated,
    Form,
    figure,
    figure_parts,
    group_name,
    shared_form,
)
from calipers.reports.gate import check_reason, checks_table
from calipers.reports.html import html_table
from calipers.reports.pages.bars import bar_of, scale_of
from calipers.reports.pages.cards import card_groups
from calipers.reports.pages.families import family_title
from calipers.reports.pages.texts import clipped, shown
from calipers.reports.pages.vega import page_json
from calipers.reports.preferences import preference_tables
from calipers.reports.ranked_pairs import pairs_table
from calipers.reports.ranking import systems_table
from calipers.reports.remarks import failures_table, flaky_table
from calipers.reports.scores import is_wide, score_table
from calipers.reports.table import Table
from calipers.reports.tiers import tier_groups, tiers_table


@cache  # a template is compiled once, however many pages are made
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
        "clipped": clipped,
        "figure": figure,
        "group_name": group_name,
        "html": _html,
        "page_json": page_json,
        "parts": _parts,
        "plain": _plain,
        "shown": shown,
    }
    tables = (
        *(audit_tables, preference_tables, calibration_table, checks_table, failures_table),
        *(flaky_table, pair_table, pairs_table, score_table, systems_table, tiers_table),
    )
    made.globals |= {table.__name__: table for table in tables}
    made.globals |= {
        "card_groups": card_groups,
        "definition": definition_here,
        "family_title": family_title,
        "is_wide": is_wide,
        "metric_named": metric_named,
        "scale_of": scale_of,
        "shared_form": shared_form,
        "tier_groups": tier_groups,
    }
    return made


def definition_here(name: str) -> str:
    """Where a metric is defined, within the page; a dashboard puts its own function in place."""
    return f"#def-{name}"


def _html(table: Table, label: str = "", *, captioned: bool = False) -> Markup:
    return Markup(html_table(table, label, captioned=captioned))  # noqa: S704 (it escapes)


def _parts(measured: Estimated, form: Form = PLAIN) -> tuple[str, str]:
    return figure_parts(measured.value, measured.low, measured.high, form)


def _plain(number: float) -> str:
    """A number as it was recorded: 1234.5, not 1,234.5000."""
    return f"{number:.12g}"
