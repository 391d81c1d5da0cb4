"""The one Jinja environment: everything is escaped, and an undefined name is an error.

Templates are compiled once: Python keeps their code in `__pycache__`, as of its modules. Untrusted
text loses its control characters, and is cut to a readable length.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any
from zlib import crc32

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from jinja2 import __version__ as jinja_version
from markupsafe import Markup

from calipers.metrics import metric_named
from calipers.reports.data.answers_matrix import Shares
from calipers.reports.data.transcript import mark_words
from calipers.reports.formats.html import render_html_table, render_name
from calipers.reports.number_format import (
    PLAIN,
    Estimated,
    Form,
    format_figure,
    format_group,
    format_percent,
    shorten_name,
    show_name,
    split_figure,
)
from calipers.reports.pages.cards import choose_groups, choose_scale, get_family_title, make_bar
from calipers.reports.pages.page_scripts import dump_page_json
from calipers.reports.report_parts import tabulate_hardest, tabulate_recommendations
from calipers.reports.table import Table
from calipers.reports.tables.agreement_tables import tabulate_calibration
from calipers.reports.tables.audit_tables import tabulate_audit, tabulate_preferences
from calipers.reports.tables.comparison_tables import tabulate_pair
from calipers.reports.tables.gate_tables import (
    describe_check,
    label_check,
    tabulate_checks,
    tabulate_sabotage,
)
from calipers.reports.tables.notes import tabulate_failures, tabulate_flaky
from calipers.reports.tables.ranking_tables import tabulate_pairs, tabulate_systems
from calipers.reports.tables.score_tables import (
    is_wide,
    select_groups,
    tabulate_score,
    tabulate_tiers,
)
from calipers.reports.tables.shown_metrics import choose_metric_form, get_unit, label_metric
from calipers.support.version import __version__

_KEPT_CONTROLS = "\n\t"
_WITHOUT_KEPT_CONTROLS = str.maketrans("", "", _KEPT_CONTROLS)


def clean_text(value: object) -> str:
    """Return a text as a page may contain it; lines stay lines."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if lines.translate(_WITHOUT_KEPT_CONTROLS).isprintable():  # as most are
        return lines
    return "".join(
        each if each.isprintable() or each in _KEPT_CONTROLS else "\ufffd" for each in lines
    )


def clip_text(value: object, most: int = 600) -> str:
    """Return the beginning of a text, and how much more there is.

    >>> clip_text("abcdef", 4)
    'abcd… (2 more characters)'
    """
    text = str(value)
    if len(text) <= most:
        return clean_text(value)
    return f"{clean_text(text[:most])}… ({len(text) - most:,} more characters)"


class CompiledLoader(PackageLoader):
    """Loads the templates of a package; those in files are compiled when they have changed."""

    def load(
        self,
        environment: Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 (Jinja's)
    ) -> Template:
        """Return the template of that name."""
        _, filename, is_current = self.get_source(environment, name)
        if not Path(filename).is_file():  # in an archive
            return super().load(environment, name, globals)
        code = _TemplateFile(environment, name, filename).get_code(name)
        assert code is not None
        return environment.template_class.from_code(
            environment, code, globals if globals is not None else {}, is_current
        )


class _TemplateFile(SourceFileLoader):
    """Compiles a template in the place of a module."""

    def __init__(self, environment: Environment, name: str, filename: str) -> None:
        super().__init__(name, filename)
        self._environment = environment

    def path_stats(self, path: str) -> dict[str, Any]:
        """Return what tells that the code is of this file, and of this version of its compiler."""
        found = Path(path).stat()
        changed = f"{found.st_mtime_ns} {jinja_version} {__version__}"
        return {"mtime": crc32(changed.encode()), "size": found.st_size}

    def source_to_code(self, data: Any, path: Any, **_: Any) -> CodeType:  # type: ignore[override]
        """Return the code of the template's text."""
        return self._environment.compile(data.decode(), self.name, path)


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
        "check_reason": describe_check,
        "clipped": clip_text,
        "figure": format_figure,
        "group_name": format_group,
        "html": _render_table,
        "name": _render_name,
        "page_json": dump_page_json,
        "parts": _split_measured,
        "percent": format_percent,
        "plain": _format_recorded,
        "shares": describe_shares,
        "short_name": shorten_name,
        "shown": clean_text,
        "system_name": _name_system,
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
        "family_title": get_family_title,
        "is_wide": is_wide,
        "check_label": label_check,
        "mark_words": mark_words,
        "most_reasons": 4,
        "metric_named": metric_named,
        "scale_of": choose_scale,
        "shared_form": choose_metric_form,
        "metric_label": label_metric,
        "metric_unit": get_unit,
        "tabulate_checks": tabulate_checks,
        "tabulate_sabotage": tabulate_sabotage,
        "tier_groups": select_groups,
    }
    return made


def locate_definition(name: str) -> str:
    """Return where a metric is defined within the page; the dashboard uses its own function."""
    return f"#def-{name}"


def _render_table(table: Table, label: str = "", *, captioned: bool = False) -> Markup:
    return Markup(render_html_table(table, label, captioned=captioned))  # noqa: S704 (it escapes)


def _render_name(value: object) -> Markup:
    return Markup(render_name(str(value)))  # noqa: S704 (it escapes)


def _name_system(key: Sequence[Any]) -> str:
    """Return the values of the fields that tell systems apart on one line."""
    return ", ".join(map(show_name, key)) if key else "all"


def describe_shares(shares: Shares) -> str:
    """Return how many of a system's answers are right; by both verdicts where these differ.

    >>> describe_shares(Shares(0.95, 0.95, None)), describe_shares(Shares(0.95, 0.95, 0.325))
    ('95 %', '95 % passed, 32.5 % correct')
    """
    if shares.differ and shares.passed is not None and shares.correct is not None:
        return f"{format_percent(shares.passed)} passed, {format_percent(shares.correct)} correct"
    return "" if shares.right is None else format_percent(shares.right)


def _split_measured(measured: Estimated, form: Form = PLAIN) -> tuple[str, str]:
    return split_figure(measured.value, measured.low, measured.high, form)


def _format_recorded(number: float) -> str:
    """Return a number as it was recorded: 1234.5, not 1,234.5000."""
    return f"{number:.12g}"
