"""What users add: names, where they come from, files that register, packages that do."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.judges.rubrics import Criterion, Reads, read_rubric
from calipers.metrics import METRICS, catalogue, metric_named, metrics_of
from calipers.records.logs.log import READERS
from calipers.support import plugins
from calipers.support.errors import UsageError
from calipers.support.plugins import Registry
from tests.commands import refused, run
from tests.files import write_lines

RECORDS: list[dict[str, Any]] = [
    {"id": str(n), "answer": "a" * n, "tone": n / 4} for n in range(1, 5)
]


def declared(name: str = "tone_mean", **more: Any) -> Any:
    return cal.metrics.mean("tone", name=name, range=(0, 1), **more)


def test_a_registered_metric_is_one_of_the_catalogue() -> None:
    cal.register(declared(better="higher"))
    assert list(catalogue())[-1] == "tone_mean"
    measured = cal.score(RECORDS).groups[0].metrics["tone_mean"]
    assert (measured.value, measured.interval) == (0.625, "logit t")
    assert "tone_mean" not in cal.score([{"answer": "a"}]).groups[0].metrics


def test_a_metric_may_be_of_any_document_or_paper() -> None:
    paper = replace(declared(), spec="Doe et al. 2030, section 4", profiles=("reasoning",))
    cal.register(paper)
    assert metrics_of("reasoning")[-1] == paper


def test_the_same_definition_may_come_again_and_another_may_not() -> None:
    for _ in range(2):  # as a notebook's cell that runs twice
        cal.register(declared())
    cal.register(declared())  # from another line
    with pytest.raises(UsageError, match=r"two metrics are called tone_mean.*test_registry.py:"):
        cal.register(declared(better="lower"))
    cal.register(declared(better="lower"), replace=True)
    assert metric_named("tone_mean").better == "lower"


def test_a_functions_code_is_its_definition() -> None:
    def cell(code: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(code, "<cell>", "exec"), scope)
        return cal.metrics.mean(scope["f"], name="of_cell")

    cal.register(cell("def f(record): return record['tone'] > 0.5"))
    cal.register(cell("def f(record): return record['tone'] > 0.5"))
    with pytest.raises(UsageError, match="two metrics are called of_cell"):
        cal.register(cell("def f(record): return record['tone'] > 0.75"))


@pytest.mark.parametrize("name", ["accuracy", "pass_at_3"])
def test_the_librarys_own_names_stay_its_own(name: str) -> None:
    with pytest.raises(UsageError, match="of its own"):
        cal.register(declared(name))


@pytest.mark.parametrize("name", ["", " ", " a", "x\n", "a" * 90, "a\u202eb"])
def test_names_that_cannot_be_seen_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a name of a metric"):
        declared(name)


def test_what_has_no_kind_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match=r"expected a metric, a log reader, .* not dict"):
        cal.register({})  # type: ignore[type-var]


def test_a_registry_for_any_kind() -> None:
    things: Registry[int] = Registry("thing")
    things.add("one", 1, "here")
    things.add("one", 1, "there")
    assert (things.get("one"), list(things), things.find_origin("one")) == (1, ["one"], "there")
    with pytest.raises(UsageError, match="no thing is called ones") as told:
        things.get("ones")
    assert told.value.fix == "did you mean one?"


# --- files ---


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("import calipers as cal\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("x = (\n", 1, "SyntaxError"),
        ("import calipers as cal\ncal.register(3)\n", 2, "not int"),
        ("raise SystemExit(4)\n", 1, "SystemExit"),
        ('import calipers as cal\ncal.register(cal.metrics.mean("x", name="ece"))\n', 2, "ece"),
    ],
)
def test_a_plug_in_that_fails_names_file_and_line(
    code: str, line: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(code, encoding="utf-8")
    told = refused("score", write_lines(tmp_path / "a.jsonl", RECORDS), "--plugin", path)
    assert f"{path}:{line}: " in told
    assert said in told


@pytest.mark.parametrize("name", ["absent.py", "plain.txt"])
def test_a_plug_in_is_a_python_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("x = 1", encoding="utf-8")
    assert name in refused("metrics", "--plugin", tmp_path / name)


PLUGIN = """
import calipers as cal
import beside

