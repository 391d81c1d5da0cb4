"""The GitHub Action and the GitLab component: their shell steps, run here as a build runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

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
    options = ("-eo", "pipefail") if shell == "bash" else ("-e",)  # as the runners start it
    command = [shell, *options, "-c", script]
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
            "github.ref_name": "main" if default_branch else "12/merge",
            "github.token": "stand-in",
            "github.repository": "owner/name",
            "github.workflow": "evals",
        }
        self.summary, self.output = folder / "summary", folder / "output"
        self.path = f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}:/usr/bin:/bin"

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

    def run_all(self, server: Path) -> list[Any]:
        """Run every step whose condition holds, in order; artifacts go to a folder of `server`."""
        done = []
        for step in ACTION["runs"]["steps"]:
            if not all(map(self.holds, step.get("if", "${{ }}").strip("${ }").split(" && "))):
                continue
            if step.get("uses", "").startswith("actions/upload-artifact@"):
                shutil.copytree(self.folder / self.known["inputs.output"], server / "artifact")
            elif "id" in step and step["id"] != "install":
                done.append(self.run(step["id"], PATH=self.path, SERVER=str(server.parent)))
        return done

    def holds(self, condition: str) -> bool:
        if condition in {"", "!cancelled()"}:
            return True
        left, sign, right = condition.split(" ")
        values = [self.known[each] if "." in each else each.strip("'") for each in (left, right)]
        return (values[0] == values[1]) is (sign == "==")

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


def test_the_image_copies_what_its_context_has() -> None:
    kept = {
        line[1:].strip()
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert {"pyproject.toml", "src"} <= set(copied) <= kept
    assert all((ROOT / name).exists() for name in copied)


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


# What the action asks of GitHub's command line: the newest green build, and its artifact.
GH = """#!/bin/sh
if [ "$2" = list ]; then ls "$SERVER" | tail -n 1; else cp -r "$SERVER/$3/artifact" .calipers-baseline; fi
"""


@pytest.mark.long
def test_a_repository_from_its_first_build_to_a_red_pull_request(evals: Path) -> None:
    (evals / "bin").mkdir()
    (evals / "bin" / "gh").write_text(GH, encoding="utf-8")
    (evals / "bin" / "gh").chmod(0o755)
    builds = evals / "builds"

    def build(number: str, *, on_main: bool) -> Build:
        for left in (".calipers-baseline", "results", "summary", "output"):  # a fresh machine
            path = evals / left
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        made = Build(evals, default_branch=on_main, suite="evals/suite.yaml", baseline="true")
        made.run_all(builds / number)
        return made

    (builds).mkdir()
    early = build("0", on_main=False)  # a pull request before the default branch had any build
    assert early["verdict"] == "pass"
    shutil.rmtree(builds / "0")
    assert build("1", on_main=True)["verdict"] == "pass"
    assert (builds / "1/artifact/baseline.json").exists()
    unchanged = build("2", on_main=False)
    shutil.rmtree(builds / "2")
    gate = json.loads((evals / unchanged["folder"] / "gate.json").read_bytes())
    assert unchanged["verdict"] == "pass"
    assert [each["name"] for each in gate["checks"] if each["level"] == "baseline"] == ["pass_rate"]
    break_agent(evals)
    broken = build("3", on_main=False)
    assert (broken["verdict"], broken["exit-code"]) == ("fail", "1")
    assert (builds / "3/artifact/report.html").exists(), "kept on red builds too"


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


def run_component(folder: Path, **env: str) -> Any:
    """Run the script of the GitLab component with its defaults, and the suite in `evals`."""
    spec, job = COMPONENT
    inputs = {name: each["default"] for name, each in spec["spec"]["inputs"].items()}
    inputs |= {
        "suite": "evals/suite.yaml",
        "baseline": "true" if "CI_API_V4_URL" in env else "false",
    }
    variables = {
        name: _GITLAB.sub(lambda match: inputs[match[1]], text)
        for name, text in job["calipers"]["variables"].items()
    }
    script = "\n".join(job["calipers"]["script"])
    return run_shell(script, folder, "sh", **variables, CI_DEFAULT_BRANCH="main", **env)


@pytest.mark.long
@pytest.mark.parametrize("is_broken", [False, True])
def test_the_component_runs_on_gitlab(evals: Path, *, is_broken: bool) -> None:
    if is_broken:
        break_agent(evals)
    done = run_component(evals, CI_COMMIT_BRANCH="x")
    assert done.returncode == int(is_broken), done.stderr
    junit = (evals / "results/ci/junit.xml").read_text(encoding="utf-8")
    assert ("<failure" in junit) is is_broken
    assert (evals / "results/ci/summary.md").exists()
    assert (evals / "results/ci/report.html").exists()


class Artifacts(BaseHTTPRequestHandler):
    """The part of GitLab's API that gives a file of the newest green job of a branch."""

    content = b""
    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["JOB-TOKEN"]))
        self.send_response(200 if self.content else 404)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.long
def test_the_component_compares_with_the_baseline_of_the_default_branch(evals: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Artifacts)
    Thread(target=server.serve_forever, daemon=True).start()
    gitlab = {
        "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}",
        "CI_PROJECT_ID": "5",
        "CI_JOB_NAME": "calipers",
        "CI_JOB_TOKEN": "stand-in",
    }
    try:
        done = run_component(evals, CI_COMMIT_BRANCH="main", **gitlab)
        assert done.returncode == 0, done.stderr
        assert not Artifacts.asked, "the default branch records, and compares with nothing"
        assert run_component(evals, CI_COMMIT_BRANCH="x", **gitlab).returncode == 0  # none yet
        Artifacts.content = (evals / "results/ci/baseline.json").read_bytes()
        done = run_component(evals, CI_COMMIT_BRANCH="x", **gitlab)
        assert done.returncode == 0, done.stderr
        assert "baseline" in (evals / "results/ci/summary.md").read_text(encoding="utf-8")
    finally:
        server.shutdown()
        server.server_close()
    path = "/projects/5/jobs/artifacts/main/raw/results/ci/baseline.json?job=calipers"
    assert Artifacts.asked == [(path, "stand-in")] * 2
