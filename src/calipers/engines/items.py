"""Tasks as items of a test: how hard each is, and how well it tells systems apart.

A system is a group, and scores on a task the share of its runs that passed (or were right). The
numbers are over the systems that have the task, and the same in each of its rows:

- `difficulty`: 1 minus the mean of their scores;
- `discrimination`: the correlation between their scores and their means over all other tasks (the
  item-rest point-biserial), null for fewer than five systems, or where either does not vary;
- `solved_by`: nobody, some or everybody, over all runs;
- `duplicate_of`: the first id whose input is the same text.
"""

from __future__ import annotations

import polars as pl

from calipers.engines.item_counts import FEWEST_SYSTEMS, Items
from calipers.engines.per_task import ID, PASSES, VERDICTS, same_input
from calipers.metrics.declare.declaration import GROUP

DIFFICULTY, DISCRIMINATION = "difficulty", "discrimination"
SOLVED_BY, DUPLICATE_OF = "solved_by", "duplicate_of"
NOBODY, SOME, EVERYBODY = "nobody", "some", "everybody"
_SCORE, _REST = "_score", "_rest"
_SAME = 1e-9  # what rounding may leave of scores that are all the same


def add_items(totals: pl.LazyFrame) -> tuple[pl.LazyFrame, list[str]]:
    """Return totals of each group's tasks with the numbers of items, and the names of these."""
    names = []
    has_inputs = same_input.name in totals.collect_schema().names()
    known = [pl.col(VERDICTS).sum(), *([pl.col(same_input.name).count()] if has_inputs else [])]
    verdicts, *inputs = totals.select(known).collect().row(0)
    if verdicts:
        totals = _add_statistics(totals)
        names += [DIFFICULTY, DISCRIMINATION, SOLVED_BY]
    if any(inputs):
        first = pl.col(ID).min().over(same_input.name)
        is_copy = pl.col(same_input.name).is_not_null() & (first != pl.col(ID))
        totals = totals.with_columns(pl.when(is_copy).then(first).alias(DUPLICATE_OF))
        names += [DUPLICATE_OF]
    return totals, names


def _add_statistics(totals: pl.LazyFrame) -> pl.LazyFrame:
    known, right, score = pl.col(VERDICTS), pl.col(PASSES), pl.col(_SCORE)
    others = score.count().over(GROUP) - 1
    rest = pl.when(others > 0).then((score.sum().over(GROUP) - score) / others)
    scored = totals.with_columns(pl.when(known > 0).then(right / known).alias(_SCORE))
    scored = scored.with_columns(rest.alias(_REST))
    all_right, all_known = right.sum().over(ID), known.sum().over(ID)
    solved = (
        pl.when(all_known == 0)
        .then(None)
        .when(all_right == 0)
        .then(pl.lit(NOBODY))
        .when(all_right == all_known)
        .then(pl.lit(EVERYBODY))
        .otherwise(pl.lit(SOME))
    )
    return scored.with_columns(
        (1 - score.mean().over(ID)).alias(DIFFICULTY),
        _correlate(score, pl.col(_REST)).alias(DISCRIMINATION),
        solved.alias(SOLVED_BY),
    ).drop(_SCORE, _REST)


def _correlate(score: pl.Expr, rest: pl.Expr) -> pl.Expr:
    """Return Pearson's correlation over the systems of a task; null where it says nothing."""
    both = score.is_not_null() & rest.is_not_null()
    one, other = pl.when(both).then(score), pl.when(both).then(rest)
    varies = pl.lit(value=True)
    for each in (one, other):
        varies = varies & ((each.max() - each.min()).over(ID) > _SAME)
    left, right = one - one.mean().over(ID), other - other.mean().over(ID)
    together = (left * right).sum().over(ID)
    spread = ((left * left).sum().over(ID) * (right * right).sum().over(ID)).sqrt()
    is_known = varies & (one.count().over(ID) >= FEWEST_SYSTEMS)
    return pl.when(is_known).then((together / spread).clip(-1, 1))


def count_items(rows: pl.LazyFrame, systems: int) -> Items:
    """Return how many different tasks have each flag; `systems` is how many groups there are."""
    there = rows.collect_schema().names()
    flags = [name for name in (SOLVED_BY, DUPLICATE_OF) if name in there]
    tasks = rows.group_by(ID).agg(pl.col(flags).drop_nulls().first()).sort(ID).collect()
    solved = tasks[SOLVED_BY] if SOLVED_BY in there else pl.Series([], dtype=pl.String)
    copies = []
    if DUPLICATE_OF in there:
        copies = tasks.drop_nulls(DUPLICATE_OF).select(ID, DUPLICATE_OF).rows()
    return Items(
        tasks=tasks.height,
        systems=systems,
        nobody=int((solved == NOBODY).sum()),
        everybody=int((solved == EVERYBODY).sum()),
        duplicates=len(copies),
        examples=tuple(copies[:3]),
    )
