"""What others would do instead, each in a process of its own: `python -m benchmarks.peers NAME …`.

By hand means what a data engineer writes in ten minutes: no intervals, no tests, no clusters of
repeated runs, no check of what is read, and answers compared as plain floats. Each peer prints its
numbers as JSON, so that they can be held beside ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

Values = dict[str, dict[str, float | None]]  # by group and metric

TRACE_METRICS = (
    "path_convergence",
    "communication_overhead",
    "coordination_centrality",
    "task_distribution_balance",
)
TIER_MEANS = ("pass_rate", "impl_rate", "cost_usd", "duration_seconds", "composite_score")
_NUMBERS = ("prompt_tokens", "completion_tokens", "latency_ms")
_PHRASES = ("wait", "let me recheck", "correction", "actually", "sorry")
_KS = (1, 2, 3, 4, 5, 10)


def polars_score(path: str, by: str = "model") -> Values:
    """Score with Polars: means and deviations, ECE, AUROC, quantiles, and texts where there are."""
    import polars as pl  # noqa: PLC0415

    scan = pl.scan_ndjson if path.endswith(".jsonl") else pl.scan_parquet
    rows = scan(path)
    probability = pl.col("prob_correct")
    answer = pl.col("answer").str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)
    right = (answer == pl.col("target").cast(pl.Float64)).fill_null(value=False)
    texts = _describe_texts() if "cot" in rows.collect_schema() else {}
    rows = rows.with_columns(right=right, total_tokens=pl.sum_horizontal(*_NUMBERS[:2]))
    means = rows.group_by(by).agg(
        **texts,
        accuracy=pl.col("right").mean(),
        brier=((probability - pl.col("right")) ** 2).mean(),
        prompt_tokens_mean=pl.col("prompt_tokens").mean(),
        completion_tokens_mean=pl.col("completion_tokens").mean(),
        total_tokens_mean=pl.col("total_tokens").mean(),
        latency_mean_ms=pl.col("latency_ms").mean(),
        _deviations=pl.sum_horizontal(pl.col(name).std() for name in _NUMBERS),
        _latencies=pl.sum_horizontal(pl.col("latency_ms").quantile(q) for q in (0.5, 0.95, 0.99)),
        _auroc=pl.col("prob_correct").rank().filter(pl.col("right")).mean(),
    )
    bins = (
        rows.group_by(by, bin=(probability * 10).ceil().clip(1, 10))
        .agg(gap=(probability - pl.col("right")).sum().abs(), n=pl.len())
        .group_by(by)
        .agg(ece=pl.col("gap").sum() / pl.col("n").sum())
    )
    found = pl.collect_all([means, bins], engine="streaming")
    joined = found[0].join(found[1], on=by).select(pl.exclude("^_.*$"))
    return {str(row.pop(by)): row for row in joined.iter_rows(named=True)}


def _describe_texts() -> dict[str, pl.Expr]:
    import polars as pl  # noqa: PLC0415

    cot = pl.col("cot")
    return {
        "cot_chars_mean": cot.str.len_chars().mean(),
        "cot_tokens_mean": cot.str.count_matches(r"\S+").mean(),
        "step_count_mean": cot.str.count_matches(r"(?m)^\s*(\d+\.|-|\*)\s+").mean(),
        "self_correction_rate": cot.str.to_lowercase().str.contains_any(list(_PHRASES)).mean(),
    }


def duckdb_score(path: str) -> Values:
    """Score with two statements of SQL."""
    import duckdb  # noqa: PLC0415

    rows = """
        SELECT *, coalesce(
            TRY_CAST(replace(answer, ',', '') AS DOUBLE) = CAST(target AS DOUBLE), false
        )::INT AS "right"
        FROM read_parquet(?)
    """
    deviations = ", ".join(f"stddev_samp({name}) AS _sd_{name}" for name in _NUMBERS)
    means = f"""
        SELECT model, avg("right") AS accuracy, avg((prob_correct - "right") ** 2) AS brier,
            avg(prompt_tokens) AS prompt_tokens_mean,
            avg(completion_tokens) AS completion_tokens_mean,
            avg(prompt_tokens + completion_tokens) AS total_tokens_mean,
            avg(latency_ms) AS latency_mean_ms, {deviations},
            quantile_disc(latency_ms, [0.5, 0.95, 0.99]) AS _latencies
        FROM ({rows}) GROUP BY model
    """
    bins = f"""
        SELECT model, sum(gap) / sum(n) AS ece FROM (
            SELECT model, abs(sum(prob_correct - "right")) AS gap, count(*) AS n
            FROM ({rows}) GROUP BY model, greatest(1, ceil(prob_correct * 10))
        ) GROUP BY model
    """
    found: dict[str, dict[str, float | None]] = {}
    with duckdb.connect() as connection:
        for query in (means, bins):
            rows_found = connection.execute(query, [path])
            names = [column[0] for column in rows_found.description]
            for model, *values in rows_found.fetchall():
                named = dict(zip(names[1:], values, strict=True))
                own = {name: each for name, each in named.items() if not name.startswith("_")}
                found.setdefault(model, {}).update(own)
    return found


def polars_tiers(path: str) -> Values:
    """Describe tiers with Polars: the other statistics of each mean, pass@k, repeated runs."""
    import polars as pl  # noqa: PLC0415

    passed = pl.col("passed").cast(pl.Float64)
    runs = pl.read_parquet(path).with_columns(
        pass_rate=passed, composite_score=(passed + pl.col("impl_rate")) / 2
    )
    described = [
        getattr(pl.col(name), statistic)().alias(f"{name}_{statistic}")
        for name in TIER_MEANS
        for statistic in ("mean", "median", "min", "max", "std", "var")
    ]
    modes = [pl.col(name).mode().min().alias(f"{name}_mode") for name in TIER_MEANS]
    tiers = runs.group_by("tier").agg(*described, *modes)
    tasks = runs.group_by("tier", "id").agg(n=pl.len(), c=pl.col("passed").sum())
    n, c = pl.col("n"), pl.col("c")
    estimates = []
    for k in _KS:
        all_fail = pl.lit(1.0)
        for i in range(k):
            all_fail = all_fail * ((n - c - i).clip(0) / (n - i))
        estimates.append((1 - all_fail).alias(f"pass_at_{k}"))
    tasks.with_columns(*estimates).group_by("tier").agg(pl.exclude("id", "n", "c").mean())
    runs.select(pl.struct("id", "tier", "run").is_duplicated().sum())
    return {
        row["tier"]: {name: row[f"{name}_mean"] for name in TIER_MEANS}
        for row in tiers.iter_rows(named=True)
    }


def polars_compare(base: str, candidate: str) -> Values:
    """Pair two files with Polars: means and deviations of the differences of each number."""
    import polars as pl  # noqa: PLC0415

    answer = pl.col("answer").str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)
    right = (answer == pl.col("target").cast(pl.Float64)).fill_null(value=False).cast(pl.Float64)
    sides = [
        pl.scan_parquet(path).select("id", right.alias("accuracy"), "prob_correct", *_NUMBERS)
        for path in (base, candidate)
    ]
    names = ("accuracy", "prob_correct", *_NUMBERS)
    paired = sides[0].join(sides[1], on="id", suffix="_candidate")
    differences = paired.select((pl.col(f"{name}_candidate") - pl.col(name)) for name in names)
    named = differences.rename({f"{name}_candidate": name for name in names}, strict=False)
    [row] = (
        named.select(
            *(pl.col(name).mean() for name in names),
            *(pl.col(name).std().alias(f"{name}_std") for name in names),
        )
        .collect(engine="streaming")
        .to_dicts()
    )
    return {"difference": {"accuracy": row["accuracy"]}}


def polars_convert(source: str, output: str) -> Values:
    """Write JSON lines as Parquet with Polars."""
    import polars as pl  # noqa: PLC0415

    pl.scan_ndjson(source).sink_parquet(output)
    return {}


def networkx_traces(path: str) -> Values:
    """Measure traces one by one, with the plain reference that the conformance tests trust."""
    from tests.conformance import traces_reference  # noqa: PLC0415

    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            for name in TRACE_METRICS:
                value = getattr(traces_reference, name)(row["trace"])
                if value is not None:
                    found[row["model"]][name].append(value)
    return {
        model: {name: fsum(values) / len(values) for name, values in each.items()}
        for model, each in found.items()
    }


def scikit_cosine(path: str) -> Values:
    """Compare texts with scikit-learn, fitted again on each pair, as P's code does."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.metrics.pairwise import cosine_similarity  # noqa: PLC0415

    def compute(first: str, second: str) -> float:
        vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
        vectors = vectorizer.fit_transform([first, second])
        return float(cosine_similarity(vectors[0:1], vectors[1:2])[0][0])

    found = [compute(*pair) for pair in _read_pairs(path)]
    return {"all": {"cosine_similarity": sum(found) / len(found)}}


