"""The threshold of task success: a number, or "as similar as two people are".

`FILE:Q` reads pairs of texts that people wrote about the same thing and takes the Q-quantile of
their output similarity, measured as the answers will be: same model, same rule for missing parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

import polars as pl

from calipers.engines.reading import measure_batches
from calipers.metrics.text.similarity import output_similarity, semantic_reason
from calipers.records.reading import read_with
from calipers.records.sources import Source, Wanted, open_sources
from calipers.scores.options import Options
from calipers.support.errors import DataError, UsageError

PAIRS = ({"answer": "answer", "reference": "reference"}, {"answer": "text1", "reference": "text2"})

_FORMS = "a number such as 0.8, or FILE:Q such as pairs.jsonl:0.5 for the median of its pairs"


def set_threshold(options: Options, given: float | str) -> Options:
    """Return the options with the threshold asked for, measured if a file of pairs is named."""
    try:
        number = float(given)
    except ValueError:
        return _measure_threshold(options, str(given))
    return replace(options, settings=replace(options.settings, success_threshold=number))


def _measure_threshold(options: Options, given: str) -> Options:
    path, _, share = given.rpartition(":")
    if not path:
        raise UsageError(f"--success-threshold {given}: neither a number nor FILE:Q", fix=_FORMS)
    quantile = _parse_quantile(given, share)
    values, reason = _measure_similarities(path, options)
    known = values.drop_nulls().sort()
    if not len(known):
        raise UsageError(
            f"--success-threshold {given}: no pair has an output similarity"
            + (f": {reason}" if reason else ""),
            fix="--missing renormalize does without the semantic part"
            if reason
            else "give records with answer and reference, or text1 and text2",
        )
    position = max(1, ceil(quantile * len(known)))  # nearest rank
    left_out = f", {values.null_count()} left out" if values.null_count() else ""
    settings = replace(
        options.settings,
        success_threshold=known[position - 1],
        threshold_from=f"quantile {share} of the output similarity of {len(known)} pairs "
        f"in {path}{left_out}",
    )
    return replace(options, settings=settings)


def _parse_quantile(given: str, share: str) -> Fraction:
    """Return the exact quantile, so that a rank does not depend on decimal rounding."""
    try:
        quantile = Fraction(share)
    except (ValueError, ZeroDivisionError):
        quantile = Fraction(-1)
    if not 0 <= quantile <= 1:
        raise UsageError(
            f"--success-threshold {given}: {share or 'nothing'} is not a quantile from 0 to 1",
            fix=_FORMS,
        )
    return quantile


def _measure_similarities(path: str, options: Options) -> tuple[pl.Series, str | None]:
    """Return the output similarity of every pair, and why some have none."""
    columns = (output_similarity.name, semantic_reason.name)
    found = [pl.DataFrame(schema={name: pl.Null() for name in columns})]
    with read_with():  # how the records are read says nothing of this file
        sources = open_sources(path)
    for source in sources:
        field_map = _find_names(source, options.map)
        asked = Options(metrics=(output_similarity.name,), map=field_map, settings=options.settings)
        plan = asked.plan()
        chunks = source.chunks(Wanted(plan.fields, field_map))
        for batch in measure_batches(chunks, plan, columns=columns):
            if batch.bad:
                raise batch.bad[0].make_error()
            found.append(batch.rows)
    rows = pl.concat(found, how="vertical_relaxed")
    reason = rows[semantic_reason.name].drop_nulls()
    return rows[output_similarity.name].cast(pl.Float64), reason[0] if len(reason) else None


def _find_names(source: Source, field_map: Mapping[str, str]) -> dict[str, str]:
    """Return the file's names of the two texts: those of records, or of pairs of reviews."""
    columns = source.columns()
    asked = {name: field_map.get(name, name) for name in ("answer", "reference")}
    for names in (asked, *PAIRS):
        if all(theirs in columns for theirs in names.values()):
            return dict(names)
    raise DataError(
        f"{source.name}: no pairs of texts: neither answer and reference nor text1 and text2",
        fix=f"its columns are: {', '.join(columns[:8]) or 'none'}",
    )
