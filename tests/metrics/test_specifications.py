"""Every rule of the four documents has a place in the package, and a test that exists."""

from __future__ import annotations

import ast
import json
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from calipers.metrics import catalogue
from calipers.metrics.specifications import DOCUMENTS, SECTIONS, DocumentRule, list_rules
from tests.commands import run

ROOT = Path(__file__).parents[2]
RULES = list_rules()


@cache
def list_tests(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    return {name for name in names if name.startswith("test_")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.spec} {rule.metric or rule.rule}")
def test_the_place_and_the_test_of_a_rule_exist(rule: DocumentRule) -> None:
    file, _, name = rule.where.partition(":")
    assert (ROOT / "src" / "calipers" / file).is_file()
    module = import_module(f"calipers.{file.removesuffix('.py').replace('/', '.')}")
    assert name == "*" or hasattr(module, name)
    tests, _, test = rule.test.partition("::")
    assert list_tests(tests) if test == "*" else test in list_tests(tests)


def test_every_section_has_a_rule_and_every_rule_a_section() -> None:
    assert {rule.spec for rule in RULES} == SECTIONS.keys()


def test_every_metric_of_a_document_is_among_them() -> None:
    named = {rule.metric for rule in RULES}
    documented = {name for name, metric in catalogue().items() if metric.spec}
    assert documented <= named


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_command_lists_them(document: str) -> None:
    result = run("metrics", "--spec", document, "--format", "json")
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)
    assert [each["spec"] for each in listed] == [rule.spec for rule in list_rules(document)]
    assert all(each["where"] and each["test"] for each in listed)
    table = run("metrics", "--spec", document)
    assert listed[-1]["section"] in table.stdout
    markdown = run("metrics", "--spec", document, "--format", "markdown")
    assert f"| {listed[0]['spec']} |" in markdown.stdout
