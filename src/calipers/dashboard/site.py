"""What all pages share: the folder, the indexes, the measurements, and how a page is made.

Scripts and styles of the pages come from this machine; their addresses contain the version.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import cache, cached_property, partial
from importlib.resources import files
from math import isinf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment

from calipers.dashboard.caches import Memo
from calipers.dashboard.catalog import Catalog, Entry
from calipers.dashboard.highlight import LONGEST_TEXT
from calipers.dashboard.index_cache import Indexes, Opened
from calipers.dashboard.run_view import FollowedJournal, Run, read_score_at
from calipers.dashboard.selection import OPERATORS, Query, add_groups, read_query
from calipers.metrics.checks.checks import Checks
from calipers.records.nested_fields import REASON_FIELDS
from calipers.records.reading_options import DEFAULT_READING, ReadingChoices
from calipers.reports.charts import draw_charts
from calipers.reports.number_format import format_figure, shorten_text
from calipers.reports.pages.environment import CompiledLoader, clip_text, make_environment
from calipers.reports.pages.page_scripts import (
    PageFigure,
    find_script,
    load_script,
    make_page_figure,
    read_static,
)
from calipers.reports.tables.verdict_tables import describe_verdict, tabulate_standings
from calipers.scores.result import Score
from calipers.support.files import write_whole
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.dashboard.measurements import Measurements

ASSETS = (
    *("style.css", "view.css", "view.svg"),
    *("theme.js", "figures.js", "view.js", "rate.js", "vega.js", "htmx.js"),
)
_HTMX = "htmx-2.0.3.min.js"  # as https://htmx.org publishes it; 0BSD
_MAKE_SCRIPT = """
import os, sys
getattr(os, "nice", int)(10)
from calipers.reports.pages.page_scripts import load_script
sys.stdout.buffer.write(load_script().encode())
"""
_one_at_a_time = Lock()
MEDIA = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def locate_asset(name: str) -> str:
    """Return the address of a script or a style; it contains the version."""
    return f"/static/{__version__}/{name}"


@cache
def read_asset(name: str) -> str:
    """Return the text of a script or a style."""
    if name == "vega.js":
        return load_script_apart()
    if name in ("htmx.js", "rate.js") or name.startswith("view."):
        own = files("calipers.dashboard").joinpath("static", _HTMX if name == "htmx.js" else name)
        return own.read_text(encoding="utf-8")
    return read_static(name)


def load_script_apart() -> str:
    """Return the drawing script; another process makes it, unless it is in the cache.

    Making it takes more than a second and would block every other thread of this process.
    """
    with _one_at_a_time:
        if (kept := find_script()) is not None:
            return kept
        command = [sys.executable, "-P", "-c", _MAKE_SCRIPT]
        made = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 (no input)
        return load_script() if made.returncode else made.stdout.decode()


_KEPT_SCORE = "score.json"  # beside the index: what was measured once


class Site:
    """Everything that requests need."""

    def __init__(
        self,
        root: Path,
        field_map: Mapping[str, str] | None = None,
        checks: Checks | None = None,
        reading: ReadingChoices = DEFAULT_READING,
    ) -> None:
        self.catalog = Catalog(root)
        self.indexes = Indexes(field_map, checks, reading)
        self.rating: Any = None  # what people rate with, where the dashboard was started for it
        self._followed: dict[str, FollowedJournal] = {}
        self.answers: Memo[Any] = Memo()  # of views, which tasks tell systems apart
        self._figures: Memo[Mapping[str, PageFigure]] = Memo()

    @cached_property
    def measuring(self) -> Measurements:
        """What gives numbers; loaded when the first is asked for."""
        from calipers.dashboard.measurements import Measurements  # noqa: PLC0415

        return Measurements()

    def close(self) -> None:
        """Stop: begin no further work in the background."""
        self.indexes.close()

    def run(self, id_: str) -> Run:
        """Return the run, or the file of records, of that id."""
        return self.read_run(self.catalog.find_entry(id_))

    def read_run(self, entry: Entry) -> Run:
        """Return an entry with what its folder says about it."""
        return Run(entry, self.catalog, kept=self._read_kept, follow=self.follow)

    def _read_kept(self, entry: Entry) -> Score | None:
        """Return the score cached when the file was last viewed, if it has not changed since."""
        if not self.indexes.is_there(entry):
            return None
        return read_score_at(self.indexes.locate(entry) / _KEPT_SCORE)

    def keep(self, entry: Entry, score: Score) -> None:
        """Keep the score of all records beside their index, for the list and the next start."""
        if entry.folder is None and self.indexes.is_there(entry):
            write_whole(self.indexes.locate(entry) / _KEPT_SCORE, score.to_json())

    def open(self, run: Run) -> Opened:
        """Return the index of a run or file; of a run that goes on, one of a moment ago."""
        return self.indexes.open_growing(run.entry) if run.running else self.indexes.open(run.entry)

    def get_score(self, run: Run, query: Query) -> Score:
        """Return the score of a view with data for figures: cached, or measured now."""
        kept = run.score
        whole = kept and any(group.histograms or group.reliability for group in kept.groups)
        if kept is not None and whole and not (query.narrows or query.by):
            return kept
        opened = self.open(run)
        return self.measuring.score(opened, add_groups(query, opened.index), run.name)

    def get_figures(self, score: Score) -> Mapping[str, PageFigure]:
        """Return the figures of a score by name; drawn once."""
        return self._figures.get(score.to_json(), lambda: _draw_figures(score))

    def follow(self, entry: Entry) -> FollowedJournal:
        """Return the journal of a run, read on from where it was."""
        return self._followed.setdefault(entry.id, FollowedJournal(entry))

    def render(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """Return the page of a template."""
        name = self.catalog.root.name or str(self.catalog.root)
        text = (
            _load_templates()
            .get_template(template)
            .render(site_name=name, rates=self.rating is not None, **values)
        )
        return HTMLResponse(text, status)


@cache
def _load_templates() -> Environment:
    """Return the templates of the dashboard before those that all pages share."""
    made = make_environment(CompiledLoader("calipers.dashboard"))
    made.globals |= {
        "definition": lambda name: f"/metrics/{quote(name, safe='')}",
        "asset": locate_asset,
        "version": __version__,
        "operators": OPERATORS,
        "reasons": REASON_FIELDS,
        "best_sentence": describe_verdict,
        "tabulate_standings": tabulate_standings,
    }
    made.filters |= {
        "long": partial(clip_text, most=LONGEST_TEXT),
        "cell": format_cell,
        "size": format_size,
        "shorten": shorten_text,
        "in_query": urlencode,
    }
    return made


def _draw_figures(score: Score) -> dict[str, PageFigure]:
    charts, _ = draw_charts(score)
    if len(score.groups) == 1:
        charts.pop("cost_pass_rate", None)  # a single point, which the cards show better
    return {name: make_page_figure(name, chart) for name, chart in charts.items()}


def get_site(request: Request) -> Site:
    """Return the site that answers a request."""
    found: Site = request.app.state.site
    return found


SiteHere = Annotated[Site, Depends(get_site)]


def get_query(request: Request, without: Collection[str] = ()) -> Query:
    """Return the query in an address, but for parameters that are the page's own."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    return read_query(pair for pair in pairs if pair[0] not in without)


def redirect_form(request: Request, query: Query) -> Response | None:
    """Return a redirect from the form for a further filter to the address of that view, or None."""
    if "add_field" not in request.query_params:
        return None
    return RedirectResponse(f"{request.url.path}{query.to_url()}", 303)


def format_cell(value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and isinf(value):
        return format_figure(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{int(value):,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def format_size(count: int) -> str:
    """Return a number of bytes in words."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
