"""Each target of the Makefile has what it takes: a rule for everything that it needs."""

from __future__ import annotations

import re
import subprocess
from shutil import which

import pytest

from tests.runs.suites_at_hand import ROOT

TARGETS = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.skipif(which("make") is None, reason="there is no make")
def test_all_targets_have_their_rules() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "VENV=.venv-of-no-one", *TARGETS],  # nothing is installed yet
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "test-logs" in TARGETS
