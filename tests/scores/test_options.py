"""An option is declared once: command line, Python, files and pages are made from that."""

from __future__ import annotations

import inspect
import json
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
from tests.commands import refused, run
from tests.files import write_lines
from tools.reference.options import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
SCREEN = 42  # lines
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
app(["score", "--help-all"])
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
    app([name, *(["files"] if name == "judge" else []), "--help-all"], standalone_mode=False)
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


def every_command(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from every_command(found)


def test_one_line_makes_an_option_of_metrics(tmp_path: Path) -> None:
    stdout = run_with(tmp_path, {"metrics/declare/settings.py": "bins: int"}, USE_OF_TOY)
    lines = stdout.splitlines()
    assert lines[:3] == ["7 3", "--set toy=0: must be at least 1", "5 pass"]
    assert "toy=NUMBER Number of toys to play with. [default: 7]" in " ".join(stdout.split())


def test_one_line_makes_an_option_of_any_command(tmp_path: Path) -> None:
    toys = {
        "comparisons/comparison_options.py": "between: str | None",
        "judges/judge_options.py": "name: str | None",
        "gates/gate_options.py": "release: str | None",
        "runs/run_options.py": 'evidence: Literal["interval", "point"]',
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
    shown = run(*command, "--help-all").stdout
    every = [f"  {each.key}=" if each.is_setting else each.flag for each in known.values()]
    assert [each for each in every if each not in shown] == []


@pytest.mark.parametrize("command", [*every_command(app)], ids=lambda each: str(each.name))
def test_help_fits_on_a_screen(command: click.Command) -> None:
    """Every other option is behind `--help-all`."""
    if command.params:
        shown = command.get_help(click.Context(command, info_name=str(command.name)))
        assert len(shown.splitlines()) <= SCREEN, command.name


def test_a_setting_is_one_option_and_its_old_flag_says_so(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "a", "prob_correct": 0.8, "correct": True}])
    given = ("score", path, "--metric", "ece", "--format", "json")
    measured = cal.score(path, metrics="ece", bins=3).to_json()
    assert json.loads(run(*given, "--set", "bins=3").stdout) == json.loads(measured)
    old = run(*given, "--bins", "3")
    assert old.stdout == run(*given, "--set", "bins=3").stdout
    assert old.stderr == "note: --bins is now written --set bins=…; the old option goes in 0.4\n"


def test_a_setting_may_be_a_list() -> None:
    told = ("--set", "correction_phrase=wait", "--set", "correction-phrase=hm, no")
    result = run("score", "-", *told, "--format", "json", input='{"cot": "Hm, no"}\n')
    score = json.loads(result.stdout)
    assert score["settings"]["correction_phrases"] == ["wait", "hm, no"]
    assert score["groups"][0]["metrics"]["self_correction_rate"]["value"] == 1.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bin=3", "--set bin=3: no such setting\n  did you mean bins?"),
        ("bins", "--set bins: not NAME=VALUE\n  --set bins=VALUE: Number of bins of the ECE."),
        ("bins=", "--set bins=: expected a whole number\n"),
        ("bins=1e1", "--set bins=1e1: expected a whole number\n"),
        ("pass_score=nan", "--set pass_score=nan: must be a finite number and above 0"),
        ("normalize=words", "--set normalize=words: no such choice\n  numeric or text"),
        ("=3", "--set =3: no such setting\n"),
    ],
)
def test_a_mistaken_setting_is_one_message(text: str, told: str) -> None:
    assert refused("score", "a.jsonl", "--set", text).startswith(f"error: {told}")


def test_a_setting_that_is_there_twice_is_refused() -> None:
    for given in (("--set", "bins=3", "--set", "bins=4"), ("--bins", "3", "--set", "bins=3")):
        assert "bins is there twice\n  keep one of them" in refused("score", "a.jsonl", *given)


def test_help_is_grouped_and_begins_with_what_matters() -> None:
    shown = run("score", "--help-all").stdout
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Most used",
        "Input",
        "Selection",
        "How metrics are computed",
        "Statistics",
        "Output",
        "Other options",
        "Settings of metrics (--set NAME=VALUE)",
    ]
    first = shown.partition("Most used:")[2].partition("\n\n")[0]
    flags = [line.split()[0].strip(",") for line in first.splitlines() if line.startswith("  -")]
    assert flags == ["--by", "--metric", "--map", "--format", "-o"]


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
