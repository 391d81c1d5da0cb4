"""Logs of Inspect AI: `.eval` (a zip of a header and a file per sample) and `.json`.

An unfinished `.eval` has no header: the beginning of its journal names the model and the task. In
the chunked layout a sample is a folder: `sample.json`, and its messages, events and metadata. The
zip may be packed with deflate or zstd; each member is bounded in size.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from calipers.records.limits import get_limits
from calipers.records.logs.inspect_samples import (
    SampleReader,
    ScoreUse,
    choose_scores,
    list_figures,
)
from calipers.records.logs.log import Figure, LogReader, LogRecord
from calipers.records.logs.parts import as_list, as_mapping, as_number, parse_json
from calipers.records.readers.bytestream import ZstdError, shorten_error
from calipers.records.readers.json_documents import stream_list
from calipers.support.errors import DataError
from calipers.support.plugins import register

if sys.version_info >= (3, 14):
    from zipfile import BadZipFile, ZipFile
else:  # the same module, which knows zstd
    from backports.zstd.zipfile import BadZipFile, ZipFile

DAMAGE = (
    *(BadZipFile, EOFError, ZstdError, zlib.error),
    NotImplementedError,  # a way of packing that no one knows
    RuntimeError,  # encrypted
    ValueError,  # a place before the file's start
)


class ZipArchive:
    """The members of a zip; of one that was written twice the last counts."""

    def __init__(self, path: Path, packed: ZipFile) -> None:
        self._path, self._packed = path, packed
        self.names = tuple(dict.fromkeys(packed.namelist()))
        self.expanded = sum(member.file_size for member in packed.infolist())

    def match(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield the members whose whole names match."""
        return filter(None, map(pattern.fullmatch, self.names))

    def read(self, name: str) -> Any:
        """Return the JSON of a member.

        Raises:
            DataError: The member is too large, or not JSON.
            DAMAGE: It cannot be unpacked.
        """
        limits, where = get_limits(), f"{self._path}: {name}"
        if self._packed.getinfo(name).file_size > limits.record_bytes:
            raise limits.record_too_large(where)
        data = self._packed.read(name)  # no more than the directory says, or it is damaged
        limits.check_record(data, where)
        return parse_json(data, where)

    def read_first(self, *patterns: re.Pattern[str]) -> Any:
        """Return the JSON of the first member that one of the patterns matches, or None."""
        found = next((match for pattern in patterns for match in self.match(pattern)), None)
        return None if found is None else self.read(found[0])


@contextmanager
def open_zip(path: Path) -> Iterator[ZipArchive]:
    """Open a zip.

    Raises:
        DAMAGE: It is not a zip, or not all of one.
    """
    with ZipFile(path) as packed:
        yield ZipArchive(path, packed)


_ZIP = b"PK\x03\x04"
_FINISHED = "success"
_START = 1_000  # bytes of a .json in which its status stands
# A sample is named by its id, in which slashes may be, and its epoch.
_SAMPLES = re.compile(r"samples/(?:[^/]+|.*_epoch_\d+)\.json", re.DOTALL)
_CHUNKS = re.compile(
    r"(samples/.*_epoch_\d+)/"
    r"(sample|metadata|skeleton|(?:events|messages|calls)/(?:\d+|stats|uuids))\.json",
    re.DOTALL,
)
_SUMMARIES = re.compile(r"summaries\.json")
_OTHERS = re.compile(
    r"(?:header|summaries|reductions|_journal/start|_journal/summaries/\d+)\.json|(?:.*/)?"
)
_KNOWN = re.compile("|".join(layout.pattern for layout in (_SAMPLES, _CHUNKS, _OTHERS)), re.DOTALL)
_HEADERS = re.compile(r"header\.json"), re.compile(r"_journal/start\.json")


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    return (
        isinstance(document.get("eval"), Mapping) and "status" in document and "version" in document
    )


def _read_fields(path: Path, wanted: Collection[str] | None) -> Iterator[LogRecord]:
    """Yield the samples, as far as the wanted fields need it."""
    with path.open("rb") as file:
        packed = file.read(4) == _ZIP
    return _read_zip(path, wanted) if packed else _read_json(path, wanted)


def _read_json(path: Path, wanted: Collection[str] | None) -> Iterator[LogRecord]:
    log: dict[str, Any] = {}
    reader: SampleReader | None = None
    for sample, done in stream_list(path, ("samples",), log):
        reader = reader or SampleReader(log, lambda: _choose_in_json(path), wanted)
        yield reader.read(as_mapping(sample)), done


def _choose_in_json(path: Path) -> ScoreUse:
    return _look_through(path)[1]


