"""Logs, tables, policies and baselines that are damaged are read, or are an error with a message."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import CalipersError
from tests.files import write_lines
from tests.records import log_files
from tests.records.test_exports import _CASES

SECONDS = 30.0  # that each of the two tests may take, on a busy machine with fewer mutations
SLOW = 10.0  # seconds, of one file of a few kilobytes
ROWS = [
    {"id": f"CORE-{n:03}", "model": "llama3", "category": "adversarial", "answer": "4", "run": 1}
    | {"target": "4", "passed": n > 0, "latency_ms": 10.5 * n, "prompt_tokens": n}
    for n in range(8)
]
POLICY = {
    "thresholds": {"blocking": {"accuracy": "≥ 10%"}, "warning": {"latency_p95_ms": "≤ 900"}},
    "pass_criteria": {"overall": "50%", "by_category": {"adversarial": "≥ 50%"}},
    "required_scenarios": {"ids": ["CORE-001"]},
    "weights": {"by_category": {"adversarial": 2.0}},
    "judges": {"uncalibrated": "warn", "flagged": "fail"},
    "missing": {"accuracy": "20%"},
}
LOGS: dict[str, tuple[str, Any]] = {
    **{name: (file, content) for name, (file, content, _) in _CASES.items()},
    "lm-eval": ("samples_sums_2026.jsonl", log_files.make_lm_eval_line(1)),
    "DeepEval": ("test_run.json", {"testCases": [log_files.make_deepeval_case("a")]}),
    "records": ("records.jsonl", ROWS[1]),
}
PIECES = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\0", b"-", b"1e999", b"NaN"),
    *(
        b"\xff",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"null",
        b"true",
        b"\\ud800",
        b"''",
        b"&a *a",
        b"!!x ",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, -1e308, 10**40, 0.5, "", "x", "1e999", "\0", "\ud83d", "4" * 400),
    *([], {}, [None], [[]], {"a": None}, {"": {}}, [{}, "x"], {"id": []}),
)
Check = Callable[[Path], object]


def list_files(folder: Path) -> Iterator[tuple[Path, Any, Check]]:
    """Yield files of each kind, what they hold, and who reads them."""
    for name, (file, content) in LOGS.items():
        path = folder / name.replace("/", "-") / file
        path.parent.mkdir()
        yield path, content, cal.score
    records = write_lines(folder / "records.jsonl", ROWS)
    yield folder / "policy.json", POLICY, lambda path: cal.gate(records, policy=path)
    saved = folder / "saved.json"
    cal.gate(records, policy={"pass_criteria": {"overall": "50%"}}, save_baseline=saved)
    baseline = json.loads(saved.read_text())
    yield (
        folder / "baseline.json",
        baseline,
        lambda path: cal.gate(records, policy={}, against=path),
    )


def find_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container within a value, with each of its keys."""
    for key in [*(value if isinstance(value, dict) else range(len(value)))]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from find_places(value[key])


def try_until_late(files: list[Any], damage: Callable[[Any, Random], bytes]) -> None:
    for path, content, check in files:
        path.write_text(json.dumps(content), encoding="utf-8")
        check(path)  # undamaged, it is read
    luck, began, tried = Random(1), monotonic(), 0
    while tried < 3_000 and monotonic() - began < SECONDS:
        path, content, check = files[tried % len(files)]
        tried += 1
        path.write_bytes(damage(content, luck))
        start = monotonic()
        with suppress(CalipersError):
            check(path)
        assert monotonic() - start < SLOW, path.read_bytes()
    assert tried > len(files)


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_values_of_any_kind_are_read_or_named(tmp_path: Path) -> None:
    def damage(content: Any, luck: Random) -> bytes:
        changed = copy.deepcopy(content)
        for _ in range(luck.choice((1, 1, 2, 3))):
            places = [*find_places(changed)]
            if places:
                container, key = luck.choice(places)
                container[key] = copy.deepcopy(luck.choice(VALUES))
        return json.dumps(changed).encode()

    try_until_late([*list_files(tmp_path)], damage)


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_bytes_of_any_kind_are_read_or_named(tmp_path: Path) -> None:
    def damage(content: Any, luck: Random) -> bytes:
        changed = bytearray(json.dumps(content).encode())
        for _ in range(luck.choice((1, 1, 2, 4))):
            at, cut = luck.randrange(len(changed) + 1), luck.choice((0, 0, 1, 1, 2, 8, 99))
            changed[at : at + cut] = (
                luck.choice(PIECES) if luck.random() < 0.7 else luck.randbytes(1)
            )
        return bytes(changed)

    try_until_late([*list_files(tmp_path)], damage)
