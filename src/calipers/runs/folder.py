"""A result folder: locked by one run at a time, and tied to one suite."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calipers.records.result_folder import BETTER, GATE, MANIFEST, REPORT, SCORE, make_stamp
from calipers.runs.manifest import SCHEMA
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import write_whole
from calipers.systems import journal
from calipers.systems.batches import ledger

ANOTHER = "name another folder: -o FOLDER"
_LOCK = ".lock"
_PARTS = ("suite", "data", "files")  # of a manifest
_VERDICTS = (SCORE, GATE, BETTER, REPORT)  # computed from one state of the journal


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the results of a suite are."""

    path: Path

    @property
    def journal(self) -> Path:
        """The records."""
        return self.path / journal.NAME

    @property
    def answers(self) -> Path:
        """The answers that wait for their judges."""
        return self.path / ".unjudged.jsonl"

    @property
    def batches(self) -> Path:
        """Which calls wait in which batch of a provider."""
        return self.path / ledger.NAME

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out; the lock goes with the process, however that ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}", fix=ANOTHER) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise UsageError(
                f"{self.path}: another run is at work in this folder",
                fix=f"wait for it, or {ANOTHER}",
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    def read_manifest(self) -> dict[str, Any] | None:
        """Return the folder's manifest; None if no call has ended in it, so that it is free.

        Raises:
            UsageError: There are records, and the manifest is missing or cannot be read.
        """
        path = self.path / MANIFEST
        if not any(_has_content(each) for each in (self.journal, self.answers, self.batches)):
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            said = f"{self.path}: it holds {journal.NAME}, and no {MANIFEST}"
            raise UsageError(said, fix=ANOTHER) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read: {error}", fix=ANOTHER) from error
        is_ours = isinstance(found, dict) and found.get("schema") == SCHEMA
        if not is_ours or not all(isinstance(found.get(part), dict) for part in _PARTS):
            raise UsageError(f"{path}: not of a run of calipers", fix=ANOTHER)
        return found

    def write(self, name: str, content: str) -> None:
        """Write a file of the folder, whole or not at all, readable by its owner alone."""
        write_whole(self.path / name, content, private=True)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file in the same way."""
        self.write(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def remove_verdicts(self) -> None:
        """Remove the score, the verdict and the report: they are of another state of the journal.

        Raises:
            UsageError: One of them cannot be removed, and would be taken for this run's.
        """
        for name in _VERDICTS:
            path = self.path / name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(
                    f"{path}: {error.strerror}, and it is of an earlier run",
                    fix=f"remove it, or {ANOTHER}",
                ) from error

    def set_aside(self) -> Path | None:
        """Move what earlier runs left here into a folder beside this one.

        The journal goes last, so that a process killed in between leaves a folder that is whole.

        Returns:
            The folder that holds it now; None where there was nothing.
        """
        if self.read_manifest() is None:
            return None
        here = self.path.resolve()
        kept = here.with_name(f"{here.name}.{make_stamp()}")
        while kept.exists():
            kept = here.with_name(f"{kept.name}+")
        try:
            kept.mkdir()
        except OSError as error:
            raise UsageError(f"{kept}: {error.strerror}", fix=ANOTHER) from error
        write_whole(kept / MANIFEST, (self.path / MANIFEST).read_bytes())
        for name in (*_VERDICTS, self.answers.name, self.batches.name, journal.NAME):
            with suppress(FileNotFoundError):
                (self.path / name).rename(kept / name)
        return kept


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
