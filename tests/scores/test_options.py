"""An option is declared once: command line, Python, files and pages are made from that."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

import calipers as cal
from calipers.cli import app
from calipers.metrics import metric_named
from calipers.metrics.declare.settings import Settings, list_metric_options
from calipers.scores.options import Options
from tests.commands import run
from tools.reference.options import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
JUDGING = ("judge", "audit", "calibrate")  # subcommands of `judge`
ROWS = [{"id": "a", "answer": "4", "target": "4"}]
TOY = '    toy: int = option(7, "Number of toys to play with.", at_least=1)\n'
USE_OF_TOY = """
import calipers as cal
rows = [{"id": "a", "answer": "4", "target": "4"}]
print(cal.score(rows).settings["toy"], cal.score(rows, toy=3).settings["toy"])
try:
    cal.score(rows, toy=0)
except cal.UsageError as error:
    print(error.message)
policy = {"thresholds": {"blocking": {"accuracy": 90}}, "metric_settings": {"toy": 5}}
print(cal.score(rows, policy=policy).settings["toy"], cal.gate(rows, policy=policy).verdict)
from calipers.cli import app
app(["score", "--help"])
"""
USE_OF_TOYS = """
import calipers as cal
from calipers.cli import app
calls = {
    "compare": (cal.compare, {}),
    "judge": (cal.judge_records, {"files": "a", "output": "b", "model": "m"}),
    "gate": (cal.gate, {"data": [], "policy": {}}),
    "run": (cal.run, {"suite": "suite.yaml"}),
}
for name, (call, given) in calls.items():
    try:
        call(**given, toy=0)
    except cal.UsageError as error:
        print(error.message)
    app([name, *(["files"] if name == "judge" else []), "--help"], standalone_mode=False)
"""


def run_with(tmp_path: Path, toys: dict[str, str], code: str) -> str:
    """Run code with a copy of the package, in whose files a toy stands before other options."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for file, before in toys.items():
        path = tmp_path / "src/calipers" / file
        text = path.read_text(encoding="utf-8")
        place = text.index(f"    {before} = ")
        path.write_text(text[:place] + TOY + text[place:], encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_one_line_makes_an_option_of_metrics(tmp_path: Path) -> None:
    stdout = run_with(tmp_path, {"metrics/declare/settings.py": "bins: int"}, USE_OF_TOY)
    lines = stdout.splitlines()
    assert lines[:3] == ["7 3", "--toy 0: must be at least 1", "5 pass"]
    assert "--toy INTEGER" in stdout
    assert "Number of toys to play with. [default: 7; x>=1]" in " ".join(stdout.split())


def test_one_line_makes_an_option_of_any_command(tmp_path: Path) -> None:
    toys = {
        "comparisons/options/compare.py": "between: str | None",
        "judges/options.py": "name: str | None",
        "gates/options.py": "release: str | None",
        "runs/options.py": 'evidence: Literal["interval", "point"]',
    }
    stdout = run_with(tmp_path, toys, USE_OF_TOYS)
    assert stdout.count("--toy 0: must be at least 1\n") == len(toys)
    assert stdout.count("--toy INTEGER") == len(toys)


def test_the_metrics_of_options_are_in_the_catalogue() -> None:
    for option in list_metric_options().values():
        for name in option.metrics:
            assert metric_named(name).name == name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_and_help_name_every_option(name: str) -> None:
    function = FUNCTIONS[name]
    known = function.options
    parameters = inspect.signature(function).parameters
    assert set(known) <= set(parameters)
    text = function.__doc__ or ""
    assert all(f"{keyword}: {each.help}" in text for keyword, each in known.items())
    if name == "read":
        return  # it has no command
    command = ("judge", {"judge": "files"}.get(name, name)) if name in JUDGING else (name,)
    shown = run(*command, "--help").stdout
    assert [each.flag for each in known.values() if each.flag not in shown] == []


def test_help_is_grouped_and_begins_with_what_matters() -> None:
    shown = run("score", "--help").stdout
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Most used",
        "Input",
        "Selection",
        "How metrics are computed",
        "Statistics",
        "Output",
        "Other options",
    ]
    first = shown.partition("Most used:")[2].partition("\n\n")[0]
    flags = [line.split()[0].strip(",") for line in first.splitlines() if line.startswith("  -")]
    assert flags == ["--by", "--metric", "--map", "--format", "-o"]


