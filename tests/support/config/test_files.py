"""Configuration files: what they hold, the lines it stands on, and all that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.support.config import MAX_BYTES, ConfigFile, read_config, shown
from calipers.support.errors import UsageError
from calipers.support.limited_yaml import load_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(folder: Path, text: str | bytes, name: str = "a.yaml") -> ConfigFile:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_config(path, example="like this")


def refused(folder: Path, text: str | bytes, name: str = "a.yaml") -> str:
    with pytest.raises(UsageError) as raised:
        read(folder, text, name)
    assert raised.value.fix
    assert "\n" not in raised.value.message
    return raised.value.message


@given(VALUES)
def test_json_is_read_as_json_has_it(value: Any) -> None:
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        assert read(Path(folder), json.dumps(value), "a.json").value == value


def test_every_part_knows_its_line(tmp_path: Path) -> None:
    text = "# a policy\nthresholds:\n  blocking:\n    accuracy: 90\nids:\n- a\n-   b\n"
    config = read(tmp_path, text)
    source = str(tmp_path / "a.yaml")
    assert config.value == {"thresholds": {"blocking": {"accuracy": 90}}, "ids": ["a", "b"]}
    assert config.locate(("thresholds", "blocking", "accuracy")) == f"{source}:4"
    assert config.locate(("ids", 1)) == f"{source}:7"
    assert config.locate(("thresholds", "blocking", "accuracy", "further", 3)) == f"{source}:4"
    assert config.locate(("nothing",)) == source
    assert read(tmp_path, json.dumps({"a": {"b": 1}}, indent=1), "a.json").lines["a", "b"] == 3


@pytest.mark.parametrize("written", ["1e-3", "1E3", "-2.5e1", "+1e+2", "0.5e-1", "1.e2", ".5e1"])
def test_a_number_is_a_number_however_it_is_written(tmp_path: Path, written: str) -> None:
    found = read(tmp_path, f"a: {written}\nb: '{written}'\nc: [{written}]\n").value
    assert found == {"a": float(written), "b": written, "c": [float(written)]}
    assert isinstance(found["a"], float)


@pytest.mark.parametrize("written", ["e3", "1e", "1e-", "1e3x", "a1e3", "1e3.5", "1_0e3", "--1e3"])
def test_what_only_looks_like_a_number_is_a_text(tmp_path: Path, written: str) -> None:
    assert read(tmp_path, f"a: {written}\n").value == {"a": written}


def test_a_json_file_that_is_no_yaml_still_reads(tmp_path: Path) -> None:
    config = read(tmp_path, '{\t"a": "\\ud83d\\ude00"}', "a.json")
    assert config.value == {"a": "😀"}
    assert config.locate(("a",)) == config.source


def test_anchors_and_merges_are_read(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\nboth: {<<: [{a: 9}, *base]}\n"
    value = read(tmp_path, text).value
    assert value["more"] == {"a": 1, "b": 3}
    assert value["both"] == {"a": 9, "b": 2}


def test_a_byte_order_mark_and_an_empty_file(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1").value == {"a": 1}
    assert read(tmp_path, "# nothing\n").value is None


def _laughs(levels: int, *, merged: bool) -> str:
    """Ten times the level before, at each level."""
    lines = ["l0: &l0 {a: 1, b: 2}" if merged else "l0: &l0 [lol]"]
    for level in range(1, levels):
        ten = ", ".join([f"*l{level - 1}"] * 10)
        what = f"{{<<: [{ten}]}}" if merged else f"[{ten}]"
        lines.append(f"l{level}: &l{level} {what}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_laughs(12, merged=False), "more than 50,000 values"),
        (_laughs(12, merged=True), "more than 50,000 values"),
        ("&a [*a]", "nested deeper than 40 levels"),
        ("a: &a\n  b: *a", "nested deeper than 40 levels"),
        ("[" * 5000, "nested deeper than 40 levels"),
        ("a:\n" + "".join("  " * n + "- \n" for n in range(1, 60)), "nested deeper"),
        ("{a: 1, b: 2}" * 2, "expected"),
        ("a: 1\n---\na: 2", "expected a single document"),
        ("a: 1\nb: 2\na: 3", "a is there twice (line 3)"),
        ("x: {a: 1, a: 3}", "a is there twice (line 1)"),
        ("a: !!python/object/apply:os.getcwd []", "the tag tag:yaml.org,2002:python/object"),
        ("a: !!python/name:os.getcwd", "could not determine a constructor"),
        ("a: !!set {b, c}", "the tag tag:yaml.org,2002:set is not known"),
        ("? [1, 2]\n: 3", "a key that is no plain text"),
        ("<<: 3", "<< needs a mapping (line 1)"),
        ("a: 'open", "while scanning a quoted scalar, found unexpected end"),
        ("a:\n\t- b", "line 2"),
        ("a: 2024-99-99", "month must be in 1..12"),
        ("a: \x00", "unacceptable character"),
        (b"a: \xff", "codec"),
        (b"a: " + b"x" * MAX_BYTES, "larger than 1 MiB"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "bytes",
)
def test_what_could_harm_or_mislead_is_refused(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    begin = process_time()
    said = refused(tmp_path, text)
    assert "cannot be read as YAML: " in said
    assert message in said
    assert process_time() - begin < 20


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "{", "[" * 100_000, "{'a': 1}", ""])
def test_bad_json_is_refused(text: str, tmp_path: Path) -> None:
    assert "cannot be read as JSON: " in refused(tmp_path, text, "a.json")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match="check the path"):
            read_config(path, example="like this")


@given(st.text(max_size=200))
def test_any_text_gives_a_value_or_a_message(text: str) -> None:
    try:
        load_yaml(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017


def test_what_is_shown_is_short_and_harmless() -> None:
    assert shown("\x1b[31mred") == "\ufffd[31mred"
    assert len(shown("x" * 1000)) == 60
