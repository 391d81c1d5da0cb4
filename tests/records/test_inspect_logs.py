"""Logs of Inspect: a sample is a record."""

from __future__ import annotations

import io
import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from polars.testing import assert_frame_equal

import calipers as cal
from benchmarks.eval_log import write_log
from calipers.support.errors import DataError
from tests.commands import run
from tests.engines_at_hand import ENGINES
from tests.records.log_files import HEADER, sample, write_inspect_log, write_texts
from tests.shared_data import FOLDER, needs_shared_data


def test_a_sample_of_inspect_becomes_a_record(tmp_path: Path) -> None:
    [record] = cal.read(write_inspect_log(tmp_path / "a.eval", [sample(1)])).to_dicts()
    assert record == {
        "id": "sums/1",
        "model": "openai/gpt-4o-mini",
        "category": "easy",
        "input": "2 + 2?",
        "target": "4",
        "answer": "4",
        "cot": "2 + 2 = 4\nIt is 4",
        "prompt_tokens": 10.0,
        "completion_tokens": 5.0,
        "latency_ms": 1500.0,
        "duration_seconds": 2.0,
        "correct": True,
        "run": 1.0,
        "tags": '["nightly"]',
        "trace": json.dumps(
            {
                "tool_calls": [
                    {"tool_name": "add", "args": {"a": 2}, "success": True},
                    {"tool_name": "check", "args": {}, "success": False},
                ]
            }
        ),
        "level": 1.0,
        "nested": '{"a": 1}',
        "metadata_model": "not ours",
        "task": "sums",
        "score_style": 0.5,
        "score_match": 1.0,
    }


@pytest.mark.parametrize(
    ("value", "correct"),
    [("C", True), ("I", False), ("N", False), ("P", None), (1, True), (0.0, False), (0.3, None)],
)
def test_what_a_score_says_of_right_and_wrong(tmp_path: Path, value: Any, correct: Any) -> None:
    path = write_inspect_log(tmp_path / "a.eval", [sample(1, value)])
    table = cal.read(path)
    assert (table["correct"][0] if "correct" in table.columns else None) is correct


