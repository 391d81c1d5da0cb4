"""Records that attack the page that shows them, in a real browser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import Watched, needs_browser, settled
from tests.dashboard.dashboards import Serving
from tests.examples import first_of
from tests.files import write_lines

pytestmark = needs_browser


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
            "judgments": [
                {
                    "judge": bad,
                    "passed": True,
                    "weighted_score": 1.0,
                    "reasoning": bad,
                    "scores": {bad: 4},
                }
            ],
            "messages": [
                {"role": bad, "name": bad, "content": bad, "reasoning_content": bad},
                {
                    "role": "assistant",
                    "content": [{"type": "image_url", "image_url": bad}, {"type": bad}],
                    "tool_calls": [{"id": "1", "function": {"name": bad, "arguments": {bad: bad}}}],
                },
                {"role": "tool", "tool_call_id": "1", "content": bad},
            ],
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
        f"/runs/{run}/answers?show=all",
        f"/runs/{run}/answers?by=category",
        f"/runs/{run}/answers/task?task={quote(HOSTILE[0] + '0', safe='')}",
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
