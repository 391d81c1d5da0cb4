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
        self._batch_of: dict[str, str] = {}
        self._sending_of: dict[str, Sending] = {}
        for line in _read_lines(path):
            if line.get("system") == system:
                self._apply(line)

    def find_batch(self, call: str) -> str | None:
        """Return the batch that a call waits in; None if it is in none."""
        return self._batch_of.get(call)

    def list_calls(self, batch: str) -> list[str]:
        """Return the calls that wait in a batch."""
        return [call for call, found in self._batch_of.items() if found == batch]

    def list_batches(self) -> set[str]:
        """Return the batches in which calls wait."""
        return set(self._batch_of.values())

    def find_sending(self, call: str) -> Sending | None:
        """Return the sending of a call of which nothing further is known; None without one."""
        return self._sending_of.get(call)

    def announce(self, calls: list[str]) -> Sending:
        """Note that these calls are about to be sent."""
        line = {"system": self._system, "mark": token_hex(8), "at": time(), "sending": calls}
        self._write(line)
        return _read_sending(line)

    def add(self, batch: str, calls: list[str]) -> None:
        """Note that a batch with these calls has been taken."""
        self._write({"system": self._system, "batch": batch, "calls": calls})

    def remove(self, calls: list[str]) -> None:
        """Note that these calls wait in no batch: they failed in theirs, or none was taken."""
        if calls:
            self._write({"system": self._system, "failed": calls})

    def _apply(self, line: dict[str, Any]) -> None:
        if "sending" in line:
            sending = _read_sending(line)
            self._sending_of |= dict.fromkeys(sending.calls, sending)
        for call in line.get("calls", ()):
            self._batch_of[call] = line["batch"]
            self._sending_of.pop(call, None)
        for call in line.get("failed", ()):
            self._batch_of.pop(call, None)
            self._sending_of.pop(call, None)

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


def _read_sending(line: dict[str, Any]) -> Sending:
    return Sending(line["mark"], line["at"], tuple(line["sending"]))


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
