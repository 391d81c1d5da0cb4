"""The dashboard in a real browser: every page, filters, keys, and without scripts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import calipers
from calipers.dashboard.server import PARTS, ROUTES
from tests.browser import Watched, needs_browser, settled
from tests.dashboard.dashboards import Dashboard, Serving, dashboard, records, two_models
from tests.examples import first_of
from tests.files import write_lines
from tests.runs.suites_at_hand import suite_folder, sums

pytestmark = needs_browser


def traced(count: int = 12) -> list[dict[str, Any]]:
    """Records with traces and judgments."""
    tools = ("search", "read", "edit", "test")
    return [
        {
            **row,
            "trace": {
                "tool_calls": [
                    {
                        "tool_name": tools[(at * n) % 4],
                        "context": f"step {at}",
                        "agent_id": ("lead", "coder")[at % 2],
                        "success": at != 2,
                        "duration": 0.5 + at,
                        "timestamp": 100.0 + 2 * at,
                    }
                    for at in range(3 + n % 4)
                ],
                "agent_interactions": [
                    {"from": "lead", "to": "coder", "type": "coordination"},
                    {"from": "coder", "to": "lead", "type": "handoff"},
                ],
                "agent_tasks": {"lead": 2, "coder": 3},
            },
            "judgments": [
                {
                    "judge": "strict",
                    "passed": n % 2 == 0,
                    "weighted_score": 0.5,
                    "reasoning": "No.",
                },
                {"judge": "kind", "passed": True, "weighted_score": 0.9, "scores": {"style": 4}},
            ],
        }
        for n, row in enumerate(records(count))
    ]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "suite").mkdir()
    systems = [{"name": "solver", "python": "solver.py:answer"}]
    suite = suite_folder(folder / "suite", sums(30), systems, policy="policy.json")
    (folder / "suite" / "solver.py").write_text(
        "def answer(record):\n"
        "    n = int(record['input'].split()[0])\n"
        "    return {'answer': str(n + 1 + (n % 4 == 0)), 'cot': f'1. {n} + 1 = {n + 1}',"
        " 'prob_correct': 0.9}\n"
    )
    demands = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}
    (folder / "suite" / "policy.json").write_text(json.dumps(demands))
    assert suite.run(report=True).exit_code == 1
    shown = folder / "shown"
    shown.mkdir()
    (folder / "suite" / "out").rename(shown / "sums")
    shutil.copytree(shown / "sums", shown / "again")
    for name in ("sums", "again"):
        manifest = json.loads((shown / name / "manifest.json").read_text())
        manifest["suite"]["name"] = name
        (shown / name / "manifest.json").write_text(json.dumps(manifest))
    two_models(shown)
    write_lines(shown / "agents.jsonl", traced())
    return shown


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard of the results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with dashboard(results) as started:
            yield started


def pages(site: Dashboard) -> dict[str, str]:
    """An address of every page, and of some in a further form."""
    ids = site.ids()
    two, agents, run = ids["two.jsonl"], ids["agents.jsonl"], ids["sums"]
    a, b = (quote(f"{two}?model={name}", safe="") for name in "ab")
    sides = f"base={a}&candidate={b}"
    return {
        "runs": "/",
        "run": f"/runs/{run}",
        "file": f"/runs/{two}?by=category",
        "answers": f"/runs/{two}/answers",
        "answers_task": f"/runs/{two}/answers/task?task=t3",
        "samples": f"/runs/{two}/samples?correct=false&sort=-latency_ms",
        "sample": f"/runs/{agents}/samples/3",
        "gate": f"/runs/{run}/gate",
        "judges": f"/runs/{agents}/judges",
        "doctor": f"/runs/{run}/doctor",
        "trends": "/trends",
        "trend": "/trends?suite=sums&metric=accuracy",
        "compare": f"/compare?{sides}",
        "compare_many": f"/compare?{sides}&candidate={agents}",
        "task": f"/compare/task?{sides}&task=t3",
        "choose": "/compare",
        "rank": f"/rank?of={two}&tasks=category",
        "rank_choose": "/rank",
        "metrics": "/metrics",
        "metric": "/metrics/accuracy",
        "missing": f"/runs/{two}/samples?nothing=1",
    }


def is_page(path: str) -> bool:
    """Whether an address is one of a page: no file, and no part that a page loads later."""
    last = path.rpartition("/")[2]
    is_part = "." in last or last in PARTS or "/pictures/" in path
    return not is_part and not path.startswith("/static")


def test_every_page_is_looked_at(site: Dashboard) -> None:
    seen = [urlsplit(path).path for path in pages(site).values()]
    routes = [route for module in ROUTES for route in module.router.routes]
    missing = [
        route.path
        for route in routes
        if is_page(route.path) and not any(route.path_regex.match(path) for path in seen)
    ]
    assert missing == []


SOME = ("run", "answers", "sample", "samples", "compare", "trend", "missing")

FORMS = first_of(["some", "wide", "wide dark", "phone", "phone dark"])


@pytest.mark.parametrize("form", FORMS)
def test_every_page_can_be_read_by_everybody(site: Dashboard, watched: Watched, form: str) -> None:
    if "dark" in form:
        watched.dark()
    if "phone" in form:
        watched.phone()
    for name, path in pages(site).items():
        if form == "some" and name not in SOME:
            continue
        answer = watched.page.goto(site.url + path)
        assert answer is not None
        assert answer.status == (400 if name == "missing" else 200), name
        settled(watched)
        watched.screenshot(f"view_{name}_{form.replace(' ', '_')}")
        assert watched.accessibility_findings() == [], name
        assert watched.overflow() <= 0, name
        if name == "missing":
            watched.wrongs[:] = [w for w in watched.wrongs if "400 (Bad Request)" not in w]


LONG = "accounts/evaluation-team/deployments/claude-haiku-5.5-finetuned-order-desk-2026-checkpoint-"


@pytest.mark.parametrize("form", first_of(["phone", "wide"]))
def test_twenty_very_long_names_fit_every_page(
    watched: Watched, tmp_path: Path, serving: Serving, form: str
) -> None:
    names = [f"{LONG}{'x' * (118 - len(LONG))}{n:02}" for n in range(19)]
    names.append(LONG.replace("/", "").replace("-", "").replace(".", "").ljust(300, "x"))
    path = write_lines(
        tmp_path / "long.jsonl",
        [
            {
                "id": f"HumanEval/{task}",
                "model": name,
                "run": run,
                "input": "What is 6 times 7?",
                "target": "42",
                "answer": "42" if (task + place) % 7 else "43",
                "cost_usd": 0.001 * place,
            }
            for place, name in enumerate(names)
            for task in range(6)
            for run in range(2)
        ],
    )
    if form == "phone":
        watched.phone()
    site = serving(tmp_path)
    run = site.ids()["long.jsonl"]
    sides = [f"{run}?model={name}" for name in names[-2:]]
    both = f"base={quote(sides[0], safe='')}&candidate={quote(sides[1], safe='')}"
    report = tmp_path / "report.html"
    calipers.report(path).save(report)
    one = f"/runs/{run}"
    inside = (one, f"{one}/answers", f"{one}/answers/task?task=HumanEval/3", f"{one}/samples")
    across = (f"{one}/samples/239", f"/rank?of={run}", f"/compare?{both}", "/", "/rank", "/compare")
    for path_of in (*inside, *across):
        watched.page.goto(site.url + path_of)
        settled(watched)
        assert watched.overflow() <= 0, path_of
        assert watched.page.evaluate(OVERLAPS) == [], path_of
    watched.page.goto(report.as_uri())
    assert watched.overflow() <= 0
    assert watched.page.evaluate(OVERLAPS) == []
    cut = watched.page.locator(".first-table .cut").first
    assert len(cut.inner_text()) < 60
    cut.focus()
    whole = "e => getComputedStyle(e, '::after').content"
    assert any(name in cut.evaluate(whole) for name in names)  # the whole name is seen


# Texts that reach beyond the box that holds them, where nothing scrolls or cuts them.
OVERLAPS = """() => [...document.querySelectorAll("main th, main td, main p, main li, main h1, "
  + "main h2, main h3, main dd, main label, main summary, main .panel, main .of > span")]
  .filter(e => e.offsetParent && getComputedStyle(e).overflowX === "visible"
    && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
  .filter(e => ![...e.querySelectorAll("*")].some(
    inner => ["auto", "scroll"].includes(getComputedStyle(inner).overflowX)))
  .map(e => `${e.tagName} ${e.className}: ${e.innerText.slice(0, 60)}`).slice(0, 5)"""


def test_filter_sort_search_and_turn_pages(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{site.url}/runs/{site.ids()['two.jsonl']}/samples")
    page.get_by_role("link", name="b 120").click()
    page.wait_for_url("**/samples?model=b")
    page.get_by_role("link", name="latency_ms").click()
    page.wait_for_url("**sort=latency_ms")
    first = page.locator("tbody tr").first.inner_text()
    assert "100" in first
    page.select_option("#add_field", "latency_ms")
    page.select_option("#add_op", ">=")
    page.fill("#add_value", "300")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**latency_ms%3E=300**")
    assert "at least 300" in page.locator(".chips").inner_text()
    page.get_by_label("Remove the filter latency_ms at least 300").click()
    page.wait_for_url("**model=b&sort=latency_ms")
    page.get_by_role("link", name="next →").click()
    page.wait_for_url("**page=2")
    assert "51 to 100 of 120" in page.locator(".count").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("what is 7 +")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=what**")
    assert "1 to 1 of 1 records" in page.locator(".count").inner_text()
    page.locator("tbody a").first.click()
    page.wait_for_url("**/samples/127?**")


def test_keys_go_through_the_records_of_a_view(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    run = site.ids()["two.jsonl"]
    page.goto(f"{site.url}/runs/{run}/samples/3?correct=false")
    page.keyboard.press("j")
    page.wait_for_url("**/samples/6?correct=false")
    page.keyboard.press("k")
    page.wait_for_url("**/samples/3?correct=false")
    page.keyboard.press("k")
    page.wait_for_url("**/samples/0?correct=false")


@pytest.mark.long
def test_compare_from_the_list(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    page.goto(site.url)
    page.get_by_label("two.jsonl as the base").check()
    page.get_by_label("agents.jsonl as the candidate").check()
    page.get_by_role("button", name="Compare the marked").click()
    page.wait_for_url("**/compare?**")
    assert "12 tasks on both sides" in page.inner_text(".heading")


@pytest.mark.long
def test_a_group_is_chosen_and_the_numbers_lead_to_rows(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{site.url}/runs/{site.ids()['two.jsonl']}")
    settled(watched)
    page.select_option("#by", "category")
    page.wait_for_url("**by=category")
    settled(watched)
    row = page.locator("#score tr", has=page.get_by_role("link", name="accuracy", exact=True))
    assert "%" in row.first.inner_text()
    row.first.locator("td a").first.click()
    page.wait_for_url("**/samples?category=**")
    assert "of 120 records" in page.locator(".count").inner_text()


def test_without_scripts_the_pages_still_work(site: Dashboard, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{site.url}/runs/{site.ids()['two.jsonl']}/samples?model=a")
        assert page.locator("tbody tr").count() == 50
        page.get_by_role("link", name="next →").click()
        assert "51 to 100" in page.locator(".count").inner_text()
    finally:
        context.close()


def test_a_head_sorts_a_table(site: Dashboard, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{site.url}/runs/{site.ids()['two.jsonl']}?by=category")
    settled(watched)
    first = page.locator(".first-table tbody th").first
    page.get_by_role("button", name="system").click()
    names = [first.inner_text()]
    page.get_by_role("button", name="system").click()
    names.append(first.inner_text())
    assert names == ["products", "sums"]
    assert page.locator(".first-table th[aria-sort=descending]").count() == 1
