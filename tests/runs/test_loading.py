"""What comes after the calls is loaded while models answer, and not before the first is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.model_server import ModelServer
from calipers.runs import loading
from tests.runs.suites_at_hand import ANSWER, chat, suite_folder, sums

HEAVY = {"numpy", "jinja2", "rich", "aiohttp", "calipers.runs.finish"}
WATCHED_RUN = """
import json, sys
from calipers.runs import calling, making
seen = {}
call_all, make_all = calling.Calling.all, making.AnswerMaker.make_all
async def watch_calls(self):
    seen["before"] = sorted(sys.modules)
    await call_all(self)
def watch_making(self, *given):
    try:
        return make_all(self, *given)
    finally:
        seen["calls"] = sorted(sys.modules)
calling.Calling.all, making.AnswerMaker.make_all = watch_calls, watch_making
from calipers.cli import main
place = sys.argv.pop()
try:
    main()
finally:
    seen["end"] = sorted(sys.modules)
    open(place, "w").write(json.dumps(seen))
"""


def test_nothing_is_left_to_load_once_the_calls_are_made(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
    (tmp_path / "policy.yaml").write_text("thresholds: {blocking: {accuracy: 90}}\n")
    with ModelServer(latency=0.05).in_thread() as url:
        systems = [chat(url), {**chat(url), "name": "other"}]
        folder = suite_folder(tmp_path, sums(40), systems, answer=ANSWER, policy="policy.yaml")
        command = ["run", str(folder.path / "suite.yaml"), "-o", str(folder.results)]
        found = subprocess.run(
            [sys.executable, "-c", WATCHED_RUN, *command, str(tmp_path / "seen.json")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert found.returncode == 0, found.stderr
    assert (folder.results / "report.html").exists()
    seen = {
        name: set(each) for name, each in json.loads((tmp_path / "seen.json").read_text()).items()
    }
    assert not seen["before"] & HEAVY
    assert "aiohttp" not in seen["end"]
    late = seen["end"] - seen["calls"]
    assert not [name for name in late if name.startswith("calipers.")]
    assert not late & HEAVY


def test_functions_of_this_process_are_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(loading, "_load", started.append)
    monkeypatch.setattr(loading, "NEEDED_AFTER_CALLS", ("not_loaded_yet",))
    (tmp_path / "f.py").write_text("def answer(record):\n    return '1'\n")
    function = {"name": "f", "python": "f.py:answer"}
    assert suite_folder(tmp_path, sums(2), [function]).run().exit_code == 0
    assert started == []
    served = tmp_path / "served"
    served.mkdir()
    with ModelServer().in_thread() as url:
        assert suite_folder(served, sums(2), [chat(url)], answer=ANSWER).run().exit_code == 0
    assert len(started) == 1


def test_what_cannot_be_loaded_is_told_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "NEEDED_AFTER_CALLS", ("no_such_module", "colorsys"))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with ModelServer().in_thread() as url:
        assert suite_folder(tmp_path, sums(2), [chat(url)], answer=ANSWER).run().exit_code == 0
    assert "colorsys" in sys.modules
    assert sys.meta_path.count(loading._pauses) == 1
