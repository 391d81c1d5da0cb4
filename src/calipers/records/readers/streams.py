"""Records that are not in a local file: named pipes, logs on standard input, and object stores.

Object stores and the Hugging Face hub are read by Polars. Credentials, region and endpoint come
from the environment, by the names that each store documents; nothing is requested before an address
is named.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, rmtree
from tempfile import mkdtemp
from typing import IO, cast
from weakref import finalize

import polars as pl

from calipers.records.batch import DecodedChunk, Source, Wanted
from calipers.records.limits import get_limits
from calipers.records.logs.log import Log, LogReader
from calipers.records.readers.bytestream import (
    UNREADABLE,
    Block,
    PieceStream,
    decompress,
    make_damage_error,
    shorten_error,
    stream_blocks,
)
from calipers.records.readers.lines import ConvertedLines
from calipers.records.readers.tables import SourceTable
from calipers.support.errors import DataError, UsageError


def open_pipe(path: Path) -> IO[bytes]:
    """Return the pipe's stream; raise DataError, at once, where nobody writes to it."""
    try:
        # Opening it in the usual way would wait for somebody to write.
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            stream = path.open("rb") if _holds_bytes(pipe) or _is_written(pipe) else None
        finally:
            os.close(pipe)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the pipe's permissions") from error
    if stream is None:
        raise DataError(
            f"{path}: a pipe without a writer", fix="start what writes to it, or name a file"
        )
    return stream


def _holds_bytes(pipe: int) -> bool:
    from fcntl import ioctl  # noqa: PLC0415 (Windows has none, and no such pipes)
    from termios import FIONREAD  # noqa: PLC0415

    count = array("i", [0])
    ioctl(pipe, FIONREAD, count)
    return count[0] > 0


def _is_written(pipe: int) -> bool:
    """Return True if somebody holds the other end of an empty pipe."""
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


_LOOKED_AT = 1 << 10
_PIECE = 1 << 20
_BOM = b"\xef\xbb\xbf"
_BINARY = {b"PAR1": ".parquet", b"PK": ".eval"}


class PipedLog(Log):
    """Reads a stream to its end, then its records as those of a file."""

    def __init__(self, stream: IO[bytes], name: str, of: LogReader) -> None:
        folder = mkdtemp(prefix="calipers-")
        finalize(self, rmtree, folder, ignore_errors=True)
        try:
            path = _keep(decompress(stream, name), Path(folder))
        except UNREADABLE as error:
            raise make_damage_error(name, error) from error
        super().__init__(path, of)
        self.name = name

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        try:
            yield from super()._blocks()
        except DataError as error:
            known = error.message.replace(str(self.path), self.name)
            raise DataError(known, fix=error.fix) from error


def _keep(stream: IO[bytes], folder: Path) -> Path:
    """Write a stream to a file, and return its path; the suffix says what is in it."""
    head = stream.read(_LOOKED_AT)
    path = folder / f"stdin{_find_suffix(head)}"
    with path.open("wb") as file:
        file.write(head)
        copyfileobj(stream, file, _PIECE)
    return path


def _find_suffix(head: bytes) -> str:
    binary = next((suffix for magic, suffix in _BINARY.items() if head.startswith(magic)), None)
    is_json = head.removeprefix(_BOM).lstrip().startswith((b"{", b"["))
    return binary or (".json" if is_json else ".csv")


_PARQUET = ("", ".parquet", ".pq")  # without a suffix: a folder of parts
_LINES = (".jsonl", ".ndjson")
_PACKED = (".gz", ".zst", ".zstd")
_OPTIONS = {"max_retries": 2}
_AT_ONCE = 20_000  # lines
_AZURE = "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
_VARIABLES = {
    **dict.fromkeys(("s3", "s3a"), "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"),
    **dict.fromkeys(("az", "abfs", "abfss"), _AZURE),
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "hf": "HF_TOKEN",
}


def open_remote(uri: str) -> Source:
    """Return the source at an address: Parquet, JSON lines or CSV, by its suffix.

    Raises:
        UsageError: The format is none that is read from elsewhere.
    """
    path = PurePosixPath(uri)
    suffix = PurePosixPath(path.stem).suffix if path.suffix in _PACKED else path.suffix
    if suffix in _LINES:
        return RemoteLines(uri)
    if suffix == ".csv":
        return RemoteCsv(pl.scan_csv(uri, infer_schema=False, storage_options=_OPTIONS), uri)
    if path.suffix not in _PARQUET:
        raise UsageError(
            f"{uri}: only Parquet, JSON lines and CSV are read from elsewhere",
            fix="copy the file here, or convert it: calipers convert",
        )
    return RemoteTable(pl.scan_parquet(uri, storage_options=_OPTIONS), uri)


class RemoteTable(SourceTable):
    """Columns of remote files, which are read from beginning to end."""

    def _slice_rows(
        self, columns: pl.LazyFrame, rows: range, some: int, wanted: Wanted
    ) -> Iterator[DecodedChunk]:
        first = 1
        with _explain(self.name):
            for frame in columns.collect_batches(chunk_size=some, maintain_order=True):
                done = min(1.0, (first + frame.height) / max(len(rows), 1))
                yield DecodedChunk(partial(self._decode, frame, first, wanted), done)
                first += frame.height

    def _make_error(self, error: BaseException) -> DataError:
        return _make_error(self.name, error)


class RemoteCsv(RemoteTable):
    """A CSV file elsewhere: all its cells are text, so that 007 stays what it is."""

    _is_text = True


class RemoteLines(ConvertedLines):
    """JSON lines elsewhere, plain or compressed; they are fetched anew whenever they are read."""

    def __init__(self, uri: str) -> None:
        self.path = None
        self.name = uri
        self.limits = get_limits()

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        stream = cast("IO[bytes]", io.BufferedReader(PieceStream(_read_lines(self.name))))
        for block in stream_blocks(stream, self.name, self.limits):
            yield block, 0.0


def _read_lines(uri: str) -> Iterator[bytes]:
    with _explain(uri):
        lines = pl.scan_lines(uri, storage_options=_OPTIONS)
        for table in lines.collect_batches(chunk_size=_AT_ONCE, maintain_order=True):
            yield "".join(f"{line}\n" for line in table.to_series().to_list()).encode()


@contextmanager
def _explain(uri: str) -> Iterator[None]:
    """Turn errors of the transfer into a DataError that says what to do."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _make_error(uri, error) from error


def _make_error(uri: str, error: BaseException) -> DataError:
    scheme = uri.partition("://")[0]
    variables = _VARIABLES.get(scheme, "the store's variables")
    message = str(error)
    if "NoSuchBucket" in message:
        return DataError(f"{uri}: no such bucket", fix="check the address and the region")
    if isinstance(error, FileNotFoundError):
        return DataError(f"{uri}: no such object", fix="check the address; list what is there")
    if isinstance(error, PermissionError) or "403" in message or "401" in message:
        return DataError(
            f"{uri}: access denied", fix=f"check the credentials in the environment: {variables}"
        )
    if isinstance(error, ConnectionError | TimeoutError) or "error sending request" in message:
        return DataError(
            f"{uri}: the store cannot be reached",
            fix="check the network and the endpoint (AWS_ENDPOINT_URL for an own S3 server)",
        )
    return DataError(
        f"{uri}: cannot be read: {shorten_error(error)}",
        fix=f"check the address, the format and the credentials in the environment: {variables}",
    )
