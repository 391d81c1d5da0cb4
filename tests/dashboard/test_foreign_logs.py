"""Logs of other tools in the dashboard: listed by what is in them, shown as records are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from calipers.records.reading_options import ReadingChoices
from tests.dashboard.dashboards import Dashboard
from tests.records.log_files import make_promptfoo_row, sample, write_inspect_log, write_texts


def test_logs_are_listed_and_shown_and_other_documents_are_not(
    tmp_path: Path, serving: Callable[..., Dashboard]
) -> None:
    write_inspect_log(tmp_path / "a.eval", [sample(1), sample(2, "I")])
    write_texts(tmp_path / "out.json", {"results": [make_promptfoo_row(0, "Say")]}, indent=2)
    (tmp_path / "notes.json").write_text(json.dumps({"some": "notes"}, indent=2), encoding="utf-8")
    (tmp_path / "results.json").write_text(
        json.dumps({"results": {}, "lm_eval_version": "0.4"}, indent=2), encoding="utf-8"
    )
    site = serving(tmp_path)
    ids = site.ids()
    assert ids.keys() == {"a.eval", "out.json"}
    samples = site.get(f"/runs/{ids['a.eval']}/samples").text
    assert "sums/1" in samples
    assert "sums/2" in samples
    assert "Bonjour" in site.get(f"/runs/{ids['out.json']}/samples").text


def test_a_file_is_shown_as_the_log_that_its_reader_is_named_for(
    tmp_path: Path, serving: Callable[..., Dashboard]
) -> None:
    file = write_texts(
        tmp_path / "a.jsonl", {"user_input": "2 + 2?", "response": "four", "n": "t1"}
    )
    tasks = write_texts(tmp_path / "tasks.jsonl", {"id": "t1", "category": "sums of two"})
    for reading, shown in (
        (ReadingChoices(), False),
        (ReadingChoices("ragas", tasks, "n=id"), True),
    ):
        site = serving(file, reading=reading)
        [id_] = site.ids().values()
        samples = site.get(f"/runs/{id_}/samples").text
        assert ("four" in samples, "sums of two" in samples) == (shown, shown)
