"""Model servers as people run them. They have an environment of their own: `make test-servers`."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.runs.suites_at_hand import ANSWER, ROOT, suite_folder

LITELLM = ROOT / ".venv-servers" / "bin" / "litellm"
LLAMA = ROOT / ".venv-servers-llama" / "bin" / "python"
KEY = "sk-calipers-0123456789-abcdef-0123456789"
CONFIG = """
model_list:
  - model_name: mock
    litellm_params: {model: openai/mock, api_key: none, mock_response: "I add. ANSWER: 4"}
"""

pytestmark = pytest.mark.long


@contextmanager
def _serve(folder: Path, command: Sequence[str | Path], alive: str, **env: str) -> Iterator[str]:
    """Run a server on a port of its own until the end; gives the address of its API."""
    if not Path(command[0]).exists():
        pytest.skip("not installed (make test-servers)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **env},
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}{alive}", server, folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    command: list[str | Path] = [LITELLM, "--config", "config.yaml"]
    with _serve(folder, command, "/health/liveliness", LITELLM_MASTER_KEY=KEY) as url:
        yield url


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp with a model of random weights, whose replies are noise, and the same each time."""
    folder = tmp_path_factory.mktemp("llama")
    if LLAMA.exists():
        writer = Path(__file__).with_name("write_gguf.py")
        subprocess.run([LLAMA, writer, folder / "tiny.gguf"], check=True)
    command: list[str | Path] = [
        LLAMA,
        "-m",
        "llama_cpp.server",
        "--model",
        "tiny.gguf",
        "--n_ctx",
        "2048",
    ]
    with _serve(folder, command, "/v1/models") as url:
        yield url


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    began = monotonic()
    while monotonic() - began < 180:
        assert server.poll() is None, log.read_text(encoding="utf-8")
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            sleep(0.5)
    raise AssertionError(log.read_text(encoding="utf-8"))


def test_a_suite_runs_against_the_litellm_proxy(
    litellm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_MASTER_KEY", KEY)
    system = {
        "name": "proxy",
        "model": "openai:mock",
        "base_url": litellm,
        "api_key_env": "LITELLM_MASTER_KEY",
    }
    tasks = [{"id": f"t{n}", "input": "2 + 2", "target": "4"} for n in range(5)]
    suite = suite_folder(tmp_path, tasks, [system], answer=ANSWER)
    result = suite.run()
    assert result.exit_code == 0, result.stderr
    records = suite.records()
    assert [record["answer"] for record in records] == ["4"] * 5
    assert all(record["completion_tokens"] > 0 for record in records)
    assert KEY not in "".join(path.read_text() for path in suite.results.glob("*.json*"))


def test_a_wrong_key_is_told_in_words(
    litellm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-wrong-0123456789-abcdef")
    system = {"name": "p", "model": "openai:mock", "base_url": litellm, "api_key_env": "OTHER_KEY"}
    suite = suite_folder(tmp_path, [{"id": "a", "input": "2 + 2"}], [system], retries=0)
    assert suite.run().exit_code == 3
    assert str(suite.errors()["a"]).startswith("bad_request: 4")


def test_a_suite_runs_against_llama_cpp(llama: str, tmp_path: Path) -> None:
    system = {
        "name": "tiny",
        "model": "openai:tiny",
        "base_url": llama,
        "settings": {"temperature": 0, "max_tokens": 12, "extra_body": {"top_k": 1}},
        "price": {"input": 0, "output": 0},
    }
    tasks = [{"id": f"t{n}", "input": f"{n} + {n}", "target": str(2 * n)} for n in range(4)]
    answers = []
    for name in ("once", "again"):
        (tmp_path / name).mkdir()
        suite = suite_folder(tmp_path / name, tasks, [system], concurrency=2)
        result = suite.run()
        assert result.exit_code == 0, result.stderr
        records = sorted(suite.records(), key=lambda record: str(record["id"]))
        # It completes a character of several bytes that it has begun.
        assert all(12 <= record["completion_tokens"] <= 15 for record in records)
        assert {record["finish_reason"] for record in records} == {"length"}
        assert all(record["prompt_tokens"] > 10 for record in records)
        answers.append([record["answer"] for record in records])
    assert answers[0] == answers[1]
