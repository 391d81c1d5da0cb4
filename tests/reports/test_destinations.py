"""Scores sent elsewhere: the real clients, against stores and servers on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.commands import run
from tests.files import write_lines

ROWS = [
    {
        "id": f"q{n}",
        "model": f"lab/m{n % 2}",
        "answer": "4",
        "target": "4" if n % 3 else "5",
        "x": n,
    }
    for n in range(12)
]


@pytest.fixture
def score() -> cal.Score:
    return cal.score(ROWS, by="model", metrics=["accuracy", "mean(x)"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own lines
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_mlflow_keeps_values_with_bounds_and_tables(
    score: cal.Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415 (loads for seconds)

    monkeypatch.chdir(tmp_path)  # artifacts of a database go to ./mlruns
    if kind == "sqlite":
        pytest.importorskip("sqlalchemy")
        uri = f"sqlite:///{tmp_path / 'store.db'}"
    else:
        uri = (tmp_path / "store").as_uri()
    assert cal.publish(score, f"mlflow:{uri}") == ("mlflow: 2 runs in the experiment 'calipers'",)
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("calipers")
    assert experiment is not None
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(found) == {"lab/m0", "lab/m1"}
    for name, logged in found.items():
        measured = score.group(model=name)["accuracy"]
        assert logged.data.metrics["accuracy"] == measured.value
        assert logged.data.metrics["accuracy.low"] == measured.low
        assert logged.data.metrics["accuracy.high"] == measured.high
        assert logged.data.metrics["mean_x"] == score.group(model=name)["mean(x)"].value
        assert logged.data.params == {"model": name}
        assert logged.info.status == "FINISHED"
        files = {each.path for each in client.list_artifacts(logged.info.run_id)}
        assert files == {"score.json", "score.csv", "score.md", "report.html"}


@pytest.mark.long
def test_wandb_offline_keeps_a_run_per_group(
    score: cal.Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    assert cal.publish(score, "wandb:trials") == ("wandb: 2 runs in the project 'trials'",)
    kept = list(tmp_path.rglob("*.wandb"))
    assert len(kept) == 2
    assert any(b"accuracy.low" in file.read_bytes() for file in kept)


class Collector:
    """An OTLP endpoint that keeps what it is sent."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[str]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.paths.append(self.path)
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


def test_opentelemetry_gets_an_event_per_value(score: cal.Score) -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (  # noqa: PLC0415
        ExportLogsServiceRequest,
    )

    collector = Collector()
    with collector.listening() as url:
        said = cal.publish(score, f"otel:{url}")
    assert said == ("otel: 4 events gen_ai.evaluation.result",)
    assert set(collector.paths) == {"/v1/logs"}
    events = [
        event
        for body in collector.bodies
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for event in scope.log_records
    ]
    assert {event.event_name for event in events} == {"gen_ai.evaluation.result"}
    told = [
        {each.key: each.value.string_value or each.value.double_value for each in event.attributes}
        for event in events
    ]
    values = {(each["gen_ai.request.model"], each["gen_ai.evaluation.name"]): each for each in told}
    measured = score.group(model="lab/m0")["accuracy"]
    found = values["lab/m0", "accuracy"]
    assert found["gen_ai.evaluation.score.value"] == measured.value
    assert (found["calipers.low"], found["calipers.high"]) == (measured.low, measured.high)


def test_events_that_nobody_takes_are_an_error(score: cal.Score) -> None:
    with Collector(status=400).listening() as url, pytest.raises(UsageError, match="4 of 4 events"):
        cal.publish(score, f"otel:{url}")


def test_every_eval_ever_has_a_file_per_model(score: cal.Score, tmp_path: Path) -> None:
    """Its own validator reads what is written in `test_receivers.py`."""
    cal.publish(score, f"every_eval_ever:{tmp_path}")
    files = list(tmp_path.rglob("*.json"))
    assert {file.parent.name for file in files} == {"m0", "m1"}
    assert {file.parent.parent.name for file in files} == {"lab"}
    content = json.loads(files[0].read_text(encoding="utf-8"))
    by_metric = {each["metric_config"]["metric_id"]: each for each in content["evaluation_results"]}
    measured = score.group(model=content["model_info"]["name"])["accuracy"]
    details = by_metric["accuracy"]["score_details"]
    assert details["score"] == measured.value
    assert details["uncertainty"]["confidence_interval"]["lower"] == measured.low
    assert by_metric["mean(x)"]["metric_config"]["max_score"] == "Infinity"


def test_the_command_line_sends_after_it_has_printed(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", ROWS)
    result = run("score", tmp_path / "a.jsonl", "--to", f"every_eval_ever:{tmp_path / 'out'}")
    assert result.exit_code == 0
    assert "accuracy" in result.stdout
    assert "every_eval_ever: 1 file below" in result.stderr


def test_every_destination_is_tried_before_one_that_failed_is_reported(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    to = [f"every_eval_ever:{tmp_path / name}" for name in ("taken", "out", "taken/in")]
    command = [part for each in to for part in ("--to", each)]
    result = run("score", tmp_path / "a.jsonl", *command)
    assert result.exit_code == 2
    assert "every_eval_ever: 1 file below" in result.stderr
    assert [each in result.stderr for each in (f"--to {to[0]}: ", f"--to {to[2]}: ")] == [True] * 2
    assert list((tmp_path / "out").rglob("*.json"))


@pytest.mark.parametrize(
    ("to", "said"),
    [("mlfow:x", "did you mean mlflow"), ("every_eval_ever", "no folder is named")],
)
def test_a_destination_that_cannot_be_is_refused(tmp_path: Path, to: str, said: str) -> None:
    write_lines(tmp_path / "a.jsonl", ROWS)
    result = run("score", tmp_path / "a.jsonl", "--to", to)
    assert result.exit_code == 2
    assert said in result.stderr
