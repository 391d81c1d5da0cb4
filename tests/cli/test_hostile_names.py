"""Names that try to break out of what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers as cal
from tests.commands import refused, run
from tests.files import write_lines

HOSTILE = "\x1b[31mred\x1b[0m\r\n\u202e\x07"


@pytest.mark.parametrize("output_format", ["table", "markdown"])
def test_escape_codes_do_not_reach_the_terminal(output_format: str, tmp_path: Path) -> None:
    rows = [{"id": HOSTILE, "model": HOSTILE, "answer": HOSTILE}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    out = run("score", path, "--by", "model", "--by", "answer", "--format", output_format).output
    assert "\ufffd[31mred\ufffd[0m" in out.replace("\\", "")
    for character in "\x1b\r\x07\u202e":
        assert character not in out


def test_escape_codes_in_what_is_explained_and_in_messages(tmp_path: Path) -> None:
    rows = [{"id": HOSTILE, "model": HOSTILE, "answer": HOSTILE}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    explained = run("explain", "sce", path, "--by", "model").output
    assert explained.count("\ufffd[31mred\ufffd[0m") >= 3
    told = refused("score", path, "--by", HOSTILE)
    for character in "\x1b\r\x07\u202e":
        assert character not in explained
        assert character not in told


@pytest.mark.parametrize(
    ("name", "markdown"),
    [
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)>"),
        ("`code`", r"\`code\`"),
        ("![x](http://evil.example/)", r"!\[x\](http://evil.example/)"),
        ("**b** * c*", r"\*\*b\** * c*"),
        ("_x_ a_b", r"\_x_ a_b"),
        ("$x$ ~~y~~", r"\$x$ \~\~y\~~"),
        ("&lt;", r"\&lt;"),
        ("a\n| b |", "a\ufffd\\| b \\|"),
    ],
)
def test_a_name_cannot_break_out_of_markdown(name: str, markdown: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "model": name, "answer": "a"}])
    args = ("--by", "model", "--format", "markdown", "--profile", "reasoning")
    lines = run("score", path, *args).stdout.splitlines()
    assert lines[0] == f"| metric | {markdown} |"


def test_a_name_cannot_break_out_of_html() -> None:
    name = "\"><script>alert('x')</script>&"
    rows = [{"id": "1", "model": name, "answer": "a"}, {"id": "1", "model": "b", "cot": "c"}]
    page = cal.score(rows, by="model")._repr_html_()
    assert "<script" not in page
    assert "&quot;&gt;&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;" in page


def test_groups_of_the_same_looks_keep_their_reasons() -> None:
    rows = [{"m": "(none)", "answer": "a"}, {"m": None, "cot": "c"}]
    shown = str(cal.score(rows, by="m"))
    assert "without a value in (none): sce, sce_normalized (no record has an answer)" in shown
    assert "(no record has cot)" in shown
