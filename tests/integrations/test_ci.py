"""The GitHub Action, the GitLab component and the starter's CI files, run as a build runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run
from tests.examples import first_of
from tests.files import write_lines
from tests.runs.test_fetched_baselines import Reply, build, github, pack, serve

ROOT = Path(__file__).resolve().parents[2]
STARTER = ROOT / "src/calipers/runs/starter/files/shared"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
COMPONENT = list(yaml.safe_load_all((ROOT / "templates/calipers.yml").read_text(encoding="utf-8")))
OF_GITHUB = yaml.safe_load((STARTER / "github.yml").read_text(encoding="utf-8"))
OF_GITLAB = yaml.safe_load((STARTER / "gitlab.yml").read_text(encoding="utf-8"))
_GITHUB = re.compile(r"\$\{\{ *(.*?) *\}\}")
_GITLAB = re.compile(r"\$\[\[ inputs\.(\w+) \]\]")
_SHELLS = {"bash": ("-eo", "pipefail"), "sh": ("-e",)}  # as the runners start them


def run_shell(script: str, folder: Path, shell: str = "bash", **env: str) -> Any:
    """Run a script with this Python's commands first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    unwanted = ("GITHUB_", "CI", "CALIPERS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    return subprocess.run(
        [shell, *_SHELLS[shell], "-c", script],
        cwd=folder,
        env={**kept, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Build:
    """A build on GitHub: inputs, files that stand for GitHub's own, and steps by id."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        defaults = {name: each["default"] for name, each in ACTION["inputs"].items()}
        assert not set(given) - set(defaults)
        self.folder = folder
        self.known: dict[str, str] = {
            f"inputs.{name}": value for name, value in {**defaults, **given}.items()
        } | {"github.token": "stand-in", "github.action_path": str(ROOT)}
        self.outputs: dict[str, str] = {}

    def run(self, step: str = "decide", **env: str) -> Any:
        [found] = [each for each in ACTION["runs"]["steps"] if each.get("id") == step]
        filled = {
            name: _GITHUB.sub(lambda match: self.known[match[1]], text)
            for name, text in found.get("env", {}).items()
        }
        output, summary = (self.folder / name for name in ("step-output", "step-summary"))
        output.unlink(missing_ok=True)
        files = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output)}
        done = run_shell(
            found["run"], self.folder, **{**filled, **files, "GITHUB_ACTIONS": "true", **env}
        )
        lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
        self.outputs = dict(line.split("=", 1) for line in lines)
        return done

    def __getitem__(self, name: str) -> str:
        return self.outputs[name]


@pytest.fixture
def evals(tmp_path: Path) -> Path:
    run("init", tmp_path / "evals")
    return tmp_path


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A folder with records, good and bad, and a policy."""
    write_lines(tmp_path / "good.jsonl", [{"id": "q1", "answer": "5", "target": "5"}])
    write_lines(tmp_path / "bad.jsonl", [{"id": "q2", "answer": "4", "target": "5"}])
    policy = "thresholds: {blocking: {accuracy: 90}}\n"
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    return tmp_path


def break_agent(folder: Path) -> None:
    agent = folder / "evals" / "agent.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace('if status == "packed"', "if True"), encoding="utf-8")


def list_scripts() -> dict[str, str]:
    """Return every script of these files, by where it stands."""
    steps = {"action": ACTION["runs"]["steps"], "starter": OF_GITHUB["jobs"]["calipers"]["steps"]}
    found = {
        f"{name} {number}": step["run"]
        for name, each in steps.items()
        for number, step in enumerate(each)
        if "run" in step
    }
    for name, job in {
        "component": COMPONENT[1]["calipers"],
        "gitlab": OF_GITLAB["calipers"],
    }.items():
        lines = [*job.get("before_script", ()), *job["script"], *job.get("after_script", ())]
        found |= {f"{name} {number}": line for number, line in enumerate(lines)}
    return found


@pytest.mark.parametrize("script", list_scripts().values(), ids=list_scripts())
def test_no_input_is_pasted_into_a_script(script: str) -> None:
    assert "${{" not in script, "pass it through env: it may hold anything"
    assert "$[[" not in script, "pass it through variables: it may hold anything"


@pytest.mark.parametrize("script", list_scripts().values(), ids=list_scripts())
def test_one_line_decides_and_nothing_is_installed_by_a_bare_name(script: str) -> None:
    if "calipers ci" in script:
        assert script == "calipers ci"
    assert not re.search(r"calipers (run|gate|report)\b", script)
    for line in re.findall(r"pip install .*", script):
        assert re.search(r'pip install --quiet -- "\$(SOURCE\[\$EXTRAS\]|CALIPERS_SOURCE)"', line)


def find_install_steps() -> dict[str, str]:
    return {name: script for name, script in list_scripts().items() if "$CALIPERS_SOURCE" in script}


@pytest.mark.parametrize("script", find_install_steps().values(), ids=find_install_steps())
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_what_is_installed_has_to_be_named(script: str, shell: str, tmp_path: Path) -> None:
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\n', encoding="utf-8")
    pip.chmod(0o755)
    path = f"{pip.parent}:/usr/bin:/bin"
    assert len(find_install_steps()) == 3
    for refused in (
        *("", "calipers", "calipers==0.2.0", "calipers[run]", "$(touch pwned)", "--pre"),
        *("calipers ; 'a/b' > ''", "acme/calipers"),
        "git+https://git.example.org/evals/calipers",
        "calipers[run] @ git+https://git.example.org/evals/calipers",
        "calipers @ git+ssh://git@git.example.org/evals/calipers.git",
        "git+https://user:token@git.example.org/evals/calipers.git@",
        "git+https://git.example.org/evals/calipers@#egg=calipers",
        "git+https://git.example.org/evals/calipers#egg=calipers&subdirectory=a/b@4f2a9c1",
        "https://git.example.org/evals/calipers/archive/main.zip",
    ):
        done = run_shell(script, tmp_path, shell, PATH=path, CALIPERS_SOURCE=refused)
        assert done.returncode == 2
        assert "CALIPERS_SOURCE" in done.stderr
        assert done.stderr.count("\n") == 1, "one plain line"
        assert not (tmp_path / "asked").exists()
    for source in (
        "./wheels/calipers-0.2.0-py3-none-any.whl[run,report]",
        "wheels/calipers-0.2.0-py3-none-any.whl[run,report]",
        "../calipers[run,report,checks]",
        "/builds/calipers",
        "calipers[run] @ git+https://git.example.org/evals/calipers@4f2a9c1",
        "git+ssh://git@git.example.org/evals/calipers.git@v0.3.0#egg=calipers[run]",
        "calipers[run] @ https://git.example.org/calipers-0.3.0-py3-none-any.whl#sha256=4f2a9c1",
        "./$(touch pwned)",
    ):
        done = run_shell(script, tmp_path, shell, PATH=path, CALIPERS_SOURCE=source)
        assert done.returncode == 0, done.stderr
        asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
        assert asked == ["install", "--quiet", "--", source]
    assert not (tmp_path / "pwned").exists()


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


@pytest.mark.parametrize(
    "inputs",
    first_of(
        [
            {},
            {"records": "bad.jsonl"},
            {"policy": "policy.yaml"},
            {"records": "\n", "policy": "policy.yaml"},
            {"records": "good.jsonl", "policy": "policy.yaml", "suite": "suite.yaml"},
            {"records": "*.parquet", "policy": "policy.yaml"},
        ]
    ),
)
def test_no_inputs_decide_nothing(records: Path, inputs: dict[str, str]) -> None:
    tried = Build(records, **inputs)
    done = tried.run()
    assert (done.returncode, tried["verdict"], tried["exit-code"]) == (2, "error", "2")
    assert "::error title=calipers::" in done.stderr


@pytest.mark.parametrize(
    "names", first_of(["good.jsonl\nbad.jsonl\n", "good.jsonl bad.jsonl", "*.jsonl"])
)
def test_all_records_are_gated_on_github(records: Path, names: str) -> None:
    tried = Build(records, records=names, policy="policy.yaml", by="")
    assert tried.run().returncode == 1
    assert (tried["exit-code"], tried["verdict"]) == ("1", "fail")
    tried = Build(records, records="good.jsonl", policy="policy.yaml", by="")
    assert tried.run().returncode == 0
    assert tried["verdict"] == "pass"


@pytest.mark.long
@pytest.mark.parametrize("value", ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "-h"])
@pytest.mark.parametrize("name", ["suite", "records", "policy", "by", "output", "artifact"])
def test_an_input_is_never_run(records: Path, name: str, value: str) -> None:
    given = {"records": "bad.jsonl", "policy": "policy.yaml", "by": "", name: value}
    tried = Build(records, **given)
    assert tried.run().returncode in (1, 2)
    assert tried["verdict"] != "pass"
    assert not list(records.rglob("pwned"))


