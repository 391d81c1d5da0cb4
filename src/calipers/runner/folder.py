"""A result folder: held by one run at a time, and by one suite for good."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from calipers.errors import UsageError
from calipers.result_folder import MANIFEST
from calipers.runner import journal
from calipers.suites import Suite
from calipers.version import __version__
from calipers.whole_files import write_whole

SCHEMA = "calipers.run/1"

MAY_CHANGE = ("budget_usd", "budget_calls", "concurrency", "retries", "timeout_seconds")
_LOCK = ".lock"
_PACKAGES = ("pydantic-ai-slim", "openai", "anthropic", "aiohttp", "genai-prices")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the results of a suite are."""

    path: Path

    @property
    def journal(self) -> Path:
        """The records."""
        return self.path / journal.NAME

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out; the lock goes with the process, however that ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(
                f"{self.path}: {error.strerror}", fix="name another folder: -o FOLDER"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise UsageError(
                f"{self.path}: another run is at work in this folder",
                fix="wait for it, or name another folder: -o FOLDER",
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    def manifest(self) -> dict[str, Any] | None:
        """What the folder is of; None where no call has ended in it, so that it is free."""
        path = self.path / MANIFEST
        if not (self.journal.exists() and self.journal.stat().st_size):
            return None
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise UsageError(
                f"{self.path}: it holds {journal.NAME}, and no {MANIFEST}",
                fix="name another folder: -o FOLDER",
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path}: cannot be read: {error}", fix="name another folder: -o FOLDER"
            ) from error
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise UsageError(
                f"{path}: not of a run of calipers", fix="name another folder: -o FOLDER"
            )
        return found

    def write(self, name: str, content: str) -> None:
        """A file of the folder, all at once or not at all."""
        write_whole(self.path / name, content)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """The same, of JSON."""
        self.write(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def remove(self, name: str) -> None:
        """A file that no longer tells the truth."""
        (self.path / name).unlink(missing_ok=True)


def new_manifest(
    suite: Suite, folder: Path, data_sha256: str, tasks: int, prices: Mapping[str, Any]
) -> dict[str, Any]:
    """What a folder says of the run that made it."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "suite": suite.model_dump(mode="json"),
        "data": {"path": suite.data, "sha256": data_sha256, "tasks": tasks},
        "files": dict(_files(suite, folder)),
        "versions": dict(_versions()),
        "seed": {system.name: system.settings.get("seed") for system in suite.systems},
        "prices": dict(prices),
    }


def _files(suite: Suite, folder: Path) -> Iterator[tuple[str, str]]:
    """The code under test and the policy, by their hashes."""
    names = [each.python.rpartition(":")[0] for each in suite.systems if each.python]
    names += [word for each in suite.systems for word in each.command or ()]
    names += [suite.policy] if suite.policy else []
    for name in dict.fromkeys(names):
        path = folder / name
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            yield name, sha256(path.read_bytes()).hexdigest()


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """A folder holds the results of one suite: what differs is named."""
    changed = list(_changes(before["suite"], now["suite"]))
    if before["data"]["sha256"] != now["data"]["sha256"]:
        tasks = f"{before['data']['tasks']} tasks then, {now['data']['tasks']} now"
        changed.append(f"{now['data']['path']} has other content ({tasks})")
    for name, digest in now.get("rubrics", {}).items():
        if before.get("rubrics", {}).get(name, digest) != digest:
            changed.append(f"the rubric of {name} has other content")
    if changed:
        raise UsageError(
            f"{folder}: the suite has changed since: {'; '.join(changed)}",
            fix=f"begin anew with another folder: -o FOLDER; {', '.join(MAY_CHANGE)} may change",
        )


def changed_files(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The files whose content is another than when the folder was begun."""
    return [
        name for name, digest in now["files"].items() if before["files"].get(name, digest) != digest
    ]


def _changes(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """`systems.mini.settings.temperature was 0, is 1`: each difference by its path."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            if place or key not in (*MAY_CHANGE, "description"):
                at = f"{place}.{key}" if place else key
                yield from _changes(before.get(key), now.get(key), at)
    elif isinstance(before, list) and isinstance(now, list) and _named(before) and _named(now):
        yield from _changes(_by_name(before), _by_name(now), place)
    elif before != now:
        yield f"{place} was {_shown(before)}, is {_shown(now)}"


def _named(items: list[Any]) -> bool:
    return all(isinstance(each, dict) and "name" in each for each in items)


def _by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each for each in items}


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return "not there"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
