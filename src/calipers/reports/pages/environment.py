"""The one Jinja environment: everything is escaped, and an undefined name is an error."""

from __future__ import annotations

from functools import cache, partial

from jinja2 import BaseLoader, ChoiceLoader, Environment, StrictUndefined
from markupsafe import Markup

from calipers.metrics import metric_named
from calipers.reports.audit import tabulate_audit
from calipers.reports.calibration import tabulate_calibration
from calipers.reports.comparison import tabulate_pair
from calipers.reports.figures import (
    PLAIN,
    Estimated,
    Form,
    choose_form,
    format_figure,
    group_name,
    split_figure,
)
from calipers.reports.gate import check_reason, tabulate_checks
from calipers.reports.html import render_table
from calipers.reports.pages.bars import choose_scale, make_bar
from calipers.reports.pages.cards import choose_groups
from calipers.reports.pages.compiled import CompiledLoader
from calipers.reports.pages.families import get_title
from calipers.reports.pages.texts import clean_text, clip_text
from calipers.reports.pages.vega import dump_page_json
from calipers.reports.preferences import tabulate_preferences
from calipers.reports.ranked_pairs import tabulate_pairs
from calipers.reports.ranking import tabulate_systems
from calipers.reports.recommendations import tabulate_recommendations
from calipers.reports.remarks import tabulate_failures, tabulate_flaky
from calipers.reports.scores import is_wide, tabulate_score
from calipers.reports.table import Table
from calipers.reports.tasks import tabulate_hardest
from calipers.reports.tiers import select_groups, tabulate_tiers


@cache  # a template is compiled once, however many pages are made
def make_environment(*others: BaseLoader) -> Environment:
    """Return the templates of the pages, after those of `others`; both may use our filters."""
    made = Environment(
        loader=ChoiceLoader([*others, CompiledLoader("calipers.reports.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "bar": make_bar,
        "check_reason": partial(check_reason, percent=False),  # as the scores of a page
        "clipped": clip_text,
        "figure": format_figure,
        "group_name": group_name,
        "html": _render_table,
        "page_json": dump_page_json,
        "parts": _split_measured,
        "plain": _format_recorded,
        "shown": clean_text,
    }
    tables = (
        *(tabulate_audit, tabulate_preferences, tabulate_calibration, tabulate_failures),
        *(tabulate_hardest, tabulate_recommendations, tabulate_flaky, tabulate_pair),
        *(tabulate_pairs, tabulate_score, tabulate_systems, tabulate_tiers),
    )
    made.globals |= {table.__name__: table for table in tables}
    made.globals |= {
        "card_groups": choose_groups,
        "definition": locate_definition,
        "family_title": get_title,
        "is_wide": is_wide,
        "metric_named": metric_named,
        "scale_of": choose_scale,
        "shared_form": choose_form,
        "tabulate_checks": partial(tabulate_checks, percent=False),
        "tier_groups": select_groups,
    }
    return made


def locate_definition(name: str) -> str:
    """Return where a metric is defined within the page; the dashboard uses its own function."""
    return f"#def-{name}"


def _render_table(table: Table, label: str = "", *, captioned: bool = False) -> Markup:
    return Markup(render_table(table, label, captioned=captioned))  # noqa: S704 (it escapes)


def _split_measured(measured: Estimated, form: Form = PLAIN) -> tuple[str, str]:
    return split_figure(measured.value, measured.low, measured.high, form)


def _format_recorded(number: float) -> str:
    """Return a number as it was recorded: 1234.5, not 1,234.5000."""
    return f"{number:.12g}"