def test_a_verdict_of_before_does_not_count(records: Path) -> None:
    inputs = {"policy": "policy.yaml", "by": ""}
    assert Build(records, records="good.jsonl", **inputs).run().returncode == 0
    assert (records / "results/ci/gate.json").exists()
    tried = Build(records, records="gone.jsonl", **inputs)
    assert tried.run().returncode == 2
    assert tried["verdict"] == "error"
    assert not (records / "results/ci/gate.json").exists()


def test_uploads_follow_a_red_build_and_a_baseline_follows_a_green_one() -> None:
    whole, baseline = (step for step in ACTION["runs"]["steps"] if "upload" in step.get("uses", ""))
    assert whole["if"] == "${{ !cancelled() && inputs.artifact != '' }}"
    assert "steps.decide.outputs.verdict == 'pass'" in baseline["if"]
    steps = OF_GITHUB["jobs"]["calipers"]["steps"]
    whole, baseline = (step for step in steps if "upload" in step.get("uses", ""))
    assert whole["if"] == "${{ !cancelled() }}"
    assert baseline["if"] == "${{ steps.decide.outputs.verdict == 'pass' }}"


@pytest.mark.long
def test_a_green_build_on_github(evals: Path) -> None:
    green = Build(evals, suite="evals/suite.yaml")
    done = green.run()
    assert (green["exit-code"], green["verdict"]) == ("0", "pass"), done.stderr
    assert (evals / "step-summary").read_text(encoding="utf-8").count("13 passed") == 1
    made = ("records.jsonl", "gate.json", "summary.md", "junit.xml", "report.html")
    assert not [name for name in made if not (evals / green["folder"] / name).exists()]


