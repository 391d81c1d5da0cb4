"""One run's pages, asked over HTTP: its numbers, figures, verdict, judges and doctor."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from time import sleep

import polars as pl
import pytest

import calipers
from calipers.dashboard.pages import run_pages
from calipers.gates.threshold_test import remove_doubt
from calipers.metrics import catalogue
from calipers.scores.stored_score import read_score
from tests.commands import run
from tests.dashboard.dashboards import Dashboard, Serving, copy_run, records
from tests.files import write_lines


def test_a_run_shows_what_its_files_say(results: Path, site: Dashboard) -> None:
    run = site.ids()["arithmetic"]
    page = site.get(f"/runs/{run}").text
    score = json.loads((results / "arithmetic" / "score.json").read_text())
    for group in score["groups"]:
        assert f"{100 * group['metrics']['accuracy']['value']:.1f} %" in page
    assert 'href="/metrics/accuracy"' in page
    assert "Pass" in page
    gate = site.get(f"/runs/{run}/gate").text
    stored = json.loads((results / "arithmetic" / "gate.json").read_text())
    for check in stored["checks"]:
        assert check["name"] in gate
        assert not check["reason"] or remove_doubt(check["reason"])[:18] in unescape(gate)


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


def test_of_very_many_records_a_filtered_view_shows_the_usual_metrics_first(
    site: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "_MANY", 100)
    run = site.ids()["two.jsonl"]
    whole = site.get(f"/runs/{run}/score").text  # of the run as a whole: everything at once
    assert "Measuring the other metrics" not in whole
    assert "stability" in whole
    first = site.get(f"/runs/{run}/score?category=products").text
    rest = re.search(r'id="measured" hx-get="([^"]+)"', first)
    assert rest is not None
    assert "Measuring the other metrics" in first
    assert "ece" not in re.findall(r"/metrics/(\w+)", first)
    second = site.get(unescape(rest[1])).text
    assert "hx-select" not in second
    assert "ece" in re.findall(r"/metrics/(\w+)", second)
    shares = re.findall(r"[\d.]+ %", first)
    assert shares
    assert set(shares) <= set(re.findall(r"[\d.]+ %", second))


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


def test_the_first_page_names_the_best_and_has_a_row_per_system(
    results: Path, serving: Serving
) -> None:
    site = serving(results)
    run = site.ids()["arithmetic"]
    page = unescape(site.get(f"/runs/{run}").text)
    rows = page.partition('class="first-table"')[2].partition("</table>")[0]
    assert rows.index(">careful<") < rows.index(">hasty<")
    score = json.loads((results / "arithmetic" / "score.json").read_text())
    records_ = [
        json.loads(line)
        for line in (results / "arithmetic" / "records.jsonl").read_text().splitlines()
    ]
    [hasty] = [g for g in score["groups"] if g["by"]["model"] == "hasty"]
    assert f"{100 * hasty['metrics']['accuracy']['value']:.1f} %" in rows
    assert page.count('<rect class="right"') + page.count('<rect class="wrong"') == len(records_)
    assert "tasks on which systems differ" in page
    lead = site.get(f"/runs/{run}/lead").text
    assert "careful is right in" in lead
    assert "points" in lead
    grouped = site.get(f"/runs/{run}/score?by=category")  # what the picture is ordered by
    assert grouped.status == 200
    alone = site.get(f"/runs/{run}/score?model=hasty").text
    assert "best systems" not in alone


def test_kinds_of_task_stand_beside_the_systems(site: Dashboard) -> None:
    run = site.ids()["two.jsonl"]
    page = unescape(site.get(f"/runs/{run}/score").text)
    rows = page.partition('class="first-table"')[2].partition("</table>")[0]
    for model, right in (("a", lambda n: n % 3 > 0), ("b", lambda n: n % 4 > 0)):
        for place, category in enumerate(("sums", "products")):
            tasks = range(place, 120, 2)
            share = sum(map(right, tasks)) / len(tasks)
            link = f"/runs/{run}/samples?model={model}&category={category}&sort=correct"
            assert re.search(rf'href="{re.escape(link)}"[^>]*>{100 * share:.0f} %<', rows)


def test_what_fails_is_named_with_its_system_and_leads_to_the_calls(
    results: Path, serving: Serving, tmp_path: Path
) -> None:
    gate = json.loads((results / "arithmetic" / "gate.json").read_text())
    check = next(each for each in gate["checks"] if each["by"] == {"model": "hasty"})
    check |= {"verdict": "fail", "failing": {"count": 2, "ids": ["a/b?", "two"]}}
    copy_run(results / "arithmetic", tmp_path / "red", gate=json.dumps(gate))
    site = serving(tmp_path)
    run = site.ids()["red"]
    page = unescape(site.get(f"/runs/{run}/gate").text)
    assert " of hasty <span" in page
    assert f"/runs/{run}/answers/task?task=a%2Fb%3F&model=hasty" in page


def test_judges_of_criteria_have_numbers(tmp_path: Path, serving: Serving) -> None:
    judged = [
        {
            "id": f"t{n}",
            "model": "Łódź" if n % 2 else "o1",
            "answer": "x",
            "judgments": [
                {"judge": "j", "scores": {"clarity": 1 + n % 5}, "overall_score": 0.2 + n % 5 / 5}
            ],
        }
        for n in range(40)
    ]
    path = write_lines(tmp_path / "judged.jsonl", judged)
    site = serving(tmp_path)
    run = site.ids()["judged.jsonl"]
    page = site.get(f"/runs/{run}/judges").text
    [judge] = calipers.audit_judges(path).groups[0].judges
    assert judge.measures["mean_score"].value == pytest.approx(0.6)
    measured = calipers.score(path, by=["model"]).groups
    for group in measured:
        value = group.metrics["judged(clarity)"].value
        assert value is not None
        assert f"{value:.1f}" in page
    table = site.get(f"/runs/{run}/samples?judged(clarity)%3E=5").text
    assert "1 to 8 of 8 records" in table
    assert "judged(clarity)" in table.partition("<thead>")[2].partition("</thead>")[0]


def test_every_number_of_a_run_leads_to_a_page(tmp_path: Path, serving: Serving) -> None:
    """Of its own metrics too, by which no record can be sorted, and with columns of any name."""
    (tmp_path / "metrics.py").write_text(
        "def polite(record):\n    return len(record['answer']) / 9"
    )
    rows = [{"id": f"t{n}", "target": "1", "^$": "x" * (n % 3)} for n in range(6)]
    write_lines(tmp_path / "rows.jsonl", rows)
    trace = "{'tool_calls': [{'tool_name': 'find', 'context': 'c'}], 'agent_interactions': []}"
    (tmp_path / "solver.py").write_text(
        f"def answer(record):\n    return {{'answer': '1', 'trace': {trace}}}"
    )
    suite = {
        "name": "own",
        "data": "rows.jsonl",
        "systems": [{"name": "llama3", "python": "solver.py:answer"}],
        "metrics": [{"name": "Politeness (v2)", "python": "metrics.py:polite"}],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    done = run("run", tmp_path / "suite.json", "-o", tmp_path / "results" / "one", "--no-report")
    assert done.exit_code == 0, done.output
    site = serving(tmp_path / "results")
    [id_] = site.ids().values()
    page = unescape(site.get(f"/runs/{id_}").text + site.get(f"/runs/{id_}/score").text)
    assert "Politeness (v2)" in page
    links = {*re.findall(rf'href="(/runs/{id_}/samples[^"]*)"', page)}
    assert len(links) > 5
    assert {link for link in links if site.get(link.replace(" ", "%20")).status != 200} == set()


def test_a_run_of_scenarios_has_its_page_and_its_failures(serving: Serving, tmp_path: Path) -> None:
    """Of the template, whose policy has checks of categories and whose records have no target."""
    assert run("init", tmp_path / "evals").exit_code == 0
    agent = tmp_path / "evals" / "agent.py"
    agent.write_text(agent.read_text().replace('if status == "packed"', "if True"))
    suite = tmp_path / "evals" / "suite.yaml"
    done = run("run", suite, "-o", tmp_path / "results" / "one", "--no-report")
    assert done.exit_code == 1, done.output
    site = serving(tmp_path / "results")
    [id_] = site.ids().values()
    page = site.get(f"/runs/{id_}")
    assert page.status == 200
    gate = unescape(site.get(f"/runs/{id_}/gate").text)
    links = {*re.findall(rf'href="(/runs/{id_}/[^"]*)"', gate)}
    assert any("sort=passed" in link for link in links)
    assert {link for link in links if site.get(link).status != 200} == set()
