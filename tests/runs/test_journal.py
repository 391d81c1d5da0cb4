"""The journal holds whole lines, wherever the writing stopped."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.support.errors import DataError, UsageError
from calipers.systems.journal import Journal, encode_record

RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["id", "answer", "cot"]), st.text(max_size=20), min_size=1),
    max_size=6,
)


@given(records=RECORDS, data=st.data())
def test_a_journal_cut_anywhere_keeps_its_whole_records(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = [encode_record(record).encode("utf-8", "replace") for record in records]
    content = b"".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    whole, at = 0, 0
    for line in lines:
        at += len(line)
        whole += cut >= at - 1  # the end of the line may be lacking
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_bytes(content[:cut])
        journal = Journal(path)
        assert [record for _, _, record in journal.read_lines()] == [
            json.loads(line) for line in lines[:whole]
        ]
        journal.append(b'{"id": "new"}\n')
        assert [record for _, _, record in journal.read_lines()][-1] == {"id": "new"}
        journal.close()
        assert path.read_bytes() == b"".join(lines[:whole]) + b'{"id": "new"}\n'


def test_a_whole_last_line_without_its_end_is_closed_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id": "CORE-001"}\n{"id": "CORE-002"}')
    journal = Journal(path)
    journal.add({"id": "CORE-003"})
    journal.close()
    assert [json.loads(line)["id"][-1] for line in path.read_bytes().splitlines()] == [
        "1",
        "2",
        "3",
    ]


def test_lines_that_are_replaced_go_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id": "a"}\n{"id": "b"}\n{"id": "c"}\n')
    journal = Journal(path)
    spans = [(start, end) for start, end, _ in journal.read_lines()]
    journal.keep_only(iter([spans[0], spans[2]]))
    journal.append(b'{"id": "d"}\n')
    journal.close()
    assert path.read_bytes() == b'{"id": "a"}\n{"id": "c"}\n{"id": "d"}\n'
    assert [each.name for each in tmp_path.iterdir()] == ["records.jsonl"]


@pytest.mark.parametrize("most", [1, 2, 10, 1000])
def test_a_line_that_the_disk_takes_in_pieces_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:most], at))
    journal = Journal(tmp_path / "records.jsonl")
    records = [{"id": "CORE-001", "answer": "über fünf Zeilen"}, {"id": "b"}]
    for record in records:
        journal.add(record)
    assert list(journal.read_records()) == records


@pytest.mark.parametrize("full", ["raises", "takes nothing", "is interrupted"])
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_full_disk_leaves_nothing_that_the_next_record_is_glued_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, pieces: int
) -> None:
    journal = Journal(tmp_path / "records.jsonl")
    journal.add({"id": "a"})
    write, left = os.pwrite, pieces

    def write_some(file: int, data: bytes, at: int) -> int:
        nonlocal left
        left -= 1
        if left >= 0:
            return write(file, data[:5], at)
        if full == "raises":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if full == "is interrupted":
            raise KeyboardInterrupt
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write_some)
        expected = KeyboardInterrupt if full == "is interrupted" else UsageError
        with pytest.raises(expected, match="No space left" if expected is UsageError else None):
            journal.add({"id": "b", "answer": "x" * 50})
    journal.add({"id": "c"})
    assert [record["id"] for record in journal.read_records()] == ["a", "c"]


@pytest.mark.parametrize("line", [b"{}x\n", b"[1]\n", b'{"id": \n', b"\xff\n", b"[" * 100_000])
def test_a_damaged_line_is_told_of_with_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id": "a"}\n' + line + (b"" if line.endswith(b"\n") else b"\n"))
    journal = Journal(path)
    with pytest.raises(DataError, match=r"records\.jsonl:2: not a record"):
        list(journal.read_lines())
    journal.close()
