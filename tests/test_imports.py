"""The package root stays short, names are unique; import-linter (`make lint`) checks who imports whom."""

from __future__ import annotations

import ast
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
    assert len(layers) <= 14


def test_every_room_is_on_the_page_about_the_layout() -> None:
    page = (PROJECT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    folders = sorted(f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py"))
    assert sorted(rooms) == folders


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                places.setdefault(node.name, []).append(place)
    shared = [f"{name}: {' and '.join(found)}" for name, found in places.items() if len(found) > 1]
    assert not shared, "rename all but one, so that each name says what it is:\n" + "\n".join(
        shared
    )
