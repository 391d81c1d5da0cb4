"""The means of the reasoning family as one would write them by hand, in Polars and in DuckDB.

No intervals, no clusters, no check of what is read, and answers compared as plain floats: what a
data engineer writes in ten minutes, to be held beside all metrics of `calipers score`.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.contestants import Values

COMMON = (  # numbers that all three give
    "accuracy",
    "brier",
    "ece",
    "prompt_tokens_mean",
    "completion_tokens_mean",
    "latency_mean_ms",
)
_PHRASES = ("wait", "let me recheck", "correction", "actually", "sorry")


def score_with_polars(path: Path) -> Values:
    """Aggregate the file in one streaming query, and the calibration bins in another."""
    probability, cot = pl.col("prob_correct"), pl.col("cot")
    answer = pl.col("answer").str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)
    right = (answer == pl.col("target").cast(pl.Float64)).fill_null(value=False)
    rows = pl.scan_parquet(path).with_columns(right=right)
    texts = {
        "cot_chars_mean": cot.str.len_chars().mean(),
        "cot_tokens_mean": cot.str.count_matches(r"\S+").mean(),
        "step_count_mean": cot.str.count_matches(r"(?m)^\s*(\d+\.|-|\*)\s+").mean(),
        "self_correction_rate": cot.str.to_lowercase().str.contains_any(list(_PHRASES)).mean(),
    }
    means = rows.group_by("model").agg(
        **(texts if "cot" in pl.read_parquet_schema(path) else {}),
        accuracy=pl.col("right").mean(),
        brier=((probability - pl.col("right")) ** 2).mean(),
        prompt_tokens_mean=pl.col("prompt_tokens").mean(),
        completion_tokens_mean=pl.col("completion_tokens").mean(),
        latency_mean_ms=pl.col("latency_ms").mean(),
        latency_p95_ms=pl.col("latency_ms").quantile(0.95, "higher"),
    )
    bins = (
        rows.group_by("model", bin=(probability * 10).ceil().clip(1, 10))
        .agg(gap=(probability - pl.col("right")).sum().abs(), n=pl.len())
        .group_by("model")
        .agg(ece=pl.col("gap").sum() / pl.col("n").sum())
    )
    found = pl.collect_all([means, bins], engine="streaming")
    return _keep_common(found[0].join(found[1], on="model"))


def score_with_duckdb(path: Path) -> Values:
    """Aggregate the file with two statements of SQL."""
    import duckdb  # noqa: PLC0415

    rows = """
        SELECT *, coalesce(
            TRY_CAST(replace(answer, ',', '') AS DOUBLE) = CAST(target AS DOUBLE), false
        )::INT AS "right"
        FROM read_parquet(?)
    """
    corrected = " OR ".join(f"contains(lower(cot), '{phrase}')" for phrase in _PHRASES)
    texts = f"""
            avg(length(cot)) AS cot_chars_mean,
            avg(len(regexp_extract_all(cot, '\\S+'))) AS cot_tokens_mean,
            avg(len(regexp_extract_all(cot, '(?m)^\\s*(\\d+\\.|-|\\*)\\s+'))) AS step_count_mean,
            avg(({corrected})::INT) AS self_correction_rate,
    """
    means = f"""
        SELECT model, avg("right") AS accuracy, avg((prob_correct - "right") ** 2) AS brier,
            {texts if "cot" in pl.read_parquet_schema(path) else ""}
            avg(prompt_tokens) AS prompt_tokens_mean,
            avg(completion_tokens) AS completion_tokens_mean,
            avg(latency_ms) AS latency_mean_ms,
            quantile_disc(latency_ms, 0.95) AS latency_p95_ms
        FROM ({rows}) GROUP BY model
    """
    bins = f"""
        SELECT model, sum(gap) / sum(n) AS ece FROM (
            SELECT model, abs(sum(prob_correct - "right")) AS gap, count(*) AS n
            FROM ({rows}) GROUP BY model, greatest(1, ceil(prob_correct * 10))
        ) GROUP BY model
    """
    found: dict[str, dict[str, float]] = {}
    with duckdb.connect() as connection:
        for query in (means, bins):
            rows_found = connection.execute(query, [str(path)])
            names = [column[0] for column in rows_found.description]
            for model, *values in rows_found.fetchall():
                found.setdefault(model, {}).update(zip(names[1:], values, strict=True))
    return {model: {name: each[name] for name in COMMON} for model, each in found.items()}


def _keep_common(table: pl.DataFrame) -> Values:
    return {
        row["model"]: {name: row[name] for name in COMMON} for row in table.iter_rows(named=True)
    }
