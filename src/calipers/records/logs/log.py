"""A log of another tool as a source: turned into our records, and read as their JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.records.batch import Chunk, Wanted
from calipers.records.derived_fields import list_source_names
from calipers.records.limits import BLOCK_BYTES
from calipers.records.readers.bytestream import UNREADABLE, Block, make_damage_error
from calipers.records.readers.lines import ConvertedLines
from calipers.records.readers.sniff import read_head
from calipers.records.reading_options import get_reading_choices
from calipers.records.rows import Kinds
from calipers.support.errors import DataError
from calipers.support.field_paths import split_root
from calipers.support.options import require_callable, require_type
from calipers.support.plugins import Registry, add_registry

Record = dict[str, Any]
LogRecord = tuple[Record | None, float]  # None for one left out; the share of the log behind it

_FIRST = 1_000  # records, which are read twice: they determine fields and types
_BATCH = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure that a log states about itself."""

    name: str
    value: float
    n: int | None = None
    ours: tuple[str, ...] = ()  # the metrics that are about the same thing, the best known first
    reason: str = ""  # why ours may differ, where that is known
    # The setting of `--set` under which ours is computed as theirs is, where there is one.
    setting: tuple[str, Any] | None = None
    folder: Path | None = None  # whose logs it is about together, where that is not this one alone
    leads: bool = False  # it is the tool's own verdict, and stands before ours
    # Which of the records it is about: the value of each of these fields; all where there is none.
    by: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """One tool's logs: how to recognize them, and how to read them."""

    name: str
    fits: Callable[[Any], bool]  # the JSON of a whole file, or of its first line
    records: Callable[
        [Path, Collection[str]], Iterable[LogRecord]
    ]  # also given the fields to group by
    # As `records`, with only what these fields need; None if the reader cannot skip fields.
    some_fields: Callable[[Path, Collection[str]], Iterable[LogRecord]] | None = None
    left_out: str = ""  # which records are, and what to do about it
    unfinished: Callable[[Path], bool] = lambda _: False  # a run that was stopped
    stated: Callable[[Path], Iterable[Figure]] = lambda _: ()  # the log's own figures
    # Figures that all the logs that are read state together, and what else to say about them.
    together: Callable[[Sequence[Path]], Iterable[Figure]] = lambda _: ()
    notes: Callable[[Sequence[Path]], Iterable[str]] = lambda _: ()
    suffixes: tuple[str, ...] = ()  # names of files that are such logs, whatever is in them
    in_folders: tuple[str, ...] = ()  # patterns of the files that make a folder one of its logs
    find: Callable[[Path], Sequence[Path]] = lambda _: ()  # the logs in a folder, by their shape
    is_folder: bool = False  # a record is of all files beside the one that is named
    passed_over: Callable[[Path], Iterable[str]] = lambda _: ()  # what in a folder is not read
    tables: Callable[[Collection[str]], bool] = lambda _: False  # a CSV or Parquet file, by columns
    refuse: Callable[[Any, Path], None] = lambda *_: None  # raises for a file without records
    # Raises for a file that would show a key if it was read as plain records.
    refuse_plain: Callable[[Any, Path], None] = lambda *_: None


READERS: Registry[LogReader] = Registry("log reader")
add_registry(LogReader, READERS)


def log_reader(
    name: str,
    *,
    fits: Callable[[Any], bool] = lambda _: False,
    read: Callable[[Path], Iterable[Record]],
    suffixes: tuple[str, ...] = (),
) -> LogReader:
    """Declare a reader of another tool's logs, to be added with `calipers.register`.

    Args:
        name: What the tool is called.
        fits: Whether a file is such a log, by its JSON if it is one document, or by that of its
            first line.
        read: The records in the file of that path, as dicts with the record's fields.
        suffixes: Endings of file names, such as ".mylog", that identify such logs by themselves.
    """
    fix = 'for example log_reader("deskbot", fits=is_log, read=read_log)'
    require_type("log_reader: name", name, str, expected="a text", fix=fix)
    require_callable("log_reader: fits", fits, fix=fix)
    require_callable("log_reader: read", read, fix=fix)
    return LogReader(
        name=name,
        fits=fits,
        records=lambda path, _: ((record, 0.0) for record in read(path)),
        suffixes=suffixes,
    )


def find_files(*patterns: str, fits: Callable[[Any], bool]) -> Callable[[Path], Sequence[Path]]:
    """Return what finds the files in a folder whose names match, and that begin with such JSON."""

    def find(folder: Path) -> Sequence[Path]:
        found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
        return [path for path in found if path.is_file() and fits(read_head(path).first)]

    return find


