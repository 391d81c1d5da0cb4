"""`calipers doctor`: what files hold and support, the commands to run next, and what it refuses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

import calipers as cal
from calipers.doctor.examine import examine
from tests.commands import run, strict
from tests.doctor.test_findings import systems, tasks
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

# What a reader of these files agrees with; everything else in them is as it should be.
REAL = {
    "agent_runs/aider_polyglot_aggregates.jsonl": {"ids"},
    "agent_runs/scylla_haiku_runs.jsonl": {"bad rows", "ids", "ceiling or floor"},
    "agent_runs/scylla_haiku_subtests.published.jsonl": {"ids"},
    "agent_runs/tau_airline_gpt4o_runs.jsonl": {"ids"},
    "calibration/msp_confidence_arc.jsonl": set(),
    "calibration/verbalised_confidence_11models.jsonl": {"missing tasks"},
    "efficiency/llm_calls_tokens_latency.jsonl": {"ids"},
    "judge/llmbar_judgements.jsonl": set(),
    "judge/pandalm_3humans_2judges.jsonl": set(),
    "judge/scylla_three_judges.jsonl": {"bad rows", "ids"},
    "reasoning/bbh_codex.jsonl": {"unread answers"},
    "reasoning/gsm8k_openai_2models.jsonl": set(),
    "reasoning/gsm8k_reread_2models.jsonl": set(),
    "scenarios/jailbreakbench_labels.jsonl": set(),
    "scenarios/xstest_refusals.jsonl": set(),
    "native_logs/inspect": set(),
    "native_logs/lm_eval/eval_mmlu_pro_plus": set(),
    "native_logs/promptfoo/simple-cli__output.json": set(),
}


@needs_shared_data
@pytest.mark.parametrize(("file", "known"), REAL.items(), ids=REAL)
def test_no_false_alarm_on_real_data(file: str, known: set[str]) -> None:
    diagnosis = cal.doctor(FOLDER / file)
    assert {each.kind for each in diagnosis.findings} == known
    assert diagnosis.exit_code == 0


def test_what_a_file_holds_in_any_format(tmp_path: Path) -> None:
    rows = tasks(model="m", extra=1)
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    write_lines(tmp_path / "a.jsonl", rows)
    (tmp_path / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    formats = {".csv": "CSV", ".parquet": "Parquet", ".jsonl": "JSON lines"}
    formats[".json"] = "a list of JSON objects"
    for suffix, name in formats.items():
        [file] = cal.doctor(tmp_path / f"a{suffix}").files
        assert (file.format, file.records) == (name, 40)
        fields = {each.name: each.field for each in file.fields}
        assert fields["answer"] == "answer"
        assert fields["extra"] is None


def test_other_names_are_mapped_where_the_values_fit(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"{n} + 1?",
            "output": f"{n}",
            "is_correct": n % 2,
            "elapsed_ms": 5,
            "my id": n,
        }
        for n in range(30)
    ]
    path = write_lines(tmp_path / "it's.jsonl", rows)
    diagnosis = cal.doctor(path)
    assert diagnosis.files[0].maps == {
        "answer": "output",
        "input": "question",
        "latency_ms": "elapsed_ms",
    }
    assert diagnosis.support is not None
    assert not diagnosis.support.metrics
    assert "latency_mean_ms" in diagnosis.support.with_map
    first = shlex.split(diagnosis.commands[0])
    assert first[:3] == ["calipers", "doctor", str(path)]
    assert run(*first[1:]).exit_code == 0
    mapped = cal.doctor(path, map={"answer": "output", "latency_ms": "elapsed_ms", "id": "my id"})
    assert {each.field for each in mapped.files[0].fields} >= {"answer", "latency_ms", "id"}
    assert mapped.support is not None
    assert mapped.support.tasks == 30


def test_a_time_without_a_unit_is_asked_about(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "correct": True, "Latency": 0.3} for n in range(3)]
    path = write_lines(tmp_path / "times.jsonl", rows)
    diagnosis = cal.doctor(path)
    assert "latency_ms" not in diagnosis.files[0].maps
    said = " ".join(run("doctor", path).output.split())
    assert "in milliseconds? --map latency_ms=Latency" in said
    assert "in seconds? --map duration_seconds=Latency" in said


def test_nested_paths_are_listed_with_a_guess(tmp_path: Path) -> None:
    rows = [
        {"key": f"q{n}", "gold": "4", "choices": [{"message": {"content": "4"}}]} for n in range(25)
    ]
    path = write_lines(tmp_path / "nested.jsonl", rows)
    assert cal.doctor(path).files[0].inside == ("choices[0].message.content",)
    said = " ".join(run("doctor", path).output.split())
    assert "--map 'answer=choices[0].message.content'" in said
    mapped = cal.doctor(path, map={"id": "key", "target": "gold"})
    assert not any("floor" in finding.says for finding in mapped.findings)


def test_what_is_supported_and_what_a_comparison_could_show() -> None:
    found = cal.doctor(systems("a", "b")).support
    assert found is not None
    assert (found.tasks, found.systems, found.runs, found.pairs) == (40, ("a", "b"), (1, 1), 1)
    assert "accuracy" in found.metrics
    assert "stability" not in found.metrics
    assert found.detectable is not None
    assert found.detectable.reason == "nothing varies: all tasks differ alike"
    alone = cal.doctor(tasks(90)).support
    assert alone is not None
    assert alone.detectable is not None
    planned = cal.power(tasks(90)).groups[0].metrics["accuracy"].detectable
    assert alone.detectable.value == pytest.approx(planned)


def test_the_next_commands_run(tmp_path: Path) -> None:
    rows = [
        {**row, "answer": "?"} if n % 7 == 0 else row for n, row in enumerate(systems("a", "b"))
    ]
    path = write_lines(tmp_path / "two systems.jsonl", rows)
    commands = [shlex.split(each) for each in cal.doctor(path).commands]
    assert [each[1] for each in commands] == ["score", "compare", "power"]
    for command in commands:
        assert run(*command[1:]).exit_code == 0, command
    halves = [write_lines(tmp_path / f"{n}.jsonl", tasks(answer=str(n))) for n in (1, 2)]
    [compare] = cal.doctor(halves).commands
    assert compare == f"calipers compare {halves[0]} {halves[1]}"
    bad = write_lines(tmp_path / "bad.jsonl", [*tasks(), {"id": "x", "cost_usd": -1}])
    assert "--on-bad skip" in cal.doctor(bad).commands[0]


def test_json_text_and_exit_codes(tmp_path: Path) -> None:
    clean = write_lines(tmp_path / "clean.jsonl", tasks())
    odd = write_lines(tmp_path / "odd.jsonl", tasks(prob_correct=0.5))
    found = strict(run("doctor", odd, "--format", "json").stdout)
    assert found["schema"] == "calipers.doctor/1"
    assert found["files"][0]["records"] == found["records"] == 40
    [finding] = found["findings"]
    assert (finding["kind"], finding["severity"]) == ("confidence", "warning")
    assert finding["examples"] == ["q0", "q1", "q2"]
    assert run("doctor", odd).exit_code == 0
    assert run("doctor", odd, "--strict").exit_code == 1
    assert run("doctor", clean, "--strict").exit_code == 0
    assert "Nothing looks wrong." in run("doctor", clean).stdout
    assert "confidence" in run("doctor", odd, "--format", "markdown").stdout
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    assert run("doctor", empty).exit_code == 3


@pytest.mark.parametrize(
    ("name", "content", "says", "fix"),
    [
        ("a.log", b'{"id": 1}\n{"id": 2}\n', "looks like JSON lines", "a.jsonl"),
        ("a.txt", b"id,answer\n1,2\n3,4\n", "looks like CSV", "a.csv"),
        ("a.dat", b"\0\1\2", "looks like binary data", "name a file of records"),
        ("a.jsonl", b"PAR1\0\0", "a Parquet file", ".parquet"),
        ("a.jsonl", b"no json\nat all\n", "no row can be read", "a JSON object per line"),
        ("a.jsonl", b"id,answer\n1,2\n3,4\n", "looks like CSV", "a.csv"),
    ],
)
def test_unreadable_files(name: str, content: bytes, says: str, fix: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    other = write_lines(tmp_path / "other.jsonl", tasks())
    result = run("doctor", path, other)
    assert result.exit_code == 2
    assert says in " ".join(result.stdout.split())
    assert fix in " ".join(result.stdout.split())
    assert "other.jsonl" in result.stdout
    assert all(str(path) not in each for each in cal.doctor([path, other]).commands)


def test_a_result_folder_is_its_records(tmp_path: Path) -> None:
    suite = {"name": "s", "calls": 50, "suite": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(suite), encoding="utf-8")
    write_lines(tmp_path / "records.jsonl", tasks())
    [file] = cal.doctor(tmp_path).files
    assert file.path == str(tmp_path / "records.jsonl")


def test_a_folder_of_files_is_summarised_by_file(tmp_path: Path) -> None:
    folder = tmp_path / "my logs (1)"
    folder.mkdir()
    for name in ("llama.jsonl", "llama3.jsonl"):
        write_lines(folder / name, tasks())
    (folder / "broken.jsonl").write_text("no json\n", encoding="utf-8")
    (folder / "notes.md").write_text("# Notes\n", encoding="utf-8")
    found = cal.doctor(folder)
    assert [Path(each.path).name for each in found.files] == [
        *("broken.jsonl", "llama.jsonl", "llama3.jsonl")
    ]
    assert [each.records for each in found.files[1:]] == [len(tasks())] * 2
    assert found.commands[0].startswith("calipers compare ")
    assert "broken" not in found.commands[0]


def test_without_answers_nothing_is_said_of_their_accuracy() -> None:
    support = cal.doctor([{"id": f"q{n}", "target": str(n)} for n in range(30)]).support
    assert support is not None
    assert support.detectable is None


def test_beyond_the_limit_a_sample_of_tasks_is_held() -> None:
    rows = [{**row, "run": run} for run in (1, 2, 3) for row in systems("a", "b", count=100)]
    whole = examine(rows, field_map={})
    part = examine(rows, field_map={}, most_rows=200)
    assert whole.records == part.records == 600
    assert part.support is not None
    assert whole.support is not None
    assert 40 < part.support.tasks < 200  # estimated from the sample: 100
    assert 0.1 < part.support.share < 0.5
    assert part.support.runs == whole.support.runs == (3, 3)
    assert part.support.common_tasks == part.support.tasks
    assert "1 in 4" in part.notices[0] or "1 in 8" in part.notices[0]
    assert not part.findings


def test_records_in_memory_and_a_frame_of_findings() -> None:
    diagnosis = cal.doctor(tasks(prob_correct=0.5))
    assert diagnosis.to_polars()["kind"].to_list() == ["confidence"]
    assert "prob_correct is 0.5" in " ".join(str(diagnosis).split())
    assert "<table" in diagnosis._repr_html_()


def test_a_folder_of_folders_is_summarised_once(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        row = {"id": "a", "answer": "1", "Gold Answer": "1", "": "x"}
        write_lines(tmp_path / "runs" / str(number) / "a.jsonl", [row])
    (tmp_path / "runs" / ".cache").mkdir()
    write_lines(tmp_path / "runs" / ".cache" / "b.jsonl", [{"id": "b"}])
    out = run("doctor", tmp_path / "runs").stdout
    assert (out.count("JSON lines, 1 record"), out.count("to read them")) == (7, 1)
    assert "**/*.jsonl" in run("score", tmp_path / "runs").stderr


def test_a_column_without_a_name_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",id,answer,target\n0,a,1,1\n")
    assert '"" ' in run("doctor", tmp_path / "a.csv").stdout
    table = pl.read_csv(tmp_path / "a.csv")
    assert cal.score(table, by="").groups[0].by == {"": 0}
    assert cal.read(tmp_path / "a.csv").columns == ["id", "target", "answer", ""]


def test_nested_records_are_read_by_the_command_that_is_printed(tmp_path: Path) -> None:
    rows = [
        {
            "example": {"uid": f"e{at}", "gold": {"final": "4"}},
            "meta": {"model": {"name": model}},
            "output": {"choices": [{"message": {"role": "assistant", "content": str(at)}}]},
        }
        for at in range(6)
        for model in ("mistral", "mistral2")
    ]
    write_lines(tmp_path / "a.jsonl", rows)
    [command, _] = cal.doctor(tmp_path / "a.jsonl").commands
    result = run(*shlex.split(command)[1:], "--metric", "accuracy", "--format", "json")
    groups = strict(result.stdout)["groups"]
    assert [each["by"]["model"] for each in groups] == ["mistral", "mistral2"]
    assert [each["metrics"]["accuracy"]["value"] for each in groups] == [1 / 6, 1 / 6]


@pytest.mark.parametrize("names", [("Mistral, Large", "Llama 3.1 (8B)"), ('GPT-"4"', "claude-2")])
def test_a_table_with_a_column_per_model_is_read_by_the_command_that_is_printed(
    names: tuple[str, str], tmp_path: Path
) -> None:
    table = pl.DataFrame({"Nr": ["1", "2"], "Gold": ["4", "6"], names[0]: ["4", "6"], names[1]: ""})
    table.write_csv(tmp_path / "a.csv")
    command = next(each for each in cal.doctor(tmp_path / "a.csv").commands if "--answers" in each)
    more = ("--map", "target=Gold", "--map", "id=Nr", "--by", "model", "--format", "json")
    result = run(*shlex.split(command)[1:], *more)
    assert {each["by"]["model"] for each in strict(result.stdout)["groups"]} == {*names}
    assert "own field id" not in result.stderr


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"task_name": "t", "trial_name": "t__a", "verifier_result": {}}, "a trial of Harbor"),
        ({"type": "user", "sessionId": "s", "message": {"role": "user"}}, "Claude Code"),
    ],
)
def test_what_no_reader_knows_is_named(value: dict[str, object], what: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(value))
    told = run("doctor", tmp_path / "a.json").stdout.partition("it looks like")[2]
    assert what in told.partition("\n\n")[0]
