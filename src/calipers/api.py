"""The public functions, as a notebook calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from calipers.agreeing import Agreement, agree_data
from calipers.agreeing import Options as AgreeOptions
from calipers.comparing import CompareOptions, compare_data
from calipers.comparisons import Compared
from calipers.explaining import Explanation, explain_data
from calipers.metrics.declaration import Settings
from calipers.powering import PowerAnalysis, power_data
from calipers.prices import read_prices
from calipers.ratings import Where
from calipers.records import FIELDS
from calipers.results import Score
from calipers.scoring import Options, Progress, score_data
from calipers.sizing import REPEATS, Aim
from calipers.sources import Wanted, open_sources
from calipers.stats.power import CORRELATION
from calipers.thresholds import with_threshold


def _no_progress(share: float) -> None:
    del share


def score(
    data: Any,
    *,
    by: str | Sequence[str] = (),
    profile: str | None = None,
    metrics: Sequence[str] = (),
    engine: str = "polars",
    rename: Mapping[str, str] | None = None,
    normalize: Literal["numeric", "text"] = "numeric",
    bins: int = 10,
    tokenizer: str = "whitespace",
    on_bad: Literal["stop", "skip"] = "stop",
    bad_rows: str | Path | None = None,
    per_sample: str | Path | None = None,
    hash_inputs: bool = False,
    baseline: str = "T0",
    pass_weight: float = 0.5,
    impl_weight: float = 0.5,
    prices: str | Path | None = None,
    semantic_model: str = "distilbert-base-uncased",
    semantic_cache: str | Path | None = None,
    missing: Literal["zero", "renormalize"] = "zero",
    success_threshold: float | str = 0.8,
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
    progress: Progress = _no_progress,
) -> Score:
    """Measure records: every metric that the data allows, or those of a profile, or those named.

    `data` is a path, a glob, a folder of Parquet parts, several of these, a list of dicts, or a
    Polars, pandas or Arrow table. `rename` maps the record's fields to the data's names.
    `success_threshold` is a number, or `"FILE:Q"`: a quantile of the similarity of FILE's pairs.

    >>> score([{"answer": "4", "target": "4"}]).groups[0].metrics["accuracy"].value
    1.0
    """
    options = Options(
        by=(by,) if isinstance(by, str) else tuple(by),
        profile=profile,
        metrics=tuple(metrics),
        engine=engine,
        renames=rename or {},
        settings=Settings(
            normalize=normalize,
            bins=bins,
            tokenizer=tokenizer,
            pass_weight=pass_weight,
            impl_weight=impl_weight,
            prices=None if prices is None else read_prices(prices),
            semantic_model=semantic_model,
            semantic_cache=None if semantic_cache is None else str(semantic_cache),
            missing=missing,
        ),
        baseline=baseline,
        on_bad=on_bad,
        bad_rows=_path(bad_rows),
        per_sample=_path(per_sample),
        hash_inputs=hash_inputs,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    return score_data(data, with_threshold(options, success_threshold), progress)


def compare(
    *data: Any,
    by: str | Sequence[str] = (),
    profile: str | None = None,
    metrics: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    normalize: Literal["numeric", "text"] = "numeric",
    bins: int = 10,
    tokenizer: str = "whitespace",
    on_bad: Literal["stop", "skip"] = "stop",
    unpaired: bool = False,
    between: str | None = None,
    attribute: bool = False,
    base_normalize: Literal["numeric", "text"] | None = None,
    flips: str | Path | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 0,
    seed: int = 0,
) -> Compared:
    """Compare runs task by task, the first with the second; of more than two, all pairs.

    >>> base = [{"id": str(n), "correct": n < 6} for n in range(10)]
    >>> better = [{"id": str(n), "correct": n < 9} for n in range(10)]
    >>> found = compare(base, better).pairs[0].metrics["accuracy"]
    >>> round(found.difference, 2), found.test, found.p_value
    (0.3, 'exact McNemar', 0.25)
    """
    options = Options(
        by=(by,) if isinstance(by, str) else tuple(by),
        profile=profile,
        metrics=tuple(metrics),
        renames=rename or {},
        settings=Settings(normalize=normalize, bins=bins, tokenizer=tokenizer),
        on_bad=on_bad,
        cluster=cluster,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    asked = CompareOptions(
        unpaired=unpaired,
        between=between,
        attribute=attribute,
        base_normalize=base_normalize,
        flips=_path(flips),
    )
    return compare_data(data, options, asked)


def power(
    data: Any,
    candidate: Any = None,
    *,
    delta: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    correlation: float = CORRELATION,
    runs: Sequence[int] = REPEATS,
    metrics: Sequence[str] = (),
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    normalize: Literal["numeric", "text"] = "numeric",
    bins: int = 10,
    tokenizer: str = "whitespace",
    on_bad: Literal["stop", "skip"] = "stop",
) -> PowerAnalysis:
    """How many tasks and runs it takes to see a difference, and what the run in `data` could see.

    With a `candidate`, a run of another system on the same tasks, the variance of the difference is
    measured; without one, the other system is taken to vary like this one, with that `correlation`.

    >>> run = [{"id": str(n), "correct": n % 3 == 0} for n in range(90)]
    >>> found = power(run, delta=0.1).groups[0].metrics["accuracy"]
    >>> found.plans[0].tasks, round(found.detectable, 3)
    (179, 0.142)
    """
    aim = Aim(
        delta=delta,
        power=power,
        confidence=confidence,
        correlation=correlation,
        runs=tuple(runs),
    )
    options = Options(
        by=_names(by),
        metrics=tuple(metrics),
        renames=rename or {},
        settings=Settings(normalize=normalize, bins=bins, tokenizer=tokenizer),
        on_bad=on_bad,
    )
    return power_data(data, candidate, aim, options)


def explain(
    metric: str,
    data: Any,
    *,
    by: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    normalize: Literal["numeric", "text"] = "numeric",
    bins: int = 10,
    tokenizer: str = "whitespace",
    on_bad: Literal["stop", "skip"] = "stop",
    rows: int = 5,
) -> Explanation:
    """How a metric came to its value: formula, rows used and left out, the rows that weigh most."""
    options = Options(
        by=(by,) if isinstance(by, str) else tuple(by),
        metrics=(metric,),
        renames=rename or {},
        settings=Settings(normalize=normalize, bins=bins, tokenizer=tokenizer),
        on_bad=on_bad,
    )
    return explain_data(data, options, rows=rows)


def agree(
    data: Any,
    *,
    raters: Sequence[str] = (),
    unit: str | Sequence[str] = (),
    value: str | None = None,
    rater_field: str | None = None,
    level: Literal["nominal", "ordinal", "interval"] = "interval",
    confidence: float = 0.95,
    cluster: str | Sequence[str] = (),
    seed: int = 0,
) -> Agreement:
    """How far raters agree: percent, kappas, Krippendorff's alphas, correlations, with intervals.

    `data` has a column per rater; or `judgments`; or, with `rater_field`, a row per rating. `unit`
    names the fields that tell one rated thing from another; without it, each row is one.

    >>> ratings = [{"human": "yes", "judge": "yes"}, {"human": "no", "judge": "yes"}]
    >>> agree(ratings, raters=["human", "judge"]).measures["percent_agreement"].value
    0.5
    """
    where = Where(
        raters=_names(raters),
        unit=_names(unit),
        rater_field=rater_field,
        value=value,
        cluster=_names(cluster),
    )
    options = AgreeOptions(where=where, level=level, confidence=confidence, seed=seed)
    return agree_data(data, options)


def read(data: Any, *, rename: Mapping[str, str] | None = None) -> pl.DataFrame:
    """The records in `data` as a Polars frame: checked, in the record's types, all fields kept."""
    frames = []
    for source in open_sources(data):
        columns = source.columns()
        renames = dict(rename or {})
        others = [name for name in columns if name not in renames.values()]
        fields = tuple(dict.fromkeys((*renames, *(n for n in FIELDS if n in columns), *others)))
        for chunk in source.chunks(Wanted(fields, renames)):
            batch = chunk.exact()
            if batch.bad:
                raise batch.bad[0].error()
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _names(fields: str | Sequence[str]) -> tuple[str, ...]:
    return (fields,) if isinstance(fields, str) else tuple(fields)
