"""The GitHub Action and the GitLab component: their shell steps, run here as a build runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
COMPONENT = list(yaml.safe_load_all((ROOT / "templates/calipers.yml").read_text(encoding="utf-8")))
_GITHUB = re.compile(r"\$\{\{ *(.*?) *\}\}")
_GITLAB = re.compile(r"\$\[\[ inputs\.(\w+) \]\]")


def run_shell(script: str, folder: Path, shell: str = "bash", **env: str) -> Any:
    """Run a script with this Python's commands first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    unwanted = ("GITHUB_", "CI")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    command = [shell, "-e", "-c", script]
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Build:
    """A build on GitHub: inputs, files that stand for GitHub's own, and steps by id."""

    def __init__(self, folder: Path, *, default_branch: bool = False, **inputs: str) -> None:
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        defaults = {name: each["default"] for name, each in ACTION["inputs"].items()}
        self.folder = folder
        self.known: dict[str, str] = {
            f"inputs.{name}": value for name, value in {**defaults, **given}.items()
        } | {
            "github.ref_name == github.event.repository.default_branch": str(
                default_branch
            ).lower(),
            "github.event.repository.default_branch": "main",
            "github.token": "stand-in",
            "github.repository": "owner/name",
            "github.workflow": "evals",
        }
        self.summary, self.output = folder / "summary", folder / "output"

    def run(self, step: str, **env: str) -> Any:
        [found] = [each for each in ACTION["runs"]["steps"] if each.get("id") == step]
        filled = {
            name: _GITHUB.sub(lambda match: self.known[match[1]], text)
            for name, text in found.get("env", {}).items()
        }
        files = {"GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output)}
        done = run_shell(
            found["run"], self.folder, **filled, **files, **{"GITHUB_ACTIONS": "true", **env}
        )
        outputs = self.output.read_text(encoding="utf-8") if self.output.exists() else ""
        for line in outputs.splitlines():
            name, _, value = line.partition("=")
            self.known[f"steps.{step}.outputs.{name}"] = value
        return done

    def __getitem__(self, name: str) -> str:
        return self.known[f"steps.decide.outputs.{name}"]


@pytest.fixture
def evals(tmp_path: Path) -> Path:
    run("init", tmp_path / "evals")
    return tmp_path


def break_agent(folder: Path) -> None:
    agent = folder / "evals" / "agent.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace('if status == "packed"', "if True"), encoding="utf-8")


def test_no_input_is_pasted_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "pass it through env: it may hold anything"


def test_the_pages_list_every_input_with_its_default() -> None:
    github = (ROOT / "docs/how-to/github.md").read_text(encoding="utf-8")
    for name, each in ACTION["inputs"].items():
        default = each["default"]
        assert f"| `{name}` | {f'`{default}`' if default else ''}".rstrip() in github
    gitlab = (ROOT / "docs/how-to/gitlab.md").read_text(encoding="utf-8")
    for name, each in COMPONENT[0]["spec"]["inputs"].items():
        default = each["default"]
        assert f"| `{name}` | {f'`{default}`' if default else ''}".rstrip() in gitlab


@pytest.mark.long
def test_a_green_build_on_github_records_a_baseline(evals: Path) -> None:
    build = Build(evals, default_branch=True, suite="evals/suite.yaml", baseline="true")
    done = build.run("decide")
    assert (build["exit-code"], build["verdict"]) == ("0", "pass"), done.stderr
    assert build.summary.read_text(encoding="utf-8").count("12 passed") == 1
    folder = evals / build["folder"]
    made = ("records.jsonl", "gate.json", "summary.md", "junit.xml", "report.html", "baseline.json")
    assert not [name for name in made if not (folder / name).exists()]
    assert build.run("finish").returncode == 0


@pytest.mark.long
def test_a_red_build_on_github_says_why(evals: Path) -> None:
    break_agent(evals)
    build = Build(evals, suite="evals/suite.yaml")
    done = build.run("decide")
    assert done.returncode == 0, "the artifact is uploaded before the build turns red"
    assert (build["exit-code"], build["verdict"]) == ("1", "fail"), done.stderr
    assert "::error title=gate%3A safety_rate (rules)::50 %25, required = 100 %25" in done.stderr
    assert build.summary.read_text(encoding="utf-8").count("safety_rate") >= 1
    assert json.loads((evals / build["folder"] / "gate.json").read_bytes())["verdict"] == "fail"
    assert build.run("finish").returncode == 1


@pytest.mark.long
def test_records_are_gated_on_github_against_the_baseline(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("baseline: {margins: {accuracy: 20%}}\n", encoding="utf-8")
    lines = "".join(json.dumps({"id": str(n), "correct": n % 9 > 0}) + "\n" for n in range(90))
    (tmp_path / "records.jsonl").write_text(lines, encoding="utf-8")
    saved = tmp_path / "kept" / "baseline.json"
    saved.parent.mkdir()
    run("gate", tmp_path / "records.jsonl", "--policy", rules, "--save-baseline", saved)
    stand_in = tmp_path / "bin" / "gh"
    stand_in.parent.mkdir()
    stand_in.write_text(
        '#!/bin/sh\necho "$@" >> asked\n'
        'if [ "$2" = list ]; then echo 7; else cp -r kept .calipers-baseline; fi\n',
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    build = Build(tmp_path, records="records.jsonl", policy="rules.yaml", by="", baseline="true")
    path = f"{stand_in.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin"
    build.run("baseline", PATH=path)
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "run list --workflow evals --branch main --status success" in asked
    assert "run download 7 --name calipers" in asked
    done = build.run("decide")
    assert (build["exit-code"], build["verdict"]) == ("0", "pass"), done.stderr
    gate = json.loads((tmp_path / build["folder"] / "gate.json").read_bytes())
    assert [check["level"] for check in gate["checks"]] == ["baseline"]


@pytest.mark.long
@pytest.mark.parametrize("is_broken", [False, True])
def test_the_component_runs_on_gitlab(evals: Path, *, is_broken: bool) -> None:
    if is_broken:
        break_agent(evals)
    spec, job = COMPONENT
    inputs = {name: each["default"] for name, each in spec["spec"]["inputs"].items()}
    inputs["suite"] = "evals/suite.yaml"
    variables = {
        name: _GITLAB.sub(lambda match: inputs[match[1]], text)
        for name, text in job["calipers"]["variables"].items()
    }
    script = "\n".join(job["calipers"]["script"])
    done = run_shell(
        script, evals, "sh", **variables, CI_COMMIT_BRANCH="x", CI_DEFAULT_BRANCH="main"
    )
    assert done.returncode == int(is_broken), done.stderr
    junit = (evals / "results/ci/junit.xml").read_text(encoding="utf-8")
    assert ("<failure" in junit) is is_broken
    assert (evals / "results/ci/summary.md").exists()
    assert (evals / "results/ci/report.html").exists()