def python_jaccard(path: str) -> Values:
    """Compare texts by two sets of words for each pair, as P's code does."""

    def compute(first: str, second: str) -> float:
        one, other = set(first.lower().split()), set(second.lower().split())
        return len(one & other) / len(one | other) if one or other else 1.0

    found = [compute(*pair) for pair in _read_pairs(path)]
    return {"all": {"jaccard_similarity": sum(found) / len(found)}}


def _read_pairs(path: str) -> Iterator[tuple[str, str]]:
    with Path(path).open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield row["answer"], row["reference"]


def python_log(path: str) -> Values:
    """Unpack and parse every sample of a log of Inspect in plain Python; count what is right."""
    from benchmarks.eval_log import SCORER, open_log  # noqa: PLC0415

    with open_log(Path(path)) as packed:
        names = [name for name in packed.namelist() if name.startswith("samples/")]
        right = sum(json.loads(packed.read(n))["scores"][SCORER]["value"] == "C" for n in names)
    return {"all": {"accuracy": right / len(names)}}


def inspect_log(path: str) -> Values:
    """Read a log with Inspect, and count what its scorer found right."""
    from inspect_ai.log import read_eval_log  # noqa: PLC0415

    samples = read_eval_log(path).samples or []
    right = sum(sample.scores["match"].value == "C" for sample in samples)
    return {"all": {"accuracy": right / len(samples)}}