cal.register(cal.metrics.mean(beside.length, name="length", better="lower", unit="chars"))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("def length(record): return len(record['answer'])\n")
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("score", "{a}", "--metric", "length"),
        ("compare", "{a}", "{b}", "--metric", "length"),
        ("explain", "length", "{a}"),
        ("metrics", "length"),
        ("gate", "{a}", "--policy", "{policy}"),
        ("report", "{a}", "-o", "{out}"),
    ],
)
def test_every_command_that_looks_names_up_takes_a_plug_in(
    command: tuple[str, ...], plugin: Path, tmp_path: Path
) -> None:
    longer = [{**row, "answer": row["answer"] + "b"} for row in RECORDS]
    places = {
        "a": write_lines(tmp_path / "a.jsonl", RECORDS),
        "b": write_lines(tmp_path / "b.jsonl", longer),
        "policy": tmp_path / "policy.yaml",
        "out": tmp_path / "report.md",
    }
    places["policy"].write_text("thresholds: {blocking: {length: 3}}", encoding="utf-8")
    given = [each.format(**places) for each in command]
    result = run(*given, "--plugin", plugin)
    assert result.exit_code == 0, result.output
    shown = places["out"].read_text(encoding="utf-8") if command[0] == "report" else result.stdout
    assert "length" in shown


# --- packages ---


def package(tmp_path: Path, value: str, code: str) -> None:
    """An installed package with an entry point."""
    (tmp_path / "their_plugin.py").write_text(code, encoding="utf-8")
    about = tmp_path / "their_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[calipers]\ntheirs = {value}\n", encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(plugins._installed, "are loaded", False)  # noqa: FBT003
    monkeypatch.delitem(sys.modules, "their_plugin", raising=False)
    return tmp_path


REGISTERED = 'import calipers as cal\nlong = cal.metrics.mean("tone", name="theirs")\n'


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("their_plugin", REGISTERED + "cal.register(long)\n"),
        ("their_plugin:long", REGISTERED),
        ("their_plugin:add", REGISTERED + "def add():\n    cal.register(long)\n"),
    ],
)
def test_an_installed_package_brings_its_metrics(value: str, code: str, installed: Path) -> None:
    package(installed, value, code)
    assert "their_plugin" not in sys.modules  # nothing was looked up yet
    assert cal.score(RECORDS, metrics=["theirs"]).groups[0].metrics["theirs"].value == 0.625


def test_a_broken_package_is_named(installed: Path) -> None:
    package(installed, "their_plugin", "import no_such_module_at_all\n")
    told = refused("metrics")
    assert "the package their-plugin cannot be loaded: ModuleNotFoundError" in told
    assert "pip uninstall their-plugin" in told


def test_a_broken_package_stops_a_run_before_its_first_call(installed: Path) -> None:
    package(installed, "their_plugin", "import no_such_module_at_all\n")
    (installed / "tasks.jsonl").write_text('{"id": "a", "input": "1", "target": "1"}\n')
    (installed / "desk.py").write_text("def answer(record):\n    open('called', 'w').close()\n")
    suite = installed / "suite.yaml"
    suite.write_text(
        "name: s\ndata: tasks.jsonl\nsystems: [{name: f, python: desk.py:answer}]\n"
        "policy: policy.yaml\n"
    )
    (installed / "policy.yaml").write_text("thresholds: {blocking: {accuracy: 50}}\n")
    told = refused("run", str(suite), "-o", str(installed / "out"))
    assert "the package their-plugin cannot be loaded" in told
    assert not (installed / "out").exists()


# --- other kinds ---


