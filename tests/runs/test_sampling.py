"""A part of the tasks: who is drawn, by which shares, and that this may not change on the way."""

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers
from calipers.records.task_data import Tasks
from calipers.runs.suite import SampleSpec, _allot, draw_sample
from calipers.support.errors import UsageError
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

AGENT = "def answer(record):\n    return record['input']\n"


def _tasks(**sizes: int) -> Tasks:
    rows = [
        {"id": f"{name}{n}", "input": "?", "category": name}
        for name, size in sizes.items()
        for n in range(size)
    ]
    return Tasks(tasks=rows, sha256="0")


def _ids(tasks: Tasks) -> list[str]:
    return [task["id"] for task in tasks.tasks]


def test_the_draw_is_the_seeds_and_keeps_the_order_of_the_data() -> None:
    tasks = _tasks(a=50, b=50)
    drawn = draw_sample(tasks, SampleSpec(n=10))
    assert _ids(drawn) == _ids(draw_sample(tasks, SampleSpec(n=10)))
    assert _ids(drawn) != _ids(draw_sample(tasks, SampleSpec(n=10, seed=1)))
    assert _ids(drawn) == [each for each in _ids(tasks) if each in _ids(drawn)]
    assert drawn.drawn_from == 100
    turned = Tasks(tasks=tasks.tasks[::-1], sha256="0")
    assert set(_ids(draw_sample(turned, SampleSpec(n=10)))) == set(_ids(drawn))
    assert set(_ids(drawn)) <= set(_ids(draw_sample(tasks, SampleSpec(n=20))))


def test_groups_keep_their_shares() -> None:
    drawn = draw_sample(_tasks(a=60, b=30, c=10), SampleSpec(n=20, by=["category"]))
    assert Counter(task["category"] for task in drawn.tasks) == {"a": 12, "b": 6, "c": 2}
    few = draw_sample(_tasks(a=97, b=3), SampleSpec(n=5, by=["category"]))
    assert few.notices[0].endswith("tasks are run; the verdict is on these alone")
    assert "no task is drawn of b" in few.notices[1]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.data())
def test_shares_are_whole_and_within_one_of_their_quota(sizes: list[int], data: Any) -> None:
    n = data.draw(st.integers(1, sum(sizes)))
    taken = _allot(sizes, n)
    assert sum(taken) == n
    for size, count in zip(sizes, taken, strict=True):
        assert count <= size
        assert abs(count - n * size / sum(sizes)) < 1


def test_more_than_there_are_is_all_and_an_unknown_field_is_refused() -> None:
    everything = draw_sample(_tasks(a=3), SampleSpec(n=5))
    assert len(everything) == 3
    assert "all are taken" in everything.notices[0]
    with pytest.raises(UsageError, match="no task has categroy") as refused:
        draw_sample(_tasks(a=3), SampleSpec(n=2, by=["categroy"]))
    assert "category" in refused.value.fix


def _folder(path: Path, **more: Any) -> SuiteFolder:
    (path / "agent.py").write_text(AGENT)
    tasks = [{"id": f"t{n}", "input": str(n), "category": "ab"[n % 2]} for n in range(20)]
    return suite_folder(path, tasks, [{"name": "echo", "python": "agent.py:answer"}], **more)


def test_a_run_calls_the_sample_alone_and_notes_it(tmp_path: Path) -> None:
    folder = _folder(tmp_path, sample={"n": 6, "seed": 3, "by": "category"})
    assert folder.run().exit_code == 0
    assert Counter(each["category"] for each in folder.records()) == {"a": 3, "b": 3}
    manifest = folder.json("manifest.json")
    assert manifest["suite"]["sample"] == {"n": 6, "seed": 3, "by": ["category"]}
    assert (manifest["data"]["tasks"], manifest["data"]["drawn_from"]) == (6, 20)
    assert "6 reused" in folder.run().output
    refused = folder.write(sample={"n": 6, "seed": 4, "by": "category"}).run()
    assert refused.exit_code == 2
    assert "sample.seed was 3, is 4" in refused.output
    assert folder.write(sample=None).run().exit_code == 2
    assert folder.write(sample={"n": 0}).run().exit_code == 2


def test_from_python_and_with_scenarios_in_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def echo(record: dict[str, Any]) -> str:
        return str(record["input"])

    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(f"input: {name}\ntarget: {name}\n")
    result = calipers.run(echo, tasks=tmp_path, sample={"n": 2})
    assert result.records.height == 2
    there = pl.LazyFrame({"id": ["x"], "input": ["1"], "target": ["1"]})
    monkeypatch.setattr(pl, "scan_parquet", lambda _, **__: there)
    result = calipers.run(echo, tasks="hf://datasets/a/b/c.parquet")
    assert result.score is not None
    assert result.score["accuracy"].value == 1.0
