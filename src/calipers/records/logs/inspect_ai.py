"""Logs of Inspect AI: `.eval` (a zip of a header and a file per sample) and `.json`.

An unfinished `.eval` has no header: the beginning of its journal names the model and the task.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.bytestream import shorten_error
from calipers.records.json_values import stream_list
from calipers.records.limits import get_limits
from calipers.records.logs.inspect_samples import SampleReader
from calipers.records.logs.log import Found, LogReader
from calipers.records.logs.parts import as_mapping
from calipers.records.logs.zip_directory import DAMAGE, read_directory, read_members
from calipers.support.errors import DataError
from calipers.support.registry import register

_ZIP = b"PK\x03\x04"
_FINISHED = "success"
_START = 1_000  # bytes of a .json in which its status stands
_SAMPLES = re.compile(rb"samples/.*\.json", re.DOTALL)
_HEADERS = re.compile(rb"header\.json"), re.compile(rb"_journal/start\.json")


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    return isinstance(found.get("eval"), Mapping) and "status" in found and "version" in found


def _read_fields(path: Path, wanted: Collection[str] | None) -> Iterator[Found]:
    """Yield the samples, as far as the wanted fields need it."""
    with path.open("rb") as file:
        packed = file.read(4) == _ZIP
    return _read_zip(path, wanted) if packed else _read_json(path, wanted)


def _read_json(path: Path, wanted: Collection[str] | None) -> Iterator[Found]:
    log: dict[str, Any] = {}
    reader: SampleReader | None = None
    for sample, done in stream_list(path, ("samples",), log):
        reader = reader or SampleReader(log, wanted)
        yield reader.read(as_mapping(sample)), done


def _read_zip(path: Path, wanted: Collection[str] | None) -> Iterator[Found]:
    try:
        directory = read_directory(path)
        get_limits().check_expansion(path.stat().st_size, directory.expanded, str(path))
        reader = SampleReader(_read_header(path), wanted)
        places = directory.list_places(_SAMPLES)
        for number, sample in enumerate(read_members(path, places), start=1):
            yield reader.read(as_mapping(sample)), number / len(places)
    except DAMAGE as error:
        raise DataError(
            f"{path}: a damaged Inspect log: {shorten_error(error)}",
            fix="copy it again, or have Inspect write it again: inspect log convert",
        ) from error


def _is_unfinished(path: Path) -> bool:
    """Say whether the log's run was stopped, failed, or is still going on."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(_ZIP):
        return _read_header(path).get("status") != _FINISHED
    status = re.search(rb'"status":\s*"(\w+)"', start)
    return status is not None and status[1].decode() != _FINISHED


def _read_header(path: Path) -> Mapping[str, Any]:
    directory = read_directory(path)
    places = (place for each in _HEADERS for place in directory.list_places(each))
    return as_mapping(next(read_members(path, places), None))


register(
    LogReader(
        name="Inspect",
        fits=_fits,
        records=lambda path, _: _read_fields(path, None),
        some_fields=_read_fields,
        unfinished=_is_unfinished,
        suffixes=(".eval",),
        in_folders=("*.eval",),
    )
)
