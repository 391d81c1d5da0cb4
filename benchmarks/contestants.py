"""The programs that are measured, each in a process of its own.

`python -m benchmarks.contestants NAME FILE [METRIC…]` prints the seconds that the work took, on the
clock and of the processors, and the numbers it gave, as JSON. Starting Python and importing modules
are off the clock for all alike.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import fsum
from pathlib import Path
from time import perf_counter, process_time

Values = dict[str, dict[str, float | None]]  # by model and metric
Work = Callable[[Path, Sequence[str]], Values]


def calipers() -> Work:
    """`calipers score FILE --by model --metric …`; all metrics where none is named."""
    import numpy as np  # noqa: F401, PLC0415 (off the clock, as for all)

    from calipers.scores.score import score  # noqa: PLC0415

    def work(path: Path, metrics: Sequence[str]) -> Values:
        result = score(path, by="model", metrics=metrics)
        return {
            group.by["model"]: {name: each.value for name, each in group.metrics.items()}
            for group in result.groups
        }

    return work


def calipers_without_library() -> Work:
    """The same without the native library, as where the package was built without Rust."""
    import os  # noqa: PLC0415

    os.environ["CALIPERS_NATIVE"] = "0"
    return calipers()


def polars_read() -> Work:
    """Read the file with Polars, and no more."""
    import polars as pl  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        pl.read_ndjson(path)
        return {}

    return work


def plain_python() -> Work:
    """Score as the straightforward program does."""
    from benchmarks.plain_python import score  # noqa: PLC0415

    return lambda path, _: score(path)


def lean_python() -> Work:
    """Score as the one-pass program does."""
    from benchmarks.lean_python import score  # noqa: PLC0415

    return lambda path, _: score(path)


def reference_equations() -> Work:
    """Compute `math_usr` alone, with the plain reference that the conformance tests trust."""
    from tests.conformance.equations_reference import wrong_share  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        shares: dict[str, list[float]] = defaultdict(list)
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if (share := wrong_share(row["cot"])) is not None:
                    shares[row["model"]].append(share)
        return {model: {"math_usr": sum(each) / len(each)} for model, each in shares.items()}

    return work


def networkx_traces() -> Work:
    """Measure traces one by one, with the plain reference that the conformance tests trust."""
    from benchmarks.traces import METRICS  # noqa: PLC0415
    from tests.conformance import traces_reference  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                for name in METRICS:
                    value = getattr(traces_reference, name)(row["trace"])
                    if value is not None:
                        found[row["model"]][name].append(value)
        return {
            model: {name: fsum(values) / len(values) for name, values in each.items()}
            for model, each in found.items()
        }

    return work


def without_intervals() -> Work:
    """`calipers score` without what error bars need: variances and clusters."""
    _leave_intervals_out()
    return calipers()


def tiers_without_intervals() -> Work:
    """`calipers score FILE --profile tiers --by tier`, likewise, and without the tiers' own."""
    from calipers.scores import score  # noqa: PLC0415

    _leave_intervals_out()
    vars(score)["_add_evidence"] = lambda found, *_: tuple(found)
    return tiers()


def _leave_intervals_out() -> None:
    from calipers.engines.plan import Plan  # noqa: PLC0415
    from calipers.scores import score  # noqa: PLC0415

    Plan.influences = ()  # type: ignore[assignment]
    vars(score)["note_evidence"] = lambda *_: iter(())  # which read what these would have told


def bootstrap() -> Work:
    """`calipers score FILE --resamples N`."""
    from benchmarks.scoring import METRICS  # noqa: PLC0415
    from calipers.scores.score import score  # noqa: PLC0415

    def work(path: Path, arguments: Sequence[str]) -> Values:
        score(path, metrics=METRICS, resamples=int(arguments[0]))
        return {}

    return work


def bootstrap_plain_python() -> Work:
    """A loop that draws rows and scores them as the straightforward program does."""
    from random import choices  # noqa: PLC0415

    from benchmarks.plain_python import measure  # noqa: PLC0415

    def work(path: Path, arguments: Sequence[str]) -> Values:
        with path.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        for _ in range(int(arguments[0])):
            measure(choices(rows, k=len(rows)))
        return {}

    return work


