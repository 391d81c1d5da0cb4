"""Sessions of pytest within a test, with our plug-in and no other."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest import pytester as of_pytest

ROOT = Path(__file__).resolve().parents[2]

PLUGIN = "calipers.runs.pytest_plugin"

Run = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def libraries_stay_loaded(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep what a session in this process imports, but for its tests: NumPy loads only once."""
    inner = str(tmp_path_factory.getbasetemp())

    def stays(name: str) -> bool:
        return not str(getattr(sys.modules[name], "__file__", None)).startswith(inner)

    snapshot = of_pytest.SysModulesSnapshot
    monkeypatch.setattr(of_pytest, "SysModulesSnapshot", lambda preserve: snapshot(stays))  # noqa: ARG005


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in this process, with this plug-in and no other that happens to be installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return lambda *arguments: pytester.runpytest_inprocess("-p", PLUGIN, *arguments)
