"""What each command takes at 10⁴ to 10⁷ rows, and over groups, categories, systems and rules.

A command is a process with all its imports, on shuffled records without long texts; texts have a
benchmark of their own. Beside it stands its peer: Polars or DuckDB by hand, or `score`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.figures import Bar, Cost, Figure, cost_of, versus
from benchmarks.peers import TIER_MEANS
from benchmarks.processes import (
    Run,
    Runner,
    Setup,
    by_turns,
    calipers,
    find_largest_difference,
    peer,
)

SIZES = (0.01, 0.1, 1, 10)  # times the rows of the workload
GATED = ("accuracy", "ece", "latency_p95_ms")
SAME = Bar(1e-9)
LINEAR = Bar(1.3)
_GATE_CODES = (0, 1)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line for so many rows, its peer, and what to do where it gets too much."""

    run: Callable[[Setup, int], Runner]
    advice: str
    beside: Callable[[Setup, int], Runner] | str  # a peer, or a command that stands above
    called: str = ""  # the peer
    bar: Bar | None = None  # of the processor time beside the peer's


def _records(setup: Setup, rows: int) -> Path:
    return setup.file("records", ".parquet", rows)


def _sides(setup: Setup, rows: int) -> tuple[Path, Path]:
    base, candidate = (
        setup.file(side, ".parquet", max(rows // 2, 1)) for side in ("base", "candidate")
    )
    return base, candidate


def _score(setup: Setup, rows: int, *metrics: str) -> Runner:
    named = [word for name in metrics for word in ("--metric", name)]
    return calipers("score", _records(setup, rows), "--by", "model", "--format", "json", *named)


def _write_policy(setup: Setup, name: str, policy: dict[str, object]) -> Path:
    path = setup.folder.resolve() / f"{name}.policy.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    return path


def _gate(setup: Setup, rows: int) -> Runner:
    thresholds = {"accuracy": "≥ 60%", "ece": "< 0.2", "latency_p95_ms": "< 5000ms"}
    policy = _write_policy(setup, "thresholds", {"thresholds": {"blocking": thresholds}})
    command = ("gate", _records(setup, rows), "--policy", policy, "--by", "model")
    return calipers(*command, accept=_GATE_CODES)


def _write_to(setup: Setup, name: str) -> Path:
    return setup.folder.resolve() / f"written-{name}"


def _by_lines(setup: Setup, rows: int) -> Path:
    return setup.file("records", ".jsonl", rows)


COMMANDS = {
    "score": Command(
        run=_score,
        beside=lambda setup, rows: peer("polars_score", _records(setup, rows)),
        called="Polars by hand",
        advice="Name what you need (`--metric`): only its columns are read. Days or shards apart: "
        "`--by day`. Many machines: `--engine spark`.",
    ),
    "score of three metrics": Command(
        run=lambda setup, rows: _score(setup, rows, *GATED),
        beside=lambda setup, rows: peer("duckdb_score", _records(setup, rows)),
        called="DuckDB by hand, seven means more",
        advice="As `score`.",
    ),
    "gate": Command(
        run=_gate,
        beside="score of three metrics",
        bar=Bar(1.3),
        advice="Thresholds of metrics decide from totals; rules that name scenarios or categories, "
        "and a baseline, need those rows: gate the scenarios apart.",
    ),
    "compare": Command(
        run=lambda setup, rows: calipers("compare", *_sides(setup, rows)),
        beside=lambda setup, rows: peer("polars_compare", *_sides(setup, rows)),
        called="Polars by hand",
        advice="Each task's values of both sides are held: name the metrics that matter "
        "(`--metric`), or compare a sample of the tasks: its interval tells whether it is enough.",
    ),
    "rank": Command(
        run=lambda setup, rows: calipers("rank", _records(setup, rows)),
        beside="score",
        advice="As `compare`: the matrix of systems and tasks is held.",
    ),
    "report": Command(
        run=lambda setup, rows: calipers(
            *("report", _records(setup, rows), "--by", "model"),
            *("-o", _write_to(setup, "report.html")),
        ),
        beside="score",
        bar=Bar(1.3),
        advice="Score the whole; report a day or a system of it.",
    ),
    "convert": Command(
        run=lambda setup, rows: calipers(
            "convert", _by_lines(setup, rows), "-o", _write_to(setup, "records.parquet")
        ),
        beside=lambda setup, rows: peer(
            "polars_convert", _by_lines(setup, rows), _write_to(setup, "by-hand.parquet")
        ),
        called="Polars, reading and writing",
        bar=Bar(1.3),
        advice="Convert the parts of a log one by one, as they are written; a folder of Parquet is "
        "read as one table.",
    ),
    "doctor": Command(
        run=lambda setup, rows: calipers("doctor", _records(setup, rows)),
        beside="score",
        advice="Look at one day's file: what is wrong with a log is wrong every day.",
    ),
    "explain": Command(
        run=lambda setup, rows: calipers("explain", "ece", _records(setup, rows)),
        beside="score",
        advice="Explain a part: `--by`, or one day's file.",
    ),
    "power": Command(
        run=lambda setup, rows: calipers("power", *_sides(setup, rows)),
        beside="score",
        advice="Plan from a pilot of a few thousand tasks: variances do not change with more.",
    ),
    "agree": Command(
        run=lambda setup, rows: calipers("agree", setup.file("judgments", ".parquet", rows)),
        beside="score",
        advice="A random sample of some thousand units has agreement to two digits.",
    ),
    "judge audit": Command(
        run=lambda setup, rows: calipers(
            "judge", "audit", setup.file("judgments", ".parquet", rows)
        ),
        beside="score",
        advice="As `agree`: audit a sample.",
    ),
    "score --profile tiers": Command(
        run=lambda setup, rows: calipers(
            *("score", setup.file("tiers", ".parquet", rows), "--profile", "tiers"),
            *("--by", "tier", "--format", "json"),
        ),
        beside=lambda setup, rows: peer("polars_tiers", setup.file("tiers", ".parquet", rows)),
        called="Polars by hand",
        advice="As `score`; repeated runs of a task add no memory.",
    ),
}


def measure_rows(setup: Setup) -> Iterator[Figure | Cost]:
    """Run every command at each size; the largest size once."""
    done: dict[str, dict[int, Run]] = {}
    for name, command in COMMANDS.items():
        done[name] = {}
        for size in SIZES:
            rows = int(size * setup.rows)
            runners = {name: command.run(setup, rows)}
            if not isinstance(command.beside, str):
                runners[command.called] = command.beside(setup, rows)
            print(f" {name}, {rows:,} rows", file=sys.stderr)
            found = by_turns(setup.rounds if size < max(SIZES) else 1, runners)
            done[name][rows] = found[name]
            yield cost_of(found[name], name, "rows", rows)
        peer_run = found.get(command.called) or done[str(command.beside)][rows]
        yield from _compare(setup, name, command, found[name], peer_run)
        yield from _check_growth(setup, name, done[name])


def _compare(setup: Setup, name: str, command: Command, ours: Run, theirs: Run) -> Iterator[Figure]:
    """Yield the ratios at the largest size."""
    if not (ours.finished and theirs.finished):
        return
    called = command.called or str(command.beside)
    rows = f"{int(SIZES[-1] * setup.rows):,} rows"
    for what, value in (
        ("processor time", ours.cpu_seconds / theirs.cpu_seconds),
        ("peak memory", ours.peak_bytes / theirs.peak_bytes),
    ):
        yield Figure(
            name=f"{name} / {called}, {rows}: {what}",
            value=value,
            bar=command.bar,
            binding=setup.is_full,
            detail=versus(ours, theirs),
        )
    if name in ("score", "score --profile tiers"):
        names = TIER_MEANS if "tiers" in name else None
        yield Figure(
            name=f"{name}: difference of the numbers, calipers - {called}",
            value=_find_difference(ours, theirs, names),
            unit="",
            bar=SAME,
        )


def _find_difference(ours: Run, theirs: Run, names: Sequence[str] | None) -> float:
    values = theirs.read_values()
    if names is not None:
        values = {key: {name: each[name] for name in names} for key, each in values.items()}
    return find_largest_difference(ours.read_values(), values)


def _check_growth(setup: Setup, name: str, done: dict[int, Run]) -> Iterator[Figure]:
    (few, before), (many, last) = list(done.items())[-2:]
    if last.finished:
        yield Figure(
            name=f"{name}: processor time per row, {many:,} rows / {few:,}",
            value=(last.cpu_seconds / many) / (before.cpu_seconds / few),
            bar=LINEAR,
            binding=setup.is_full,
            detail=versus(last, before),
        )


Things = Literal["groups", "categories", "systems", "rules", "required ids", "agents", "resamples"]


@dataclass(frozen=True, kw_only=True)
class Breadth:
    """A command over things other than rows."""

    command: str
    over: Things
    sizes: tuple[int, ...]
    run: Callable[[Setup, int], Runner]
    detail: str
    advice: str
    beside: Callable[[Setup, int], Runner] | None = None  # at the largest size
    called: str = ""
    limits: tuple[Bar, Bar] | None = None  # of seconds and megabytes at the largest size


def _grouped(setup: Setup, groups: int, rows: int | None = None) -> Path:
    return setup.file("grouped", ".parquet", rows, groups)


def _score_groups(setup: Setup, groups: int) -> Runner:
    output = _write_to(setup, "groups.json")
    command = ("score", _grouped(setup, groups), "--by", "category", "--format", "json")
    return calipers(*command, "-o", output)


def _gate_categories(setup: Setup, categories: int, rules: int = 100) -> Runner:
    named = {f"category-{n}": "≥ 1%" for n in range(min(rules, categories))}
    policy = _write_policy(setup, f"categories-{rules}", {"pass_criteria": {"by_category": named}})
    path = _grouped(setup, categories, setup.rows // 5)
    return calipers("gate", path, "--policy", policy, accept=(0, 1, 3))


def _gate_required(setup: Setup, ids: int) -> Runner:
    named = [f"task-{n:08}" for n in range(ids)]
    policy = _write_policy(setup, f"required-{ids}", {"required_scenarios": {"ids": named}})
    path = setup.file("base", ".parquet", setup.rows // 5)
    return calipers("gate", path, "--policy", policy, accept=(0, 1, 3))


def _rank_systems(setup: Setup, systems: int) -> Runner:
    return calipers("rank", setup.file("systems", ".parquet", 200 * systems, systems))


def _compare_systems(setup: Setup, systems: int) -> Runner:
    path = setup.file("systems", ".parquet", 200 * systems, systems)
    return calipers("compare", path, "--between", "model")


def _score_resampled(setup: Setup, resamples: int) -> Runner:
    path = _records(setup, setup.rows // 100)
    return calipers("score", path, "--by", "model", "--resamples", resamples)


BREADTHS = (
    Breadth(
        command="score --by category",
        over="groups",
        sizes=(10, 1_000, 100_000),
        run=_score_groups,
        beside=lambda setup, groups: peer("polars_score", _grouped(setup, groups), "category"),
        called="Polars by hand",
        limits=(Bar(6.0), Bar(1_000)),
        detail="1,000,000 rows, all metrics",
        advice="Name the metrics: each has an interval in every group.",
    ),
    Breadth(
        command="gate",
        over="categories",
        sizes=(100, 1_000, 100_000),
        run=_gate_categories,
        detail="200,000 rows, 100 rules of categories",
        advice="Rules name categories; others cost what a group costs.",
    ),
    Breadth(
        command="gate",
        over="rules",
        sizes=(100, 1_000, 10_000),
        run=lambda setup, rules: _gate_categories(setup, 10_000, rules),
        detail="200,000 rows in 10,000 categories",
        advice="A rule per category is one pass over the rows.",
    ),
    Breadth(
        command="gate",
        over="required ids",
        sizes=(100, 1_000, 10_000),
        run=_gate_required,
        detail="200,000 rows",
        advice="Name the category of the scenarios in `pass_criteria` instead of each id.",
    ),
    Breadth(
        command="rank",
        over="systems",
        sizes=(10, 125, 500, 1_000),
        run=_rank_systems,
        limits=(Bar(15.0), Bar(2_000)),
        detail="200 tasks each",
        advice="All pairs are tested: rank the finalists.",
    ),
    Breadth(
        command="compare --between model",
        over="systems",
        sizes=(2, 8, 20),
        run=_compare_systems,
        detail="200 tasks each",
        advice="`rank` for more than a handful of systems.",
    ),
    Breadth(
        command="score of traces",
        over="agents",
        sizes=(10, 100, 1_000),
        run=lambda setup, agents: calipers("score", setup.file("traces", ".jsonl", 3, agents)),
        detail="3 traces",
        advice="Metrics of graphs grow with agents times messages.",
    ),
    Breadth(
        command="score --resamples",
        over="resamples",
        sizes=(100, 1_000),
        run=_score_resampled,
        detail="10,000 rows",
        advice="Closed forms are the default; resample to check one on a part.",
    ),
)


def measure_breadths(setup: Setup) -> Iterator[Figure | Cost]:
    """Run the commands whose cost is of things, not of rows."""
    for breadth in BREADTHS:
        last: dict[str, Run] = {}
        for size in breadth.sizes:
            print(f" {breadth.command}, {size:,} {breadth.over}", file=sys.stderr)
            runners = {"calipers": breadth.run(setup, size)}
            if breadth.beside is not None and size == breadth.sizes[-1]:
                runners[breadth.called] = breadth.beside(setup, size)
            last = by_turns(1, runners)
            yield cost_of(last["calipers"], breadth.command, breadth.over, size)
        ours, largest = last["calipers"], f"{breadth.sizes[-1]:,} {breadth.over}"
        if breadth.limits is not None:
            for value, unit, bar in zip(
                (ours.cpu_seconds, ours.peak_mb), ("s", "MB"), breadth.limits, strict=True
            ):
                yield Figure(
                    name=f"{breadth.command}, {largest}: "
                    f"{'processor time' if unit == 's' else 'peak memory'}",
                    value=value,
                    unit=unit,
                    bar=bar,
                    binding=setup.is_full,
                    detail=breadth.detail,
                )
        if breadth.beside is not None and ours.finished:
            theirs = last[breadth.called]
            yield Figure(
                name=f"{breadth.command}, {largest}: calipers / {breadth.called}",
                value=ours.cpu_seconds / theirs.cpu_seconds,
                detail=versus(ours, theirs),
            )