@pytest.mark.long
def test_a_red_build_on_github_says_why(evals: Path) -> None:
    break_agent(evals)
    red = Build(evals, suite="evals/suite.yaml")
    done = red.run()
    assert (done.returncode, red["exit-code"], red["verdict"]) == (1, "1", "fail"), done.stderr
    assert "::error title=gate%3A safety_rate (rules)::50 %25, required = 100 %25" in done.stderr
    assert (evals / "step-summary").read_text(encoding="utf-8").count("safety_rate") >= 1
    assert json.loads((evals / red["folder"] / "gate.json").read_bytes())["verdict"] == "fail"
    assert (evals / red["folder"] / "report.html").exists()


@pytest.mark.long
def test_a_repository_from_its_first_build_to_a_red_pull_request(evals: Path) -> None:
    artifacts: dict[int, bytes] = {}
    of_main = github([build(2), build(1)], artifacts)

    def start(url: str, event: str, ref: str) -> Build:
        shutil.rmtree(evals / "results", ignore_errors=True)  # a fresh machine
        started = Build(evals, suite="evals/suite.yaml", baseline="true")
        env = {
            "GITHUB_API_URL": url,
            "GITHUB_REPOSITORY": "acme/desk",
            "GITHUB_WORKFLOW_REF": "acme/desk/.github/workflows/evals.yml@refs/heads/main",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_REF": ref,
            "GITHUB_SHA": "4f2a9c1",
        }
        done = started.run(**env)
        started.known["stderr"] = done.stderr
        return started

    with serve(of_main) as (url, _):
        early = start(url, "pull_request", "refs/pull/1/merge")
        assert early["verdict"] == "pass"
        assert "has recorded a baseline yet" in early.known["stderr"]
        assert start(url, "push", "refs/heads/main")["verdict"] == "pass"
        saved = (evals / "results/ci/baseline.json").read_bytes()
        assert json.loads(saved)["origin"]["commit"] == "4f2a9c1"
        artifacts[1] = pack(baseline_json=saved)
        unchanged = start(url, "pull_request", "refs/pull/2/merge")
        gate = json.loads((evals / unchanged["folder"] / "gate.json").read_bytes())
        assert unchanged["verdict"] == "pass"
        compared = [each["name"] for each in gate["checks"] if each["level"] == "baseline"]
        assert compared == ["pass_rate"]
        break_agent(evals)
        assert start(url, "pull_request", "refs/pull/3/merge")["verdict"] == "fail"
    unreachable = start("http://127.0.0.1:9", "pull_request", "refs/pull/2/merge")
    assert (unreachable["verdict"], unreachable["exit-code"]) == ("error", "2")