def test_a_log_reader_of_ones_own_goes_first(tmp_path: Path) -> None:
    def read(path: Path) -> list[dict[str, Any]]:
        return [{"id": each, "answer": each} for each in path.read_text("utf-8").split()[1:]]

    cal.register(cal.log_reader("mine", read=read, suffixes=(".mine",)))
    path = tmp_path / "a.mine"
    path.write_text("header x y z", encoding="utf-8")
    assert cal.read(path)["id"].to_list() == ["x", "y", "z"]
    assert cal.score(path).inputs[0].format == "mine"
    assert "mine" in READERS.read_all()


def test_a_system_of_a_plug_in_runs_in_a_suite(tmp_path: Path) -> None:
    plugin = tmp_path / "agents.py"
    plugin.write_text(
        "import calipers as cal\n\n\ndef answer(record: dict) -> dict:\n"
        "    return {'answer': record['target'], 'tone': 0.5}\n\n\n"
        "cal.register(cal.FunctionSystem('desk', answer))\n",
        encoding="utf-8",
    )
    write_lines(tmp_path / "tasks.jsonl", [{"id": "1", "input": "q", "target": "4"}])
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: s\ndata: tasks.jsonl\nsystems: [{name: d, python: desk}]\n"
        "metrics: [{name: suite_tone, field: tone, range: [0, 1]}]\ntrust: [tone]\n",
        encoding="utf-8",
    )
    folder = tmp_path / "out"
    assert "is not FILE.py:FUNCTION, nor a registered" in refused("run", suite, "-o", folder)
    result = run("run", suite, "-o", folder, "--plugin", plugin)
    assert result.exit_code == 0, result.output
    assert "suite_tone" in (folder / "report.html").read_text(encoding="utf-8")
    assert "agents.py" in (folder / "manifest.json").read_text(encoding="utf-8")
    METRICS.remove("suite_tone")
    assert run("report", folder, "-o", tmp_path / "r.md").exit_code == 0
    assert "suite_tone" in (tmp_path / "r.md").read_text(encoding="utf-8")


def test_a_rubric_of_ones_own_is_found_by_name() -> None:
    rubric = cal.Rubric(
        name="brevity",
        question="Is it brief?",
        reads=[Reads(name="answer", field="answer")],
        criteria=[Criterion(name="brief", says="No word too many")],
        lowest=1,
        highest=5,
    )
    cal.register(rubric)
    assert read_rubric("brevity") is rubric


def test_a_plug_in_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Nothing that another command has loaded helps it."""
    plug_in = tmp_path / "own.py"
    plug_in.write_text(
        'import calipers as cal\ncal.register(cal.metrics.mean("toxic", name="toxicity"))\n'
    )
    path = write_lines(tmp_path / "a.jsonl", [{"id": "a", "toxic": 0.25}])
    command = (sys.executable, "-m", "calipers", "score", path, "--plugin", plug_in)
    found = subprocess.run(
        [*map(str, command), "--metric", "toxicity", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(found.stdout)["groups"][0]["metrics"]["toxicity"]["value"] == 0.25


def test_a_kind_of_check_of_ones_own() -> None:
    """A plug-in adds one; a suite, a policy or `--checks` uses it by its key."""
    cal.register(cal.CheckKind("shouts", lambda reply, value: reply.isupper() == value))
    rows = [{"id": "a", "answer": "NO"}, {"id": "b", "answer": "no"}]
    found = cal.score(rows, checks=[{"expect": "is loud", "shouts": True}])
    assert found["behavior_coverage"].value == 0.5
    with pytest.raises(UsageError, match="is one of the library's own"):
        cal.register(cal.CheckKind("contains", lambda reply, value: value in reply))
    with pytest.raises(UsageError, match="did you mean shouts"):
        cal.score(rows, checks=[{"expect": "is loud", "shoutz": True}])
    broken = cal.CheckKind("breaks", lambda reply, value: reply[99] == value)
    cal.register(broken)
    undecided = cal.score(rows, checks=[{"forbid": "x", "breaks": "y"}])
    assert undecided["pass_rate"].value is None
