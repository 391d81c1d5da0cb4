"""Audit of judges that give scores: the effects of length and of the judge's own model.

Answers are compared within a task. The mean of the other judges' scores of the same answers is
subtracted if there are any, so that the quality of the answers, as others see it, cancels out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from calipers.judges.measures import measure_mean
from calipers.judges.table import CHARS, CLUSTER, ID, JUDGE, MODEL, PASSED, RECORD, SCORE, SYSTEM
from calipers.scores.results import Measured
from calipers.statistics.influence import Sampling
from calipers.statistics.within import slope_within

_VALUE, _OTHERS = "_value", "_others"
_FAMILIES = (
    *("claude", "command", "deepseek", "gemini", "gemma", "gpt", "grok", "llama"),
    *("mistral", "mixtral", "nova", "phi", "qwen"),
)
_WORD = re.compile(r"[a-z]+")
_ALONE = "no other judge, of another model, judged these answers"
_ONE_ANSWER = "no task has answers of different lengths that it scored"
_NO_OWN = "no task has answers of the judge's own model and of another"


def measure_scored_bias(
    judge: str, rows: pl.DataFrame, confidence: float
) -> Mapping[str, Measured]:
    """Return the effects of length and of its own model on a judge's scores.

    `rows` are those of all judges. Without any score, whether an answer passed counts, as 0 or 1.
    """
    own = _with_values(rows.filter(pl.col(JUDGE) == judge))
    of, family = own.height, name_family(str(own[MODEL][0]))
    own = own.drop_nulls(_VALUE)
    others = _with_values(rows.filter(pl.col(JUDGE) != judge))
    families = {name: name_family(name) for name in others[MODEL].unique()}
    theirs = (
        others.filter(pl.col(MODEL).replace_strict(families, default=None) != family)
        .group_by(RECORD)
        .agg(pl.col(_VALUE).mean().alias(_OTHERS))
        .drop_nulls()
    )
    beyond = own.join(theirs, on=RECORD, maintain_order="left").with_columns(
        pl.col(_VALUE) - pl.col(_OTHERS)
    )
    alone = None if beyond.height else _ALONE
    return {
        "length_slope": _measure_slope(own, confidence, of, _ONE_ANSWER),
        "length_bias": _measure_slope(beyond, confidence, of, alone or _ONE_ANSWER),
        "own_margin": _measure_margin(own, family, confidence, of, _NO_OWN),
        "self_preference": _measure_margin(beyond, family, confidence, of, alone or _NO_OWN),
    }


def name_family(model: str) -> str:
    """Return the family of a model: its members may recognize each other's answers.

    >>> name_family("openai:gpt-4o-mini"), name_family("meta-llama/Llama-3.1"), name_family("Own-2")
    ('gpt', 'llama', 'own-2')
    """
    bare = strip_provider(model)
    word = _WORD.match(bare)
    return word[0] if word is not None and word[0] in _FAMILIES else bare


def strip_provider(model: str) -> str:
    """Return a model's name without its provider: openai:gpt-4o and openai/gpt-4o are one model."""
    return model.rpartition(":")[2].rpartition("/")[2].casefold()


def _with_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the score of each, or 0 and 1 where no row has a score."""
    scored = rows[SCORE].null_count() < rows.height
    return rows.with_columns(pl.col(SCORE if scored else PASSED).cast(pl.Float64).alias(_VALUE))


def _measure_slope(rows: pl.DataFrame, confidence: float, of: int, empty: str) -> Measured:
    """Return how much more an answer gets than one half as long to the same task."""
    known = rows.filter(pl.col(CHARS) > 0)
    found = slope_within(
        np.log2(known[CHARS].cast(pl.Float64).to_numpy()),
        known[_VALUE].to_numpy(),
        _number_labels(known[ID]),
        clusters=_number_labels(known[CLUSTER]),
        confidence=confidence,
    )
    if found.slope is None:
        return Measured(value=None, n=0, missing=of, reason=empty)
    return Measured(
        value=found.slope,
        n=found.n,
        missing=of - found.n,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=None if found.low is None else "t",
    )


def _measure_margin(
    rows: pl.DataFrame, family: str, confidence: float, of: int, empty: str
) -> Measured:
    """Return the score of the own family's answers less that of others, a value per task.

    Every judgment of a task that has both is counted in n.
    """
    systems = {name: name_family(name) == family for name in rows[SYSTEM].drop_nulls().unique()}
    is_own = pl.col(SYSTEM).replace_strict(systems, default=None, return_dtype=pl.Boolean)
    tasks = (
        rows.with_columns(is_own.alias("own"))
        .group_by(ID, maintain_order=True)
        .agg(
            pl.col(CLUSTER).first(),
            pl.col("own").count().alias("judgments"),
            pl.col(_VALUE).filter("own").mean().alias("ours"),
            pl.col(_VALUE).filter(~pl.col("own")).mean().alias("theirs"),
        )
        .drop_nulls(("ours", "theirs"))
    )
    found = measure_mean(
        (tasks["ours"] - tasks["theirs"]).to_numpy(),
        sampling=Sampling(clusters=_number_labels(tasks[CLUSTER]), confidence=confidence),
        of=tasks.height,
        empty=empty,
    )
    n = int(tasks["judgments"].sum())
    return replace(found, n=n, missing=of - n)


def _number_labels(labels: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return labels.rank("dense").cast(pl.Int64).to_numpy()
