"""Records in an object store, against a server on this machine."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import polars as pl
import pytest

import calipers as cal
from calipers.records.readers.streams import RemoteLines, open_remote
from calipers.support.errors import EXIT_ERROR, DataError, UsageError
from tests.commands import run

server = pytest.importorskip("moto.server", reason="make test installs moto")

RECORDS = [
    {"id": "a", "answer": "é", "target": "é", "cost_usd": 0.5},
    {"id": "b", "answer": "007", "target": "7", "cost_usd": 0.25},
    {"id": "c", "answer": "x", "target": "y", "cost_usd": 0.25},
]
Put = Callable[[str, bytes], None]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def put(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Put:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "an-id",
        "AWS_SECRET_ACCESS_KEY": "a-key",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)

    def send(path: str, data: bytes = b"") -> None:
        headers = {"Content-Type": "application/octet-stream"}
        urlopen(Request(f"{endpoint}/{path}", data=data, method="PUT", headers=headers), timeout=60)

    send("records")
    return send


def as_parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame(RECORDS).write_parquet(file)
    return file.getvalue()


def as_lines() -> bytes:
    return pl.DataFrame(RECORDS).write_ndjson().encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.parquet", as_parquet()),
        ("r.jsonl", as_lines()),
        ("r.ndjson", as_lines()),
        ("r.jsonl.gz", gzip.compress(as_lines())),
        ("r.csv", pl.DataFrame(RECORDS).write_csv().encode()),
    ],
)
def test_every_format_gives_the_numbers_of_the_file_here(
    name: str, data: bytes, put: Put, tmp_path: Path
) -> None:
    put(f"records/{name}", data)
    (tmp_path / name).write_bytes(data)
    here, there = cal.score(str(tmp_path / name)), cal.score(f"s3://records/{name}")
    assert there.groups == here.groups
    assert there["accuracy"].value == pytest.approx(2 / 3)
    assert there["cost_usd"].value == pytest.approx(1 / 3)
    assert there.inputs[0].path == f"s3://records/{name}"


def test_a_glob_is_one_source(put: Put) -> None:
    put("records/parts/1.parquet", as_parquet())
    put("records/parts/2.parquet", as_parquet())
    assert cal.score("s3://records/parts/*.parquet").records == 2 * len(RECORDS)


def test_a_bad_line_is_named_by_its_number(put: Put) -> None:
    put("records/bad.jsonl", b'{"answer": "a", "target": "a"}\n\n{"answer": \n')
    with pytest.raises(DataError, match=r"s3://records/bad\.jsonl:3"):
        cal.score("s3://records/bad.jsonl")


def test_lines_can_be_read_again(put: Put) -> None:
    put("records/again.jsonl", as_lines())
    source = open_remote("s3://records/again.jsonl")
    assert isinstance(source, RemoteLines)
    source.look_through()
    assert source.columns() == ["id", "answer", "target", "cost_usd"]
    assert len(list(source.read_first_rows())) >= len(RECORDS)


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl"])
def test_what_is_not_there_is_said_in_words(name: str, put: Put) -> None:
    del put
    with pytest.raises(DataError, match="no such bucket"):
        cal.score(f"s3://no-such-bucket/{name}")
    with pytest.raises(DataError, match="no such object"):
        cal.score(f"s3://records/no/{name}")


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl"])
def test_a_store_that_refuses_names_the_variables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> pl.LazyFrame:
        raise PermissionError("object-store error: 403 Forbidden: <Code>AccessDenied</Code>")

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", refuse)
    monkeypatch.setattr(pl.LazyFrame, "collect_schema", refuse)
    with pytest.raises(DataError, match="access denied") as error:
        cal.score(f"s3://records/{name}")
    assert "AWS_SECRET_ACCESS_KEY" in error.value.fix


def test_a_store_out_of_reach_ends_with_words_and_the_code_of_errors(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    del put
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    result = run("score", "s3://out-of-reach/r.jsonl")
    assert result.exit_code == EXIT_ERROR
    assert "error: s3://out-of-reach/r.jsonl: the store cannot be reached" in result.stderr
    assert "Traceback" not in result.stderr


def test_other_formats_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(UsageError, match="only Parquet, JSON lines and CSV"):
        cal.score("s3://records/r.xlsx")
