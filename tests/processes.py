"""What a process of its own takes: seconds of processor time, and memory at most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# Between the tests and what is measured: a process begins with the peak of the one that starts it.
_LAUNCH = """
import json, os, subprocess, sys
started = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(started.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Cost(NamedTuple):
    """Processor seconds, the peak in megabytes, and what was printed."""

    seconds: float
    megabytes: float
    output: str


def measure_process(folder: Path, *words: str | Path) -> Cost:
    """Return what `python WORDS…` takes, bytecode compiled; the folder is for a file on the way."""
    told = folder / "cost.json"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-S", "-c", _LAUNCH, told, sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    seconds, megabytes = json.loads(told.read_text("utf-8"))
    return Cost(seconds, megabytes, done.stdout)
