"""Replies that were cut off."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor import facts as f
from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_LEAST, _MUCH = 5, 0.01  # replies of exactly the greatest length
_SHORT = 100  # characters: shorter texts share their length by chance
_FEW_TOKENS = 16
_MID_WORD = 0.8  # of them end in the middle of a sentence
_FIX = "raise max_tokens, and call the truncated replies again"


class Truncated(FindingKind):
    """Replies whose finish_reason is length, or that end mid-sentence at one same length."""

    name = "truncated replies"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per system, by the best evidence that there is."""
        for system, rows in facts.by_system().items():
            told = rows.filter(f.TRUNCATED)
            if told.height:
                says = f"{share_of(told.height, rows.height)} replies ended at the token limit "
                says += "(finish_reason is length)"
                yield self._make_finding(facts, system, told, rows, says)
                continue
            for length, mid_word, unit in (
                (f.CHARS, f.MID_WORD, "characters"),
                (f.COT_CHARS, f.COT_MID_WORD, "characters of reasoning"),
                (f.COMPLETION, None, "tokens"),
            ):
                cut = _cut_at_the_longest(rows, length, mid_word)
                if cut is not None:
                    longest = int(cut[length][0])
                    says = f"{share_of(cut.height, rows.height)} replies have exactly {longest:,} "
                    says += f"{unit}, which none exceeds: they look cut off"
                    yield self._make_finding(facts, system, cut, rows, says)
                    break

    def _make_finding(
        self, facts: Facts, system: str, cut: pl.DataFrame, rows: pl.DataFrame, says: str
    ) -> Finding:
        return Finding(
            kind=self.name,
            severity="warning",
            says=says,
            fix=_FIX,
            count=cut.height,
            of=rows.height,
            system=facts.named(system),
            examples=facts.examples(cut),
        )


def _cut_at_the_longest(
    rows: pl.DataFrame, length: str, mid_word: str | None
) -> pl.DataFrame | None:
    """Return the replies of the greatest length, where they are many, differ, and end mid-word."""
    known = rows.drop_nulls(length)
    longest = float(known.select(pl.col(length).cast(pl.Float64).max()).item() or 0)
    if longest < (_FEW_TOKENS if mid_word is None else _SHORT):
        return None
    cut = known.filter(pl.col(length) == longest)
    if cut.height < max(_LEAST, _MUCH * known.height) or cut.height == known.height:
        return None
    if mid_word is None:
        # A cap stands out: the next shorter lengths are rarer by far.
        near = known.filter(pl.col(length) >= 0.9 * longest).height - cut.height
        return cut if near < cut.height else None
    texts = cut[f.ANSWER].n_unique() if length == f.CHARS else cut[f.TASK].n_unique()
    ends = cut[mid_word].mean()
    is_cut = texts >= _LEAST and isinstance(ends, float) and ends >= _MID_WORD
    return cut if is_cut else None