def every_command(command: click.Command) -> Iterator[click.Command]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from every_command(each)


def test_the_help_of_every_option_is_a_whole_phrase() -> None:
    for command in every_command(app):
        for option in command.params:
            if isinstance(option, click.Option):
                assert re.match(r"[A-Z].*\.$", option.help or ""), (command.name, option.opts)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": 3}, "by=3: expected a name or a list of names, not int"),
        ({"bins": "ten"}, "bins='ten': expected a whole number, not str"),
        ({"bins": True}, "bins=True: expected a whole number, not bool"),
        ({"confidence": "95%"}, "confidence='95%': expected a number, not str"),
        ({"map": ["answer"]}, "map=['answer']: expected a mapping of the record's fields"),
        ({"join": 3}, "join=3: expected a path, not int"),
        ({"per_sample": 5}, "per_sample=5: expected a path, not int"),
        ({"hash_inputs": "yes"}, "hash_inputs='yes': expected True or False, not str"),
        ({"policy": 7}, "policy=7: expected a file or a mapping, not int"),
        ({"nonsense": 1}, "score() has no option nonsense"),
    ],
)
def test_a_wrong_type_is_a_type_error_with_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(TypeError) as error:
        cal.score(ROWS, **given)  # type: ignore[arg-type]
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("call", "given", "said"),
    [
        (cal.compare, {"unpaired": "yes"}, "unpaired='yes': expected True or False, not str"),
        (cal.compare, {"base_normalize": "word"}, "--base-normalize word: no such choice"),
        (cal.compare, {"unpared": True}, "compare() has no option unpared"),
        (cal.power, {"runs": 3}, "runs=3: expected a list of whole numbers, not int"),
        (cal.power, {"correlation": 1}, "--correlation 1: must be at least -1 and below 1"),
        (cal.agree, {"unit": 3}, "unit=3: expected a name or a list of names, not int"),
        (cal.gate, {}, "gate(): policy is missing"),
        (
            cal.gate,
            {"policy": {}, "ratchet": "no"},
            "ratchet='no': expected True or False, not str",
        ),
        (cal.report, {"samples": -1}, "--samples -1: must be at least 0"),
        (cal.read, {"join": 3}, "join=3: expected a path, not int"),
        (
            partial(cal.convert, output="a.parquet"),
            {"engine": "duck"},
            "--engine duck: no such choice",
        ),
        (cal.doctor, {"strict": None}, "strict=None: expected True or False, not NoneType"),
        (cal.doctor, {"map": {"anser": "a"}}, "--map anser=…: the record has no field anser"),
        (cal.audit_judges, {"worst": -1}, "--worst -1: must be at least 0"),
        (cal.run, {"evidence": "gut"}, "--evidence gut: no such choice"),
        (cal.run, {"report": "no"}, "report='no': expected True or False, not str"),
        (partial(cal.judge_records, "a.jsonl"), {}, "judge(): model is missing"),
        (
            partial(cal.judge_records, "a.jsonl"),
            {"model": "openai:m", "timeout": 0},
            "--timeout 0: must be above 0",
        ),
        (cal.rank, {"better": "up"}, "--better up: no such choice"),
        (cal.rank, {"bradley_terry": 1}, "bradley_terry=1: expected True or False, not int"),
    ],
)
def test_what_only_one_function_has_is_checked_too(
    call: Any, given: dict[str, object], said: str
) -> None:
    with pytest.raises(cal.UsageError) as error:
        call(ROWS, **given)
    assert error.value.message == said
    assert error.value.fix


@pytest.mark.parametrize("call", [cal.score, cal.read, cal.audit_judges])
def test_the_old_name_of_map_leads_to_the_new(call: Any) -> None:
    with pytest.raises(TypeError, match="use map instead"):
        call(ROWS, rename={"answer": "output"})


def test_the_output_names_every_setting() -> None:
    settings = cal.score(ROWS).settings
    assert {*Settings.__dataclass_fields__} <= set(settings)
    assert Options().settings == Settings()
