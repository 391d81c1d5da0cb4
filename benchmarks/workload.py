"""What a benchmark is given: the files it asks for, made once and off the clock."""

from __future__ import annotations

import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import ROOT

FULL_ROWS = 1_000_000
_RECIPE = zlib.crc32(Path(__file__).with_name("generate.py").read_bytes())  # old files are not used


@dataclass(frozen=True)
class Setup:
    """How many rows, how many rounds, and where the files are."""

    folder: Path
    rows: int
    rounds: int

    @property
    def is_full(self) -> bool:
        """Whether this is the size that the bars are set for."""
        return self.rows >= FULL_ROWS

    def file(self, kind: str, suffix: str, rows: int | None = None) -> Path:
        """Give a file of records, generated in a process of its own unless it is there."""
        rows = rows or self.rows
        path = self.folder.resolve() / f"{kind}-{rows}-{_RECIPE:08x}{suffix}"
        if not path.exists():
            print(f"  generating {path.name}", file=sys.stderr)
            command = [sys.executable, "-m", "benchmarks.generate", kind, str(rows), str(path)]
            subprocess.run(command, cwd=ROOT, check=True)
        return path
