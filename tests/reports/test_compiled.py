"""Templates are compiled once, and again when they or their compiler have changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")

from jinja2 import Environment, TemplateNotFound

from calipers.reports.pages import environment
from calipers.reports.pages.environment import CompiledLoader


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The template of a package that is nowhere else."""
    folder = tmp_path / "templates_at_hand" / "templates"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    path = folder / "page.html"
    path.write_text("Hello {{ name }}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "templates_at_hand", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return path


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled, in their order."""
    found: list[str] = []
    compile_text = Environment.compile

    def count(self: Environment, source: str, *rest: object) -> object:
        found.append(source)
        return compile_text(self, source, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(Environment, "compile", count)
    return found


def render(name: str = "page.html") -> str:
    made = Environment(loader=CompiledLoader("templates_at_hand"), autoescape=True)
    return made.get_template(name).render(name="<you>")


def test_a_template_is_compiled_once(template: Path, compilations: list[str]) -> None:
    assert render() == render() == "Hello &lt;you&gt;"
    assert compilations == ["Hello {{ name }}"]
    assert [path.suffix for path in (template.parent / "__pycache__").iterdir()] == [".pyc"]


def test_a_change_of_the_template_or_of_jinja_compiles_it_again(
    template: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    render()
    template.write_text("Bye {{ name }}", encoding="utf-8")
    assert render() == "Bye &lt;you&gt;"
    monkeypatch.setattr(environment, "jinja_version", "0.0")
    assert render() == "Bye &lt;you&gt;"
    assert len(compilations) == 3


@pytest.mark.usefixtures("template")
def test_where_nothing_may_be_kept_it_is_compiled_each_time(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render() == render()
    assert len(compilations) == 2
    with pytest.raises(TemplateNotFound):
        render("other.html")
