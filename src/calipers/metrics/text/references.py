"""Answers and their references: the pairs of texts, and the best of several references.

A reference is a text or a JSON list of texts. Of several, one is chosen for the row, that with the
highest output similarity, and every similarity of the row is to that one. Where the semantic part
is missing, the others decide; of equals the first is taken.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import add

import polars as pl

from calipers.metrics.declare.settings import Settings
from calipers.metrics.text.semantic_similarity import FOUND, SEMANTIC, score_semantic
from calipers.metrics.text.words import cosine, jaccard

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
        pl.Series("index", [range(len(each)) for each in texts], dtype=pl.List(pl.Int64)),
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
