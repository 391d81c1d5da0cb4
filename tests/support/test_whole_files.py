from pathlib import Path

import pytest

from calipers.support.errors import UsageError
from calipers.support.files import stage_file, write_whole


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with stage_file(path) as beside:
        beside.write_text("half")
        assert path.read_text() == "old"
        assert beside.suffix == ".json"
    assert path.read_text() == "half"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def stopped() -> None:
        with stage_file(path) as beside:
            beside.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["né", "né".encode()])
def test_texts_and_bytes_are_written_alike(tmp_path: Path, content: str | bytes) -> None:
    write_whole(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == b"n\xc3\xa9"


@pytest.mark.parametrize("name", ["no-folder/a.json", "a-file/a.json"])
def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(UsageError, match=name) as caught:
        write_whole(tmp_path / name, "text")
    assert "permissions" in caught.value.fix
