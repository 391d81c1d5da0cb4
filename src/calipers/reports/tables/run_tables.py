"""A run on the terminal: what it would take, its progress, and the summary at its end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from calipers.reports.number_format import (
    NOTHING,
    format_dollars,
    format_figure,
    strip_controls,
)
from calipers.reports.table import Document, Table, make_columns, make_lines, make_rows
from calipers.reports.tables.gate_tables import list_policy_metrics, make_gate_document
from calipers.reports.tables.score_tables import make_score_document
from calipers.statistics.intervals import wilson

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.systems.budget import SuiteEstimate
    from calipers.systems.journal import Tally

_LINE_EVERY = 10.0  # seconds, where there is no terminal
_CONFIDENCE = 0.95
_MINUTE = 60


@contextmanager
def watch_run(tally: Tally) -> Iterator[None]:
    """Show a live view on a terminal, else a line now and then; both on stderr."""
    if sys.stderr.isatty():
        with _show_live(tally):
            yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_say_lines, args=(tally, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show_live(tally: Tally) -> AbstractContextManager[object]:
    """Return what shows a bar and a line of counts on stderr while its block runs."""
    from rich.console import Console, RenderableType  # noqa: PLC0415 (only on a terminal)
    from rich.live import Live  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def draw() -> RenderableType:
        view = Grid.grid()
        view.add_row(ProgressBar(total=tally.calls, completed=tally.done, width=40))
        view.add_row(Text(format_progress(tally)))
        return view

    console = Console(stderr=True)
    return Live(
        get_renderable=draw,
        console=console,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
    )


def _say_lines(tally: Tally, over: threading.Event) -> None:
    while not over.wait(_LINE_EVERY):
        sys.stderr.write(f"{format_progress(tally)}\n")
        sys.stderr.flush()


def format_progress(tally: Tally) -> str:
    """Return a line such as `120/400 calls, 2 failed, 31,200 tokens, $0.0123, 20 s left`."""
    said = [f"{tally.done:,}/{tally.calls:,} calls"]
    if tally.errors:
        said.append(f"{tally.errors:,} failed")
    if tally.truncated:
        said.append(f"{tally.truncated:,} truncated")
    if tally.tokens:
        said.append(f"{tally.tokens:,.0f} tokens")
    if tally.priced:
        said.append(format_dollars(tally.cost_usd))
    if tally.rate > 0:
        said.append(f"{tally.rate:,.1f} calls/s")
        said.append(f"{_format_time(tally.seconds_left or 0)} left")
    if tally.decided:
        share = tally.right / tally.decided
        # Runs of one task are taken for independent here; the score at the end knows better.
        around = wilson(share, tally.decided, 0.0, tally.decided, _CONFIDENCE)
        said.append(f"accuracy {format_figure(share, around.low, around.high)}")
    return ", ".join(said)


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


_ESTIMATE_COLUMNS = make_columns(
    *("system", "calls", "input tokens", "output tokens", "input", "at most", "price"),
    texts=("price",),
    where="all",
)


def make_estimate_document(estimate: SuiteEstimate, *, may_end_early: bool = False) -> Document:
    """Return what a suite would take, a row per system."""
    rows = make_rows(
        (
            each.name,
            each.calls,
            NOTHING if each.input_tokens is None else f"≈ {each.input_tokens:,}",
            NOTHING if each.output_tokens is None else f"≤ {each.output_tokens:,}",
            NOTHING if each.input_usd is None else f"≈ {format_dollars(each.input_usd)}",
            NOTHING if each.most_usd is None else f"≈ {format_dollars(each.most_usd)}",
            each.price,
        )
        for each in estimate.systems
    )
    how_many = "at most, fewer where it is decided before" if may_end_early else "in all"
    calls = "1 call" if estimate.calls == 1 else f"{estimate.calls:,} calls"
    said = [f"{calls} {how_many}; nothing was called"]
    if any(
        each.input_tokens is not None and each.output_tokens is None for each in estimate.systems
    ):
        said.append("without max_tokens in settings, the length of replies is not bounded")
    return (Table(columns=_ESTIMATE_COLUMNS, rows=rows), *make_lines(said))


def make_run_document(result: RunResult) -> Document:
    """Return the score and the verdict of a run, then its counts and failures."""
    outcome = (block for document in list_outcomes(result) for block in document)
    return (*outcome, *make_lines([summarize_run(result), *list_failures(result)]))


def list_outcomes(result: RunResult) -> Iterator[Document]:
    """Yield the score, the verdict, and which system is better, as far as a run has them."""
    if result.score is not None:
        yield make_score_document(result.score, list_policy_metrics(result.gate))
    if result.gate is not None:
        yield make_gate_document(result.gate, result.score)
    if result.better is not None:
        yield make_lines([strip_controls(result.better.says)])


def list_failures(result: RunResult) -> Iterator[str]:
    """Yield how many calls failed in which way, with the most frequent message of each."""
    if result.errors and result.errors == result.done:
        yield "all calls failed; most frequent error:"
    for count, message in result.failures:
        yield f"{count:,} × {strip_controls(message)}"


def summarize_run(result: RunResult) -> str:
    """Return `results/sums: 390 of 390 calls, 2 of them failed, 88 answers new, 300 reused`."""
    said = f"{result.done:,} of {result.calls:,} calls"
    if result.errors:
        said += f", {result.errors:,} of them failed"
    if result.truncated:
        replies = "reply" if result.truncated == 1 else "replies"
        said += f", {result.truncated:,} {replies} truncated"
    said += f", {_count_answers(result.new)} new, {result.reused:,} reused"
    if result.cost_usd is not None:
        said += f", {format_dollars(result.cost_usd)}"
    if result.judging_usd:
        said += f" and {format_dollars(result.judging_usd)} for judges"
    if result.user_usd:
        said += f" and {format_dollars(result.user_usd)} for the simulated user"
    return f"{strip_controls(result.folder)}: {said}"


def describe_reuse(result: RunResult) -> str | None:
    """Return that every answer was there already; None where a call was made or is missing."""
    if result.new or not result.reused or result.missing or result.errors:
        return None
    return f"nothing new to call: {_count_answers(result.reused)} reused; --fresh calls again"


def _count_answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count:,} answers"
