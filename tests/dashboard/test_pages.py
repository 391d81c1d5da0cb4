"""What the pages say, asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from click.testing import CliRunner

import calipers
from calipers.cli import app
from calipers.dashboard.indexes import Indexes, NotYet
from calipers.dashboard.routes.runs import LISTED
from calipers.metrics import catalogue
from calipers.reports.figures import Form, split_figure
from calipers.reports.gate import as_fractions
from calipers.scores.reading import read_score
from tests.dashboard.dashboards import Dashboard, dashboard, records, two_models
from tests.examples import first_of
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

Serving = Callable[..., Dashboard]
ARITHMETIC = Path(__file__).resolve().parents[2] / "examples" / "arithmetic" / "suite.yaml"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's suite, run once, and a file beside it."""
    folder = tmp_path_factory.mktemp("results")
    asked = ["run", str(ARITHMETIC), "-o", str(folder / "arithmetic"), "--no-report"]
    outcome = CliRunner().invoke(app, asked)
    assert outcome.exit_code == 0, outcome.output
    two_models(folder)
    return folder


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard of the results, for tests that change nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with dashboard(results) as started:
            yield started


def test_the_list_shows_runs_and_files(site: Dashboard) -> None:
    page = site.get("/").text
    assert "arithmetic" in page
    assert "two.jsonl" in page
    assert "careful · hasty" in page
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
    for group in score.groups:
        found = group.metrics["accuracy"]
        value, reach = split_figure(found.value, found.low, found.high)
        assert f'{value} <small class="quiet">{reach}</small>' in page


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


def test_a_run_shows_what_its_files_say(results: Path, site: Dashboard) -> None:
    run = site.ids()["arithmetic"]
    page = site.get(f"/runs/{run}").text
    score = json.loads((results / "arithmetic" / "score.json").read_text())
    for group in score["groups"]:
        assert f"{group['metrics']['accuracy']['value']:.3f}" in page
    assert 'href="/metrics/accuracy"' in page
    assert "Pass" in page
    gate = site.get(f"/runs/{run}/gate").text
    stored = json.loads((results / "arithmetic" / "gate.json").read_text())
    for check in stored["checks"]:
        assert check["name"] in gate
        assert not check["reason"] or as_fractions(check["reason"])[:18] in unescape(gate)


def test_a_stored_score_is_the_score(results: Path) -> None:
    score = calipers.score(results / "arithmetic" / "records.jsonl", by=["model", "category"])
    assert read_score(json.loads(score.to_json())) == score
    tiers = [row | {"tier": "T0", "passed": True} for row in records(9)]
    tiered = calipers.score(tiers, profile="tiers", by="tier")
    assert read_score(json.loads(tiered.to_json())) is not None
    assert read_score({"schema": "other"}) is None
    assert read_score({"schema": "calipers.score/1"}) is None


