"""The results of a run: the score, the verdict, and how to continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.engines.features import watch_groups
from calipers.gates.decide import GateQuestion, ask_gate, decide
from calipers.gates.gate_options import GateOptions
from calipers.gates.result import Early, GateResult
from calipers.records.fields import USUAL_GROUPS
from calipers.records.result_folder import BETTER, GATE, RECORDS, REPORT, SCORE
from calipers.runs.folder import Folder
from calipers.runs.prepare import read_suite_options
from calipers.runs.resume import State
from calipers.runs.run_options import GateRequest, ReportOptions
from calipers.runs.suite import Suite, list_distinguishing_fields, list_gate_fields
from calipers.scores.options import Options
from calipers.scores.read_once import read_once
from calipers.scores.result import Score
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, CalipersError, DataError
from calipers.support.printing import Printed, Tabular

if TYPE_CHECKING:
    import polars as pl

    from calipers.comparisons.sequential_pair import Better
    from calipers.reports.data.report_builder import ReportPage

_COUNTS = (
    *("calls", "done", "errors", "missing", "new", "reused", "truncated"),
    *("cost_usd", "judging_usd", "user_usd", "stopped"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Printed, Tabular):
    """What a run came to: counts over all runs of the folder, the score, the verdict."""

    folder: Path
    calls: int
    done: int
    errors: int
    missing: int
    new: int  # answers of this run
    reused: int  # answers that were in the folder before
    truncated: int = 0  # replies that were cut off
    cost_usd: float | None
    judging_usd: float = 0.0  # what the judges cost beside that, as far as it is known
    user_usd: float = 0.0  # what the simulated user cost beside that, as far as it is known
    failures: tuple[tuple[int, str], ...] = ()  # how many calls failed in each way
    stopped: str | None = None  # why it ended before its time
    score: Score | None = None
    gate: GateResult | None = None
    better: Better | None = None  # which of two systems is, where that was asked
    notices: tuple[str, ...] = ()

    @property
    def records(self) -> pl.DataFrame:
        """Return the records of the folder, a row per finished call."""
        from calipers.records.convert import read  # noqa: PLC0415 (only where they are asked for)

        return read(self.folder / RECORDS)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the score and the verdict as Python values."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "folder": str(self.folder),
            "failures": [{"count": count, "error": error} for count, error in self.failures],
            "score": None if self.score is None else self.score.to_dict(),
            "gate": None if self.gate is None else self.gate.to_dict(),
            **({} if self.better is None else {"better": self.better.to_dict()}),
            "notices": list(self.notices),
        }

    def to_polars(self) -> pl.DataFrame:
        """Return the records of the folder as a table."""
        return self.records

    @property
    def was_decided_early(self) -> bool:
        """Return True if calls were left out because the verdict was sure without them."""
        if self.better is not None:
            return self.better.stopped
        early = None if self.gate is None else self.gate.early
        return early is not None and early.stopped

    @property
    def is_incomplete(self) -> bool:
        """Return True if running again may complete the results."""
        if self.gate is not None:
            return bool(self.gate.incomplete)
        if self.better is not None:
            return not self.better.is_over
        return bool(self.errors or self.missing)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 the gate failed, 3 incomplete."""
        if self.gate is not None:
            return self.gate.exit_code
        return EXIT_INCOMPLETE if self.is_incomplete else EXIT_PASS


