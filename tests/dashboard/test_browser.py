"""The dashboard in a real browser: every page, filters, live runs, hostile records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Semaphore
from time import sleep
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl
import pytest

from calipers.dashboard import indexing
from calipers.dashboard.app import PARTS, ROUTES
from tests.browser import Watched, needs_browser
from tests.dashboard.dashboards import Dashboard, dashboard, records, two_models
from tests.examples import first_of
from tests.files import write_lines
from tests.runs.suites_at_hand import ROOT, suite_folder, sums

pytestmark = needs_browser

Serving = Callable[..., Dashboard]


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
    return "." not in last and last not in PARTS and not path.startswith("/static")


def test_every_page_is_looked_at(site: Dashboard) -> None:
    seen = [urlsplit(path).path for path in pages(site).values()]
    routes = [route for module in ROUTES for route in module.router.routes]
    missing = [
        route.path
        for route in routes
        if is_page(route.path) and not any(route.path_regex.match(path) for path in seen)
    ]
    assert missing == []


def settled(watched: Watched) -> None:
    """Wait until all parts of the page have come and every figure is drawn."""
    watched.page.wait_for_load_state("networkidle")
    watched.page.wait_for_function("() => !document.querySelector('.htmx-request')")
    watched.page.wait_for_function(
        "() => ![...document.querySelectorAll('.state')].some(e => /…$/.test(e.textContent.trim()))",
        timeout=120_000,
    )
    watched.figures_drawn()


SOME = ("run", "samples", "compare", "trend", "missing")
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
    card = page.locator('article[data-metric="accuracy"]')
    assert "products" in card.inner_text()
    card.get_by_label("The records behind accuracy of products").click()
    page.wait_for_url("**/samples?category=products**")
    assert "of 120 records" in page.locator(".count").inner_text()


SLOW = "import time\ndef answer(record):\n    time.sleep(0.4)\n    return '1'\n"


@pytest.mark.long
def test_a_run_is_watched_while_it_goes_on(
    tmp_path: Path, serving: Serving, watched: Watched
) -> None:
    suite = suite_folder(
        tmp_path, sums(4000), [{"name": "slow", "python": "slow.py:answer"}], concurrency=1
    )
    (tmp_path / "slow.py").write_text(SLOW)
    going = suite.start()
    try:
        while not (suite.results / "records.jsonl").exists() and going.poll() is None:
            sleep(0.05)
        site, page = serving(tmp_path), watched.page
        page.goto(site.url)
        assert "running" in page.inner_text("tbody")
        page.goto(f"{site.url}/runs/{site.ids()['out']}")
        counter = page.locator("#progress .done")
        first = int(counter.inner_text())
        page.wait_for_function(
            f"() => Number(document.querySelector('#progress .done').textContent) > {first}",
            timeout=120_000,
        )
        assert "of 4,000 calls" in page.inner_text("#progress")
        watched.screenshot("view_live")
        page.goto(f"{site.url}/runs/{site.ids()['out']}/samples")
        told = page.inner_text(".count")
        page.wait_for_function(
            "before => document.querySelector('.count').innerText !== before",
            arg=told,
            timeout=120_000,
        )
    finally:
        going.terminate()
        going.communicate()


@pytest.mark.long
def test_a_page_fills_while_its_source_is_indexed(
    tmp_path: Path, serving: Serving, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = indexing._write

    written, seen = Semaphore(2), Event()  # the first part: its records and its values

    def slowly(*arguments: Any, **options: Any) -> None:
        assert written.acquire(blocking=False) or seen.wait(120)
        write(*arguments, **options)

    monkeypatch.setattr("calipers.records.tables.CHUNK_ROWS", 100)
    monkeypatch.setattr(indexing, "_write", slowly)
    pl.DataFrame(records(600)).write_parquet(tmp_path / "slow.parquet")
    site, page = serving(tmp_path), watched.page
    page.goto(f"{site.url}/runs/{site.ids()['slow.parquet']}/samples")
    assert "being indexed" in page.inner_text(".state")
    page.wait_for_function("() => document.querySelectorAll('tbody tr').length == 50")
    watched.screenshot("view_indexing")
    seen.set()
    page.locator(".state").wait_for(state="detached", timeout=120_000)
    assert "of 600 records" in page.inner_text(".count")


HOSTILE = (
    "<script>alert('text')</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</script><script>alert(2)</script>",
    "datum['x'] + alert(1)",
    '{"signal": "alert(1)"}',
    "\x1b]0;owned\x07\x1b[31mred\u202eevil\x00",
    "' onmouseover='alert(1)",
    "hx-get=/evil hx-trigger=load",
    "\u2028\u2029</textarea><style>*{display:none}</style>",
)


@pytest.mark.long
@pytest.mark.parametrize("seen", first_of([slice(2, None, 4), slice(None)]), ids=["some", "all"])
def test_hostile_records_stay_text(
    tmp_path: Path, serving: Serving, watched: Watched, seen: slice
) -> None:
    rows = [
        {
            "id": f"{bad}{n}",
            "model": bad,
            "category": bad,
            "tags": [bad],
            "input": bad,
            "target": bad,
            "answer": f"{bad} or not",
            "cot": f"1. {bad}\nActually 1 + 1 = 3 {bad}",
            "latency_ms": float(n),
            "prob_correct": 0.5,
            "cost_usd": 0.1,
            "passed": n % 2 == 0,
            "own<b>": bad,
            "error": bad if n == 3 else None,
            "trace": {
                "tool_calls": [{"tool_name": bad, "context": bad, "agent_id": bad}] * 2,
                "agent_interactions": [{"from": bad, "to": "b", "type": bad}],
            },
            "judgments": [{"judge": bad, "passed": True, "weighted_score": 1.0, "reasoning": bad}],
        }
        for n, bad in enumerate(HOSTILE * 2)
    ]
    write_lines(tmp_path / "<b>bad.jsonl", rows)
    site, page = serving(tmp_path), watched.page
    run = site.ids()["<b>bad.jsonl"]
    model = quote(HOSTILE[0], safe="")
    sides = f"base={run}&candidate={quote(f'{run}?model={model}', safe='')}"
    other = quote(f"{run}?model={quote(HOSTILE[1], safe='')}", safe="")
    paths = (
        "/",
        f"/?q={quote(HOSTILE[0])}",
        f"/runs/{run}",
        f"/runs/{run}?by=model",
        f"/runs/{run}/samples?sort=-latency_ms",
        f"/runs/{run}/samples?q={quote(HOSTILE[1])}&model={model}",
        f"/runs/{run}/judges",
        f"/runs/{run}/doctor",
        f"/compare?{sides}",
        f"/rank?of={run}&tasks=category",
        f"/compare?{sides}&candidate={other}",
        f"/compare/task?{sides}&task={quote(HOSTILE[0] + '0')}",
        f"/runs/{run}/samples?{quote('<script>')}=1",
        *(f"/runs/{run}/samples/{row}" for row in range(len(HOSTILE))),
    )
    for path in paths[seen]:
        page.goto(site.url + path)
        settled(watched)
        assert (
            page.locator(
                "img[src=x], svg[onload], [onmouseover], main script:not([type='application/json'])"
            ).count()
            == 0
        )
        assert page.evaluate("document.body.innerText.includes('\\u001b')") is False
        assert page.locator("main").is_visible()
    watched.wrongs[:] = [w for w in watched.wrongs if "400 (Bad Request)" not in w]
    watched.screenshot("view_hostile")


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


def test_the_command_serves_and_ends_quietly(tmp_path: Path, cache: Path) -> None:
    two_models(tmp_path, 5)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(cache)}
    process = subprocess.Popen(
        [sys.executable, "-m", "calipers", "view", str(tmp_path), "--port", "0", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        site = Dashboard(int(address.rstrip("/").rpartition(":")[2]), None, tmp_path)
        assert site.get("/").status == 200
    finally:
        process.send_signal(2)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in said
