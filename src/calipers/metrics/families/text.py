"""Text similarity (P, tier 1): how similar an answer and its reference are, and task success.

A reference is a text or a JSON list of texts. Of several, the one with the highest output
similarity is chosen, and every similarity of the row is to that one. Where the semantic part is
missing, the others decide; of equals the first is taken.

The semantic part comes from a language model, or from a stand-in on request. The model is an extra,
and its weights may be unavailable; then there is no value but a reason. A cheaper measure never
replaces it without being asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from importlib import import_module
from math import isfinite
from operator import add
from threading import Lock
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    GROUP,
    Feature,
    Frame,
    Metric,
    Totals,
    add_up,
    count_records,
)
from calipers.metrics.declare.means import count_values, declare_mean, declare_part, declare_sums
from calipers.metrics.declare.settings import Settings
from calipers.metrics.similarity.words import cosine, jaccard, match_words
from calipers.support.errors import CalipersError

STAND_IN = "lexical"
SEMANTIC, REASON, CUT = "semantic", "reason", "cut"

FOUND: dict[str, pl.DataType] = {
    SEMANTIC: pl.Float64(),
    REASON: pl.String(),  # why there is no score
    CUT: pl.Boolean(),  # whether a text is longer than the model reads
}

_NOT_INSTALLED = "the model is an extra: pip install 'calipers[semantic]'"
_LONGEST_REASON = 200

_failed: dict[str, str] = {}  # unavailable models, and why: each is tried once in a run
# A model keeps all cores busy by itself. Nothing of Polars is called under the lock: it could run
# another batch meanwhile, in this very thread, which would wait here for ever.
_one_at_a_time = Lock()


def score_semantic(first: pl.Series, second: pl.Series, settings: Settings) -> pl.DataFrame:
    """Return the score of each pair, or the reason why there is none."""
    if settings.semantic_model == STAND_IN:
        return pl.DataFrame([match_words(first, second).alias(SEMANTIC)]).select(
            SEMANTIC, *(pl.lit(None, FOUND[name]).alias(name) for name in (REASON, CUT))
        )
    return _score_by_model(list(zip(first, second, strict=True)), settings)


def forget_failures() -> None:
    """Try every model again: in a notebook the weights may be there by now."""
    _failed.clear()


def _score_by_model(pairs: Sequence[tuple[str, str]], settings: Settings) -> pl.DataFrame:
    model = settings.semantic_model
    with _one_at_a_time:
        if not pairs or model in _failed:
            return _fill_nulls(len(pairs), _failed.get(model))
        try:
            semantic: Any = import_module("calipers.metrics.similarity.bert_score")
            found = semantic.score_pairs(pairs, model=model, cache=settings.semantic_cache)
        except (CalipersError, ImportError, OSError, RuntimeError, ValueError) as error:
            _failed[model] = _explain(error)
            return _fill_nulls(len(pairs), _failed[model])
    rows = [(match.f1 if isfinite(match.f1) else None, None, match.cut) for match in found]
    return pl.DataFrame(rows, schema=FOUND, orient="row")


def _fill_nulls(rows: int, reason: str | None) -> pl.DataFrame:
    return pl.DataFrame([(None, reason, None)] * rows, schema=FOUND, orient="row")


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return _NOT_INSTALLED
    if isinstance(error, CalipersError):
        return f"{error.message}: {error.fix}"
    first_line = next(iter(str(error).splitlines()), type(error).__name__)
    return first_line[:_LONGEST_REASON]


WEIGHTS = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}  # P, task success assessment

CHOSEN: dict[str, pl.DataType] = {
    "index": pl.Int64(),
    "reference": pl.String(),
    **FOUND,  # known already where there was a choice
}


def weigh_similarity(semantic: str, cosine: str, jaccard: str) -> pl.Expr:
    """Return the output similarity from these columns; null if one is."""
    parts = zip((semantic, cosine, jaccard), WEIGHTS.values(), strict=True)
    return reduce(add, (pl.col(name) * weight for name, weight in parts))


def weigh_without_semantic(cosine: str, jaccard: str) -> pl.Expr:
    """Return it without the semantic part: the other weights rescaled to sum to 1."""
    of_cosine, of_jaccard = WEIGHTS["cosine"], WEIGHTS["jaccard"]
    return (pl.col(cosine) * of_cosine + pl.col(jaccard) * of_jaccard) / (of_cosine + of_jaccard)


def choose_references(
    answers: pl.Series, references: pl.Series, settings: Settings
) -> pl.DataFrame:
    """Return, for each row, the reference that its answer is compared with."""
    if references.null_count() == len(references):
        nothing = pl.DataFrame(schema=CHOSEN)
        return nothing.clear(len(references))
    pairs = _pair_texts(answers, references)
    several = pl.len().over("row") > 1
    best = pl.concat(
        [pairs.filter(~several), _pick_best(pairs.filter(several), settings)], how="diagonal"
    )
    rows = pl.DataFrame({"row": pl.int_range(len(answers), eager=True)})
    return rows.join(best, on="row", how="left", maintain_order="left").select(*CHOSEN)


def _pick_best(pairs: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    texts = pairs["answer"], pairs["reference"]
    parts = cosine(*texts).alias("cosine"), jaccard(*texts).alias("jaccard")
    alike = pl.coalesce(
        weigh_similarity(SEMANTIC, "cosine", "jaccard"), weigh_without_semantic("cosine", "jaccard")
    )
    return (
        pairs.with_columns(*parts, *score_semantic(*texts, settings))
        .sort(alike, descending=True, maintain_order=True)
        .unique("row", keep="first", maintain_order=True)
        .drop("cosine", "jaccard")
    )


def _pair_texts(answers: pl.Series, references: pl.Series) -> pl.DataFrame:
    """Return a row per answer and reference, in order; none if either is null."""
    rows = pl.DataFrame(
        {
            "row": pl.int_range(len(answers), eager=True),
            "index": pl.repeat(0, len(answers), dtype=pl.Int64, eager=True),
            "answer": answers,
            "reference": references,
        }
    ).drop_nulls()
    maybe_lists = pl.col("reference").str.starts_with("[")
    lists = rows.filter(maybe_lists)
    if lists.is_empty():
        return rows
    texts = [list_texts(reference) for reference in lists["reference"]]
    lists = lists.with_columns(
        pl.Series("reference", texts, dtype=pl.List(pl.String)),
        pl.Series("index", [range(len(text)) for text in texts], dtype=pl.List(pl.Int64)),
    ).explode("reference", "index")
    return pl.concat([rows.filter(~maybe_lists), lists])


def list_texts(reference: str) -> list[str]:
    """Return the texts in a reference: those of a JSON list of texts, else the text itself."""
    if reference.startswith("["):
        try:
            found = json.loads(reference)
        except (ValueError, RecursionError):
            return [reference]
        if isinstance(found, list) and found and all(isinstance(text, str) for text in found):
            return [text.encode("utf-8", "replace").decode() for text in found]
    return [reference]


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
            return (
                f"semantic_similarity is null ({reason}); --set missing=renormalize leaves it out"
            )
        return None if reason is None else str(reason)

    if by_model:
        facts |= {"also": (WITHOUT_MODEL, CUT_SHORT), "refused": refuse}
    return declare_mean(
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
    "--set missing=renormalize, 0.6 · cosine + 0.4 · jaccard where semantic is null",
    spec="P 1.5, task success assessment",
    nulls=f"{_NULLS}, and one with a null part",
)

success_rate = _declare_similarity_mean(
    task_success,
    by_model=True,
    does_without=True,
    says="The share of answers that are as similar to the reference as asked for.",
    formula="mean(output_similarity ≥ threshold), threshold = 0.8 or `success_threshold`",
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
