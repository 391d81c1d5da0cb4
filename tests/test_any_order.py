"""No number moves when rows are shuffled, cut into files, written in another format or renamed.

One such test per command: what it says of the rows must depend on nothing but the rows.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.files import write_lines
from tests.shared_data import FOLDER

Row = dict[str, Any]
FEW_NAMES = ["llama", "llama3", "", " my model", "=1+1", "--by", "🤖", "é", "e\u0301", "a/b", ".."]
FEW_NAMES += ["null", "NaN", "True", "1", "01", "1.0", "{model}", "<b>x</b>", "a\nb", "%s", "$x$"]
METRICS = ["accuracy", "brier", "cost_usd"]
POLICY = {"thresholds": {"blocking": {"accuracy": "10%"}, "warning": {"cost_usd": "≤ 0.50USD"}}}
# What says where the rows came from, or is a text about it.
PLACES = {"inputs", "files", "path", "source", "sources", "version", "notices", "findings"}


def list_names() -> list[str]:
    """The names of the world beside the checkout, or a few odd ones."""
    path = FOLDER / "names.txt"
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return list(
        dict.fromkeys([*FEW_NAMES, *(json.loads(each) for each in lines if each[:1] == '"')])
    )


def make_rows(models: list[str], tasks: list[str], categories: list[str], seed: int) -> list[Row]:
    draw = random.Random(seed)
    return [
        {
            "id": task,
            "model": model,
            "category": categories[at % len(categories)],
            "run": run,
            "level": at % 2 if at % 3 else "hard",
            "target": "1",
            "answer": draw.choice("110"),
            "cost_usd": draw.choice((0.07, 0.01, 0.03)),
            "prob_correct": draw.choice((0.0, 0.5, 0.3)),
        }
        for model in models
        for at, task in enumerate(tasks)
        for run in range(3)
    ]


MODELS = ["gpt-4o-mini", "llama", "llama3"]
TASKS = [f"HumanEval/{number}" for number in range(12)]
ROWS = make_rows(MODELS, TASKS, ["code", "=1+1", "a b"], seed=1)


def score(data: Any) -> Any:
    return cal.score(data, by=["model", "level"]).to_dict()


def compare(data: Any) -> Any:
    return cal.compare(data, between="model", metrics=METRICS).to_dict()


def compare_unpaired(data: Any) -> Any:
    return cal.compare(data, between="model", unpaired=True, metrics=METRICS).to_dict()


def rank(data: Any) -> Any:
    return cal.rank(data, by="model", metrics=["accuracy", "cost_usd"]).to_dict()


def gate(data: Any) -> Any:
    return cal.gate(data, policy=POLICY, by="model").to_dict()


def explain(data: Any) -> Any:
    return cal.explain("accuracy", data, by="model").to_dict()


def doctor(data: Any) -> Any:
    found = cal.doctor(data).to_dict()
    return found["records"], found["support"]


def report(data: Any) -> Any:
    found = cal.report(data, by="model").to_dict()
    return [found[name] for name in ("score", "ranking", "breakdowns", "tasks", "n_tasks")]


def convert(data: Any) -> Any:
    table = cal.read(data).with_columns(pl.col("run").cast(pl.Float64))  # a text in CSV
    return sorted(table.select(sorted(ROWS[0])).rows(), key=repr)


COMMANDS = (score, compare, compare_unpaired, rank, gate, explain, doctor, convert, report)


def write_zipped(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    return path


def cut(folder: Path, rows: list[Row], parts: int) -> list[Path]:
    folder.mkdir()
    return [write_lines(folder / f"{n}.jsonl", rows[n::parts]) for n in range(parts)]


def list_ways(folder: Path, rows: list[Row]) -> Iterator[tuple[str, Any]]:
    """The rows in other orders, files and formats."""
    shuffled = random.Random(0).sample(rows, len(rows))
    texts = [{**row, "level": str(row["level"])} for row in rows]
    yield "a file", write_lines(folder / "a.jsonl", rows)
    yield "shuffled", shuffled
    yield "reversed, in a file", write_lines(folder / "reversed.jsonl", rows[::-1])
    yield "two files", cut(folder / "two", shuffled, 2)
    yield "fifty files", cut(folder / "fifty", rows, 50)
    yield "gz", write_zipped(folder / "a.jsonl.gz", shuffled)
    table = pl.DataFrame(texts)
    table.write_csv(folder / "a.csv")
    yield "CSV", folder / "a.csv"
    table.write_parquet(folder / "a.parquet", row_group_size=7)
    yield "Parquet", folder / "a.parquet"
    yield "Polars", table
    yield "Arrow", table.to_arrow()
    yield "pandas", table.to_pandas()


def find_difference(one: Any, other: Any, place: str = "") -> str | None:
    """Where two results differ by more than the last digits, or None.

    Rows are added up as they come, in blocks, so that they need not fit into memory: the last
    digit of a sum may depend on their order. No result has been seen to move by more than 3e-14.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        names = {*one, *other} - PLACES
        pairs = ((one.get(name), other.get(name), f"{place}.{name}") for name in sorted(names))
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return f"{place}: {len(one)} and {len(other)}"
        pairs = ((*each, f"{place}[{at}]") for at, each in enumerate(zip(one, other, strict=True)))
    elif isinstance(one, float) and isinstance(other, float):
        return (
            None if one == pytest.approx(other, rel=1e-12, abs=1e-14) else f"{place}: {one} {other}"
        )
    else:
        return None if one == other else f"{place}: {one!r} {other!r}"
    return next((found for each in pairs if (found := find_difference(*each))), None)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.__name__)
