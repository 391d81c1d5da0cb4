"""What a run leaves behind: the score, the verdict, and how to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.gates.decide import GateOptions, gate_data
from calipers.gates.early import Early
from calipers.gates.policy import read_policy
from calipers.gates.result import GateResult
from calipers.records.result_folder import GATE, RECORDS, REPORT, SCORE
from calipers.runs.folder import Folder
from calipers.runs.metric_settings import suite_options
from calipers.runs.present import ReportOptions, report_data
from calipers.runs.report_data import need_report
from calipers.runs.state import State
from calipers.runs.suite import Suite
from calipers.scores.calibration import Calibration, read_all
from calipers.scores.options import Options
from calipers.scores.results import Score
from calipers.scores.score import score_data
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, CalipersError
from calipers.support.tabular import Tabular

if TYPE_CHECKING:
    import polars as pl


_COUNTS = (
    *("calls", "done", "errors", "missing", "new", "reused", "truncated"),
    *("cost_usd", "judging_usd", "stopped"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Tabular):
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
    failures: tuple[tuple[int, str], ...] = ()  # how many calls failed in each way
    stopped: str | None = None  # why it ended before its time
    score: Score | None = None
    gate: GateResult | None = None
    notices: tuple[str, ...] = ()

    @property
    def records(self) -> pl.DataFrame:
        """Return the records of the folder, a row per finished call."""
        from calipers.records.api import read  # noqa: PLC0415 (only where they are asked for)

        return read(self.folder / RECORDS)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the score and the verdict as Python values."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "folder": str(self.folder),
            "failures": [{"count": count, "error": error} for count, error in self.failures],
            "score": None if self.score is None else self.score.to_dict(),
            "gate": None if self.gate is None else self.gate.to_dict(),
            "notices": list(self.notices),
        }

    def to_polars(self) -> pl.DataFrame:
        """Return the records of the folder as a table."""
        return self.records

    @property
    def was_decided_early(self) -> bool:
        """Say whether calls were left out because the verdict was sure without them."""
        early = None if self.gate is None else self.gate.early
        return early is not None and early.stopped

    @property
    def is_incomplete(self) -> bool:
        """Say whether to run again may bring what is missing."""
        if self.gate is not None:
            return bool(self.gate.incomplete)
        return bool(self.errors or self.missing)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 the gate failed, 3 incomplete."""
        if self.gate is not None:
            return self.gate.exit_code
        return EXIT_INCOMPLETE if self.is_incomplete else EXIT_PASS


def ended(
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
    report: bool = True,
) -> RunResult:
    """Score and decide on what the journal holds; whoever interrupts does not wait for that."""
    score = gate = None
    if state.tally.done and not interrupted:
        options = suite_options(
            suite, base, by=_by(suite, least=1), calibrations=_calibrations(suite, base)
        )
        score = score_data(str(folder.journal), options)
        folder.write(SCORE, score.to_json() + "\n")
        if suite.policy is not None:
            gate = _decided(suite, base, folder, state, early)
            folder.write(GATE, gate.to_json() + "\n")
        notices = (*notices, *(_reported(folder, gate, options) if report else ()))
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
        cost_usd=tally.cost_usd - tally.judging_usd if tally.priced else None,
        judging_usd=tally.judging_usd,
        failures=tally.failures,
        stopped=stopped,
        score=score,
        gate=gate,
        notices=tuple(dict.fromkeys(_notices(notices, score, gate, early))),
    )


def _reported(folder: Folder, gate: GateResult | None, options: Options) -> list[str]:
    """Write the report; a run is as good without one, and then says why there is none."""
    try:
        need_report(REPORT)
        made = report_data(folder.path, ReportOptions(), replace(options, by=()), gate=gate)
        folder.write(REPORT, made.to_html())
    except CalipersError as error:
        return [f"no {REPORT}: {error.message}; {error.fix}"]
    except Exception as error:  # noqa: BLE001 (the run counts, not the page)
        return [f"no {REPORT}: {type(error).__name__}: {error}"]
    return []


def _notices(
    notices: Sequence[str], score: Score | None, gate: GateResult | None, early: Early | None
) -> Iterator[str]:
    """What is to be told, of the run, the score and the gate."""
    yield from notices
    yield from score.notices if score is not None else ()
    yield from gate.notices if gate is not None else ()
    yield from _of_a_part(early)


def _of_a_part(early: Early | None) -> Iterator[str]:
    if early is not None and early.stopped:
        yield (
            "the score is of the part that was run: its intervals do not know that the run ended "
            "when the gate was decided; those of the gate do"
        )


def gate_fields(suite: Suite) -> tuple[str, ...]:
    """The fields whose groups the gate decides on one by one."""
    return _by(suite, least=2)


def _calibrations(suite: Suite, base: Path) -> tuple[Calibration, ...]:
    """Those of the policy: the score shows judged means without the judge's error too."""
    if suite.policy is None:
        return ()
    return read_all(read_policy(base / suite.policy).judges.calibrations)


def _by(suite: Suite, *, least: int) -> tuple[str, ...]:
    """The fields that tell a suite's results apart, where there are so many of them."""
    model = ("model",) if len(suite.systems) >= least else ()
    return (*model, *(("tier",) if len(suite.tiers) >= least else ()))


def _decided(
    suite: Suite, base: Path, folder: Folder, state: State, early: Early | None
) -> GateResult:
    """Hold each system, in each tier, against the policy."""
    assert suite.policy is not None
    lacking = state.missing and not (early is not None and early.stopped)
    also = (f"{state.missing:,} calls were not made",) if lacking else ()
    return gate_data(
        str(folder.journal),
        base / suite.policy,
        GateOptions(incomplete=also, early=early),
        suite_options(suite, base, by=gate_fields(suite)),
    )
