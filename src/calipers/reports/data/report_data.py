"""The data of a report: the score, the verdict, the failures, and samples to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, require_extra
from calipers.support.files import write_whole
from calipers.support.printing import Tabular

if TYPE_CHECKING:
    import polars as pl

    from calipers.comparisons.rank_result import Ranking
    from calipers.gates.result import GateResult
    from calipers.reports.charts.chart import Chart
    from calipers.reports.data.answers_matrix import AnswersMatrix
    from calipers.reports.data.transcript import Turn
    from calipers.scores.result import Score

SCHEMA = "calipers.report/1"
NOT_RANKED = "the systems are not ranked"  # how the notice begins that says why
WRONG = "wrong"  # instead of the kind of an error: the call succeeded

SampleKind = Literal["wrong", "failed", "right", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One record, as a person reads it."""

    kind: SampleKind
    id: str
    by: Mapping[str, Any]  # whose it is: model, tier, run, category, as far as they are known
    texts: Mapping[str, str]  # input, target, answer, cot, error, …
    numbers: Mapping[str, float]  # prob_correct, latency_ms, …
    turns: tuple[Turn, ...] = ()  # the conversation

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one record; pictures stay out of it."""
        found = {"kind": self.kind, "id": self.id, "by": dict(self.by)}
        return {**found, "texts": dict(self.texts), "numbers": dict(self.numbers)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Records that went wrong in one way: how many there are, and the ids of the first."""

    what: str
    by: Mapping[str, Any]
    records: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """How many runs of a task are right: of all systems, and of each."""

    id: str
    right: int
    runs: int
    by_system: Mapping[tuple[str | None, ...], tuple[int, int]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one task."""
        systems = [
            {"system": list(key), "right": right, "runs": runs}
            for key, (right, runs) in sorted(self.by_system.items(), key=str)
        ]
        return {"id": self.id, "right": self.right, "runs": self.runs, "systems": systems}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Tabular):
    """Everything a report shows. Saves as HTML or Markdown, shows as HTML in a notebook."""

    title: str
    facts: Mapping[str, str]  # what was measured, when, with what
    score: Score
    gate: GateResult | None = None
    incomplete: str | None = None  # what a run without a verdict lacks
    ranking: Ranking | None = None  # of several systems, by the main metric
    pair: Ranking | None = None  # of two systems, by the other metrics that matter
    breakdowns: Mapping[str, Score] = field(default_factory=dict)  # by a field, within the groups
    tasks: tuple[TaskOutcome, ...] = ()  # those solved least often
    n_tasks: int = 0  # of all of them
    answers: AnswersMatrix | None = None  # of the tasks that tell systems apart, and others
    failures: tuple[Failure, ...] = ()
    samples: tuple[Sample, ...] = ()
    kinds: Mapping[SampleKind, int] = field(default_factory=dict)  # of all records
    notices: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to show."""
        return EXIT_PASS if self.score.records else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the report as Python values."""
        return {
            "schema": SCHEMA,
            "title": self.title,
            "facts": dict(self.facts),
            "score": self.score.to_dict(),
            "gate": None if self.gate is None else self.gate.to_dict(),
            "incomplete": self.incomplete,
            "ranking": None if self.ranking is None else self.ranking.to_dict(),
            "breakdowns": {name: each.to_dict() for name, each in self.breakdowns.items()},
            "tasks": [each.to_dict() for each in self.tasks],
            "n_tasks": self.n_tasks,
            "failures": [asdict(each) for each in self.failures],
            "samples": [each.to_dict() for each in self.samples],
            "notices": list(self.notices),
        }

    def to_polars(self) -> pl.DataFrame:
        """Return the score as a table, a row per group and metric."""
        return self.score.to_polars()

    def to_html(self) -> str:
        """Return one self-contained page: it opens from disk and without a network."""
        require_report("an HTML report")
        from calipers.reports.pages.report_page import render_report_page  # noqa: PLC0415 (loads Jinja)

        return render_report_page(self)

    def to_markdown(self) -> str:
        """Return the report as text tables, for a pull request or an appendix."""
        from calipers.reports.report_parts import render_report_markdown  # noqa: PLC0415

        return render_report_markdown(self)

    def save(self, path: str | Path) -> Path:
        """Write HTML, or Markdown to a file that ends in .md; give back where."""
        place = Path(path)
        text = self.to_markdown() if place.suffix == ".md" else self.to_html()
        write_whole(place, text)
        return place

    def charts(self) -> dict[str, Chart]:
        """Return the figures of the report by name."""
        require_report("charts")
        from calipers.reports.report_parts import draw_report  # noqa: PLC0415

        return draw_report(self)

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Write each figure as SVG, PDF and PNG; return the files."""
        charts = self.charts()
        from calipers.reports.charts.chart import save_charts  # noqa: PLC0415

        return save_charts(charts, Path(folder))

    def save_bundle(self, folder: str | Path) -> list[Path]:
        """Write what a paper needs: tables, figures and a methods paragraph; return the files."""
        require_report("a bundle")
        from calipers.reports.bundle import write_bundle  # noqa: PLC0415

        return write_bundle(self, Path(folder))

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        parts = (self.gate, self.score)
        return "".join(part._repr_html_() for part in parts if part is not None)


def require_report(what: str) -> None:
    """Raise MissingExtraError if the packages that make pages are not installed."""
    require_extra(
        f"{what}: Jinja or vl-convert is not installed",
        extra="report",
        modules=("jinja2", "vl_convert"),
    )
