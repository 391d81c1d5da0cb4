"""The catalogue of metrics, and help."""

from __future__ import annotations

import json

import pytest

import calipers as cal
from calipers.metrics import catalogue
from tests.commands import refused, run


def test_the_catalogue_lists_every_metric() -> None:
    out = run("metrics").stdout
    for name, metric in catalogue().items():
        assert name in out
        assert metric.defined_in in out


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_a_metric_in_full(name: str) -> None:
    metric = catalogue()[name]
    words = " ".join(run("metrics", name).stdout.split())
    for text in (name, metric.says, metric.formula, metric.nulls, metric.defined_in):
        assert " ".join(text.split()) in words


def test_an_unknown_metric_names_the_nearest() -> None:
    assert (
        refused("metrics", "breir") == "error: no metric is called breir\n  did you mean brier?\n"
    )
    assert refused("metrics", "zzz").startswith(
        "error: no metric is called zzz\n  known: accuracy, "
    )
    told = refused("explain", "lateny_p95_ms", "x.jsonl")
    assert told == "error: no metric is called lateny_p95_ms\n  did you mean latency_p95_ms?\n"


def test_the_catalogue_as_json() -> None:
    rows = json.loads(run("metrics", "--format", "json").stdout)
    assert [row["name"] for row in rows] == list(catalogue())
    [row] = json.loads(run("metrics", "ece", "--format", "json").stdout)
    assert (row["range"], row["better"], row["spec"]) == ("[0, 1]", "lower", "Z 3.2")


def test_help_names_every_command_and_the_exit_codes() -> None:
    out = run("--help").stdout
    assert all(word in out for word in ("score", "explain", "metrics", "Exit codes"))
    known = f"calipers, version {cal.__version__} (with"
    assert run("--version").stdout.startswith(known)
    without = run("--version", env={"CALIPERS_NATIVE": "0"}).stdout
    assert without == f"{known}out the native library)\n"
