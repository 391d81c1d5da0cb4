"""Records in an object store or on the Hugging Face hub, read by Polars.

Credentials, region and endpoint come from the environment, by the names that each store documents.
Nothing is requested before an address is named.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import IO, cast

import polars as pl

from calipers.records.batch import Decoded, Source, Wanted
from calipers.records.bytestream import Block, PieceStream, shorten_error, stream_blocks
from calipers.records.jsonl import MadeLines
from calipers.records.limits import get_limits
from calipers.records.tables import SourceTable
from calipers.support.errors import DataError, UsageError

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
        self, rows: pl.LazyFrame, total: int, some: int, wanted: Wanted
    ) -> Iterator[Decoded]:
        first = 1
        with _explain(self.name):
            for frame in rows.collect_batches(chunk_size=some, maintain_order=True):
                done = min(1.0, (first + frame.height) / max(total, 1))
                yield Decoded(partial(self._decode, frame, first, wanted), done)
                first += frame.height

    def _make_error(self, error: Exception) -> DataError:
        return _make_error(self.name, error)


class RemoteCsv(RemoteTable):
    """A CSV file elsewhere: all its cells are text, so that 007 stays what it is."""

    _is_text = True


class RemoteLines(MadeLines):
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


def _make_error(uri: str, error: Exception) -> DataError:
    scheme = uri.partition("://")[0]
    variables = _VARIABLES.get(scheme, "the store's variables")
    said = str(error)
    if "NoSuchBucket" in said:
        return DataError(f"{uri}: no such bucket", fix="check the address and the region")
    if isinstance(error, FileNotFoundError):
        return DataError(f"{uri}: no such object", fix="check the address; list what is there")
    if isinstance(error, PermissionError) or "403" in said or "401" in said:
        return DataError(
            f"{uri}: access denied", fix=f"check the credentials in the environment: {variables}"
        )
    if isinstance(error, ConnectionError | TimeoutError) or "error sending request" in said:
        return DataError(
            f"{uri}: the store cannot be reached",
            fix="check the network and the endpoint (AWS_ENDPOINT_URL for an own S3 server)",
        )
    return DataError(
        f"{uri}: cannot be read: {shorten_error(error)}",
        fix=f"check the address, the format and the credentials in the environment: {variables}",
    )
