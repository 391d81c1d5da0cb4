"""A result folder: locked by one run at a time, and tied to one suite by its manifest.

The manifest names the suite, the data, the code under test, versions, prices and servers.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.records.result_folder import (
    BETTER,
    GATE,
    MANIFEST,
    REPORT,
    SCORE,
    TASK_FIELDS,
    make_stamp,
)
from calipers.runs.code_under_test import hash_code
from calipers.runs.suite import Suite
from calipers.support.errors import UsageError
from calipers.support.files import write_whole
from calipers.support.version import __version__
from calipers.systems import journal
from calipers.systems.batches import batch_model
from calipers.systems.budget import find_pricing
from calipers.systems.keys import hash_servers, make_mask
from calipers.systems.tool_replies import TOOL_REPLIES_FILE

if TYPE_CHECKING:
    from calipers.runs.prepare import Prepared

SCHEMA = "calipers.run/1"
ANSWERS = "answers"  # how many answers of the last run are new, how many were there before
CHECKS = "checks"  # a hash of the checks that were applied to the records
FRESH = "fresh"  # started with --fresh: no reply comes from a cache
IMPORTED = "imported"  # local modules that the systems were seen to import, beside `files`
SHARD = "shard"  # I/N, of a run that makes a part of the calls
SUITE_FILE = "suite_file"  # of such a run, relative to its folder: merging looks there
ORDER_SEED = "order_seed"  # that draws the tasks, of a run until the gate is decided

_USER = "the simulated user"  # among the systems
_PACKAGES = ("pydantic-ai-slim", "openai", "anthropic", "aiohttp", "genai-prices")


def make_manifest(of: Prepared) -> dict[str, Any]:
    """Return the manifest of a run that begins now, masked."""
    suite, base, tasks, checks = of.suite, of.base, of.plan.tasks, of.checks.hash()
    known = [(system.name, price) for system, price in zip(suite.systems, of.prices, strict=True)]
    seeds = {system.name: system.settings.get("seed") for system in suite.systems}
    if suite.user is not None:
        known.append((_USER, find_pricing(suite.user)))
        seeds[_USER] = suite.user.settings_of(run=1).get("seed")
    judges = zip(suite.judges, of.rubrics, strict=True)
    models = [model for judge in suite.judges for model in judge.models]
    manifest = {
        "schema": SCHEMA,
        "version": __version__,
        "suite": suite.model_dump(mode="json"),
        "data": {
            "path": suite.data,
            "sha256": tasks.sha256,
            "tasks": len(tasks),
            TASK_FIELDS: sorted(of.given),
            **({} if tasks.drawn_from is None else {"drawn_from": tasks.drawn_from}),
        },
        "files": {
            **hash_code(suite, base),
            **_hash_policy(suite, base),
            **of.plan.images.hashes(base),
        },
        "versions": dict(_list_versions()),
        "seed": seeds,
        "prices": {name: price.to_dict() for name, price in known if price is not None},
        "servers": hash_servers((*suite.systems, *models, *filter(None, (suite.user,)))),
        **({CHECKS: checks} if checks else {}),
        **(
            {"rubrics": {judge.name: rubric.hash for judge, rubric in judges}} if of.rubrics else {}
        ),
    }
    return make_mask(suite.served).mask_value(manifest)  # type: ignore[no-any-return]


def _hash_policy(suite: Suite, base: Path) -> dict[str, str]:
    if suite.policy is None:
        return {}
    return {suite.policy: sha256((base / suite.policy).read_bytes()).hexdigest()}


def _list_versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue


ANOTHER = "name another folder: -o FOLDER"
_LOCK = ".lock"
_PARTS = ("suite", "data", "files")  # of a manifest
_VERDICTS = (SCORE, GATE, BETTER, REPORT)  # computed from one state of the journal


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder with the results of a suite."""

    path: Path

    @property
    def journal(self) -> Path:
        """The records."""
        return self.path / journal.JOURNAL_FILE

    @property
    def answers(self) -> Path:
        """The answers that wait for their judges."""
        return self.path / ".unjudged.jsonl"

    @property
    def batches(self) -> Path:
        """The file that says which calls wait in which batch of a provider."""
        return self.path / batch_model.LEDGER_FILE

    @property
    def tool_replies(self) -> Path:
        """What servers' tools replied in calls that are not done."""
        return self.path / TOOL_REPLIES_FILE

    @property
    def _paid(self) -> tuple[Path, ...]:
        """The files that hold results of calls, the journal last."""
        return (self.answers, self.batches, self.tool_replies, self.journal)

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
        if not any(map(_has_content, self._paid)):
            return None
        try:
            manifest: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            problem = f"{self.path}: it holds {journal.JOURNAL_FILE}, and no {MANIFEST}"
            raise UsageError(problem, fix=ANOTHER) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read: {error}", fix=ANOTHER) from error
        is_ours = isinstance(manifest, dict) and manifest.get("schema") == SCHEMA
        if not is_ours or not all(isinstance(manifest.get(part), dict) for part in _PARTS):
            raise UsageError(f"{path}: not of a run of calipers", fix=ANOTHER)
        return manifest

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
        for name in (*_VERDICTS, *(file.name for file in self._paid)):
            with suppress(FileNotFoundError):
                (self.path / name).rename(kept / name)
        return kept


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
