"""Shards of a run: a part of the tasks for one of several machines, and all put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from calipers.records.result_folder import MANIFEST
from calipers.records.task_data import Tasks
from calipers.runs.folder import ANOTHER, ANSWERS, FRESH, IMPORTED, SHARD, SUITE_FILE, Folder
from calipers.runs.resume import REPLACED_COUNTS, SPENT, identify_record, list_shard_differences
from calipers.support.errors import UsageError
from calipers.support.files import stage_file
from calipers.systems.journal import Journal, encode_line

_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
_EXAMPLE = "for example --shard 2/8, the second of eight"


@dataclass(frozen=True, slots=True)
class Shard:
    """The I-th of N parts, counted from 1: every N-th task of the data."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read I/N, or raise UsageError."""
        match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(f"--shard {text}: not I/N with I from 1 to N", fix=_EXAMPLE)
        return cls(int(match[1]), int(match[2]))

    def select(self, tasks: Tasks) -> Tasks:
        """Return the tasks of this shard, in the order of the data."""
        own = tasks.tasks[self.number - 1 :: self.of]
        if not own:
            raise UsageError(
                f"--shard {self}: there are {len(tasks)} tasks, and none for this shard",
                fix=f"at most {len(tasks)} shards",
            )
        return replace(tasks, tasks=own)

    def divide_usd(self, budget: float | None) -> float | None:
        """Return this shard's part of a sum of money."""
        return None if budget is None else budget / self.of

    def divide_calls(self, budget: int | None) -> int | None:
        """Return this shard's part of a number of calls; the parts of all add up to it.

        >>> [Shard(number, 3).divide_calls(10) for number in (1, 2, 3)]
        [4, 3, 3]
        """
        if budget is None:
            return None
        share, more = divmod(budget, self.of)
        return share + (self.number <= more)


WHOLE = Shard(1, 1)


class _ShardFolder(NamedTuple):
    folder: Folder
    shard: Shard
    manifest: Mapping[str, Any]


def merge_shards(folders: Sequence[Path], output: Path, suite: Path | None) -> Path:
    """Write the records of all shards into one folder, and return the suite's file.

    Without a name, it is looked for where the shards were run.

    Raises:
        UsageError: A shard is missing, there twice, at work, or of another suite, data or code;
            or the output folder holds a run already.
    """
    with ExitStack() as held:
        for place, path in enumerate(folders):
            if not path.is_dir():
                raise UsageError(f"{path}: no folder", fix="name the folders of the shards")
            if any(path.samefile(other) for other in folders[:place]):
                raise UsageError(f"{path} is named twice", fix="name each folder once")
            held.enter_context(Folder(path).held())
        parts = sorted(map(_read_part, folders), key=lambda part: part.shard.number)
        _check_shards(parts)
        _check_alike(parts)
        file = suite or _find_suite(parts)
        whole = Folder(output)
        held.enter_context(whole.held())
        if whole.read_manifest() is not None:
            raise UsageError(f"{output}: it holds a run already", fix=ANOTHER)
        whole.write_json(MANIFEST, _merge_manifests([part.manifest for part in parts]))
        _join_answers(parts, whole)
        with stage_file(whole.journal, private=True) as beside, beside.open("wb") as lines:
            lines.writelines(_list_lines(parts))
    return file


def _read_part(path: Path) -> _ShardFolder:
    folder = Folder(path)
    manifest = folder.read_manifest()
    if manifest is None:
        raise UsageError(f"{path}: no call has ended in it", fix="run this shard first")
    if not isinstance(manifest.get(SHARD), str):
        raise UsageError(
            f"{path}: it holds a whole run, not a shard of one",
            fix="shards are made by: calipers run SUITE --shard I/N -o FOLDER",
        )
    return _ShardFolder(folder, Shard.parse(manifest[SHARD]), manifest)


def _check_shards(parts: Sequence[_ShardFolder]) -> None:
    """Refuse shards that do not make up the whole run, each exactly once."""
    if not parts:
        raise UsageError("--merge: no folder to merge", fix="name the folders of all shards")
    first = parts[0]
    for part in parts:
        if part.shard.of != first.shard.of:
            raise UsageError(
                f"{first.folder.path} is one of {first.shard.of} shards, {part.folder.path} one of "
                f"{part.shard.of}",
                fix="merge the shards of one run",
            )
    for one, other in pairwise(parts):
        if one.shard == other.shard:
            raise UsageError(
                f"shard {one.shard} is there twice: {one.folder.path} and {other.folder.path}",
                fix="name one of them",
            )
    missing = sorted({*range(1, first.shard.of + 1)} - {part.shard.number for part in parts})
    if missing:
        named = ", ".join(f"{number}/{first.shard.of}" for number in missing)
        raise UsageError(
            f"--merge: shard{f's {named} are' if len(missing) > 1 else f' {named} is'} missing",
            fix="name the folders of all shards, and run first what has not been run",
        )


def _check_alike(parts: Sequence[_ShardFolder]) -> None:
    for one, other in combinations(parts, 2):  # two may have imported what the first has not
        if unlike := list_shard_differences(one.manifest, other.manifest):
            raise UsageError(
                f"{one.folder.path} and {other.folder.path} are of different runs: "
                f"{'; '.join(unlike)}",
                fix="run the shards of one suite, data and code, each in a folder of its own",
            )


def _merge_manifests(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest of one run: what was spent is added up."""
    merged = {key: value for key, value in manifests[0].items() if key not in (SHARD, SUITE_FILE)}
    for name in (*REPLACED_COUNTS, SPENT):
        merged[name] = sum(manifest.get(name, 0) for manifest in manifests)
    merged[FRESH] = any(manifest.get(FRESH, False) for manifest in manifests)
    merged[IMPORTED] = {
        name: digest
        for manifest in manifests
        for name, digest in manifest.get(IMPORTED, {}).items()
    }
    counted = [manifest.get(ANSWERS, {}) for manifest in manifests]
    merged[ANSWERS] = {
        name: sum(counts.get(name, 0) for counts in counted) for name in ("new", "reused")
    }
    return merged


def _list_lines(parts: Sequence[_ShardFolder]) -> Iterator[bytes]:
    """Yield the line of every record; one call in two shards is refused."""
    places: dict[int, int] = {}  # a hash of the call: shards of millions of tasks are merged
    for place, part in enumerate(parts):
        # Opening it drops a line that a killed run left torn.
        with closing(Journal(part.folder.journal)) as journal:
            for record in journal.read_records():
                key = identify_record(record)
                before = places.setdefault(hash(key), place)
                if before != place:
                    raise UsageError(
                        f"{parts[before].folder.path} and {part.folder.path} both hold a record "
                        f"of task {key[0]}, model {key[1]}, run {key[3]}",
                        fix="merge the folders as the shards left them",
                    )
                yield encode_line(record)


def _join_answers(parts: Sequence[_ShardFolder], whole: Folder) -> None:
    """Join the files of answers that wait for their judges."""
    for part in parts:
        if part.folder.answers.exists():
            joined, answers = Journal(whole.answers), Journal(part.folder.answers)
            for record in answers.read_records():
                joined.add(record)
            answers.close()
            joined.close()


def _find_suite(parts: Sequence[_ShardFolder]) -> Path:
    """Return the suite's file, as a shard's folder leads to it, or raise UsageError."""
    for part in parts:
        named = part.manifest.get(SUITE_FILE)
        if isinstance(named, str) and (path := part.folder.path / named).is_file():
            return path
    raise UsageError(
        "--merge: the suite is not where the shards were run",
        fix="name it too: calipers run SUITE --merge FOLDERS… -o FOLDER",
    )
