"""A suite's data in every shape that `score` reads, and how large a Parquet file says it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.readers.parquet_check import read_unpacked_size
from calipers.records.task_data import read_tasks
from calipers.support.errors import CalipersError, DataError

TASKS: list[dict[str, Any]] = [
    {"id": "007", "input": "1 + 1", "target": "2", "mine": "x"},
    {"id": "8", "input": "2 + 1", "target": "3", "mine": "y"},
]


def _parts(path: Path) -> None:
    path.mkdir()
    for number, task in enumerate(TASKS):
        pl.DataFrame([task]).write_parquet(path / f"{number}.parquet")


SHAPES: dict[str, Callable[[Path], object]] = {
    "lines.jsonl": lambda p: p.write_text("\n".join(map(json.dumps, TASKS))),
    "pretty.jsonl": lambda p: p.write_text("\n".join(json.dumps(t, indent=1) for t in TASKS)),
    "list.json": lambda p: p.write_text(json.dumps(TASKS, indent=1)),
    "pretty.json": lambda p: p.write_text("\n".join(json.dumps(t, indent=1) for t in TASKS)),
    "wrapped.json": lambda p: p.write_text(json.dumps({"by": "me", "data": TASKS}, indent=1)),
    "table.csv": lambda p: pl.DataFrame(TASKS).write_csv(p),
    "table.parquet": lambda p: pl.DataFrame(TASKS).write_parquet(p),
    "parts": _parts,
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_suite_reads_its_data_as_score_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    SHAPES[name](path)
    found = read_tasks(path)
    assert list(found.tasks) == TASKS
    assert len(found.sha256) == 64
    assert cal.score(path, metrics=["accuracy"]).records == len(TASKS)
    assert ("its list 'data'; left out: by" in " ".join(found.notices)) == (name == "wrapped.json")


def test_the_hash_of_several_files_tells_a_change(tmp_path: Path) -> None:
    _parts(tmp_path / "parts")
    before = read_tasks(tmp_path / "parts").sha256
    pl.DataFrame([{**TASKS[1], "target": "4"}]).write_parquet(tmp_path / "parts" / "1.parquet")
    assert read_tasks(tmp_path / "parts").sha256 != before


@pytest.mark.parametrize("name", ["list.json", "wrapped.json"])
def test_a_bad_task_is_named_in_every_shape(name: str, tmp_path: Path) -> None:
    rows = [TASKS[0], {"id": "9", "expected_behaviors": 5}]
    (tmp_path / name).write_text(json.dumps(rows if name == "list.json" else {"data": rows}))
    with pytest.raises(DataError, match="expected_behaviors"):
        read_tasks(tmp_path / name)


def test_a_footer_tells_how_large_the_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    cells = [f"{number:05}" * 1000 for number in range(100)]
    odd = {"l": [[1, 2]] * 100, "s": [{"a": True}] * 100, "f": [1.5] * 100}
    pl.DataFrame({"answer": cells, **odd}).write_parquet(path, row_group_size=7)
    found = read_unpacked_size(path)
    assert found is not None
    assert 500_000 < found < 520_000
    whole = path.read_bytes()
    for cut in (whole[:-1], whole[:-40] + whole[-8:], b"PAR1", b""):  # damaged: Polars is to say so
        path.write_bytes(cut)
        assert read_unpacked_size(path) is None or read_unpacked_size(path) != found


# --- scenarios in YAML, and data on a hub ---


def _scenarios(folder: Path) -> None:
    (folder / "security").mkdir(parents=True)
    (folder / "CORE-001.yaml").write_text(
        "# what everybody asks\ninput: Where is order 1001?\ncategory: happy_path\n"
        "expected_behaviors: [look_up_order, state_status]\ntarget: 7.50\nwritten: 2026-01-02\n"
    )
    (folder / "security" / "any name.yml").write_text(
        "id: SEC-001\ninput: Cancel it.\ncategory: adversarial\ncapability: core_function\n"
        "checks:\n  - {forbid: cancels, icontains: cancelled}\nturns: [one, two]\n"
    )


def test_a_folder_of_yaml_files_has_a_scenario_in_each(tmp_path: Path) -> None:
    _scenarios(tmp_path / "scenarios")
    found = read_tasks(tmp_path / "scenarios")
    first, second = found.tasks
    assert first["id"] == "CORE-001"
    assert first["expected_behaviors"] == ["look_up_order", "state_status"]
    assert (first["target"], first["written"]) == ("7.5", "2026-01-02")
    assert second["id"] == "SEC-001"
    assert second["checks"] == [{"forbid": "cancels", "icontains": "cancelled"}]
    assert second["turns"] == ["one", "two"]
    changed = tmp_path / "scenarios" / "CORE-001.yaml"
    changed.write_text(changed.read_text() + "tags: [new]\n")
    assert read_tasks(tmp_path / "scenarios").sha256 != found.sha256


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- input: a list\n", "bad.yaml: not the fields of one scenario"),
        ("input: [unclosed\n", "bad.yaml: cannot be read as YAML"),
        ("expected_behaviors: 5\n", "bad.yaml: expected_behaviors"),
        ("score: .nan\n", "bad.yaml: "),
        ("id: CORE-001\n", "have the same id: CORE-001"),
    ],
)
def test_a_bad_scenario_is_named_with_its_file(text: str, told: str, tmp_path: Path) -> None:
    _scenarios(tmp_path)
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(CalipersError, match=re.escape(told)):
        read_tasks(tmp_path)


@pytest.mark.parametrize(
    ("address", "scan"),
    [
        ("hf://datasets/a/b/data/train.parquet", "scan_parquet"),
        ("hf://datasets/a/b@main/**/*.parquet", "scan_parquet"),
        ("hf://datasets/a/b/data/", "scan_parquet"),
        ("hf://datasets/a/b/train.csv", "scan_csv"),
    ],
)
def test_an_address_on_the_hub_reaches_polars_as_it_is(
    address: str, scan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def scanned(path: str, **_: Any) -> pl.LazyFrame:
        asked.append(path)
        return pl.LazyFrame(TASKS)

    monkeypatch.setattr(pl, scan, scanned)
    found = read_tasks(address)
    assert asked == [address]
    assert list(found.tasks) == TASKS
    assert found.sha256 == read_tasks(address).sha256