def test_what_the_scorer_left_open_is_not_decided_by_comparing_texts(tmp_path: Path) -> None:
    samples = [sample(1, "C"), sample(2, "N"), sample(3, None), sample(4, scores={})]
    path = write_inspect_log(tmp_path / "a.eval", samples)
    accuracy = cal.score(path).groups[0].metrics["accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.missing) == (0.5, 2, 2)
    assert cal.read(path)["expected"].to_list() == [None, None, "4", "4"]


def test_partial_credit_is_a_mean_as_inspect_values_it_and_no_verdict(tmp_path: Path) -> None:
    samples = [sample(n, grade) for n, grade in enumerate("CPIN", start=1)]
    metrics = cal.score(write_inspect_log(tmp_path / "a.eval", samples)).groups[0].metrics
    assert "accuracy" not in metrics
    assert metrics["score_match"].value == 1.5 / 4


def _write_scored(path: Path, scores: Sequence[Mapping[str, Any]], *names: str) -> Path:
    """A log with these values of each sample's scores, and its results in the order of names."""
    results = {"scores": [{"name": name, "scorer": name} for name in names]}
    samples = [
        sample(n, scores={name: {"value": value} for name, value in each.items()})
        for n, each in enumerate(scores)
    ]
    path.write_text(json.dumps({**HEADER, "results": results, "samples": samples}))
    return path


def test_a_score_with_a_single_fraction_decides_nothing_and_the_next_does(tmp_path: Path) -> None:
    scores = [{"f1": 1.0, "exact": "C"}] * 300 + [{"f1": 0.9, "exact": "I"}]
    for part in (scores, scores[::-1]):
        log = _write_scored(tmp_path / "a.json", part, "f1", "exact")
        metrics = cal.score(log, metrics=["accuracy", "score_f1", "score_exact"]).groups[0].metrics
        assert metrics["accuracy"].value == metrics["score_exact"].value == 300 / 301
        assert (metrics["accuracy"].n, metrics["score_f1"].n) == (301, 301)


def test_a_score_of_other_words_stays_a_text_in_any_order(tmp_path: Path) -> None:
    scores = [{"tone": "C"}, {"tone": "blunt"}, {"tone": "I"}]
    for part in (scores, scores[::-1]):
        table = cal.read(_write_scored(tmp_path / "a.json", part, "tone"))
        assert table["score_tone"].to_list() == [each["tone"] for each in part]
        assert "correct" not in table.columns


def test_a_summary_that_contradicts_its_sample_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    summary = {"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}}
    members = {"header.json": HEADER, "samples/1_epoch_1.json": sample(1, 0.3)}
    path.write_bytes(_zip_in_zstd({**members, "summaries.json": [summary]}))
    with pytest.raises(DataError, match=r"sample 1: its match is 0\.3"):
        cal.read(path)


def test_a_log_without_any_scorer_has_no_accuracy_unless_texts_are_compared_by_wish(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.json"
    failed = {"scores": {}, "error": {"message": "timeout"}}
    samples = [
        sample(1, scores={}),
        sample(2, scores={}, target="It is 4"),
        sample(3, **failed),
    ]
    path.write_text(json.dumps({**HEADER, "results": None, "samples": samples}), encoding="utf-8")
    assert "accuracy" not in cal.score(path, errors="fail").groups[0].metrics
    asked = cal.score(path, map={"target": "expected"}, metrics=["accuracy"])
    assert asked["accuracy"].value == 0.5


def _chunk(name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a sample in the chunked layout, its messages in two files."""
    messages = whole["messages"]
    apart = {key: whole[key] for key in whole if key not in ("messages", "metadata", "events")}
    return {
        f"{name}/sample.json": {**apart, "message_refs": [[0, 1], [1, len(messages)]]},
        f"{name}/metadata.json": whole["metadata"],
        f"{name}/skeleton.json": {"version": 1},
        f"{name}/messages/1.json": messages[1:],
        f"{name}/messages/0.json": messages[:1],
        f"{name}/events/0.json": whole.get("events", []),
        f"{name}/events/stats.json": {"version": 1},
        f"{name}/calls/0.json": [],
    }


@pytest.mark.parametrize("identity", ["1", "swe/django__1", "a_epoch_1/sample"])
def test_a_chunked_log_has_the_records_of_the_plain_one(tmp_path: Path, identity: str) -> None:
    whole = sample(1, id=identity)
    name = f"samples/{identity}_epoch_1"
    plain, chunked = tmp_path / "plain.eval", tmp_path / "chunked.eval"
    plain.write_bytes(_zip_in_zstd({"header.json": HEADER, f"{name}.json": whole}))
    chunked.write_bytes(_zip_in_zstd({"header.json": HEADER, **_chunk(name, whole)}))
    assert_frame_equal(cal.read(plain), cal.read(chunked))
    assert cal.score(chunked)["accuracy"].n == 1


@pytest.mark.parametrize(
    "name", ["samples/1_epoch_1/blobs/0.json", "samples/1_epoch_1/state.json", "shards/0.json"]
)
def test_a_member_that_nobody_knows_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.eval"
    members = {"header.json": HEADER, **_chunk("samples/1_epoch_1", sample(1)), name: {}}
    path.write_bytes(_zip_in_zstd(members))
    with pytest.raises(DataError, match=re.escape(name)):
        cal.read(path)


def test_a_chunked_sample_without_its_main_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    members = _chunk("samples/1_epoch_1", sample(1))
    del members["samples/1_epoch_1/sample.json"]
    path.write_bytes(_zip_in_zstd({"header.json": HEADER, **members}))
    with pytest.raises(DataError, match=r"without its sample\.json"):
        cal.read(path)


@needs_shared_data
def test_the_chunked_log_that_inspect_wrote_has_24_samples() -> None:
    [path] = (FOLDER / "native_logs" / "inspect_2026").glob("*_errors_*.eval")
    result = cal.score(path, metrics=["accuracy"])
    [group] = result.groups
    assert (group.records, group.errors, result.inputs[0].rows) == (24, 4, 24)
    assert result["accuracy"].value == 0.8


@needs_shared_data
def test_the_log_that_inspect_wrote_with_two_scorers_is_decided_by_the_exact_one() -> None:
    [path] = (FOLDER / "native_logs" / "inspect_2026").glob("*_f1_*.eval")
    result = cal.score(path)
    assert (result["accuracy"].value, result["accuracy"].n) == (0.25, 20)
    assert result["score_f1"].value == pytest.approx(0.85)


def test_no_other_scorer_decides_where_the_first_said_nothing(tmp_path: Path) -> None:
    both = [{"name": "match", "scorer": "match"}, {"name": "style", "scorer": "style"}]
    header = {**HEADER, "results": {"scores": both}}
    samples = [sample(1, "C"), sample(2, scores={"style": {"value": 1}})]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**header, "samples": samples}), encoding="utf-8")
    assert cal.read(path)["correct"].to_list() == [True, None]


def test_each_part_of_an_input_may_be_attached(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": f"attachment://{name}"} for name in ("a", "b")]
    asked = sample(
        1, input=[{"role": "user", "content": parts}], attachments={"a": "one", "b": "two"}
    )
    assert cal.read(write_inspect_log(tmp_path / "a.eval", [asked]))["input"].to_list() == [
        "one\ntwo"
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_sample_that_was_written_twice_counts_once_as_it_was_last(tmp_path: Path) -> None:
    path = write_inspect_log(tmp_path / "a.eval", [sample(1, "I"), sample(2, "C"), sample(1, "C")])
    assert cal.read(path).select("id", "correct").rows() == [("sums/1", True), ("sums/2", True)]


METRICS = ["accuracy", "total_tokens_mean"]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_reads_a_log(tmp_path: Path, engine: str) -> None:
    samples = [sample(number, "C" if number % 3 else "I") for number in range(1, 8)]
    path = write_inspect_log(tmp_path / "a.eval", samples)
    [group] = cal.score(path, by="task", metrics=METRICS, engine=engine).groups
    assert group.by == {"task": "sums"}
    assert group.metrics["accuracy"].value == 5 / 7
    assert group.metrics["total_tokens_mean"].value == 15


def test_failed_and_invalidated_samples_are_errors(tmp_path: Path) -> None:
    samples = [
        sample(1, error={"message": "boom"}),
        sample(2, invalidation={"reason": "wrong key"}),
        sample(3),
    ]
    result = cal.score(write_inspect_log(tmp_path / "a.eval", samples))
    assert (result.groups[0].records, result.groups[0].errors) == (3, 2)


def test_bare_nan_is_a_null(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps({**HEADER, "samples": [sample(1)]}, indent=1).replace("0.5", "NaN")
    path.write_text(text, encoding="utf-8")
    assert "score_style" not in cal.read(path).columns or cal.read(path)["score_style"][0] is None


def test_an_unfinished_log_is_read_by_its_journal(tmp_path: Path) -> None:
    path = write_inspect_log(
        tmp_path / "a.eval", [sample(1), sample(2)], header="_journal/start.json"
    )
    assert cal.read(path)["model"].to_list() == ["openai/gpt-4o-mini"] * 2


@pytest.mark.parametrize("status", ["started", "cancelled", "error", "success"])
def test_a_run_that_did_not_finish_is_told(tmp_path: Path, status: str) -> None:
    header = {**HEADER, "status": status}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**header, "samples": [sample(1)]}, indent=2), encoding="utf-8")
    packed = tmp_path / "a.eval"
    packed.write_bytes(_zip_in_zstd({"header.json": header, "samples/1_epoch_1.json": sample(1)}))
    for log in (path, packed):
        told = any("did not finish" in notice for notice in cal.score(log).notices)
        assert told is (status != "success")


def test_members_in_zstd_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(_zip_in_zstd({"header.json": HEADER, "samples/1_epoch_1.json": sample(1)}))
    assert cal.read(path)["id"].to_list() == ["sums/1"]


def test_a_frame_that_claims_to_be_huge_is_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    huge = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 46)  # a zstd header that says 64 TiB
    path.write_bytes(_zip_in_zstd({"header.json": HEADER, "samples/1_epoch_1.json": huge}))
    with pytest.raises(DataError, match=r"a\.eval"):
        cal.read(path)


def test_a_changed_member_in_zstd_is_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    data = _zip_in_zstd({"header.json": HEADER, "samples/1_epoch_1.json": sample(1)})
    checksum = data.index(b"PK\x01\x02") + 16
    path.write_bytes(data[:checksum] + bytes([data[checksum] ^ 1]) + data[checksum + 1 :])
    with pytest.raises(DataError, match=r"Bad CRC-32 for file .header"):
        cal.read(path)


def test_an_encrypted_log_is_one_clear_message(tmp_path: Path) -> None:
    path = write_inspect_log(tmp_path / "a.eval", [sample(1)])
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="encrypted"):
        cal.read(path)


def _zip_in_zstd(members: Mapping[str, Any]) -> bytes:
    """A zip whose members are packed as Inspect does now; Python writes none before 3.14."""
    out, places = io.BytesIO(), []
    for name, content in members.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        packed = raw if isinstance(content, bytes) else zstandard.compress(raw)
        fields = (93, 0, 0, zlib.crc32(raw), len(packed), len(raw), len(name))
        places.append((name, fields, out.tell()))
        out.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 63, 0, *fields, 0) + name.encode())
        out.write(packed)
    start = out.tell()
    for name, fields, place in places:
        head = struct.pack("<IHHHHHHIIIH", 0x02014B50, 63, 63, 0, *fields)
        out.write(head + struct.pack("<HHHHII", 0, 0, 0, 0, 0, place) + name.encode())
    size, count = out.tell() - start, len(places)
    out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, size, start, 0))
    return out.getvalue()


@pytest.mark.parametrize("kept", [0, 4, 30, 500, -30])
def test_a_damaged_log_is_one_clear_message(tmp_path: Path, kept: int) -> None:
    path = write_inspect_log(tmp_path / "a.eval", [sample(1)])
    path.write_bytes(path.read_bytes()[:kept])
    result = run("score", path)
    assert result.exit_code in (2, 3), result.output
    assert "a.eval" in result.output
    assert "Traceback" not in result.output


def test_a_sample_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = write_inspect_log(tmp_path / "a.eval", [sample(1, note="x" * 10_000)])
    with (
        cal.limit_reading(max_record_mb=0.005),
        pytest.raises(DataError, match=r"more than 0\.005 MB") as caught,
    ):
        cal.read(path)
    assert "--max-record-mb" in caught.value.fix


@pytest.mark.parametrize("shape", ["spans", "steps"])
def test_tokens_of_a_scorer_are_none_of_the_systems(tmp_path: Path, shape: str) -> None:
    used = {"input_tokens": 40, "output_tokens": 4}
    call = {"event": "model", "model": "openai/gpt-4o-mini", "output": {"usage": used}}
    other = {"event": "model", "model": "other", "output": {"usage": used}}
    begins = [
        {"event": "span_begin", "id": "s", "type": "scorers", "parent_id": None},
        {"event": "span_begin", "id": "t", "type": "scorer", "parent_id": "s"},
        {"event": "span_begin", "id": "u", "type": None, "parent_id": "t"},
    ]
    steps = [
        {"event": "step", "action": "begin", "type": "scorer", "name": "match"},
        *(call, other),
        {"event": "step", "action": "end", "type": "scorer", "name": "match"},
    ]
    spans = [*begins, {**call, "span_id": "u"}, {**other, "span_id": "t"}]
    usage = {
        "openai/gpt-4o-mini": {"input_tokens": 50, "output_tokens": 9},
        "other": {"input_tokens": 40, "output_tokens": 4},
    }
    events = [
        {**call, "span_id": "solver"},
        *(spans if shape == "spans" else steps),
    ]
    log = write_inspect_log(
        tmp_path / "a.eval", [sample(1, events=events, model_usage=usage, role_usage={})]
    )
    record = cal.read(log).to_dicts()[0]
    assert (record["prompt_tokens"], record["completion_tokens"]) == (10, 5)
    assert "usage" not in record


def test_metadata_named_as_a_field_are_kept_under_another_name(tmp_path: Path) -> None:
    told = {"answer": "theirs", "target": ["x"], "category": "easy", "level": 1}
    record = cal.read(
        write_inspect_log(tmp_path / "a.eval", [sample(1, metadata=told)])
    ).to_dicts()[0]
    assert (record["answer"], record["metadata_answer"]) == ("4", "theirs")
    assert record["metadata_target"] == '["x"]'
    assert (record["category"], "metadata_category" in record) == ("easy", False)


def test_the_logs_of_the_benchmark_are_read_alike_however_packed(tmp_path: Path) -> None:
    row = {"id": "t", "model": "m", "input": "2 + 2?", "target": "4", "cot": "two and two"}
    numbers = {"prompt_tokens": 10, "completion_tokens": 5, "latency_ms": 1500.0}
    rows = [{**row, "id": f"t{n}", "answer": answer, **numbers} for n, answer in enumerate("4544")]
    records = write_texts(tmp_path / "records.jsonl", *rows)
    found = []
    for is_brief in (True, False):
        log = tmp_path / f"{is_brief}.eval"
        write_log(records, log, is_brief=is_brief)
        found.append(cal.read(log))
        [group] = cal.score(log, metrics=["accuracy"]).groups
        assert group.metrics["accuracy"].value == 0.75
    assert_frame_equal(*found)
    assert found[0]["cot"][0] == "two and two\n4"
    assert set(found[0]["prompt_tokens"]) == {10}


def test_the_figures_of_a_log_stand_beside_ours(tmp_path: Path) -> None:
    path = _write_scored(
        tmp_path / "gpt-4o-mini.json", [{"f1": 1.0, "exact": "C"}, {"f1": 0.5, "exact": "I"}]
    )
    log = json.loads(path.read_text())
    log["results"]["scores"] = [
        {"name": "f1", "scorer": "f1", "metrics": {"mean": {"value": 0.75}}, "scored_samples": 2},
        {"name": "exact", "scorer": "exact", "metrics": {"accuracy": {"value": 0.25}}},
    ]
    path.write_text(json.dumps(log))
    result = cal.score(path)
    assert [figure.to_dict() for figure in result.inputs[0].stated] == [
        {"name": "f1/mean", "value": 0.75, "n": 2, "ours": "score_f1", "equal": True},
        {"name": "exact/accuracy", "value": 0.25, "n": None, "ours": "accuracy", "equal": False},
    ]
    assert f"{path}: the log states exact/accuracy 0.25, accuracy is 0.5 here" in result.notices
    assert "exact/accuracy 0.25 (accuracy 0.5), f1/mean 0.75 (score_f1 0.75)" in str(result)
    assert cal.score(path, metrics=["score_f1"]).inputs[0].stated[1].equal is None
    by_task = cal.score([path, path], by="id", metrics=["accuracy"])
    assert [each.stated[1].equal for each in by_task.inputs] == [False, False]
    chosen = cal.score(path, map={"answer": "target"}, metrics=["accuracy"])
    assert chosen.inputs[0].stated[1].equal is None


def test_parts_of_a_score_and_reducers_beside_the_mean_are_no_other_figure(tmp_path: Path) -> None:
    scores = [{"panel": {"tone": 1, "facts": 0.5}}, {"panel": {"tone": 0, "facts": 0.5}}]
    path = _write_scored(tmp_path / "a.json", scores)
    log = json.loads(path.read_text())
    log["eval"]["config"] = {"epochs": 2}
    log["results"]["scores"] = [
        {"name": "tone", "scorer": "panel", "reducer": how, "metrics": {"mean": {"value": value}}}
        for how, value in (("mean", 0.5), ("max", 1.0))
    ]
    path.write_text(json.dumps(log))
    stated = cal.score(path).inputs[0].stated
    assert [(each.name, each.ours, each.equal) for each in stated] == [
        ("tone/mean", "score_panel_tone", True),
        ("tone/max/mean", None, None),
    ]
