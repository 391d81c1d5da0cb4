"""One run's pages, asked over HTTP: its numbers, figures, verdict, judges and doctor."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from time import sleep

import polars as pl

import calipers
from calipers.metrics import catalogue
from calipers.reports.gate import as_fractions
from calipers.scores.reading import read_score
from tests.dashboard.dashboards import Dashboard, Serving, copy_run, records
from tests.files import write_lines


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


def test_calibrations_in_a_run_are_shown(results: Path, serving: Serving, tmp_path: Path) -> None:
    said = {"judge": "reviewer", "model": "tiny"}
    judged = [
        {"id": str(n), "judgments": [said | {"passed": n % 2 == 0 or n == 5}]} for n in range(40)
    ]
    human = [{"id": str(n), "passed": n % 2 == 0} for n in range(40)]
    paths = [
        write_lines(tmp_path / f"{name}.jsonl", rows)
        for name, rows in (("j", judged), ("h", human))
    ]
    found = calipers.calibrate_judges(*paths)
    run = copy_run(results / "arithmetic", tmp_path / "arithmetic")
    (run / "calibration.json").write_text(found.to_json())
    (run / "other.json").write_text('{"schema": "calipers.calibration/1"}')
    site = serving(tmp_path)
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
