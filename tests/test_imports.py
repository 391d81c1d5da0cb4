"""The package root stays short; import-linter (`make lint`) checks who imports whom."""

from __future__ import annotations

import tomllib
from pathlib import Path

import calipers

PACKAGE = Path(str(calipers.__file__)).parent
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_the_root_holds_rooms_and_nothing_else() -> None:
    linter = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [each["layers"] for each in linter["contracts"] if each["type"] == "layers"]
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert found == {*layers, "__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
    assert len(layers) <= 15


def test_every_room_is_on_the_page_about_the_layout() -> None:
    page = (PROJECT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    folders = sorted(f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py"))
    assert sorted(rooms) == folders
