"""Mistakes in the code turn the quick tests red (`mutants.py` lists them)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "calipers"
SECONDS = 60.0  # that the tests of a mutant may take: where it makes them hang, that is noticed too
FAILED = 1  # pytest's exit code; 5 says that no test has the name, 2 that none could be imported


def test_every_mutant_still_applies() -> None:
    counts = {m.harm: (SOURCE / m.file).read_text(encoding="utf-8").count(m.old) for m in MUTANTS}
    assert {harm: count for harm, count in counts.items() if count != 1} == {}
    assert len(counts) == len(MUTANTS), "two mutants have one name"
    assert all(m.old != m.new for m in MUTANTS)


def test_every_test_that_has_to_notice_is_there() -> None:
    for mutant in MUTANTS:
        for name in mutant.tests.split():
            file, *parts = name.split("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert all(f"class {part}" in text or f"def {part}(" in text for part in parts), name


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the package, with which all the tests pass as long as nothing is mutated."""
    folder = tmp_path_factory.mktemp("mutants")
    shutil.copytree(SOURCE, folder / "calipers")
    named = dict.fromkeys(name for mutant in MUTANTS for name in mutant.tests.split())
    code, said = run_tests(folder, named, seconds=15 * SECONDS)
    assert code == 0, said
    yield folder
    shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.harm for mutant in MUTANTS])
def test_a_mistake_is_noticed(copy: Path, mutant: Mutant) -> None:
    file, original = copy / "calipers" / mutant.file, SOURCE / mutant.file
    file.write_text(original.read_text(encoding="utf-8").replace(mutant.old, mutant.new), "utf-8")
    os.utime(file, (0, 0))  # no bytecode is of that time
    try:
        code, said = run_tests(copy, mutant.tests.split(), seconds=SECONDS)
    finally:
        shutil.copy2(original, file)
    assert code == FAILED, f"{mutant.harm}: {mutant.tests} do not notice\n{said}"


def run_tests(package: Path, names: Iterable[str], *, seconds: float) -> tuple[int, str]:
    """Return how the tests end with the package in this folder, and what pytest says."""
    flags = ("-x", "-q", "-p", "no:cacheprovider", "-n0", "--no-header", "--tb=short")
    path = os.pathsep.join((str(package), str(ROOT)))
    env = {**os.environ, "PYTHONPATH": path, "CI": "true", "POLARS_MAX_THREADS": "1"}
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *flags,
                *(str(ROOT / "tests" / each) for each in names),
            ],
            cwd=ROOT,
            env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"it takes longer than {seconds:g} s"
    return done.returncode, f"{done.stdout[-3000:]}{done.stderr[-1000:]}"