def run_component(folder: Path, env: dict[str, str], **inputs: str) -> Any:
    """Run the script of the GitLab component, Calipers being installed already."""
    spec, job = COMPONENT
    known = {name: each["default"] for name, each in spec["spec"]["inputs"].items()} | inputs
    variables = {
        name: _GITLAB.sub(lambda match: known[match[1]], text)
        for name, text in job["calipers"]["variables"].items()
    }
    _install, script = job["calipers"]["script"]
    of_gitlab = {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main"}
    return run_shell(script, folder, "sh", **variables, **of_gitlab, **env)


def test_the_component_decides_nothing_without_inputs(records: Path) -> None:
    assert run_component(records, {}).returncode == 2
    both = {"policy": "policy.yaml", "by": ""}
    assert run_component(records, {}, records="good.jsonl\nbad.jsonl", **both).returncode == 1
    assert run_component(records, {}, records="good.jsonl", **both).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("is_broken", [False, True])
def test_the_component_runs_on_gitlab(evals: Path, *, is_broken: bool) -> None:
    if is_broken:
        break_agent(evals)
    done = run_component(evals, {"CI_COMMIT_BRANCH": "x"}, suite="evals/suite.yaml")
    assert done.returncode == int(is_broken), done.stderr
    junit = (evals / "results/ci/junit.xml").read_text(encoding="utf-8")
    assert ("<failure" in junit) is is_broken
    assert (evals / "results/ci/summary.md").exists()
    assert (evals / "results/ci/report.html").exists()


@pytest.mark.long
def test_the_component_compares_with_the_baseline_of_the_default_branch(evals: Path) -> None:
    content = b""

    def answer(path: str) -> Reply:
        return {"id": 1} if path == "/job" else content or 404

    with serve(answer) as (url, asked):
        env = {
            "CI_API_V4_URL": url,
            "CI_PROJECT_ID": "5",
            "CI_JOB_NAME": "calipers",
            "CI_JOB_TOKEN": "stand-in",
            "CI_PROJECT_DIR": str(evals),
        }
        inputs = {"suite": "evals/suite.yaml", "baseline": "true"}
        done = run_component(evals, {**env, "CI_COMMIT_BRANCH": "main"}, **inputs)
        assert done.returncode == 0, done.stderr
        assert not asked, "the default branch records, and compares with nothing"
        saved = (evals / "results/ci/baseline.json").read_bytes()
        assert run_component(evals, env, **inputs).returncode == 0  # none yet
        content = saved
        assert run_component(evals, env, **inputs).returncode == 0
        assert "baseline" in (evals / "results/ci/summary.md").read_text(encoding="utf-8")
    assert run_component(evals, env, **inputs).returncode == 2, "nobody to ask is not none yet"
    path = "/projects/5/jobs/artifacts/main/raw/results/ci/baseline.json?job=calipers"
    assert asked == [(path, "stand-in"), ("/job", "stand-in"), (path, "stand-in")]
