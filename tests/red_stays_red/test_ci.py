"""A pipeline is green only if `calipers ci` itself has decided so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.runs.ci import read_verdict
from tests.commands import run
from tests.files import write_lines

POLICY = "thresholds: {blocking: {accuracy: 90}}\n"
OLD = '{"schema": "calipers.gate/1", "verdict": "pass", "checks": []}\n'
SUITE = "name: sums\ndata: tasks.jsonl\nsystems: [{name: gpt-4o-mini, python: 'sut.py:answer'}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build's checkout, whose results/ci holds a verdict of before."""
    monkeypatch.chdir(tmp_path)
    for name in ("SUITE", "RECORDS", "POLICY", "BASELINE", "BY", "OUTPUT"):
        monkeypatch.delenv(f"CALIPERS_{name}", raising=False)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    write_lines(tmp_path / "good.jsonl", [{"id": "q1", "answer": "5", "target": "5"}])
    write_lines(tmp_path / "bad.jsonl", [{"id": "q2", "answer": "4", "target": "5"}])
    write_lines(tmp_path / "tasks.jsonl", [{"id": "q1", "input": "2+3", "target": "5"}])
    (tmp_path / "sut.py").write_text("def answer(record):\n    return '5'\n", encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    results = tmp_path / "results/ci"
    results.mkdir(parents=True)
    (results / "gate.json").write_text(OLD, encoding="utf-8")
    (results / "summary.md").write_text("# gate: pass\n", encoding="utf-8")
    return tmp_path


def read_outputs() -> dict[str, str]:
    lines = Path("outputs").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def decide(*args: str, **env: str) -> tuple[int, str]:
    """Return the exit code and the verdict that the build is told; they agree with gate.json."""
    done = run("ci", *args, env={f"CALIPERS_{name}": value for name, value in env.items()})
    outputs = read_outputs()
    assert int(outputs["exit-code"]) == done.exit_code
    gate = Path("results/ci/gate.json")
    written = json.loads(gate.read_text())["verdict"] if gate.exists() else None
    assert (done.exit_code == 0) == (outputs["verdict"] == "pass") == (written == "pass"), done
    return done.exit_code, outputs["verdict"]


NO_DECISION: list[tuple[tuple[str, ...], dict[str, str]]] = [
    ((), {}),
    ((), {"SUITE": "", "RECORDS": "", "POLICY": ""}),
    ((), {"RECORDS": "good.jsonl"}),
    ((), {"POLICY": "policy.yaml"}),
    ((), {"RECORDS": " \r\n\n", "POLICY": "policy.yaml"}),
    ((), {"RECORDS": "*.parquet", "POLICY": "policy.yaml"}),
    ((), {"RECORDS": "good.jsonl gone.jsonl", "POLICY": "policy.yaml"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "gone.yaml"}),
    ((), {"RECORDS": "-", "POLICY": "policy.yaml"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "policy.yaml", "BASELINE": "gone.json"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "policy.yaml", "SUITE": "suite.yaml"}),
    (("--suite", "suite.yaml"), {"RECORDS": "good.jsonl", "POLICY": "policy.yaml"}),
    ((), {"SUITE": "suite.yaml"}),
    ((), {"SUITE": "gone.yaml"}),
    ((), {"SUITE": "tasks.jsonl"}),
    ((), {"RECORDS": "policy.yaml", "POLICY": "policy.yaml"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "good.jsonl"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "policy.yaml", "SAVE_BASELINE": "maybe"}),
    ((), {"RECORDS": "good.jsonl", "POLICY": "policy.yaml", "FETCH_BASELINE": "svn"}),
    (("good.jsonl", "--policy", "policy.yaml"), {}),
    (("--record", "good.jsonl", "--policie", "policy.yaml"), {}),
    (("--records", "good.jsonl", "--policy", "policy.yaml", "--max-record-mb", "many"), {}),
    (("--records", "good.jsonl", "--policy", "policy.yaml", "--plugin", "gone.py"), {}),
]


@pytest.mark.parametrize(("args", "env"), NO_DECISION)
def test_inputs_that_decide_nothing_are_an_error(
    args: tuple[str, ...], env: dict[str, str]
) -> None:
    assert decide(*args, **env) == (2, "error")
    assert not Path("results/ci/gate.json").exists()


@pytest.mark.parametrize(
    "records",
    [
        "good.jsonl\nbad.jsonl\n",
        "good.jsonl\r\nbad.jsonl\r\n",
        "good.jsonl bad.jsonl",
        "\n  good.jsonl\tbad.jsonl  \n",
        "good.jsonl\rbad.jsonl",
        "*.jsonl\n",
        "good.jsonl\n[b]ad.jsonl",
    ],
)
def test_every_line_of_the_records_is_gated(records: str) -> None:
    Path("tasks.jsonl").unlink()
    Path("empty.jsonl").unlink()
    assert decide(RECORDS=records, POLICY="policy.yaml") == (1, "fail")
    gate = json.loads(Path("results/ci/gate.json").read_text())
    assert sorted(each["path"] for each in gate["inputs"]) == ["bad.jsonl", "good.jsonl"]


def test_a_file_without_records_is_incomplete() -> None:
    assert decide(RECORDS="empty.jsonl", POLICY="policy.yaml")[0] == 3
    assert decide(RECORDS="good.jsonl empty.jsonl", POLICY="policy.yaml")[0] == 3


@pytest.mark.parametrize(
    "name",
    [
        "$(touch pwned).jsonl",
        "`touch pwned`.jsonl",
        "--policy.jsonl",
        "-o.jsonl",
        "a; touch pwned.jsonl",
        'it\'s "quoted".jsonl',
        "good.jsonl bad runs.jsonl",
        "répondu 回答.jsonl",
    ],
)
def test_a_name_is_a_name_whatever_it_looks_like(name: str) -> None:
    Path(name).write_text(Path("bad.jsonl").read_text(), encoding="utf-8")
    before = set(Path().iterdir())
    env = {"RECORDS": f"good.jsonl\n{name}\n", "POLICY": "policy.yaml"}
    assert decide(**env) == (1, "fail")
    new = {path.name for path in set(Path().iterdir()) - before}
    assert new <= {"outputs"}


def test_a_policy_of_margins_alone_decides_nothing_without_a_baseline() -> None:
    Path("policy.yaml").write_text("baseline: {required: false, margins: {accuracy: 5%}}\n")
    assert decide(RECORDS="good.jsonl", POLICY="policy.yaml")[0] == 3
    Path("policy.yaml").write_text("{}\n")
    assert decide(RECORDS="good.jsonl", POLICY="policy.yaml", SAVE_BASELINE="true")[0] == 2


def test_a_red_run_leaves_no_baseline() -> None:
    stale = Path("results/ci/baseline.json")
    stale.write_text("{}", encoding="utf-8")
    assert decide(RECORDS="bad.jsonl", POLICY="policy.yaml")[0] == 1
    assert not stale.exists()
    assert decide(RECORDS="good.jsonl", POLICY="policy.yaml")[0] == 0
    assert json.loads(stale.read_bytes())["groups"]


def test_a_comparison_that_lacks_its_baseline_passes_only_where_the_first_is_recorded() -> None:
    Path("policy.yaml").write_text("baseline: {margins: {accuracy: 20%}}\n")
    env = {"RECORDS": "good.jsonl", "POLICY": "policy.yaml"}
    assert decide(**env)[0] in (2, 3)
    assert decide(**env, SAVE_BASELINE="true") == (0, "pass")


def test_a_baseline_in_the_folder_that_is_cleared_is_refused_and_kept() -> None:
    Path("results/ci/baseline.json").write_text("{}", encoding="utf-8")
    env = {"RECORDS": "good.jsonl", "POLICY": "policy.yaml"}
    assert decide(**env, BASELINE="results/ci/baseline.json")[0] == 2
    Path("policy.yaml").write_text(f"{POLICY}baseline: {{file: results/ci/baseline.json}}\n")
    assert decide(**env)[0] == 2
    assert Path("results/ci/baseline.json").exists()


def test_recording_a_baseline_does_not_soften_the_comparison() -> None:
    rows = [{"id": str(n), "answer": "5", "target": "5"} for n in range(20)]
    write_lines(Path("before.jsonl"), rows)
    write_lines(Path("half.jsonl"), rows[:10])
    rules = "thresholds: {blocking: {accuracy: 90}}\nbaseline: {margins: {accuracy: 20%}}\n"
    Path("policy.yaml").write_text(rules)
    env = {"POLICY": "policy.yaml", "SAVE_BASELINE": "true"}
    assert decide(RECORDS="before.jsonl", **env) == (0, "pass")
    Path("results/ci/baseline.json").rename("kept.json")
    assert decide(RECORDS="half.jsonl", **env, BASELINE="kept.json") == (3, "incomplete")
    assert not Path("results/ci/baseline.json").exists()


BROKEN = {
    "sys.exit(0)": "import sys\ndef answer(record):\n    sys.exit(0)\n",
    "at import": "import sys\nsys.exit(0)\n",
    "raises": "def answer(record):\n    raise ValueError('no')\n",
    "wrong": "def answer(record):\n    return '4'\n",
}


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_a_suite_whose_code_breaks_is_red(code: str) -> None:
    Path("sut.py").write_text(code, encoding="utf-8")
    assert decide(SUITE="suite.yaml", POLICY="policy.yaml")[0] in (1, 2, 3)


def run_process(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env={**os.environ, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ENDINGS = {
    "os._exit(0)": (3, "incomplete"),
    "os.kill(os.getpid(), 9)": (137, "error"),
    "__import__('posix')._exit(0)": (2, "error"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_code_that_ends_the_process_leaves_the_build_red(ending: str) -> None:
    code = f"import os\ndef answer(record):\n    {ending}\n"
    Path("sut.py").write_text(code, encoding="utf-8")
    done = run_process("calipers ci --suite suite.yaml --policy policy.yaml")
    outputs = read_outputs()
    assert (done.returncode, outputs["verdict"]) == ENDINGS[ending]
    assert int(outputs["exit-code"]) == done.returncode
    assert "kill" in ending or "ended" in done.stderr
    assert not Path("results/ci/gate.json").exists()


def test_a_verdict_that_nobody_reads_is_the_same() -> None:
    """Under pipefail a pipe that is closed early must not turn a failed gate green."""
    given = "bad.jsonl --policy policy.yaml | true"
    assert run_process(f"calipers ci --records {given}").returncode == 1
    assert run_process(f"calipers gate {given}").returncode != 0
    green = run_process("calipers ci --records good.jsonl --policy policy.yaml | true")
    assert green.returncode == 0
    assert run_process("calipers ci --help").returncode == 0


def test_code_that_claims_the_verdict_has_not_the_last_word() -> None:
    claim = (
        "import os, pathlib\ndef answer(record):\n    with open(os.environ['GITHUB_OUTPUT'], 'a')"
    )
    claim += " as file:\n        file.write('verdict=pass\\n')\n"
    claim += "    pathlib.Path('results/ci/gate.json').write_text('{\"verdict\": \"pass\"}')\n"
    Path("sut.py").write_text(f"{claim}    return '4'\n", encoding="utf-8")
    assert decide(SUITE="suite.yaml", POLICY="policy.yaml") == (1, "fail")


def test_a_verdict_that_somebody_else_has_written_does_not_decide() -> None:
    result = cal.gate("good.jsonl", policy="policy.yaml")
    folder = Path("results/ci")
    with pytest.raises(cal.UsageError, match="not what this call has decided"):
        read_verdict(folder, result)  # there is another one
    (folder / "gate.json").write_text(f"{result.to_json()}\n", encoding="utf-8")
    assert read_verdict(folder, result) == "pass"
    (folder / "gate.json").unlink()
    with pytest.raises(cal.UsageError, match="not what this call has decided"):
        read_verdict(folder, result)


def test_tiers_are_decided_one_by_one_whatever_by_says() -> None:
    """A tier that fails is not hidden in the mean over tiers."""
    code = "def answer(record):\n    return '5' if record['tier'] == 'T0' else '4'\n"
    Path("sut.py").write_text(code, encoding="utf-8")
    Path("suite.yaml").write_text(f"{SUITE}tiers: [{{name: T0}}, {{name: T1}}]\n")
    Path("policy.yaml").write_text("thresholds: {blocking: {accuracy: 40}}\n")
    assert decide(SUITE="suite.yaml", POLICY="policy.yaml", BY="model") == (1, "fail")


def test_a_failed_report_neither_decides_nor_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no page")

    monkeypatch.setattr("calipers.reports.data.report_builder.ReportPage.make", fail)
    env = {"CALIPERS_POLICY": "policy.yaml"}
    for name, code in (("good", 0), ("bad", 1)):
        done = run("ci", env={**env, "CALIPERS_RECORDS": f"{name}.jsonl"})
        assert done.exit_code == code
        assert "no report.html: RuntimeError: no page" in done.stderr
    assert run("ci", env={**env, "CALIPERS_SUITE": "suite.yaml"}).exit_code == 0


@pytest.mark.parametrize("records", ["good.jsonl", "bad.jsonl", "gone.jsonl"])
def test_a_build_that_cannot_be_told_the_verdict_is_an_error(records: str) -> None:
    env = {"GITHUB_OUTPUT": "gone/outputs", "PATH": os.environ["PATH"]}
    arguments = ("ci", "--records", records, "--policy", "policy.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "calipers", *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "GITHUB_OUTPUT: gone/outputs: No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_old_verdict_that_cannot_be_removed_is_an_error() -> None:
    gate = Path("results/ci/gate.json")
    gate.unlink()
    gate.mkdir()
    done = run("ci", env={"CALIPERS_RECORDS": "good.jsonl", "CALIPERS_POLICY": "policy.yaml"})
    assert done.exit_code == 2
    assert read_outputs()["verdict"] == "error"


def test_outputs_cannot_be_forged_by_the_name_of_the_folder() -> None:
    env = {"CALIPERS_OUTPUT": "results\nverdict=pass", "CALIPERS_RECORDS": "bad.jsonl"}
    assert run("ci", env=env).exit_code == 2
    assert "verdict=pass" not in Path("outputs").read_text(encoding="utf-8")


@pytest.mark.parametrize("given", [("-o", ""), ("-o", "  "), ("--output=",), ("--output", "")])
def test_an_empty_folder_is_none_given(given: tuple[str, ...]) -> None:
    Path("gate.json").write_text("a file of the user's", encoding="utf-8")
    env = {"RECORDS": "good.jsonl", "POLICY": "policy.yaml"}
    assert decide(*given, **env) == (0, "pass")
    assert decide(*given, **env, BASELINE="gone.json") == (2, "error")
    assert decide(*given, "--policie", "x") == (2, "error")
    assert Path("gate.json").read_text(encoding="utf-8") == "a file of the user's"
    assert not Path("summary.md").exists()
    folder = run(
        "ci",
        *given,
        env={f"CALIPERS_{k}": v for k, v in env.items()} | {"CALIPERS_OUTPUT": "there"},
    )
    assert folder.exit_code == 0
    assert Path("there/gate.json").exists()
