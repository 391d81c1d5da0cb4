"""Answers and what they are held against: the pairs of texts, and the best of several references.

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
from calipers.metrics.text.semantic_similarity import FOUND, SEMANTIC, semantic_scores
from calipers.metrics.text.words import cosine, jaccard

WEIGHTS = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}  # P, task success assessment

CHOSEN: dict[str, pl.DataType] = {
    "index": pl.Int64(),
    "reference": pl.String(),
    **FOUND,  # known already where there was a choice
}


def weighted(semantic: str, cosine: str, jaccard: str) -> pl.Expr:
    """Output similarity from these columns; null where one is."""
    parts = zip((semantic, cosine, jaccard), WEIGHTS.values(), strict=True)
    return reduce(add, (pl.col(name) * weight for name, weight in parts))


def without_semantic(cosine: str, jaccard: str) -> pl.Expr:
    """The same without the semantic part: the weights of the others made to sum to 1."""
    of_cosine, of_jaccard = WEIGHTS["cosine"], WEIGHTS["jaccard"]
    return (pl.col(cosine) * of_cosine + pl.col(jaccard) * of_jaccard) / (of_cosine + of_jaccard)


def chosen(answers: pl.Series, references: pl.Series, settings: Settings) -> pl.DataFrame:
    """For each row the reference that its answer is held against."""
    if references.null_count() == len(references):
        nothing = pl.DataFrame(schema=CHOSEN)
        return nothing.clear(len(references))
    pairs = _pairs(answers, references)
    several = pl.len().over("row") > 1
    best = pl.concat(
        [pairs.filter(~several), _best(pairs.filter(several), settings)], how="diagonal"
    )
    rows = pl.DataFrame({"row": pl.int_range(len(answers), eager=True)})
    return rows.join(best, on="row", how="left", maintain_order="left").select(*CHOSEN)


def _best(pairs: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Of the pairs of each row the one that is most alike."""
    texts = pairs["answer"], pairs["reference"]
    parts = cosine(*texts).alias("cosine"), jaccard(*texts).alias("jaccard")
    alike = pl.coalesce(
        weighted(SEMANTIC, "cosine", "jaccard"), without_semantic("cosine", "jaccard")
    )
    return (
        pairs.with_columns(*parts, *semantic_scores(*texts, settings))
        .sort(alike, descending=True, maintain_order=True)
        .unique("row", keep="first", maintain_order=True)
        .drop("cosine", "jaccard")
    )


def _pairs(answers: pl.Series, references: pl.Series) -> pl.DataFrame:
    """A row per answer and reference, those of a row in their order; none where either is null."""
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
    texts = [texts_of(reference) for reference in lists["reference"]]
    lists = lists.with_columns(
        pl.Series("reference", texts, dtype=pl.List(pl.String)),
        pl.Series("index", [range(len(each)) for each in texts], dtype=pl.List(pl.Int64)),
    ).explode("reference", "index")
    return pl.concat([rows.filter(~maybe_lists), lists])


def texts_of(reference: str) -> list[str]:
    """The texts in a reference: those of a JSON list of texts, else the text itself."""
    if reference.startswith("["):
        try:
            found = json.loads(reference)
        except (ValueError, RecursionError):
            return [reference]
        if isinstance(found, list) and found and all(isinstance(text, str) for text in found):
            return [text.encode("utf-8", "replace").decode() for text in found]
    return [reference]