def bootstrap_numpy() -> Work:
    """A loop that draws rows of columns computed once."""
    from benchmarks.numpy_bootstrap import columns, resampled  # noqa: PLC0415

    def work(path: Path, arguments: Sequence[str]) -> Values:
        resampled(columns(path), int(arguments[0]))
        return {}

    return work


def scikit_cosine() -> Work:
    """P's cosine: scikit-learn, fitted again on each pair."""
    from benchmarks.scikit import compute_cosine_similarity, mean, read  # noqa: PLC0415

    return lambda path, _: {
        "all": {"cosine_similarity": mean(read(path), compute_cosine_similarity)}
    }


def scikit_one_vectorizer() -> Work:
    """A cosine of vectors that are fitted once, on all texts."""
    from benchmarks.scikit import one_vectorizer, read  # noqa: PLC0415

    return lambda path, _: {"all": {"cosine_similarity": one_vectorizer(read(path))}}


def python_jaccard() -> Work:
    """P's Jaccard: two sets of words for each pair."""
    from benchmarks.scikit import compute_jaccard_similarity, mean, read  # noqa: PLC0415

    return lambda path, _: {
        "all": {"jaccard_similarity": mean(read(path), compute_jaccard_similarity)}
    }


def log() -> Work:
    """`calipers score LOG`."""
    from calipers.scores.score import score  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        [group] = score(path).groups
        return {"all": {"accuracy": group.metrics["accuracy"].value}}

    return work


def log_parsed() -> Work:
    """Unpack and parse every sample of a log in plain Python, and count what is right."""
    from benchmarks.eval_log import SCORER, open_log  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        with open_log(path) as packed:
            names = [name for name in packed.namelist() if name.startswith("samples/")]
            right = 0
            for name in names:
                sample = json.loads(packed.read(name))
                right += sample["scores"][SCORER]["value"] == "C"
        return {"all": {"accuracy": right / len(names)}}

    return work


def log_inspect() -> Work:
    """Read a log with Inspect, and count what its scorer found right."""
    from inspect_ai.log import read_eval_log  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        samples = read_eval_log(str(path)).samples or []
        right = sum(sample.scores["match"].value == "C" for sample in samples)
        return {"all": {"accuracy": right / len(samples)}}

    return work


def tiers() -> Work:
    """`calipers score FILE --profile tiers --by tier`."""
    from benchmarks.plain_tiers import DESCRIBED  # noqa: PLC0415
    from calipers.scores.score import score  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        result = score(path, by="tier", profile="tiers")
        return {
            group.by["tier"]: {name: group.metrics[name].value for name in DESCRIBED}
            for group in result.groups
        }

    return work


def tiers_read() -> Work:
    """Read the columns that the tiers' metrics use, and no more."""
    import polars as pl  # noqa: PLC0415

    from benchmarks.plain_tiers import COLUMNS  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        pl.read_parquet(path, columns=list(COLUMNS))
        return {}

    return work


def tiers_by_hand() -> Work:
    """The tiers' statistics in Polars by hand."""
    from benchmarks.plain_tiers import score  # noqa: PLC0415

    return lambda path, _: score(path)


def polars_by_hand() -> Work:
    """Some means of the file, with Polars by hand."""
    from benchmarks.by_hand import score_with_polars  # noqa: PLC0415

    return lambda path, _: score_with_polars(path)


def duckdb_by_hand() -> Work:
    """Some means of the file, with DuckDB by hand."""
    import duckdb  # noqa: F401, PLC0415 (off the clock, as for all)

    from benchmarks.by_hand import score_with_duckdb  # noqa: PLC0415

    return lambda path, _: score_with_duckdb(path)


def compare() -> Work:
    """`calipers compare FILE OTHER`."""
    from calipers.comparisons.api import compare as compare_runs  # noqa: PLC0415

    def work(path: Path, arguments: Sequence[str]) -> Values:
        compare_runs(path, arguments[0])
        return {}

    return work


