"""Texts in pieces as pages show them: a chain of thought with its marks, two texts word by word."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from calipers.metrics.declare.settings import Settings
from calipers.metrics.equations.arithmetic import Verdict
from calipers.metrics.equations.parser import find_equations
from calipers.metrics.families.reasoning import find_corrections, mark_steps
from calipers.metrics.grounding.support import judge_text, list_passages
from calipers.records.derived_fields import PASSAGES, complete_row
from calipers.records.fields import dump_json

LONGEST_TEXT = 50_000  # characters that a page shows of a text
MOST_WORDS = 4_000  # of both texts; beyond it the work would grow too fast
_MOST_PASSAGES, _MOST_STATEMENTS = 1_000, 200
_WORD = re.compile(r"\s+|\w+|[^\w\s]")

CORRECTION, WRONG, ROUNDED, RIGHT = "correction", "wrong", "rounded", "right"
_MARK = {Verdict.WRONG: WRONG, Verdict.ROUNDED: ROUNDED, Verdict.RIGHT: RIGHT}
_HOW = {
    CORRECTION: "corrects itself",
    WRONG: "a wrong equation",
    ROUNDED: "an equation that holds after rounding",
    RIGHT: "a right equation",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text with one mark, or none."""

    text: str
    mark: str | None = None

    @property
    def says(self) -> str | None:
        """What the mark says."""
        return None if self.mark is None else _HOW[self.mark]


@dataclass(frozen=True, slots=True)
class ThoughtLine:
    """A line of a chain of thought; steps are numbered."""

    step: int | None
    pieces: tuple[Piece, ...]


def mark_thought(cot: str, settings: Settings | None = None) -> list[ThoughtLine]:
    """Return the lines with their marks; the metrics' own functions decide what is marked."""
    if len(cot) > LONGEST_TEXT:
        rest = Piece(f"… ({len(cot) - LONGEST_TEXT:,} more characters)")
        return [*mark_thought(cot[:LONGEST_TEXT], settings), ThoughtLine(None, (rest,))]
    spans = [(start, end, _MARK[verdict]) for start, end, verdict in find_equations(cot)]
    spans += [(start, end, CORRECTION) for start, end in find_corrections(cot, settings)]
    spans = _resolve_overlaps(sorted(spans, key=lambda span: (span[0], -_WEIGHT[span[2]])))
    starts, ends = [span[0] for span in spans], [span[1] for span in spans]
    lines, at, step = [], 0, 0
    for is_step, line in mark_steps(cot, settings):
        step += is_step
        end = at + len(line)
        here = spans[bisect_right(ends, at) : bisect_left(starts, end)]
        pieces = tuple(_cut_pieces(cot, at, end, here))
        lines.append(ThoughtLine(step if is_step else None, pieces))
        at = end + (2 if cot.startswith("\r\n", end) else 1)
    return lines


_WEIGHT = {RIGHT: 0, ROUNDED: 0, CORRECTION: 1, WRONG: 2}

Span = tuple[int, int, str]


def _resolve_overlaps(spans: Sequence[Span]) -> list[Span]:
    """Return spans that do not overlap: of two, a wrong one wins over a right one."""
    kept: list[Span] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
        elif _WEIGHT[span[2]] > _WEIGHT[kept[-1][2]]:
            start, _, mark = kept.pop()
            if start < span[0]:
                kept.append((start, span[0], mark))
            kept.append(span)
    return kept


def _cut_pieces(text: str, start: int, end: int, spans: Sequence[Span]) -> Iterator[Piece]:
    at = start
    for first, last, mark in spans:
        first, last = max(first, start), min(last, end)  # noqa: PLW2901 (cut to the line)
        if first >= last or first < at:
            continue
        if at < first:
            yield Piece(text[at:first])
        yield Piece(text[first:last], mark)
        at = last
    if at < end:
        yield Piece(text[at:end])


@dataclass(frozen=True, slots=True)
class GroundedStatement:
    """A statement of an answer, and what the passages hold of it."""

    text: str
    is_supported: bool
    support: float
    number: int | None  # of the nearest passage, from 1
    passage: str
    missing: tuple[str, ...]  # stems that no passage holds


def judge_statements(record: Mapping[str, Any], settings: Settings) -> list[GroundedStatement]:
    """Return the statements of a record's text with their support; none without passages."""
    row = complete_row(record, (PASSAGES,))
    text, field = row.get(settings.rag_text), row.get(PASSAGES)
    if not isinstance(text, str) or field is None:
        return []
    given = field if isinstance(field, str) else dump_json(field)
    passages = [each[:LONGEST_TEXT] for each in list_passages(given)[:_MOST_PASSAGES]]
    text = text[:LONGEST_TEXT]
    return [
        GroundedStatement(
            text[each.statement.start : each.statement.end],
            each.is_supported,
            each.support,
            None if each.nearest is None else each.nearest + 1,
            "" if each.nearest is None else passages[each.nearest],
            tuple(sorted(each.missing)),
        )
        for each in judge_text(text, passages)[:_MOST_STATEMENTS]
    ]


@dataclass(frozen=True, slots=True)
class WordRun:
    """Some words that are in both texts, or in one of them."""

    text: str
    changed: bool


def diff_words(first: str, second: str) -> tuple[list[WordRun], list[WordRun]]:
    """Return both texts in runs of words; very long ones are shown undivided."""
    ours, theirs = _WORD.findall(first), _WORD.findall(second)
    if len(ours) + len(theirs) > MOST_WORDS:
        changed = first != second
        return [WordRun(first, changed)], [WordRun(second, changed)]
    left: list[WordRun] = []
    right: list[WordRun] = []
    matcher = SequenceMatcher(a=ours, b=theirs, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        changed = kind != "equal"
        left += [WordRun("".join(ours[a:b]), changed)] if a < b else []
        right += [WordRun("".join(theirs[c:d]), changed)] if c < d else []
    return left, right
