"""The estimate of a run, and the summary of a finished one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.reports.documents import make_document
from calipers.reports.figures import NOTHING, strip_controls
from calipers.reports.progress import format_dollars
from calipers.reports.scores import as_percentages
from calipers.reports.table import Document, Table, make_columns, make_lines, make_rows

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.systems.estimate import SuiteEstimate

_ESTIMATE = make_columns(
    *("system", "calls", "input tokens", "output tokens", "input", "at most", "price"),
    texts=("price",),
    where="all",
)


def estimate_document(estimate: SuiteEstimate, *, may_end_early: bool = False) -> Document:
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
    return (Table(columns=_ESTIMATE, rows=rows), *make_lines(said))


def make_run_document(result: RunResult) -> Document:
    """Return the score and the verdict of a run, then its counts and failures."""
    outcome = (block for document in list_outcomes(result) for block in document)
    return (*outcome, *make_lines([run_summary(result), *list_failures(result)]))


def list_outcomes(result: RunResult) -> Iterator[Document]:
    """Yield the score, the verdict, and which system is better, as far as a run has them."""
    if result.score is not None:
        document = make_document(result.score)
        # Beside a verdict, ratios have its form: percent.
        yield document if result.gate is None else as_percentages(document)
    if result.gate is not None:
        yield make_document(result.gate)
    if result.better is not None:
        yield make_lines([strip_controls(result.better.says)])


def list_failures(result: RunResult) -> Iterator[str]:
    """Yield how many calls failed in which way, with the most frequent message of each."""
    if result.errors and result.errors == result.done:
        yield "all calls failed; most frequent error:"
    for count, message in result.failures:
        yield f"{count:,} × {strip_controls(message)}"


def run_summary(result: RunResult) -> str:
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


def reuse_line(result: RunResult) -> str | None:
    """Return that every answer was there already; None where a call was made or is missing."""
    if result.new or not result.reused or result.missing or result.errors:
        return None
    return f"nothing new to call: {_count_answers(result.reused)} reused; --fresh calls again"


def _count_answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count:,} answers"
