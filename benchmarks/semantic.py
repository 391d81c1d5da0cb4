"""How long similarity by a model takes, against torchmetrics with the same weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from benchmarks.figures import Bar, Figure
from benchmarks.processes import ROOT, Setup
from benchmarks.semantic_contest import BATCH, CANDIDATES, PACKAGE, missing

SAME = Bar(1e-5)
BARS = {"repeated": Bar(2, at_least=True), "distinct": Bar(1.3, at_least=True), "whole": None}
WHAT = {
    "repeated": f"{CANDIDATES} answers a reference",
    "distinct": "no text twice",
    "whole": "no text twice, whole reviews",
}


def of_semantic(setup: Setup) -> Iterator[Figure]:
    lacking = missing(PACKAGE) + [name for name in ("torchmetrics",) if find_spec(name) is None]
    if lacking:
        print(f"  skipped, not installed: {', '.join(lacking)}", file=sys.stderr)
        return
    command = [sys.executable, "-m", "benchmarks.semantic_contest", "--rounds", str(setup.rounds)]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    report = json.loads(output)
    for name, found in report["workloads"].items():
        speed = found["pairs_per_second"]
        yield Figure(
            name=f"BERTScore, {WHAT[name]}: torchmetrics / calipers",
            value=found["ratio"],
            bar=BARS[name],
            detail=f"{speed['torchmetrics']:.1f} / {speed['calipers']:.1f} pairs a second, "
            f"{found['pairs']} pairs of {report['texts']}, {report['threads']} thread each, "
            f"batches of {BATCH} for torchmetrics",
        )
    yield Figure(
        name="numbers: BERTScore F1 - that of torchmetrics",
        value=max(found["largest_difference"] for found in report["workloads"].values()),
        unit="",
        bar=SAME,
        detail="the largest difference of a pair",
    )
