"""Which calls wait in which batch: kept on disk, so that nothing that was paid for is lost.

A line is written before calls are sent, when their batch has been taken, and when a call of it has
failed and must be sent again. A run that goes on finds its calls here and asks for their batch
instead of a new one; where only the sending is known, it looks at the provider for that batch.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any

from calipers.support.errors import make_write_error
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import PRIVATE

NAME = ".batches.jsonl"


@dataclass(frozen=True, slots=True)
class Sending:
    """Calls that were sent to the provider, whose batch is not known yet."""

    mark: str  # identifies their batch
    at: float  # seconds since 1970
    calls: tuple[str, ...]


class Ledger:
    """The batches of one system in a result folder."""

    def __init__(self, path: Path, system: str) -> None:
        self._path = path
        self._system = system
        self.batch_of: dict[str, str] = {}  # that a call waits in
        self.sending_of: dict[str, Sending] = {}  # of a call of which nothing further is known
        for line in _read_lines(path):
            if line.get("system") == system:
                self._apply(line)

    def announce(self, calls: list[str]) -> Sending:
        """Note that these calls are about to be sent."""
        sending = Sending(token_hex(8), time(), tuple(calls))
        line = {"mark": sending.mark, "at": sending.at, "sending": calls}
        self._write({"system": self._system, **line})
        return sending

    def add(self, batch: str, calls: list[str]) -> None:
        """Note that a batch with these calls has been taken."""
        self._write({"system": self._system, "batch": batch, "calls": calls})

    def remove(self, calls: list[str]) -> None:
        """Note that these calls wait in no batch: they failed in theirs, or none was taken."""
        if calls:
            self._write({"system": self._system, "failed": calls})

    def _apply(self, line: dict[str, Any]) -> None:
        if "sending" in line:
            sending = Sending(line["mark"], line["at"], tuple(line["sending"]))
            self.sending_of |= dict.fromkeys(sending.calls, sending)
        for call in line.get("calls", ()):
            self.batch_of[call] = line["batch"]
            self.sending_of.pop(call, None)
        for call in line.get("failed", ()):
            self.batch_of.pop(call, None)
            self.sending_of.pop(call, None)

    def _write(self, line: dict[str, Any]) -> None:
        self._apply(line)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            file = os.open(self._path, flags, PRIVATE)
            try:
                os.write(file, b"\n" + json.dumps(line).encode())  # after a torn line, if any
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise make_write_error(self._path, error) from error


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the file; a torn one, of a process that was killed, is left out."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict):
            found.append(read)
    return found
