"""The files that a suite's systems are made of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from calipers.runs.code_under_test import hash_code
from calipers.runs.suite import Suite
from calipers.support.errors import UsageError

FILES = {
    "agent.py": """
from __future__ import annotations
import json, numpy, os.path
import tools.search as search
from shared import prompts
from tools import missing
if os.environ.get("NEVER"):
    import late
def answer(record):
    import inner
    return __import__("named").X
""",
    "tools/__init__.py": "from . import base\nfrom .base import *\n",
    "tools/base.py": "from ..outside import x\nfrom .deep.er import y\n",
    "tools/deep/er.py": "import calipers\n",  # a package without __init__.py
    "tools/search.py": "import importlib\nimportlib.import_module('by_text')\n",
    "tools/unused.py": "",
    "shared/__init__.py": "",
    "shared/prompts.py": "import agent\n",  # a circle
    "late.py": "this is no Python",
    "inner.py": "",
    "named.py": "X = 1\n",
    "by_text.py": "",
    "unrelated.py": "",
}
REACHED = [
    *("agent.py", "by_text.py", "inner.py", "late.py", "named.py"),
    *("shared/__init__.py", "shared/prompts.py"),
    *("tools/__init__.py", "tools/base.py", "tools/deep/er.py", "tools/search.py"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "suite"


def code(folder: Path, **system: Any) -> list[str]:
    suite = Suite.model_validate(
        {"name": "n", "data": "d.jsonl", "systems": [{"name": "s", **system}]}
    )
    return list(hash_code(suite, folder))


def test_a_python_system_is_its_file_and_what_it_leads_to(folder: Path) -> None:
    assert code(folder, python="agent.py:answer") == REACHED


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python", "agent.py", "--fast"], REACHED),
        (["python", "-m", "agent"], REACHED),
        ([sys.executable, "inner.py"], ["inner.py"]),
        (["sh", "-c", "python inner.py | cat 'late.py'"], ["inner.py", "late.py"]),
        (["./named.py", "--prompt=shared/prompts.txt"], ["named.py", "shared/prompts.txt"]),
        (["sh", "-c", "an open ' quotation"], []),
        (["nothing", "here"], []),
    ],
)
def test_a_command_is_the_local_files_that_it_names(
    folder: Path, command: list[str], found: list[str]
) -> None:
    (folder / "shared/prompts.txt").write_text("Say please.")
    assert code(folder, command=command) == found


def test_a_package_is_run_by_its_main_module(folder: Path) -> None:
    (folder / "tools/__main__.py").write_text("import inner\n")
    found = code(folder, command=["python", "-m", "tools"])
    assert {"tools/__main__.py", "tools/__init__.py", "inner.py"} <= set(found)


def test_packages_beside_the_suite_are_local_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder.parent / "src" / "own_app_of_this_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from own_app_of_this_test import parts\n")
    (package / "parts.py").write_text("")
    (folder / "agent.py").write_text("import own_app_of_this_test as app\n")
    monkeypatch.syspath_prepend(str(package.parent))
    assert code(folder, python="agent.py:answer") == [
        "../src/own_app_of_this_test/__init__.py",
        "../src/own_app_of_this_test/parts.py",
        "agent.py",
    ]


def test_models_and_servers_have_no_local_code(folder: Path) -> None:
    assert code(folder, http="http://127.0.0.1:9/agent.py") == []


def test_further_files_are_named_by_the_suite(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts/system.md").write_text("Be brief.")
    found = code(folder, http="http://127.0.0.1:9/", files=["prompts/*.md", "**/named.py"])
    assert found == ["named.py", "prompts/system.md"]
    with pytest.raises(UsageError, match=r"systems\.s\.files: promts/\* names no file"):
        code(folder, http="http://127.0.0.1:9/", files=["promts/*"])
