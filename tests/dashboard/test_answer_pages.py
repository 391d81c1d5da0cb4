"""Tasks by systems with the answer in the cell, and the calls of one task side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.browser import Watched, needs_browser
from tests.dashboard.dashboards import Dashboard, Serving
from tests.files import write_lines

SYSTEMS = ("Łódź 7b", "<b>GPT</b>-4o", "o1")
WORDS = ("shipped", "delivered")


def orders(tasks: int = 60, runs: int = 2) -> list[dict[str, Any]]:
    """The first system is right always, the second in one run, the third never; some calls fail."""
    found = []
    for task in range(tasks):
        for place, system in enumerate(SYSTEMS):
            for run in range(1, runs + 1):
                right = place == 0 or (place == 1 and run == 1) or task % 10 == 0
                failed = task == 5 and place == 2
                answer = None if failed else WORDS[not right]
                found.append(
                    {
                        "id": f"order-{task}",
                        "model": system,
                        "run": run,
                        "category": ("north", "south")[task % 2],
                        "input": f"Where is order {task}?",
                        "target": "shipped",
                        "answer": answer,
                        "messages": [
                            {"role": "user", "content": f"Where is order {task}?"},
                            {"role": "assistant", "content": f"It is {answer}. <script>"},
                        ],
                        **({"error": "timeout: 9 s"} if failed else {}),
                    }
                )
    return found


def chips(page: str) -> dict[str, str]:
    found = re.findall(r'class="chip[^"]*"[^>]*>([^<]+) <small>([\d,]+)</small>', page)
    return dict(found)


def test_choices_are_counted_and_chosen(tmp_path: Path, serving: Serving) -> None:
    write_lines(tmp_path / "o.jsonl", orders())
    site = serving(tmp_path)
    base = f"/runs/{site.ids()['o.jsonl']}/answers"
    page = site.get(base).text
    assert chips(page) == {
        "all": "60",
        "systems differ": "54",
        "runs differ": "54",
        "right everywhere": "6",
        "wrong everywhere": "0",
        "failed calls": "1",
    }
    assert "1 to 50 of 54 tasks" in page  # those that tell systems apart, without being asked
    assert "51 to 54 of 54 tasks" in site.get(f"{base}?page=2").text
    assert "1 to 6 of 6 tasks" in site.get(f"{base}?show=right").text
    only = site.get(f"{base}?show=failed").text
    assert "order-5<" in only
    assert "call failed" in only
    assert "1 to 50 of 60 tasks" in site.get(f"{base}?show=all").text
    assert "1 to 30 of 30 tasks" in site.get(f"{base}?category=south&show=runs").text
    assert "No task matches" in site.get(f"{base}?show=wrong").text


def test_a_cell_has_the_answers_and_the_best_system_stands_first(
    tmp_path: Path, serving: Serving
) -> None:
    write_lines(tmp_path / "o.jsonl", orders(3))
    site = serving(tmp_path)
    page = site.get(f"/runs/{site.ids()['o.jsonl']}/answers").text
    heads = re.findall(r'<th scope="col"><a [^>]*>([^<]+)</a> <span class="quiet">([^<]+)', page)
    assert heads == [
        ("Łódź 7b", "100 %"),
        ("&lt;b&gt;GPT&lt;/b&gt;-4o", "66.7 %"),
        ("o1", "33.3 %"),
    ]
    row = page[page.index("order-1<") : page.index("order-2<")]
    cells = re.findall(
        r'<span class="reply (\w+)"[^>]*>([^<]+)</span>(?:<small[^>]*>([^<]+))?', row
    )
    assert cells == [
        ("right", "shipped", "×2"),
        ("right", "shipped", ""),
        ("wrong", "delivered", ""),
        ("wrong", "delivered", "×2"),
    ]


def test_a_search_finds_tasks_with_the_answers_of_all_systems(
    tmp_path: Path, serving: Serving
) -> None:
    write_lines(tmp_path / "o.jsonl", orders())
    site = serving(tmp_path)
    page = site.get(f"/runs/{site.ids()['o.jsonl']}/answers?q=order+17%3F&show=all").text
    assert "1 to 1 of 1 tasks" in page
    assert page.count('class="reply ') == 4 + 2  # and two in the legend


def test_a_cell_shows_both_verdicts_where_they_disagree(tmp_path: Path, serving: Serving) -> None:
    records = [
        {
            "id": f"SEC-00{n}",
            "model": model,
            "category": "orders",
            "answer": "It was shipped." if n else "shipped",
            "target": "shipped",
            "passed": model == "GPT-4o",
        }
        for n in range(3)
        for model in ("GPT-4o", "o1")
    ]
    write_lines(tmp_path / "o.jsonl", records)
    site = serving(tmp_path)
    base = f"/runs/{site.ids()['o.jsonl']}"
    page = site.get(f"{base}/answers").text
    assert "100 % passed, 33.3 % correct" in page
    assert "0 % passed, 33.3 % correct" in page
    assert chips(page)["checks and target disagree"] == "3"
    assert page.count(">≠ target</small>") == 2 + 1  # and in the key
    assert page.count(">= target</small>") == 1 + 1
    assert chips(page)["systems differ"] == "3"
    assert "1 to 3 of 3 tasks" in site.get(f"{base}/answers?show=disputed").text
    score = site.get(f"{base}/score").text
    assert "tasks whose checks and target disagree" in score
    assert "fails its checks, is the target" in score
    assert "passes its checks" in score


def test_columns_may_be_runs_or_any_field(tmp_path: Path, serving: Serving) -> None:
    write_lines(tmp_path / "o.jsonl", orders())
    site = serving(tmp_path)
    base = f"/runs/{site.ids()['o.jsonl']}/answers"
    assert re.findall(r'<th scope="col"><a [^>]*>(\d)</a>', site.get(f"{base}?by=run").text) == [
        "1",
        "2",
    ]
    alone = site.get(f"{base}?model=o1").text  # of one system, its runs
    assert re.findall(r'<th scope="col"><a [^>]*>(\d)</a>', alone) == ["1", "2"]
    assert site.get(f"{base}?by=nothing").status == 400


def test_one_task_has_its_calls_side_by_side(tmp_path: Path, serving: Serving) -> None:
    write_lines(tmp_path / "o.jsonl", orders())
    site = serving(tmp_path)
    base = f"/runs/{site.ids()['o.jsonl']}/answers/task"
    page = site.get(f"{base}?task=order-5").text
    assert page.count('<article class="one-call">') == 6
    assert "<script>." not in page
    assert "It is <mark" in page
    assert page.count("timeout: 9 s") == 2
    assert site.get(f"{base}?task={quote('no such task')}").status == 404


def test_records_without_ids_or_outcomes(tmp_path: Path, serving: Serving) -> None:
    write_lines(tmp_path / "a.jsonl", [{"input": "Why?", "answer": "So."}])
    write_lines(tmp_path / "b.jsonl", [{"id": "t", "answer": "So."}, {"id": "u"}])
    write_lines(tmp_path / "c.jsonl", [{"id": None, "answer": "So."}, {"id": "u", "answer": ""}])
    site = serving(tmp_path)
    ids = site.ids()
    assert "No record here has an id" in site.get(f"/runs/{ids['a.jsonl']}/answers").text
    found = site.get(f"/runs/{ids['b.jsonl']}/answers").text
    assert chips(found) == {"all": "2"}
    assert "So." in found
    assert site.get(f"/runs/{ids['c.jsonl']}/answers").status == 200


@needs_browser
def test_keys_walk_the_rows_and_open_one(
    watched: Watched, tmp_path: Path, serving: Serving
) -> None:
    write_lines(tmp_path / "o.jsonl", orders())
    site: Dashboard = serving(tmp_path)
    page = watched.page
    page.goto(f"{site.url}/runs/{site.ids()['o.jsonl']}/answers")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.inside .one-call")
    assert page.locator("tr.inside .one-call").count() == 6
    watched.screenshot("answers")
    page.keyboard.press("Enter")
    assert not page.locator("tr.inside").is_visible()
    page.locator("tr[data-row] td").nth(3).click()  # anywhere in a row
    page.wait_for_selector("tr.inside .one-call", state="visible")
    page.goto(f"{site.url}/runs/{site.ids()['o.jsonl']}")
    page.locator(".calls-picture rect.wrong").first.click()
    page.wait_for_selector(".transcript")
    assert "wrong" in page.locator(".sample-head").inner_text()
    page.goto(f"{site.url}/runs/{site.ids()['o.jsonl']}/samples")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".transcript")
    assert page.url.endswith("/samples/0")
    page.keyboard.press("j")
    page.wait_for_url("**/samples/1")
