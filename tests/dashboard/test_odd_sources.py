"""What pages make of sources that are slow, broken, changed or real, and of wrong addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calipers.dashboard.index_cache import Indexes, NotYet
from tests.dashboard.dashboards import Serving, copy_run, records
from tests.examples import first_of
from tests.files import write_lines
from tests.records.bombs import ENDS_POLARS
from tests.shared_data import FOLDER, needs_shared_data


def test_a_source_that_is_not_indexed_yet_shows_progress(
    tmp_path: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_nothing(*_: Any, **__: Any) -> Any:
        raise NotYet("slow.jsonl")

    monkeypatch.setattr(Indexes, "open", open_nothing)
    write_lines(tmp_path / "slow.jsonl", records(3))
    site = serving(tmp_path)
    run = f"/runs/{site.ids()['slow.jsonl']}"
    page = site.get_now(f"{run}/samples?model=a")
    assert page.status == 200
    assert f'hx-get="{run}/samples?model=a"' in page.text
    assert "<progress" in page.text
    part = site.get_now(f"{run}/rows").text
    assert f'hx-get="{run}/rows"' in part
    assert "<main" not in part
    file = site.get_now(f"{run}/export.csv")
    assert file.status == 503
    assert file.headers["retry-after"] == "2"


def test_mistakes_are_told_kindly(results: Path, serving: Serving, tmp_path: Path) -> None:
    site = serving(results)
    run = site.ids()["two.jsonl"]
    for path, status, said in (
        (f"/runs/{run}/samples?latency=3", 400, "did you mean latency_ms?"),
        (f"/runs/{run}/samples?latency_ms%3E=fast", 400, "not a number"),
        (f"/runs/{run}/samples/99999", 404, "there is no record 99999"),
        (f"/runs/{run}/samples/abc", 404, "no such page"),
        ("/runs/0000000000000000", 404, "nothing of that name"),
        ("/nothing", 404, "no such page"),
    ):
        answer = site.get(path)
        assert answer.status == status, path
        assert said in answer.text, path
        assert "Traceback" not in answer.text
    part = site.get(f"/runs/{run}/rows?latency=3", headers={"HX-Request": "true"}).text
    assert "<html" not in part
    (tmp_path / "broken.parquet").write_bytes(b"no")
    broken = serving(tmp_path)
    answer = broken.get(f"/runs/{broken.ids()['broken.parquet']}/samples")
    assert answer.status == 400
    assert "cannot be read" in answer.text


@needs_shared_data
@pytest.mark.parametrize(
    "folder", first_of(["scenarios", "agent_runs", "calibration", "judge", "native_logs"])
)
def test_real_data_is_shown(folder: str, serving: Serving) -> None:
    site = serving(FOLDER / folder)
    assert site.ids()
    for name, run in site.ids().items():
        for page in ("", "/samples", "/facets", "/samples/0", "/judges", "/doctor"):
            answer = site.get(f"/runs/{run}{page}")
            of_none = (404,) if page == "/samples/0" else ()  # a log may hold no record
            assert answer.status in (200, 400, *of_none), (name, page)
            assert "bug in calipers" not in answer.text, (name, page)
            if answer.status == 400:
                assert "cannot be shown" in answer.text, (name, page)


def test_a_run_that_was_killed_is_incomplete(
    results: Path, serving: Serving, tmp_path: Path
) -> None:
    run = results / "arithmetic"
    lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    copy_run(run, tmp_path / "killed", records="".join(lines[:18]), score="", gate="")
    site = serving(tmp_path)
    assert 'title="18 of 390 calls were made">incomplete</span>' in site.get("/").text
    assert "killed" in site.get("/?verdict=incomplete").text.partition("<tbody>")[2]
    page = site.get(f"/runs/{site.ids()['killed']}").text
    assert "18 of 390 calls were made. Run the suite again" in page
    assert '<strong class="word">Incomplete</strong>' in page


def test_a_source_without_a_record_is_no_bug(tmp_path: Path, serving: Serving) -> None:
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "broken.jsonl").write_text('{"id": \n', encoding="utf-8")
    site = serving(tmp_path)
    for run in site.ids().values():
        assert "No record here can be read" in site.get(f"/runs/{run}").text
        for part in ("score", "figures", "samples", "judges", "doctor", "export.csv"):
            assert site.get(f"/runs/{run}/{part}").status == 200


@pytest.mark.parametrize(
    ("name", "place", "value"),
    first_of(
        [
            ("manifest", ("suite", "judges"), 5),
            ("score", ("groups", 0, "metrics", "accuracy", "n"), "many"),
            ("gate", ("checks", 0, "verdict"), []),
            ("manifest", ("suite",), [1]),
            ("manifest", ("suite", "name"), {"a": 1}),
            ("score", ("groups", 0, "by"), ["model"]),
            ("score", ("groups", 0, "metrics", "nothing_of_ours"), None),
            ("gate", ("checks", 0, "operator"), "~"),
            ("gate", ("checks", 0, "by"), 3),
        ],
        quick=3,
    ),
)
def test_files_that_somebody_has_changed_are_left_aside(
    results: Path, serving: Serving, tmp_path: Path, name: str, place: tuple[Any, ...], value: Any
) -> None:
    run = results / "arithmetic"
    whole = found = json.loads((run / f"{name}.json").read_text(encoding="utf-8"))
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = found["accuracy"] if value is None else value
    copy_run(run, tmp_path / "changed", **{name: json.dumps(whole)})
    site = serving(tmp_path)
    assert site.get("/").status == 200
    for page in ("", "/gate", "/score"):
        assert site.get(f"/runs/{site.ids()['changed']}{page}").status == 200


def test_a_file_that_ends_its_decoder_is_told_and_the_dashboard_lives_on(
    tmp_path: Path, serving: Serving
) -> None:
    (tmp_path / "ends.parquet").write_bytes(ENDS_POLARS)
    write_lines(tmp_path / "good.jsonl", records(3))
    site = serving(tmp_path)
    answer = site.get(f"/runs/{site.ids()['ends.parquet']}/samples")
    assert answer.status == 400
    assert "cannot be decoded" in answer.text
    assert site.get(f"/runs/{site.ids()['good.jsonl']}/samples").status == 200
