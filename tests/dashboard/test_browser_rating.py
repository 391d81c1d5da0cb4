"""Ratings made in a real browser, by keys, become a licence that lets a judge block a build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calipers.cli import app
from calipers.dashboard.pages.rate_pages import Rating
from tests.browser import Watched, needs_browser
from tests.dashboard.dashboards import Dashboard, dashboard
from tests.files import write_lines

pytestmark = needs_browser
DESK = Path(str(files("calipers.runs.starter"))) / "files" / "judge"
TOKEN = "t0ken-of-the-test"
RATED = 45
PATIENCE = 20_000  # milliseconds


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def site(tmp_path: Path, cache: Path) -> Iterator[Dashboard]:
    """A dashboard over the answers of the example that are to be rated, with its rubric beside."""
    del cache
    folder = tmp_path / "desk"
    folder.mkdir()
    write_lines(folder / "judged.jsonl", read_lines(DESK / "judged.jsonl")[:RATED])
    write_lines(tmp_path / "others.jsonl", read_lines(DESK / "judged.jsonl")[RATED:])
    (folder / "rubric.yaml").write_text((DESK / "rubric.yaml").read_text())
    file = Rating(tmp_path / "ratings.jsonl", None)
    with dashboard(folder, token=TOKEN, rating=file) as started:
        yield started


def gate(folder: Path, judges: dict[str, Any]) -> dict[str, Any]:
    """What a gate says of other records that the judge has judged; it demands too much of them."""
    demands = {"thresholds": {"blocking": {"pass_rate": 99}}, "judges": judges}
    (folder / "policy.json").write_text(json.dumps(demands))
    command = ["gate", str(folder / "others.jsonl"), "--policy", str(folder / "policy.json")]
    told = CliRunner().invoke(app, [*command, "--format", "json"])
    assert told.exit_code == 1, told.output
    [check] = json.loads(told.stdout)["checks"]
    return dict(check)


def test_ratings_by_keys_become_a_licence(site: Dashboard, watched: Watched) -> None:
    page, folder = watched.page, site.root.parent
    page.set_default_navigation_timeout(PATIENCE)
    passed = {e["id"]: e["judgments"][0]["passed"] for e in read_lines(DESK / "judged.jsonl")}
    replies = {e["answer"]: e["id"] for e in read_lines(site.root / "judged.jsonl")}
    page.goto(f"{site.url}/rate?token={TOKEN}")
    page.get_by_label("Your name").fill("Anna")
    page.get_by_role("button", name="Begin").click()
    for number in range(RATED):
        reply = page.locator(".turn.assistant .text").inner_text()
        is_good = passed[replies[reply.strip()]] if number else False  # once of another opinion
        page.keyboard.press("1" if is_good else "0")
        page.keyboard.press("2" if is_good else "0")
        page.keyboard.press("Enter")
        page.wait_for_url("**told=rated")
        page.get_by_text(f"{number + 1} of {RATED} rated").wait_for()
    assert f"All {RATED} records are rated" in page.inner_text("main")
    assert "licensed" in page.inner_text("main")
    ratings, calibration = folder / "ratings.jsonl", folder / "calibration.json"
    assert len(ratings.read_text().splitlines()) == RATED
    command = ["judge", "calibrate", str(site.root / "judged.jsonl"), str(ratings)]
    told = CliRunner().invoke(app, [*command, "-o", str(calibration)])
    assert told.exit_code == 0, told.output
    assert "no licence" in str(gate(folder, {})["reason"])
    check = gate(folder, {"calibrations": [str(calibration)]})
    assert [each["licensed"] for each in check["evidence"]] == [True]
    assert check["verdict"] == "fail"  # by what the judge says
    assert "no licence" not in str(check.get("reason"))


def test_keys_skip_and_take_back_and_show_the_target(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    page.set_default_navigation_timeout(PATIENCE)
    page.goto(f"{site.url}/rate?token={TOKEN}&rater=Ben")
    first = page.locator(".turn.assistant .text").inner_text()
    page.keyboard.press("s")
    page.wait_for_url("**told=skipped")
    second = page.locator(".turn.assistant .text").inner_text()
    assert first != second
    page.keyboard.press("Enter")  # with nothing chosen
    page.get_by_role("alert").wait_for()
    watched.wrongs[:] = [wrong for wrong in watched.wrongs if "400 (Bad Request)" not in wrong]
    page.keyboard.press("y")  # all there is, of two
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.wait_for_url("**told=rated")
    page.keyboard.press("u")
    page.wait_for_url("**told=undone")
    assert page.locator(".turn.assistant .text").inner_text() == second
    assert (site.root.parent / "ratings.jsonl").read_text() == ""


def test_without_scripts_the_form_works(site: Dashboard, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{site.url}/rate?token={TOKEN}&rater=Ben")
        page.locator('input[name="score.apology"][value="1"]').check()
        page.locator('input[name="score.remedy"][value="2"]').check()
        page.get_by_role("button", name="Rate").click()
        page.wait_for_url("**told=rated")
    finally:
        context.close()
    [line] = read_lines(site.root.parent / "ratings.jsonl")
    assert (line["rater"], line["passed"]) == ("Ben", True)


@pytest.mark.parametrize("form", ["wide", "wide dark", "phone", "phone dark"])
def test_everybody_can_rate(site: Dashboard, watched: Watched, form: str) -> None:
    if "dark" in form:
        watched.dark()
    if "phone" in form:
        watched.phone()
    for name, path in {"name": "", "record": "&rater=Anna"}.items():
        watched.page.goto(f"{site.url}/rate?token={TOKEN}{path}")
        watched.screenshot(f"rate_{name}_{form.replace(' ', '_')}")
        assert watched.accessibility_findings() == [], name
        assert watched.overflow() <= 0, name
