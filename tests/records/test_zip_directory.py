"""The directory of a zip is read as Python's own reader reads it."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

from calipers.records.logs.zip_directory import Member, read_directory

MEMBERS = {"header.json": b"{}", "samples/ä_1.json": b'{"id": 1}' * 50, "samples/2.json": b""}

ALL, HEADER = re.compile(b".*"), re.compile(rb"header\.json")


def pack(*, comment: bytes = b"", large: bool = False, before: bytes = b"") -> bytes:
    file = io.BytesIO()
    file.write(before)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.comment = comment
        for name, data in MEMBERS.items():
            with packed.open(name, "w", force_zip64=large) as member:
                member.write(data)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pack(),
        pack(comment=b"made by hand"),
        pack(large=True),
        pack(before=b"PK\x05\x06 something else"),
        b"something else" + pack(),
    ],
    ids=["plain", "comment", "large numbers", "appended", "prefixed"],
)
def test_members_are_those_of_python(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    with zipfile.ZipFile(path) as packed:
        theirs = [
            Member(
                each.filename,
                each.header_offset,
                each.compress_size,
                each.file_size,
                each.CRC,
                each.compress_type,
                each.flag_bits,
            )
            for each in packed.infolist()
        ]
    ours = read_directory(path)
    assert [ours.read(each) for each in ours.list_places(ALL)] == theirs
    assert ours.expanded == sum(len(each) for each in MEMBERS.values())
    [place] = ours.list_places(HEADER)
    assert ours.read(place).name == "header.json"
    assert not ours.list_places(re.compile(b"header"))


def test_numbers_beyond_32_bits_are_those_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python writes all numbers as large ones if told that few bits are all there are."""
    path = tmp_path / "a.zip"
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    path.write_bytes(pack(large=True))
    ours = read_directory(path)
    sizes = [ours.read(each).size for each in ours.list_places(ALL)]
    assert sizes == [len(each) for each in MEMBERS.values()]
    assert ours.expanded == sum(sizes)
    offsets = [ours.read(each).offset for each in ours.list_places(ALL)]
    with zipfile.ZipFile(path) as packed:
        assert offsets == [each.header_offset for each in packed.infolist()]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_a_member_written_twice_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for text in ("old", "newer"):
            packed.writestr("header.json", text)
    ours = read_directory(path)
    assert [ours.read(each).size for each in ours.list_places(ALL)] == [len("newer")]


def test_every_cut_of_a_zip_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "a.zip", pack(large=True)
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(zipfile.BadZipFile):
            read_directory(path)


def test_a_member_that_would_not_end_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "a.zip", pack()
    entry = data.index(b"PK\x01\x02")
    path.write_bytes(data[: entry + 20] + b"\xfe\xff\xff\xff" + data[entry + 24 :])
    directory = read_directory(path)
    with pytest.raises(zipfile.BadZipFile, match=r"header\.json does not end"):
        list(map(directory.read, directory.list_places(HEADER)))