def test_nothing_moves(command: Callable[[Any], Any], tmp_path: Path) -> None:
    expected = command(ROWS)
    for way, data in list_ways(tmp_path, ROWS):
        assert find_difference(expected, command(data)) is None, way


def rename(rows: list[Row], new: dict[str, str]) -> list[Row]:
    return [
        {**row, **{name: new[row[name]] for name in ("id", "model", "category")}} for row in rows
    ]


def put_back(found: Any, old: dict[str, str]) -> Any:
    """The result with the former names, its groups in their order."""
    if isinstance(found, dict):
        return {name: put_back(each, old) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return sorted(
            (put_back(each, old) for each in found),
            key=lambda each: json.dumps(each, sort_keys=True, default=str),
        )
    return old.get(found, found) if isinstance(found, str) else found


def compare_first(data: list[Row]) -> Any:
    """The first model against the others, whatever they are called."""
    found = cal.compare(data, between="model", base=data[0]["model"], metrics=[*METRICS, "ece"])
    return found.to_dict()


def compare_unpaired_first(data: list[Row]) -> Any:
    base = data[0]["model"]
    return cal.compare(data, between="model", base=base, unpaired=True, metrics=METRICS).to_dict()


def rank_all(data: Any) -> Any:
    """Without which of two comes first in a pair, where their values are equal."""
    found = cal.rank(data, by="model", metrics=[*METRICS, "ece", "stability"]).to_dict()
    of_metrics = [found, *found["further"]]
    return [
        (each["systems"], [pair["p_adjusted"] for pair in each["pairs"]]) for each in of_metrics
    ]


RENAMED = (score, gate, doctor, compare_first, compare_unpaired_first, rank_all)


@pytest.mark.parametrize("command", RENAMED, ids=lambda each: each.__name__)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_names_move_nothing(command: Callable[[Any], Any], seed: int) -> None:
    old_names = [*MODELS, *TASKS, "code", "=1+1", "a b"]
    others = {str(value) for row in ROWS for value in row.values()}  # stay what they are
    free = [name for name in list_names() if name not in others]
    names = random.Random(seed).sample(free, len(old_names))
    new_names = dict(zip(old_names, names, strict=True))
    old = {new: before for before, new in new_names.items()}
    expected = put_back(command(ROWS), {})
    found = put_back(command(rename(ROWS, new_names)), old)
    assert find_difference(expected, found) is None


@pytest.mark.parametrize("tasks", [1, 6])
def test_names_of_tiers_move_no_uplift(tasks: int) -> None:
    draw = random.Random(4)
    rows = [
        {"id": str(at % tasks), "run": at, "tier": tier, "impl_rate": draw.random(), "passed": True}
        for tier in ("T0", "T1", "T2")
        for at in range(12)
    ]
    new = {"T0": "zz", "T1": "llama3", "T2": "llama"}
    found = cal.score(rows, by="tier", profile="tiers").to_dict()["tiers"]
    renamed = [{**row, "tier": new[str(row["tier"])]} for row in rows]
    again = cal.score(renamed, by="tier", profile="tiers", baseline="zz").to_dict()["tiers"]
    expected = {new[tier]: each for tier, each in found["uplift_intervals"].items()}
    assert len(expected) == 2
    assert find_difference(expected, again["uplift_intervals"]) is None