def _look_through(path: Path) -> tuple[Mapping[str, Any], ScoreUse]:
    """Return a `.json` log without its samples, and how their scores are used."""
    state = path.stat()
    return _look_through_state(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _look_through_state(path: Path, *_: int) -> tuple[Mapping[str, Any], ScoreUse]:
    log: dict[str, Any] = {}
    samples = (as_mapping(sample) for sample, _ in stream_list(path, ("samples",), log))
    use = choose_scores(samples, log)
    return {name: log.get(name) for name in ("eval", "results")}, use


def _read_zip(path: Path, wanted: Collection[str] | None) -> Iterator[LogRecord]:
    try:
        with open_zip(path) as archive:
            get_limits().check_expansion(path.stat().st_size, archive.expanded, str(path))
            _refuse_unknown(archive, path)
            header = as_mapping(archive.read_first(*_HEADERS))
            reader = SampleReader(header, lambda: _choose_in_zip(archive, path, header), wanted)
            count = _count_samples(archive)
            samples = _read_samples(archive, path, reader.members)
            for number, sample in enumerate(samples, start=1):
                yield reader.read(sample), number / count
    except DAMAGE as error:
        raise DataError(
            f"{path}: a damaged Inspect log: {shorten_error(error)}",
            fix="copy it again, or have Inspect write it again: inspect log convert",
        ) from error


def _refuse_unknown(archive: ZipArchive, path: Path) -> None:
    """Raise DataError where the log has a member of which it is not known what it holds."""
    for name in archive.names:
        if _KNOWN.fullmatch(name) is None:
            raise DataError(
                f"{path}: {name}: no part of an Inspect log that this version knows",
                fix="have Inspect write it in another format: inspect log convert --to json",
            )


def _count_samples(archive: ZipArchive) -> int:
    chunked = sum(1 for match in archive.match(_CHUNKS) if match[2] == "sample")
    return chunked + sum(1 for _ in archive.match(_SAMPLES))


def _choose_in_zip(archive: ZipArchive, path: Path, header: Mapping[str, Any]) -> ScoreUse:
    """Return how scores are used by the summaries, or by the samples where a summary is missing."""
    summaries = [as_mapping(summary) for summary in as_list(archive.read_first(_SUMMARIES))]
    scored = all(
        isinstance(outline.get("scores"), dict) or outline.get("error") for outline in summaries
    )
    if len(summaries) == _count_samples(archive) and scored:
        return choose_scores(summaries, header)
    return choose_scores(_read_samples(archive, path, ()), header)


def _read_samples(
    archive: ZipArchive, path: Path, members: Collection[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield all samples; those of the chunked layout with these of their other members."""
    for match in archive.match(_SAMPLES):
        yield as_mapping(archive.read(match[0]))
    folders: dict[str, dict[str, str]] = {}
    for match in archive.match(_CHUNKS):
        folders.setdefault(match[1], {})[match[2]] = match[0]
    for folder, names in folders.items():
        if "sample" not in names:
            raise DataError(
                f"{path}: {folder}: a sample without its sample.json",
                fix="copy the log again, or have Inspect write it again: inspect log convert",
            )
        yield _read_chunked(archive, names, members)


def _read_chunked(
    archive: ZipArchive, names: Mapping[str, str], members: Collection[str]
) -> Mapping[str, Any]:
    """Return one sample of the chunked layout as the plain one has it."""
    sample = dict(as_mapping(archive.read(names["sample"])))
    if "metadata" in members and "metadata" in names:
        sample["metadata"] = archive.read(names["metadata"])
    if "events" in members:
        sample["events"] = _join_chunks(archive, names, "events")
    if "messages" in members:
        pool = _join_chunks(archive, names, "messages")
        sample["messages"] = [
            message
            for start, end in _list_ranges(sample.get("message_refs"))
            for message in pool[start:end]
        ]
    return sample


def _join_chunks(archive: ZipArchive, names: Mapping[str, str], folder: str) -> list[Any]:
    """Return the elements of the numbered files in a folder of the sample, in their order."""
    numbers = (name.removeprefix(f"{folder}/") for name in names if name.startswith(f"{folder}/"))
    chunks = [names[f"{folder}/{n}"] for n in sorted(filter(str.isdecimal, numbers), key=int)]
    return [element for chunk in chunks for element in as_list(archive.read(chunk))]


def _list_ranges(references: Any) -> Iterator[tuple[int, int]]:
    for pair in as_list(references):
        if len(as_list(pair)) == 2 and all(as_number(each) is not None for each in pair):  # noqa: PLR2004
            yield int(pair[0]), int(pair[1])


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the figures in the log's results."""
    with path.open("rb") as file:
        packed = file.read(4) == _ZIP
    if not packed:
        yield from list_figures(*_look_through(path))
        return
    with open_zip(path) as archive:
        header = as_mapping(archive.read_first(*_HEADERS))
        if header.get("results"):
            yield from list_figures(header, _choose_in_zip(archive, path, header))


def _is_unfinished(path: Path) -> bool:
    """Return True if the log's run was stopped, failed, or is still going on."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(_ZIP):
        with open_zip(path) as archive:
            return as_mapping(archive.read_first(*_HEADERS)).get("status") != _FINISHED
    status = re.search(rb'"status":\s*"(\w+)"', start)
    return status is not None and status[1].decode() != _FINISHED


register(
    LogReader(
        name="Inspect",
        fits=_fits,
        records=lambda path, _: _read_fields(path, None),
        some_fields=_read_fields,
        unfinished=_is_unfinished,
        stated=_list_stated,
        suffixes=(".eval",),
        in_folders=("*.eval",),
    )
)
