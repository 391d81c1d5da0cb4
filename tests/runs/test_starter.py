"""What `calipers init` writes runs as its comments say, with a model too, and so do its CI files."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import Result

from calipers.runs.starter import TEMPLATES, list_template_files
from tests.commands import run
from tests.examples import first_of
from tests.runs.chat_server import serve_chat


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_template_passes_its_own_gate_as_it_says(template: str) -> None:
    written = run("init", "new/folder", "--template", template)
    assert written.exit_code == 0, written.output
    assert "next: calipers run new/folder/suite.yaml" in written.stderr
    found = {str(p.relative_to("new/folder")) for p in Path("new").rglob("*") if p.is_file()}
    assert found == set(list_template_files(template))
    said = Path("new/folder/suite.yaml").read_text(encoding="utf-8").partition("\n\n")[0]
    assert "passes (exit code 0)" in said.replace("\n# ", " ")
    done = run("run", "new/folder/suite.yaml", "-o", "out", "--no-report")
    assert done.exit_code == 0, done.output
    gate = json.loads(Path("out/gate.json").read_text(encoding="utf-8"))
    assert {each["verdict"] for each in gate["checks"]} == {"pass"}
    for share, of in re.findall(r"(\d+) of\s+(?:# )?(\d+)", said):
        score = json.loads(Path("out/score.json").read_text(encoding="utf-8"))["groups"][0]
        metric = "accuracy" if template == "qa" else "pass_rate"
        assert score["metrics"][metric]["value"] == pytest.approx(int(share) / int(of))


def test_an_agent_that_cancels_whatever_it_is_told_to_fails() -> None:
    run("init")
    source = Path("agent.py").read_text(encoding="utf-8")
    Path("agent.py").write_text(source.replace('status == "packed"', "True"), encoding="utf-8")
    done = run("run", "suite.yaml", "--no-report")
    assert done.exit_code == 1
    assert "failing: SEC-001" in done.stdout


def test_what_the_comments_of_judge_and_traces_name_can_be_run() -> None:
    run("init", "judge", "--template", "judge")
    made = run("judge", "calibrate", "judge/judged.jsonl", "judge/human.jsonl", "-o", "again.json")
    assert made.exit_code == 0
    kept, again = (
        json.loads(
            Path(name).read_text(encoding="utf-8"), parse_float=lambda text: round(float(text), 9)
        )
        for name in ("judge/calibration.json", "again.json")
    )
    assert again["judges"] == kept["judges"]
    run("init", "traces", "--template", "traces")
    rated = ("traces/recorded.jsonl", "--value", "scores.decision_quality", "--level", "ordinal")
    assert "anna – ben" in run("agree", *rated).stdout


# --- a model behind a server ---


def _desk(body: dict[str, Any], *, obeys: bool = False) -> dict[str, Any]:
    """A model that keeps to the system message, or obeys whoever asks."""
    messages = body["messages"]
    text = next(e["content"] for e in reversed(messages) if e["role"] == "user")
    number = re.search(r"\d+", text)
    if messages[-1]["role"] != "tool" and number:
        return _call("look_up_order", number.group())
    if messages[-1]["role"] != "tool":
        if "every" in text:
            return {"content": "I'm sorry, but I can't list orders."}
        hours = "We are open from 9 to 17." if "hours" in text else "What is your order's number?"
        return {"content": hours}
    status = json.loads(messages[-1]["content"])["status"]
    if "cancel" not in text.lower() or status == "cancelled":
        found = f"It has been {status}." if status else "I could not find that order."
        return {"content": found}
    if status == "packed" or obeys:
        return _call("cancel_order", json.loads(messages[-1]["content"])["order"])
    return {"content": f"It has been {status}, so it can no longer be cancelled."}


def _call(name: str, order: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps({"order": order})}
    return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def _ask_a_model(url: str) -> None:
    suite = yaml.safe_load(Path("suite.yaml").read_text(encoding="utf-8"))
    suite["systems"] = [{"name": "local", "model": "openai:tiny", "base_url": url}]
    Path("suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")


@pytest.mark.long
def test_a_plain_model_passes_the_policy_and_its_replies_are_kept() -> None:
    run("init")
    with serve_chat(_desk) as server:
        _ask_a_model(server.url)
        done = run("run", "suite.yaml", "-o", "first", "--no-report")
        assert done.exit_code == 0, done.output
        asked = len(server.seen)
        assert {each["function"]["name"] for each in server.seen[0]["tools"]} == {
            *("look_up_order", "cancel_order")
        }
        assert run("run", "suite.yaml", "-o", "second", "--no-report").exit_code == 0
        assert len(server.seen) == asked  # from .cache


@pytest.mark.long
def test_a_model_that_obeys_everybody_fails() -> None:
    run("init")
    with serve_chat(lambda body: _desk(body, obeys=True)) as server:
        _ask_a_model(server.url)
        done = run("run", "suite.yaml", "-o", "out", "--no-report")
    assert done.exit_code == 1
    records = map(json.loads, Path("out/records.jsonl").read_text(encoding="utf-8").splitlines())
    violated = {each["id"]: each["violations"] for each in records if each["violations"]}
    assert violated == {
        "SEC-001": ["cancels an order that must stay"],
        "REG-001": ["cancels an order that must stay"],
    }


# --- files for CI ---


CI_FILES = [".github/workflows/calipers.yml", "calipers.gitlab-ci.yml"]


def _decide(name: str, **more: str) -> Result:
    """Run the command of a CI file with its variables, but with no service to fetch from."""
    job = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    if "jobs" in job:
        [step] = [e for e in job["jobs"]["calipers"]["steps"] if e.get("id") == "decide"]
        command, variables = step["run"], step["env"]
    else:
        command, variables = job["calipers"]["script"][-1], job["calipers"]["variables"]
    assert command == "calipers ci"
    env = {key: value for key, value in variables.items() if "${{" not in value}
    return run("ci", env={**env, "CALIPERS_FETCH_BASELINE": "", **more})


@pytest.mark.parametrize("name", CI_FILES)
@pytest.mark.parametrize("template", first_of(["agent", "traces"]))
def test_the_command_of_the_ci_files_runs(template: str, name: str) -> None:
    run("init", "--template", template)
    done = _decide(name)
    assert done.exit_code == 0, done.output
    text = Path(name).read_text(encoding="utf-8")
    for each in ("report.html", "junit.xml", "summary.md"):
        assert (Path("results/ci") / each).is_file()
    assert "results/ci/summary.md" in text
    assert "gate: pass" in Path("results/ci/summary.md").read_text(encoding="utf-8")


def test_the_story_from_init_to_a_red_and_a_green_build() -> None:
    """A team's model breaks a rule: the build is red and says why; another model makes it green."""
    run("init")
    name = "calipers.gitlab-ci.yml"
    with serve_chat(lambda body: _desk(body, obeys=True)) as server:
        _ask_a_model(server.url)
        done = _decide(name)
    assert done.exit_code == 1
    assert "failing: SEC-001" in done.stdout
    cases = ET.parse("results/ci/junit.xml").getroot().iter("testcase")
    assert "SEC-001 (local)" in {e.get("name") for e in cases if e.find("failure") is not None}
    page = Path("results/ci/report.html").read_text(encoding="utf-8")
    assert "cancels an order that must stay" in page
    with serve_chat(_desk) as server:
        _ask_a_model(server.url)
        assert _decide(name).exit_code == 2  # what is in the folder is of another model
        done = _decide(name, CALIPERS_FRESH="true")
    assert done.exit_code == 0, done.output
    assert "gate: pass" in Path("results/ci/summary.md").read_text(encoding="utf-8")


# --- what is there already ---


@pytest.mark.parametrize("name", ["policy.yaml", ".github/workflows/calipers.yml"])
def test_init_overwrites_only_when_forced(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("mine", encoding="utf-8")
    refused = run("init")
    assert refused.exit_code == 2
    assert f"{name}: there already" in refused.stderr
    assert "--force" in refused.stderr
    assert Path(name).read_text(encoding="utf-8") == "mine"
    assert not Path("suite.yaml").exists()
    assert run("init", "--force").exit_code == 0
    assert Path(name).read_text(encoding="utf-8") != "mine"


def test_init_where_no_folder_can_be_and_without_such_a_template() -> None:
    Path("file").write_text("", encoding="utf-8")
    assert run("init", "file/folder").exit_code == 2
    assert run("init", "--template", "chess").exit_code == 2


def test_a_run_writes_what_a_build_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JUnit and the summary of a step come from `run` as from `gate`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert run("init").exit_code == 0
    assert run("run", "suite.yaml", "--junit", "gate.xml").exit_code == 0
    cases = ET.parse(tmp_path / "gate.xml").getroot().findall(".//testcase")
    assert cases
    assert "PASS" in (tmp_path / "summary.md").read_text().upper()
