"""The table of records and one record, asked over HTTP."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from tests.dashboard.dashboards import Dashboard, Serving
from tests.files import write_lines


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
    for told in ('tag fail">found', 'tag pass">ok', 'tag warn">unknown'):
        assert told in page


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


def test_statements_stand_beside_the_nearest_passage(tmp_path: Path, serving: Serving) -> None:
    row = {
        "id": "01",
        "answer": "Müller leads the office. She sold 12 ships <b>.",
        "contexts": ["Rain fell.", "Müller leads the office in Zürich."],
        "trace": {"agent_interactions": [{"from": "lead", "to": "llama 3", "type": "handoff"}]},
    }
    write_lines(tmp_path / "größe.jsonl", [row])
    site = serving(tmp_path)
    page = site.get(f"/runs/{site.ids()['größe.jsonl']}/samples/0").text
    assert '<mark class="right">Müller leads the office.</mark>' in page
    assert '<mark class="wrong">She sold 12 ships &lt;b&gt;.</mark>' in page
    assert '<span class="quiet">2</span> Müller leads the office in Zürich.' in page
    assert "<dt>llama 3</dt>" in page


def test_a_conversation_is_read_as_one_and_its_pictures_are_sent(
    tmp_path: Path, serving: Serving
) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    shown = f"data:image/png;base64,{b64encode(png).decode()}"
    asked = [
        {"type": "text", "text": "What is on it?"},
        {"type": "image_url", "image_url": {"url": shown}},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/secret.png"}},
    ]
    call = {"id": "1", "function": {"name": "zoom", "arguments": '{"times": 3}'}}
    messages = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "a red <b>kite</b>"},
        {"role": "assistant", "content": "A kite."},
    ]
    record = {"id": "p", "messages": messages, "answer": "kite", "target": "kite"}
    write_lines(tmp_path / "p.jsonl", [record])
    site = serving(tmp_path)
    base = f"/runs/{site.ids()['p.jsonl']}/samples/0"
    page = site.get(base).text
    order = [page.index(text) for text in ("What is on it?", "zoom", "times", "a red", "A <mark")]
    assert order == sorted(order)
    assert page.index("A <mark") < page.index("<h2>Measured</h2>") < page.index("as JSON")
    assert "<b>kite" not in page
    assert f'src="{base}/pictures/0"' in page
    assert "picture at http://127.0.0.1:9/secret.png" in page
    assert 'src="http' not in page
    sent = site.get(f"{base}/pictures/0")
    assert (sent.body, sent.headers["content-type"]) == (png, "image/png")
    assert site.get(f"{base}/pictures/1").status == 404