class Log(ConvertedLines):
    """A log of a known format; its rows are the records in order."""

    def __init__(self, path: Path, of: LogReader) -> None:
        super().__init__(path)
        self.format = of
        self.left_out = 0  # known when it has been read
        self.passed_over: tuple[str, ...] = ()  # of the folder that it was found in
        self._keys: Collection[str] = ()
        self._fields: Collection[str] | None = None  # all

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, in all records."""
        self._select(wanted)
        return super().find_kinds(wanted)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the records in blocks of JSON lines, with the fields that are wanted."""
        self._select(wanted)
        return super().chunks(wanted)

    def _select(self, wanted: Wanted) -> None:
        self._keys = [wanted.get_name(name) for name in wanted.keys]
        self.read_first_rows()  # these have all fields
        names = [*map(wanted.get_name, wanted.fields), *list_source_names(wanted), *self._keys]
        self._fields = {part for name in names for part in (name, split_root(name)[0])}

    def look_through(self) -> None:
        """Read it all once for the fields and types that only later rows have."""
        self._fields = None
        super().look_through()

    def blocks(self) -> Iterator[tuple[Block, float]]:
        """Yield all fields of the records."""
        self._fields = None
        return super().blocks()

    def as_lines(self, wanted: Wanted) -> Iterator[str]:
        """Yield the records as JSON lines, for workers elsewhere."""
        self._keys = [wanted.get_name(name) for name in wanted.keys]
        self._fields = None
        return super().as_lines(wanted)

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        brief = self.format.some_fields
        if brief is None or self._fields is None:
            found = iter(self.format.records(Path(self.path), self._keys))
        else:
            found = iter(brief(Path(self.path), self._fields))
        first = self.left_out = 0
        most = _FIRST
        while some := self._read_some(found, most):
            lines = [line for line, _ in some if line is not None]
            yield Block(b"".join(lines), first), some[-1][1]
            first += len(lines)
            self.left_out += len(some) - len(lines)
            most = _BATCH

    def _read_some(self, found: Iterator[LogRecord], most: int) -> list[tuple[bytes | None, float]]:
        """Return the next lines, None for a record left out; bounded in number and size."""
        some: list[tuple[bytes | None, float]] = []
        size = 0
        try:
            while len(some) < most and size < BLOCK_BYTES and (following := next(found, None)):
                record, done = following
                line = None if record is None else self._format_line(record)
                some.append((line, done))
                size += len(line or b"")
        except RecursionError as error:
            raise DataError(
                f"{self.path}: nested too deeply to be read", fix="leave this log out"
            ) from error
        except UNREADABLE as error:
            raise make_damage_error(self.name, error) from error
        return some

    def _format_line(self, record: Record) -> bytes:
        """Return the JSON of a record, without what is not wanted."""
        from pydantic_core import to_json  # noqa: PLC0415 (slow to load)

        fields = self._fields
        given = {
            name: value
            for name, value in record.items()
            if value is not None and (fields is None or name in fields)
        }
        try:
            return to_json(given, inf_nan_mode="constants") + b"\n"
        except (ValueError, TypeError):  # half of a surrogate pair, a whole number of many digits
            return f"{json.dumps(given, ensure_ascii=False)}\n".encode("utf-8", "replace")


def read_figures(source: Any) -> Iterable[Figure]:
    """Return what a source states of itself where it is the log of a tool, or one with joins."""
    log = getattr(source, "inner", source)
    if not isinstance(log, Log) or log.path is None:
        return ()
    return log.format.stated(Path(log.path))


def log_notices(sources: Iterable[Any]) -> Iterator[str]:
    """Yield which sources are logs of other tools, and what was left out of them."""
    sources = list(sources)
    yield from (source.notice for source in sources if getattr(source, "notice", None))
    inner = (getattr(source, "inner", source) for source in sources)  # of joined ones
    logs = [source for source in inner if isinstance(source, Log)]
    yield from dict.fromkeys(line for log in logs for line in log.passed_over)
    is_forced = get_reading_choices().source is not None
    for of in dict.fromkeys(log.format for log in logs):
        same = [log for log in logs if log.format is of]
        where, what = (same[0].name, "a log") if len(same) == 1 else (f"{len(same)} files", "logs")
        yield (
            f"{where}: read as {what} of {of.name}, as --source says"
            if is_forced
            else f"{where}: {what} of {of.name}, read as records"
        )
        if stopped := [log.name for log in same if log.path and of.unfinished(Path(log.path))]:
            more = f" and {len(stopped) - 1} more" if stopped[1:] else ""
            yield f"{stopped[0]}{more}: the run did not finish, samples may be missing"
        if left_out := sum(log.left_out for log in same):
            yield f"{left_out} {of.left_out}"
        yield from of.notes([Path(log.path) for log in same if log.path])