def scipy_pairs() -> Work:
    """The difference of two accuracies by SciPy's paired bootstrap."""
    import numpy as np  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415
    from scipy.stats import bootstrap as resample  # noqa: PLC0415

    def work(path: Path, arguments: Sequence[str]) -> Values:
        answer = pl.col("answer").str.replace_all(",", "", literal=True)
        right = (answer.cast(pl.Float64, strict=False) == pl.col("target").cast(pl.Float64)).alias(
            "right"
        )
        base, candidate = (
            pl.read_parquet(each).sort("id").select(right.fill_null(value=False).cast(pl.Float64))
            for each in (path, arguments[0])
        )
        differences = (candidate["right"] - base["right"]).to_numpy()
        rng = np.random.default_rng(0)
        found = resample((differences,), np.mean, batch=100, rng=rng)
        return {"all": {"low": float(found.confidence_interval.low)}}

    return work


def report() -> Work:
    """`calipers report FILE --by model -o PAGE`."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    import numpy.random  # noqa: F401, PLC0415 (off the clock, as are the next two)

    from calipers.reports.data import report_builder  # noqa: F401, PLC0415
    from calipers.reports.data.report_builder import report as write_report  # noqa: PLC0415
    from calipers.reports.pages import report_page as _page  # noqa: F401, PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        with TemporaryDirectory() as folder:
            write_report(path, output=Path(folder) / "report.html", by="model")
        return {}

    return work


def run() -> Work:
    """`calipers run SUITE --no-report`, from an empty folder to its score."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    import aiohttp  # noqa: F401, PLC0415 (off the clock, as for all)

    from calipers.runs import run  # noqa: F401, PLC0415
    from calipers.runs.run import run as run_suite  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        with TemporaryDirectory() as folder:
            result = run_suite(path, Path(folder) / "results", report=False)
        assert result.exit_code == 0, result
        assert result.score is not None
        return {"tiny": {"accuracy": result.score.groups[0].metrics["accuracy"].value}}

    return work


def inspect() -> Work:
    """The same tasks by Inspect, from an empty log folder to its score."""
    import os  # noqa: PLC0415
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from inspect_ai import Task, eval  # noqa: A004, PLC0415
    from inspect_ai.dataset import Sample  # noqa: PLC0415
    from inspect_ai.scorer import match  # noqa: PLC0415
    from inspect_ai.solver import generate  # noqa: PLC0415

    def work(path: Path, _: Sequence[str]) -> Values:
        suite = json.loads(path.read_text(encoding="utf-8"))
        lines = (path.parent / suite["data"]).read_text(encoding="utf-8").splitlines()
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
            )
        assert log.status == "success", log.error
        assert log.results is not None
        return {"tiny": {"accuracy": log.results.scores[0].metrics["accuracy"].value}}

    return work


CONTESTANTS: dict[str, Callable[[], Work]] = {
    entry.__name__: entry
    for entry in (
        calipers,
        calipers_without_library,
        polars_read,
        plain_python,
        lean_python,
        reference_equations,
        networkx_traces,
        without_intervals,
        tiers_without_intervals,
        bootstrap,
        bootstrap_plain_python,
        bootstrap_numpy,
        scikit_cosine,
        scikit_one_vectorizer,
        python_jaccard,
        log,
        log_parsed,
        log_inspect,
        tiers,
        tiers_read,
        tiers_by_hand,
        polars_by_hand,
        duckdb_by_hand,
        compare,
        scipy_pairs,
        report,
        run,
        inspect,
    )
}


def main() -> None:
    name, path, *metrics = sys.argv[1:]
    work = CONTESTANTS[name]()
    started, cpu_started = perf_counter(), process_time()
    values = work(Path(path), metrics)
    seconds, cpu = perf_counter() - started, process_time() - cpu_started
    json.dump({"seconds": seconds, "cpu_seconds": cpu, "values": values}, sys.stdout)


if __name__ == "__main__":
    main()