def test_numbers_lead_to_the_rows_behind_them(site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    part = site.get(f"/runs/{run}/score").text
    assert "n = 120" in part
    link = f"/runs/{run}/samples?model=a&correct%21=%28none%29&sort=correct"
    assert link in unescape(part)
    rows = site.get(link).text
    assert "1 to 50 of 120 records" in rows
    assert rows.count('class="tag fail">no') == 40
    slow = f"/runs/{run}/samples?model=b&latency_ms%21=%28none%29&sort=-latency_ms"
    assert slow in unescape(part)


def test_the_table_pages_sorts_filters_and_searches(site: Dashboard) -> None:
    base = f"/runs/{site.ids()['two.jsonl']}/samples"
    assert "51 to 100 of 240 records" in site.get(f"{base}?page=2").text
    assert "page 5 of 5" in site.get(f"{base}?page=99").text
    assert "1 to 50 of 120 records" in site.get(f"{base}?model=b").text
    assert 'aria-sort="descending"' in site.get(f"{base}?sort=-latency_ms").text
    found = site.get(f"{base}?q=what+is+7+%2B").text
    assert "1 to 2 of 2 records" in found
    assert "No record matches" in site.get(f"{base}?q=nothingofthekind").text
    added = site.get(f"{base}?add_field=latency_ms&add_op=%3E%3D&add_value=300&model=a")
    assert added.status == 303
    assert added.headers["location"] == f"{base}?model=a&latency_ms%3E=300"
    facets = site.get(f"/runs/{site.ids()['two.jsonl']}/facets?model=a").text
    assert "sums" in facets
    assert "chosen" in facets


def test_one_record(site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    page = site.get(f"/runs/{run}/samples/3?correct=false").text
    assert '<mark class="wrong" title="a wrong equation">3 + 3 = 7</mark>' in page
    assert '<mark class="correction" title="corrects itself">Actually</mark>' in page
    assert 'title="step 2"' in page
    assert "2 of 70" in page
    assert f"/runs/{run}/samples/6?correct=false" in page
    assert "&#34;cost_usd&#34;: 0.004" in page
    outside = site.get(f"/runs/{run}/samples/1?correct=false").text
    assert "not in this view" in outside


def test_a_trace_is_a_picture_and_a_timeline(tmp_path: Path, serving: Serving) -> None:
    calls = [
        {
            "tool_name": name,
            "agent_id": "lead",
            "duration": 1.5,
            "timestamp": 10.0 + at,
            "success": at < 2,
        }
        for at, name in enumerate(("search", "read", "write"))
    ]
    talk = [{"from": "lead", "to": "coder", "type": "handoff"}]
    trace = {"tool_calls": calls, "agent_interactions": talk}
    judged = [{"judge": "strict", "passed": False, "weighted_score": 0.4, "reasoning": "too short"}]
    write_lines(tmp_path / "t.jsonl", [{"id": "a", "trace": trace, "judgments": judged}])
    site = serving(tmp_path)
    run = site.ids()["t.jsonl"]
    page = site.get(f"/runs/{run}/samples/0").text
    assert "3 calls, 3.5 s" in page
    assert "too short" in page
    for graph in ("tools", "agents"):
        picture = site.get(f"/runs/{run}/samples/0/trace.svg?graph={graph}")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert "script" not in picture.headers["content-security-policy"]
        assert picture.text.startswith("<svg")
        dark = site.get(f"/runs/{run}/samples/0/trace.svg?graph={graph}&dark=1").text
        assert "<style>" in dark
        assert dark.replace(dark[dark.index("<style>") : dark.index("</style>") + 8], "") == (
            picture.text
        )


def test_two_runs_side_by_side(results: Path, site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    sides = f"base={quote(f'{run}?model=a', safe='')}&candidate={quote(f'{run}?model=b', safe='')}"
    page = site.get(f"/compare?{sides}").text
    rows = [json.loads(line) for line in (results / "two.jsonl").read_text().splitlines()]
    expected = calipers.compare(rows[:120], rows[120:])
    accuracy = expected.pairs[0].metrics["accuracy"]
    assert accuracy.difference is not None
    shown = split_figure(accuracy.difference, accuracy.low, accuracy.high, Form(signed=True))
    assert shown[0] in page
    assert f"became wrong <small>{expected.flips['lost']}</small>" in page
    assert f"became right <small>{expected.flips['won']}</small>" in page
    won = site.get(f"/compare?{sides}&flips=won").text.partition("<tbody>")[2]
    assert 'class="tag fail">became wrong' not in won
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
    shown = split_figure(expected.difference, expected.low, expected.high, Form(signed=True))
    assert shown[0] in page
    assert f'href="/compare?base={base}&amp;candidate={others[1]}"' in page
    one = site.get(f"/compare?base={base}&candidate={others[1]}").text
    assert "Flips" in one
    assert 'type="checkbox" name="candidate"' in site.get("/compare").text


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
    for group in score.groups:
        found = group.metrics["accuracy"]
        assert " ".join(split_figure(found.value, found.low, found.high)) in untagged(rows)
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
    assert split_figure(best.value, best.low, best.high)[0] in page
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
    assert alone.status == 400
    assert "one system has nothing to be ranked against" in alone.text
    assert site.get("/rank?of=nothing").status == 404


def test_a_record_shows_what_its_checks_found(tmp_path: Path, serving: Serving) -> None:
    held = (True, False, None)
    results = [
        {"name": f"<b>{each}</b>", "kind": "pii", "rule": "forbid", "held": each, "detail": "<i>x"}
        for each in held
    ]
    write_lines(tmp_path / "c.jsonl", [{"id": "a", "answer": "?", "checks": results}])
    site = serving(tmp_path)
    page = site.get(f"/runs/{site.ids()['c.jsonl']}/samples/0").text
    assert "<h2>Checks</h2>" in page
    assert "&lt;b&gt;True&lt;/b&gt;" in page
    assert "&lt;i&gt;x" in page
    assert "<i>x" not in page
    for told in ('tag fail">yes', 'tag pass">no', 'tag warn">unknown'):
        assert told in page


def test_judges(tmp_path: Path, serving: Serving) -> None:
    judged = [
        {
            "id": f"t{n}",
            "judgments": [
                {"judge": "strict", "passed": n % 2 == 0, "weighted_score": 0.4 + n % 2 / 10},
                {"judge": "kind", "passed": True, "weighted_score": 0.9},
            ],
        }
        for n in range(30)
    ]
    path = write_lines(tmp_path / "judged.jsonl", judged)
    write_lines(tmp_path / "plain.jsonl", records(3))
    site = serving(tmp_path)
    page = site.get(f"/runs/{site.ids()['judged.jsonl']}/judges").text
    audit = calipers.audit_judges(path)
    bias = audit.groups[0].judges[0].measures["bias"].value
    assert bias is not None
    assert f"{bias:.3f}" in page
    assert "percent_agreement" in page
    pairs = [
        {"id": f"t{n}", "a": "x", "b": "y", "judge": "j", "winner": "ab"[n % 2]} for n in range(20)
    ]
    write_lines(tmp_path / "pairs.jsonl", pairs)
    assert "Judges of pairs" in site.get(f"/runs/{site.ids()['pairs.jsonl']}/judges").text
    assert "No judgments" in site.get(f"/runs/{site.ids()['plain.jsonl']}/judges").text


def _indexed(site: Dashboard, path: str) -> str:
    """A page once every record is indexed, however long that takes."""
    for _ in range(600):
        page = site.get(path).text
        if "being indexed" not in page:
            return page
        sleep(0.1)
    raise AssertionError("the index is not built")


def test_doctor(tmp_path: Path, serving: Serving) -> None:
    rows = records(40)
    path = write_lines(tmp_path / "odd.jsonl", [*rows, rows[3]])
    site = serving(tmp_path)
    run = site.ids()["odd.jsonl"]
    page = _indexed(site, f"/runs/{run}/doctor")
    [finding] = [each for each in calipers.doctor(path).findings if each.kind == "duplicates"]
    assert finding.says in page
    assert f'/runs/{run}/samples?id={finding.examples[0]}"' in page
    assert f"calipers score {path}" in page


def test_calibrations_in_a_run_are_shown(results: Path, serving: Serving) -> None:
    said = {"judge": "reviewer", "model": "tiny"}
    judged = [
        {"id": str(n), "judgments": [said | {"passed": n % 2 == 0 or n == 5}]} for n in range(40)
    ]
    human = [{"id": str(n), "passed": n % 2 == 0} for n in range(40)]
    paths = [write_lines(results / "j.jsonl", judged), write_lines(results / "h.jsonl", human)]
    found = calipers.calibrate_judges(*paths)
    for path in paths:
        path.unlink()
    (results / "arithmetic" / "calibration.json").write_text(found.to_json())
    (results / "arithmetic" / "other.json").write_text('{"schema": "calipers.calibration/1"}')
    site = serving(results)
    page = site.get(f"/runs/{site.ids()['arithmetic']}/judges").text
    kappa = found.judges[0].kappa("passed")
    assert kappa is not None
    assert "reviewer (tiny)" in page
    assert f"{kappa.value:.2f}" in page


def test_every_metric_has_its_page(tmp_path: Path, serving: Serving) -> None:
    site = serving(tmp_path)
    overview = site.get("/metrics").text
    for name, metric in catalogue().items():
        assert f'id="def-{name}"' in overview
        page = site.get(f"/metrics/{name}")
        assert page.status == 200
        assert metric.formula in unescape(page.text)
    assert site.get("/metrics/nothing").status == 404
    assert site.get("/metrics/pass_at_7").status == 200


def test_exports_and_figures(site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    table = site.get(f"/runs/{run}/export.csv?model=b&sort=-latency_ms")
    assert "attachment" in table.headers["content-disposition"]
    frame = pl.read_csv(table.body)
    assert frame.height == 120
    assert frame["latency_ms"].is_sorted(descending=True)
    assert len(site.get(f"/runs/{run}/export.json?q=what+is+7+%2B").json()) == 2
    assert site.get(f"/runs/{run}/export.exe").status == 404
    figures = site.get(f"/runs/{run}/figures").text
    assert "figures/reliability.svg" in figures
    assert b"<svg" in site.get(f"/runs/{run}/figures/reliability.svg").body
    assert site.get(f"/runs/{run}/figures/reliability.png").body.startswith(b"\x89PNG")
    assert site.get(f"/runs/{run}/figures/nothing.svg").status == 404


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


def test_an_empty_folder_says_what_to_do(tmp_path: Path, serving: Serving) -> None:
    assert "calipers run" in serving(tmp_path).get("/").text


def test_a_single_file_can_be_looked_at(tmp_path: Path, serving: Serving) -> None:
    path = two_models(tmp_path, 5)
    write_lines(tmp_path / "other.jsonl", records(3))
    site = serving(path)
    assert list(site.ids()) == ["two.jsonl"]
    assert site.get(f"/runs/{site.ids()['two.jsonl']}/samples").status == 200


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


def _copy_of(run: Path, folder: Path, **changed: str) -> Path:
    """A run's folder with some of its files changed; an empty text takes the file away."""
    folder.mkdir()
    for name in ("manifest.json", "records.jsonl", "score.json", "gate.json"):
        text = changed.get(name.partition(".")[0], (run / name).read_text(encoding="utf-8"))
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_run_that_was_killed_is_incomplete(
    results: Path, serving: Serving, tmp_path: Path
) -> None:
    run = results / "arithmetic"
    lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    _copy_of(run, tmp_path / "killed", records="".join(lines[:18]), score="", gate="")
    site = serving(tmp_path)
    assert 'title="18 of 390 calls were made">incomplete</span>' in site.get("/").text
    assert "killed" in site.get("/?verdict=incomplete").text.partition("<tbody>")[2]
    page = site.get(f"/runs/{site.ids()['killed']}").text
    assert "Incomplete</strong>18 of 390 calls were made. Run the suite again" in page


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
    _copy_of(run, tmp_path / "changed", **{name: json.dumps(whole)})
    site = serving(tmp_path)
    assert site.get("/").status == 200
    for page in ("", "/gate", "/score"):
        assert site.get(f"/runs/{site.ids()['changed']}{page}").status == 200


def test_a_very_large_record_is_shown_in_part(tmp_path: Path, serving: Serving) -> None:
    record = {
        "id": "large",
        "input": "word " * 200_000,
        "answer": "x " * 500_000,
        "target": "y",
        "cot": "1. 2 + 2 = 5\n" * 80_000,
        "tags": [f"tag{n}" for n in range(5_000)],
        "judgments": [{"judge": f"j{n}", "reasoning": "why " * 5_000} for n in range(300)],
        "trace": {"tool_calls": [{"tool_name": f"tool{n}"} for n in range(5_000)]},
    }
    write_lines(tmp_path / "large.jsonl", [record])
    site = serving(tmp_path)
    run = site.ids()["large.jsonl"]
    page = site.get(f"/runs/{run}/samples/0")
    assert page.status == 200
    assert len(page.body) < 4_000_000
    assert "… (950,000 more characters)" in page.text
    whole = site.get(f"/runs/{run}/samples/0/record.json")
    assert whole.headers["content-disposition"].startswith("attachment")
    assert whole.json() == record


def test_only_what_can_be_grouped_by_is_offered(tmp_path: Path, serving: Serving) -> None:
    write_lines(tmp_path / "a.jsonl", [row | {"name": f"n{row['id']}"} for row in records(300)])
    site = serving(tmp_path)
    run = site.ids()["a.jsonl"]
    offered = site.get(f"/runs/{run}").text.partition('name="by"')[2].partition("</select>")[0]
    assert '<option value="category">' in offered
    assert '<option value="correct">' not in offered  # it is measured, no record has it
    many = site.get(f"/runs/{run}/score?by=name")
    assert many.status == 400
    assert "name has 300 values: too many groups for a page" in many.text
    assert site.get(f"/runs/{run}/score?by=cot").status == 400


def test_numbers_in_tables_lead_to_rows_and_nulls_have_their_reason(
    tmp_path: Path, serving: Serving
) -> None:
    rows = [row | {"tier": f"T{n % 2}", "passed": n % 3 > 0} for n, row in enumerate(records(30))]
    write_lines(tmp_path / "a.jsonl", rows)
    site = serving(tmp_path)
    run = site.ids()["a.jsonl"]
    part = unescape(site.get(f"/runs/{run}/score").text)
    assert f'<a href="/runs/{run}/samples?tier=T0&cot_chars%21=%28none%29&sort=-cot_chars">' in part
    assert "stability (no task has two runs whose answers can be checked)" in part
    assert "Tiers against T0" in part


def test_two_different_sides_are_proposed(results: Path, serving: Serving) -> None:
    page = serving(results).get("/compare").text
    base, _, candidate = page.partition('name="candidate"')
    chosen = [
        side.partition(" selected>")[0].rpartition('value="')[2] for side in (base, candidate)
    ]
    assert chosen[0] != chosen[1]


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