def inspect_run(path: str, settings: str) -> Values:
    """Make the calls of a suite with Inspect, from an empty log folder to its score.

    `settings` are keywords of its `eval` as JSON.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from inspect_ai import Task, eval  # noqa: A004, PLC0415
    from inspect_ai.dataset import Sample  # noqa: PLC0415
    from inspect_ai.scorer import match  # noqa: PLC0415
    from inspect_ai.solver import generate  # noqa: PLC0415

    suite = json.loads(Path(path).read_text(encoding="utf-8"))
    lines = (Path(path).parent / suite["data"]).read_text(encoding="utf-8").splitlines()
    samples = [
        Sample(
            id=row["id"],
            input=suite["prompt"].replace("{input}", row["input"]),
            target=row["target"],
        )
        for row in map(json.loads, lines)
    ]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with TemporaryDirectory() as folder:
        (log,) = eval(
            Task(dataset=samples, solver=generate(), scorer=match()),
            model="openai-api/openai/tiny",
            model_base_url=suite["systems"][0]["base_url"],
            max_connections=suite["concurrency"],
            max_samples=suite["concurrency"],
            display="none",
            log_dir=folder,
            **json.loads(settings),
        )
    assert log.status == "success", log.error
    assert log.results is not None
    return {"tiny": {"accuracy": log.results.scores[0].metrics["accuracy"].value}}


PEERS: dict[str, Callable[..., Values]] = {
    each.__name__: each
    for each in (
        polars_score,
        duckdb_score,
        polars_tiers,
        polars_compare,
        polars_convert,
        networkx_traces,
        scikit_cosine,
        python_jaccard,
        python_log,
        inspect_log,
        inspect_run,
    )
}


def main() -> None:
    """Run the peer that the command line names, and print its numbers."""
    name, *arguments = sys.argv[1:]
    json.dump(PEERS[name](*arguments), sys.stdout)


if __name__ == "__main__":
    main()
