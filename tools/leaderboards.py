"""Boards of the documentation: what `examples/leaderboards/board.py` writes now of public results.

    python -m tools.leaderboards                    every page that has some   (make pages)

A board stands between `<!-- board: FILE OPTIONS -->` and `<!-- end of board -->`; FILE is one of
the third-party files beside the checkout, `../shared/data`. Without them nothing is written.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
PAGES = ROOT / "docs" / "leaderboards"
SCRIPT = ROOT / "examples" / "leaderboards" / "board.py"
_BOARD = re.compile(r"(<!-- board: (.*?) -->\n)(.*?)(<!-- end of board -->)", re.DOTALL)


def main() -> None:
    """Write the boards of all pages anew, or say that the data is not there."""
    if not DATA.exists():
        print(f"{DATA} is not there: the boards stay as they are")
        return
    for page in list_pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(refresh_page(text, PAGES), encoding="utf-8")


def list_pages() -> list[Path]:
    """Return the pages that have a board."""
    return [page for page in sorted(PAGES.glob("*.md")) if list_boards(page)]


def list_boards(page: Path) -> list[str]:
    """Return the command lines of the boards of a page."""
    return [found[2] for found in _BOARD.finditer(page.read_text(encoding="utf-8"))]


def refresh_page(text: str, folder: Path) -> str:
    """Return the text with its boards as they are now; figures are written into the folder."""
    boards = iter([write_board(found[2], folder) for found in _BOARD.finditer(text)])
    return _BOARD.sub(lambda found: f"{found[1]}\n{next(boards)}{found[4]}", text)


def write_board(line: str, folder: Path) -> str:
    """Return the board that a command line describes; its figure is written into the folder."""
    words = shlex.split(line)
    with tempfile.NamedTemporaryFile(suffix=".md", dir=folder) as output:
        options = ["--title", "", "--output", output.name]
        load_script().main([*options, *_place_files(words, folder)])
        return Path(output.name).read_text(encoding="utf-8")


def load_script() -> Any:
    """Return the example's module."""
    spec = importlib.util.spec_from_file_location("board", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["board"] = script  # dataclasses look their module up
    spec.loader.exec_module(script)
    return script


def _place_files(words: list[str], folder: Path) -> Iterator[str]:
    """Yield the words with the places of the data and of the figure."""
    yield str(DATA / words[0])
    for before, word in pairwise(words):
        yield str(folder / word) if before == "--figure" else word


if __name__ == "__main__":
    main()
