"""The list of runs and files, asked over HTTP."""

from __future__ import annotations

import json
import os
from pathlib import Path

from calipers.dashboard.pages.run_pages import LISTED
from calipers.reports.number_format import split_figure
from calipers.reports.tables.shown_metrics import choose_metric_form
from calipers.scores.stored_score import read_score
from tests.dashboard.dashboards import Dashboard, Serving, records, two_models
from tests.files import write_lines


def test_the_list_shows_runs_and_files(site: Dashboard) -> None:
    page = site.get("/").text
    assert "arithmetic" in page
    assert "two.jsonl" in page
    assert page.index(">careful</span>") < page.index(">hasty</span>")  # the best first
    assert 'class="tag pass"' in page
    assert "arithmetic" not in site.get("/?q=two").text.partition("<tbody>")[2]
    assert "two.jsonl" not in site.get("/?verdict=pass").text.partition("<tbody>")[2]
    assert "Nothing matches" in site.get("/?q=hastyzzz").text


def test_what_was_written_last_is_first(tmp_path: Path, serving: Serving) -> None:
    for age, name in enumerate(("b.jsonl", "c.jsonl", "a.jsonl")):
        path = write_lines(tmp_path / name, records(2))
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    page = serving(tmp_path).get("/").text
    places = [page.index(name) for name in ("b.jsonl", "c.jsonl", "a.jsonl")]
    assert places == sorted(places)


def test_a_long_list_has_pages(tmp_path: Path, serving: Serving) -> None:
    for number in range(LISTED + 5):
        path = write_lines(tmp_path / f"f{number:03}.jsonl", [{"id": "a"}])
        os.utime(path, (1_000_000 - number, 1_000_000 - number))
    site = serving(tmp_path)
    first, second = site.get("/").text, site.get("/?page=2&q=f").text
    assert "1 to 100 of 105" in first
    assert 'href="/?page=2"' in first
    assert "f099.jsonl" in first
    assert "f100.jsonl" not in first
    assert "101 to 105 of 105" in second
    assert "f104.jsonl" in second
    assert 'href="/?q=f&amp;page=1"' in second
    assert "f104.jsonl" in site.get("/?page=99").text


def test_the_list_shows_intervals(results: Path, serving: Serving) -> None:
    page = serving(results).get("/").text
    score = read_score(json.loads((results / "arithmetic" / "score.json").read_text()))
    assert score is not None
    form = choose_metric_form("accuracy", [each.metrics["accuracy"] for each in score.groups])
    for group in score.groups:
        found = group.metrics["accuracy"]
        value, reach = split_figure(found.value, found.low, found.high, form)
        assert f'{value} <small class="quiet">{reach}</small>' in page
        assert f'class="name" title="{group.by["model"]}">' in page


def test_an_empty_folder_says_what_to_do(tmp_path: Path, serving: Serving) -> None:
    page = serving(tmp_path).get("/").text
    assert "calipers run" in page
    assert "calipers init evals --from" in page
    assert page.count("data-copy=") == 3


def test_a_single_file_can_be_looked_at(tmp_path: Path, serving: Serving) -> None:
    path = two_models(tmp_path, 5)
    write_lines(tmp_path / "other.jsonl", records(3))
    site = serving(path)
    assert list(site.ids()) == ["two.jsonl"]
    assert site.get(f"/runs/{site.ids()['two.jsonl']}/samples").status == 200
