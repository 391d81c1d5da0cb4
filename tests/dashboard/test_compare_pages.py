"""Runs and systems side by side, asked over HTTP: comparisons, trends, the leaderboard."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

import calipers
from calipers.reports.number_format import format_figure, split_figure
from calipers.reports.tables.shown_metrics import choose_difference_form, choose_metric_form
from calipers.scores.stored_score import read_score
from tests.dashboard.dashboards import Dashboard, Serving, records
from tests.files import write_lines

POINTS = choose_difference_form("accuracy")


def test_two_runs_side_by_side(results: Path, site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    sides = f"base={quote(f'{run}?model=a', safe='')}&candidate={quote(f'{run}?model=b', safe='')}"
    page = site.get(f"/compare?{sides}").text
    rows = [json.loads(line) for line in (results / "two.jsonl").read_text().splitlines()]
    expected = calipers.compare(rows[:120], rows[120:])
    accuracy = expected.pairs[0].metrics["accuracy"]
    assert accuracy.difference is not None
    shown = split_figure(accuracy.difference, accuracy.low, accuracy.high, POINTS)
    assert shown[0] in page
    assert f"became wrong <small>{expected.flips['lost']}</small>" in page
    assert f"became right <small>{expected.flips['won']}</small>" in page
    won = site.get(f"/compare?{sides}&flips=won").text.partition("<tbody>")[2]
    assert 'class="tag fail">became wrong' not in won
    assert "became right, " in site.get(f"/compare?{sides}").text  # the sentence
    task = site.get(f"/compare/task?{sides}&task=t3").text
    assert '<mark class="differs">7</mark>' in task
    assert '<mark class="differs">6</mark>' in task
    assert site.get(f"/compare/task?{sides}&task=nothing").status == 404
    alone = site.get(f"/compare?base={run}&candidate={quote(f'{run}?model=zzz', safe='')}")
    assert alone.status == 400
    assert "no records" in alone.text


@pytest.mark.long
def test_any_number_of_systems_against_one(tmp_path: Path, serving: Serving) -> None:
    rows = {
        "a": records(60, "a", right=lambda n: n % 2 > 0),
        "b": records(60, "b"),
        "c": records(60, "c", right=lambda n: n % 30 > 0),
    }
    write_lines(tmp_path / "three.jsonl", [row for some in rows.values() for row in some])
    site = serving(tmp_path)
    run = site.ids()["three.jsonl"]
    base, *others = (quote(f"{run}?model={name}", safe="") for name in "abc")
    asked = f"base={base}&" + "&".join(f"candidate={each}" for each in others)
    page = site.get(f"/compare?{asked}").text
    assert "2 systems" in page
    expected = calipers.compare(rows["a"], rows["c"]).pairs[0].metrics["accuracy"]
    assert expected.difference is not None
    shown = split_figure(expected.difference, expected.low, expected.high, POINTS)
    assert shown[0] in page
    assert f'href="/compare?base={base}&amp;candidate={others[1]}"' in page
    one = site.get(f"/compare?base={base}&candidate={others[1]}").text
    assert "Flips" in one
    assert 'type="checkbox" name="candidate"' in one


def test_two_different_sides_are_proposed(results: Path, serving: Serving) -> None:
    site = serving(results)
    run = site.ids()["arithmetic"]
    for asked in (f"/compare?base={run}", "/compare"):
        found = site.get(asked)
        assert found.status == 303
        sides = dict(parse_qsl(urlsplit(found.headers["location"]).query))
        assert sides["base"] != sides["candidate"]
        if run in asked:  # the best system of the run against the next
            expected = {"base": f"{run}?model=hasty", "candidate": f"{run}?model=careful"}
            assert sides == expected
        assert site.get(found.headers["location"]).status == 200


def test_a_suite_over_its_runs(results: Path, serving: Serving, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    for day, verdict in (("03", "pass"), ("01", "fail"), ("02", "pass")):
        place = shown / "arithmetic" / f"2026-11-{day}T120000Z"
        shutil.copytree(results / "arithmetic", place)
        gate = json.loads((place / "gate.json").read_text())
        (place / "gate.json").write_text(json.dumps(gate | {"verdict": verdict}))
    site = serving(shown)
    page = site.get("/trends").text
    assert "3 runs of the suite" in page
    rows = page.partition("<tbody>")[2]
    days = [rows.index(f"2026-11-{day} 12:00") for day in ("03", "02", "01")]
    assert days == sorted(days), "the newest run first"
    assert rows.count('class="tag pass"') == 2
    assert rows.count('class="tag fail"') == 1
    score = read_score(json.loads((results / "arithmetic" / "score.json").read_text()))
    assert score is not None
    form = choose_metric_form("accuracy", [each.metrics["accuracy"] for each in score.groups])
    for group in score.groups:
        found = group.metrics["accuracy"]
        said = split_figure(found.value, found.low, found.high, form)
        assert " ".join(said) in untagged(rows)
    spec = page.partition('id="spec-trend">')[2].partition("</script>")[0]
    drawn = json.loads(spec)
    assert len(drawn["layer"]) == 2, "values and verdicts"
    latency = site.get("/trends?suite=arithmetic&metric=latency_p95_ms")
    assert "latency_p95_ms (ms)" in latency.text
    assert site.get("/trends?suite=%3Cb%3E").status == 404
    assert site.get("/trends?suite=arithmetic&metric=nothing").status == 404
    other = shown / "other"
    shutil.copytree(results / "arithmetic", other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["suite"]["name"] = "<script>alert(1)</script>"
    (other / "manifest.json").write_text(json.dumps(manifest))
    listed = serving(shown).get("/trends").text
    assert "<script>alert" not in listed
    assert "/trends?suite=%3Cscript%3Ealert%281%29%3C%2Fscript%3E" in listed


def untagged(page: str) -> str:
    """The text of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_leaderboard(results: Path, site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    page = site.get(f"/rank?of={run}").text
    expected = calipers.rank(results / "two.jsonl").metrics[0]
    best = expected.systems[0]
    assert f"Highest accuracy: {best.name}" in page  # of two that cannot be told apart
    form = choose_metric_form("accuracy", expected.systems)
    assert split_figure(best.value, best.low, best.high, form)[0] in page
    assert "hold for all systems at once" in page
    assert f'href="/rank?of={run}"' in site.get(f"/runs/{run}").text
    views = "&".join(f"of={quote(f'{run}?model={name}', safe='')}" for name in "ab")
    several = site.get(f"/rank?{views}&metric=accuracy").text
    assert f"Highest accuracy: {best.name}" in several
    assert 'type="checkbox"' in site.get("/rank").text
    parts = site.get(f"/rank?of={run}&tasks=category").text
    assert "accuracy by category" in parts
    assert "products" in parts.partition("accuracy by category")[2]
    assert site.get(f"/rank?of={run}&tasks=nothing").status == 400
    alone = site.get(f"/rank?of={quote(f'{run}?model=a', safe='')}")
    assert alone.status == 200
    assert "There is nothing to compare it with" in alone.text
    rows = [json.loads(line) for line in (results / "two.jsonl").read_text().splitlines()]
    [group] = calipers.score(rows[:120], by="model").groups
    own = group.metrics["accuracy"]
    form = replace(choose_metric_form("accuracy", [own]), brackets=True)
    shown = format_figure(own.value, own.low, own.high, form)
    assert shown in untagged(alone.text)
    assert 'type="checkbox"' in alone.text  # to choose another beside it
    wrong = f"/rank?of={quote(f'{run}?model=a', safe='')}&metric=ece"
    assert "one system has nothing to be ranked against" in site.get(wrong).text
    assert site.get("/rank?of=nothing").status == 404


def test_records_without_ids_are_compared_as_independent_samples(
    serving: Serving, tmp_path: Path
) -> None:
    rows = [{"model": ("o1", "o3")[n % 2], "passed": n % 5 > n % 2} for n in range(80)]
    write_lines(tmp_path / "runs.jsonl", rows)
    site = serving(tmp_path)
    [run] = site.ids().values()
    shown = site.get(
        f"/compare?base={quote(f'{run}?model=o1')}&candidate={quote(f'{run}?model=o3')}"
    )
    assert shown.status == 200
    assert "Independent samples" in shown.text
    assert "80 %" in untagged(shown.text)
    assert "60 %" in untagged(shown.text)
    wrong = site.get(
        f"/compare?base={quote(f'{run}?model=o1')}&candidate={quote(f'{run}?model=gpt')}"
    )
    assert wrong.status == 400
    assert "Not compared" in wrong.text
    assert 'name="candidate"' in wrong.text  # to choose another side


def test_the_leaderboard_of_records_without_ids(serving: Serving, tmp_path: Path) -> None:
    rows = [{"tier": f"T{n % 3}", "passed": n % 7 > n % 3} for n in range(90)]
    (tmp_path / "runs").mkdir()
    write_lines(tmp_path / "runs" / "tiers.jsonl", rows)
    site = serving(tmp_path / "runs")
    [run] = site.ids().values()
    page = site.get(f"/rank?of={run}&by=tier")
    assert (page.status, "3 systems, as independent samples of 30 tasks each" in page.text) == (
        200,
        True,
    )


def test_systems_whose_names_cannot_be_seen_are_in_quotes(serving: Serving, tmp_path: Path) -> None:
    rows = [{**row, "model": name} for row in records(20) for name in ("", " a")]
    write_lines(tmp_path / "two.jsonl", rows)
    site = serving(tmp_path)
    site.get(f"/runs/{site.ids()['two.jsonl']}/samples")  # indexes the file
    page = site.get(site.get("/compare").headers["location"]).text
    assert ": &#34;&#34;" in page
    assert ": &#34; a&#34;" in page