def finish_run(
    suite: Suite,
    base: Path,
    folder: Folder,
    state: State,
    *,
    answers: Mapping[str, int],
    stopped: str | None,
    interrupted: bool,
    notices: Sequence[str],
    early: Early | None = None,
    better: Better | None = None,
    report: bool = True,
    request: GateRequest | None = None,
) -> RunResult:
    """Score and decide on what the journal holds; whoever interrupts does not wait for that."""
    score = gate = None
    if state.tally.done and not interrupted:
        if better is not None:
            folder.write_json(BETTER, better.to_dict())
        asked = _Asked.of(suite, base, state, early, request)
        try:
            score, gate, gate_notices = _measure(folder, asked, report=report)
        except DataError as error:
            if not report:
                raise
            score, gate, _ = _measure(folder, asked, report=False)  # the run counts, not the page
            gate_notices = [_explain_no_report(error)]
        notices = (*notices, *gate_notices)
    tally = state.tally
    return RunResult(
        folder=folder.path,
        calls=tally.calls,
        done=tally.done,
        errors=tally.errors,
        missing=state.missing,
        new=answers["new"],
        reused=answers["reused"],
        truncated=tally.truncated,
        cost_usd=(tally.cost_usd - tally.judging_usd - tally.user_usd if tally.priced else None),
        judging_usd=tally.judging_usd,
        user_usd=tally.user_usd,
        failures=tally.failures,
        stopped=stopped,
        score=score,
        gate=gate,
        better=better,
        notices=tuple(dict.fromkeys(_list_notices(notices, score, gate, early or better))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a suite asks of its records: a score, and perhaps a verdict."""

    options: Options
    gate: GateQuestion | None

    @classmethod
    def of(
        cls,
        suite: Suite,
        base: Path,
        state: State,
        early: Early | None,
        request: GateRequest | None = None,
    ) -> _Asked:
        """Return what is asked; the policy applies to each system in each tier."""
        by = list_distinguishing_fields(suite, least=1)
        if suite.policy is None:
            return cls(options=read_suite_options(suite, base, by=by), gate=None)
        lacking = state.missing and not (early is not None and early.stopped)
        also = (f"{state.missing:,} calls were not made",) if lacking else ()
        request = request or GateRequest(options=GateOptions(policy=base / suite.policy))
        fields = tuple(dict.fromkeys((*list_gate_fields(suite), *request.by)))
        question = ask_gate(
            replace(request.options, incomplete=also, early=early),
            read_suite_options(suite, base, by=fields),
        )
        # With the calibrations it shows judged means without the judge's error too.
        options = read_suite_options(suite, base, by=by, calibrations=question.calibrations)
        return cls(options=options, gate=question)


def _measure(
    folder: Folder, asked: _Asked, *, report: bool
) -> tuple[Score, GateResult | None, list[str]]:
    """Read the journal once: write the score, the verdict and the report; say what is missing."""
    question = asked.gate
    page = _open_report_page(asked.options) if report else None
    watches = [] if page is None else [page.watch]
    questions = [asked.options, *(() if page is None else page.questions)]
    by = asked.options.by
    if question is not None:
        fields = question.options.by
        by = tuple(dict.fromkeys((*by, *fields)))
        questions.append(question.options)
        watches.append(watch_groups(question.table.watch, fields, None))
    journal = str(folder.journal)
    with read_once(journal, questions, by=by, by_if_few=USUAL_GROUPS, watches=watches) as read:
        with suppress(Exception):  # what fails here fails again below, and is told there
            gated = () if question is None else (question.options,)
            read.measure([asked.options, *gated, *(() if page is None else (page.options,))])
        score = read.score(asked.options)
        folder.write(SCORE, score.to_json() + "\n")
        gate = None if question is None else decide(question, read.score(question.options))
        if gate is not None:
            folder.write(GATE, gate.to_json() + "\n")
        if page is None:
            return score, gate, []
        try:
            folder.write(REPORT, page.make(read, journal, folder.path, gate).to_html())
        except Exception as error:  # noqa: BLE001 (the run counts, not the page)
            return score, gate, [_explain_no_report(error)]
    return score, gate, []


def _open_report_page(options: Options) -> ReportPage:
    from calipers.reports.data.report_builder import ReportPage  # noqa: PLC0415 (shows what a run is)

    return ReportPage(ReportOptions(), replace(options, by=()))


def _explain_no_report(error: Exception) -> str:
    """Return why there is no report, which a run does not depend on."""
    if isinstance(error, CalipersError):
        return f"no {REPORT}: {error.message}; {error.fix}"
    return f"no {REPORT}: {type(error).__name__}: {error}"


def _list_notices(
    notices: Sequence[str],
    score: Score | None,
    gate: GateResult | None,
    early: Early | Better | None,
) -> Iterator[str]:
    """Yield the notices of the run, the score and the gate."""
    yield from notices
    yield from score.notices if score is not None else ()
    yield from gate.notices if gate is not None else ()
    yield from _note_part(early)


def _note_part(early: Early | Better | None) -> Iterator[str]:
    if early is not None and early.stopped:
        when = "it was decided; those of the decision do"
        if isinstance(early, Early):
            when = "the gate was decided; those of the gate do"
        yield (
            "the score is of the part that was run: its intervals do not know that the run ended "
            f"when {when}"
        )
