"""Write what every command says of the shared data and the examples, to compare two states.

`python -m tools.outputs FOLDER` before a change and after it, then `diff -r` of the two folders:
a change that must not change any output leaves none. Existing records are read; nothing is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from calipers.cli import app

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared/data"
SKIPPED = ("expected.json", "annotations")
POLICY = ROOT / "examples/logs/policy.yaml"
PROFILES = ("reasoning", "tiers", "scenarios", "agents")
# Files with one row per system, task and run: what compares systems is asked of these alone.
SYSTEMS = ("gsm8k_openai_2models", "gsm8k_reread_2models", "xstest_refusals", "scylla_haiku_runs")


def list_inputs() -> Iterator[Path]:
    """Yield the examples' records, and of the shared data every file and folder of runs."""
    yield from (ROOT / "examples/logs/mine.jsonl", ROOT / "examples/arithmetic/tasks.jsonl")
    for path in sorted(DATA.rglob("*")):
        is_log = path.suffix in {".jsonl", ".json", ".csv", ".eval", ".traj"} or path.is_dir()
        if is_log and not any(part in SKIPPED for part in path.parts):
            yield path


def list_calls(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the command lines for one input."""
    file = str(path)
    yield ("doctor", file, "--format", "json")
    yield ("score", file, "--format", "json")
    yield ("score", file, "--by", "model")
    yield ("convert", file, "-o", "{folder}/converted.jsonl")
    yield ("gate", file, "--policy", str(POLICY), "--format", "json")
    if path.stem in SYSTEMS or path.name == "mine.jsonl":
        for profile in PROFILES:
            sample = ("--per-sample", f"{{folder}}/{profile}.jsonl")
            yield ("score", file, "--profile", profile, "--by", "model", "--format", "csv", *sample)
        yield ("score", file, "--by", "model", "--format", "markdown")
        yield ("compare", file, "--between", "model", "--margin", "0.1", "--format", "json")
        yield ("compare", file, "--between", "model", "--unpaired")
        yield ("rank", file, "--by", "model", "--format", "json")
        yield ("explain", "accuracy", file)
        yield ("report", file, "-o", "{folder}/report.html")


def list_pages() -> Iterator[tuple[str, ...]]:
    """Yield the command lines that need no input: help, the catalogue, the schemas."""
    for name in app.list_commands(click.Context(app)):
        command = app.get_command(click.Context(app), name)
        yield (name, "--help")
        if isinstance(command, click.Group):
            yield from ((name, each, "--help") for each in command.commands)
    yield ("metrics", "--format", "json")
    yield from (("schema", each) for each in ("suite", "policy"))


def write_outputs(given: tuple[Path, tuple[str, ...]]) -> None:
    """Run one command line, and write its streams and exit code below the folder."""
    folder, words = given
    folder.mkdir(parents=True, exist_ok=True)
    done = CliRunner().invoke(app, [word.replace("{folder}", str(folder)) for word in words])
    name = "_".join(word.lstrip("-") for word in words if "/" not in word)
    text = f"{done.stdout}\n--- {done.exit_code}\n{done.stderr}\n{_name_error(done.exception)}"
    (folder / f"{name}.txt").write_text(text.replace(str(folder), "FOLDER"), encoding="utf-8")


def _name_error(error: Any) -> str:
    return "" if error is None or isinstance(error, SystemExit) else repr(error)


def main(target: Path) -> None:
    """Write all outputs below a folder."""
    calls = [(target / "pages", words) for words in list_pages()]
    for path in list_inputs():
        base = ROOT if path.is_relative_to(ROOT) else DATA
        folder = target / path.relative_to(base).as_posix().replace("/", "__")
        calls += [(folder, words) for words in list_calls(path)]
    with Pool(2, maxtasksperchild=200) as pool:
        pool.map(write_outputs, calls, chunksize=8)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
