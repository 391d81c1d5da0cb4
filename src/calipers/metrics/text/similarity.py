"""How alike an answer and its reference are (P, tier 1), and whether that is enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import polars as pl

from calipers.metrics.declare.columns import declare_part
from calipers.metrics.declare.declaration import (
    GROUP,
    Feature,
    Frame,
    Metric,
    Totals,
    add_up,
    count_records,
)
from calipers.metrics.declare.means import count_values, declare_sums, mean
from calipers.metrics.declare.settings import Settings
from calipers.metrics.text.references import (
    CHOSEN,
    choose_references,
    weigh_similarity,
    weigh_without_semantic,
)
from calipers.metrics.text.semantic_similarity import (
    CUT,
    FOUND,
    REASON,
    SEMANTIC,
    STAND_IN,
    score_semantic,
)
from calipers.metrics.text.words import cosine, jaccard

TEXTS = ("answer", "reference")

_CHOSEN = pl.Struct(CHOSEN)
_SEMANTIC = pl.Struct(FOUND)


def _choose(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        answers, references = (rows.struct.field(name) for name in TEXTS)
        return choose_references(answers, references, settings).to_struct(rows.name)

    return pl.struct(TEXTS).map_batches(of_batch, return_dtype=_CHOSEN)


chosen_reference = Feature(
    "_chosen_reference", TEXTS, _choose, _CHOSEN, null_without=("reference",), stored=False
)


def _score(settings: Settings) -> pl.Expr:
    """Return the scores by the model, unless choosing a reference has computed them already."""

    def of_batch(rows: pl.Series) -> pl.Series:
        found = rows.struct.field(chosen_reference.name).struct.unnest()
        unknown = pl.col("index").is_not_null() & pl.all_horizontal(
            pl.col(SEMANTIC, REASON).is_null()
        )
        at = found.select(unknown).to_series().arg_true()
        answers = rows.struct.field("answer").gather(at)
        scores = score_semantic(answers, found["reference"].gather(at), settings)
        columns = [found[name].scatter(at, scores[name]) for name in FOUND]
        return pl.DataFrame(columns).to_struct(rows.name)

    return pl.struct("answer", chosen_reference.name).map_batches(of_batch, return_dtype=_SEMANTIC)


scored = Feature(
    "_semantic",
    ("answer", chosen_reference),
    _score,
    _SEMANTIC,
    null_without=("reference",),
    stored=False,
)


def _declare_similarity(
    name: str, similarity: Callable[[pl.Series, pl.Series], pl.Series]
) -> Feature:

    def of_batch(rows: pl.Series) -> pl.Series:
        against = rows.struct.field(chosen_reference.name).struct.field("reference")
        return similarity(rows.struct.field("answer"), against)

    return Feature(
        name,
        ("answer", chosen_reference),
        lambda _: pl.struct("answer", chosen_reference.name).map_batches(
            of_batch, return_dtype=pl.Float64
        ),
        null_without=("reference",),
    )


best_reference = declare_part("best_reference", chosen_reference, "index")
cosine_similarity = _declare_similarity("cosine_similarity", cosine)
jaccard_similarity = _declare_similarity("jaccard_similarity", jaccard)
semantic_similarity = declare_part("semantic_similarity", scored, SEMANTIC)
semantic_reason = declare_part("_semantic_reason", scored, REASON)
semantic_cut = declare_part("_semantic_cut", scored, CUT)


def _weigh_parts(settings: Settings) -> pl.Expr:
    others = (cosine_similarity.name, jaccard_similarity.name)
    alike = weigh_similarity(semantic_similarity.name, *others)
    if settings.missing == "renormalize":
        return pl.coalesce(alike, weigh_without_semantic(*others))
    return alike


output_similarity = Feature(
    "output_similarity", (semantic_similarity, cosine_similarity, jaccard_similarity), _weigh_parts
)
task_success = Feature(
    "task_success",
    (output_similarity,),
    lambda settings: pl.col("output_similarity") >= settings.success_threshold,
    pl.Boolean(),
)


def _sum_by_group(reasons: Frame) -> Frame:
    return reasons.group_by(GROUP).agg(
        pl.col("lacking_n").sum().alias("semantic__lacking"),
        pl.col(semantic_reason.name).min().alias("semantic__reason"),
    )


WITHOUT_MODEL = count_values(semantic_reason, "lacking_n", finish=(_sum_by_group,))
"""How many rows have no semantic similarity since the model was unavailable, and why."""


CUT_SHORT = declare_sums(semantic_cut)
"""Of how many rows a text is longer than the model reads."""


def _declare_similarity_mean(
    feature: Feature, *, by_model: bool = False, does_without: bool = False, **facts: Any
) -> Metric:
    """Return the mean of a similarity; `--per-sample` names the reference used beside it.

    What is made `by_model` says why it is null if the model is unavailable.
    """

    def refuse(totals: Totals) -> str | None:
        reason = None if totals.get(f"{feature.name}__n") else totals.get("semantic__reason")
        if reason and does_without:
            return f"semantic_similarity is null ({reason}); --missing renormalize does without it"
        return None if reason is None else str(reason)

    if by_model:
        facts |= {"also": (WITHOUT_MODEL, CUT_SHORT), "refused": refuse}
    return mean(
        feature,
        aggregate=declare_sums(feature, best_reference),
        needs=TEXTS,
        range=(0, 1),
        better="higher",
        **facts,
    )


_NULLS = "a row without an answer or a reference is left out"
_SEVERAL = "of several references the one with the highest output similarity"

cosine_mean = _declare_similarity_mean(
    cosine_similarity,
    says="How far answer and reference use the same words and pairs of words, stop words aside.",
    formula="mean(cos(tfidf(answer), tfidf(reference))), fitted on the pair: words and pairs of "
    f"words without English stop words; {_SEVERAL}",
    spec="P 1.1, cosine similarity",
    nulls=_NULLS,
)

jaccard_mean = _declare_similarity_mean(
    jaccard_similarity,
    says="The share of all words in answer and reference that both have.",
    formula=f"mean(|A ∩ B| / |A ∪ B|), A and B the sets of lower-cased words; {_SEVERAL}",
    spec="P 1.2, Jaccard similarity",
    nulls=_NULLS,
)

semantic_mean = _declare_similarity_mean(
    semantic_similarity,
    by_model=True,
    says="How close answer and reference are in meaning, by a language model.",
    formula=f"mean(BERTScore F1 of answer and reference); {_SEVERAL}",
    spec="P 1.3, semantic similarity",
    nulls=f"{_NULLS}; null where the model is unavailable",
)

output_mean = _declare_similarity_mean(
    output_similarity,
    by_model=True,
    does_without=True,
    says="How alike answer and reference are: in meaning, vocabulary and words.",
    formula="mean(0.5 · semantic + 0.3 · cosine + 0.2 · jaccard), all of one reference; with "
    "--missing renormalize, 0.6 · cosine + 0.4 · jaccard where semantic is null",
    spec="P 1.5, task success assessment",
    nulls=f"{_NULLS}, and one with a null part",
)

success_rate = _declare_similarity_mean(
    task_success,
    by_model=True,
    does_without=True,
    says="The share of answers that are as similar to the reference as asked for.",
    formula="mean(output_similarity ≥ threshold), threshold = 0.8 or --success-threshold",
    spec="P 1.5, task success assessment",
    nulls="a row without an output similarity is left out",
)


def note_similarity(groups: Collection[Totals], settings: Settings) -> Iterator[str]:
    """Yield which model compared meanings, and the threshold of success."""
    if add_up(groups, "semantic_similarity__n"):
        what = "the stand-in " if settings.semantic_model == STAND_IN else ""
        how = ", which matches words, not meanings" if what else ""
        yield f"semantic_similarity by {what}{settings.semantic_model}{how}"
    if cut := add_up(groups, f"{semantic_cut.name}__sum"):
        yield (
            f"{count_records(cut)} with a text longer than {settings.semantic_model} reads: "
            "semantic_similarity is by its beginning"
        )
    lacking = add_up(groups, "semantic__lacking")
    if lacking and settings.missing == "renormalize" and add_up(groups, "output_similarity__n"):
        records = count_records(lacking)
        yield f"output_similarity of {records} without its semantic part, by cosine and Jaccard"
    if settings.threshold_from is not None and add_up(groups, "task_success__n"):
        bar = f"{settings.success_threshold:.4g}"
        yield f"task_success from {bar} on: {settings.threshold_from}"
