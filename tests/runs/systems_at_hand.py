"""Systems that do everything right and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.runs.suites_at_hand import SuiteFolder, suite_folder, sums

SYSTEMS = """
import asyncio, os, sys, time

begun = []

def given(record):
    return {"seen": sorted(record), "prompt_seen": record.get("prompt"), "tier_seen": record.get("tier")}

async def waits(record):
    await asyncio.sleep(0)
    return str(int(record["input"].split()[0]) + 1)

async def waits_for_others(record):
    begun.append(record)
    while len(begun) < 8:
        await asyncio.sleep(0.01)
    return str(int(record["input"].split()[0]) + 1)

def changes(record):
    record["tags"].append("changed")
    record["id"] = "other"
    print("noise on stdout")
    return "ok"

def raises(record):
    raise ValueError("no way " + os.environ.get("PLANTED", ""))

def exits(record):
    sys.exit(7)

def hangs(record):
    time.sleep(3600)

async def blocks(record):
    time.sleep(3600)

async def blocks_once(record):
    if record["id"] == "t0":
        time.sleep(3.5)
    return str(int(record["input"].split()[0]) + 1)

async def gives_up(record):
    raise asyncio.CancelledError

async def leaves(record):
    sys.exit(7)

def promises(record):
    return waits(record)

def everything(record):
    return {**record, "answer": 7, "trace": {"tool_calls": []}, "passed": True, "mine": [1]}

def nothing(record): return None
def number(record): return 5
def long(record): return "x" * (17 << 20)
def long_field(record): return {"mine": "x" * (17 << 20)}
def nan(record): return {"latency_ms": float("nan"), "answer": "x"}
def infinite(record): return {"mine": float("inf")}
def unsure(record): return {"prob_correct": 1.5}
def odd(record): return {"mine": object()}
def other(record): return {"id": "x"}
def deep(record):
    nested = []
    for _ in range(100_000): nested = [nested]
    return {"mine": nested}
def reports(record): return {"error": "rate_limit: slow down"}
def surrogate(record): return {"answer": "\\ud800 half"}
"""


def python(tmp_path: Path, function: str, **more: Any) -> SuiteFolder:
    (tmp_path / "systems.py").write_text(SYSTEMS)
    system = {"name": "s", "python": f"systems.py:{function}"}
    return suite_folder(tmp_path, more.pop("tasks", sums(1)), [system], **more)


def only(suite: SuiteFolder) -> dict[str, Any]:
    (record,) = suite.records()
    return record
