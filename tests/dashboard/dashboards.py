"""A dashboard to ask: a real server on loopback, over a folder of the test's own."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from click.testing import CliRunner

from calipers.cli import app
from tests.files import write_lines

ARITHMETIC = Path(__file__).resolve().parents[2] / "examples" / "arithmetic" / "suite.yaml"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Dashboard:
    """A server that answers at `url`."""

    port: int
    token: str | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """What the server says to a path, sent as it is written, once it is indexed."""
        for _ in range(120):
            answer = self.get_now(path, method=method, headers=headers)
            if b"is being indexed" not in answer.body:
                break
            sleep(0.5)
        return answer

    def get_now(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """What the server says to a path at once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            found = connection.getresponse()
            sent = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, sent, found.read())
        finally:
            connection.close()

    def ids(self) -> dict[str, str]:
        """The id of each entry, by its name."""
        from calipers.dashboard.catalog import Catalog  # noqa: PLC0415

        return {entry.name: entry.id for entry in Catalog(self.root).list_entries()}

    root: Path = Path()


Serving = Callable[..., Dashboard]


@contextmanager
def dashboard(
    root: Path,
    *,
    hosts: tuple[str, ...] | None = ("127.0.0.1", "localhost"),
    token: str | None = None,
    **options: Any,
) -> Iterator[Dashboard]:
    import uvicorn  # noqa: PLC0415

    from calipers.dashboard.server import _listen, create_app  # noqa: PLC0415

    app = create_app(root, hosts=hosts, token=token, **options)
    listening = _listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Dashboard(listening.getsockname()[1], token, root)
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        app.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def serving(cache: Path) -> Iterator[Serving]:
    """Start dashboards that end with the test."""
    del cache
    opened = []

    def start(root: Path, **options: Any) -> Dashboard:
        context = dashboard(root, **options)
        opened.append(context)
        return context.__enter__()

    yield start
    for context in opened:
        context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's suite, run once, and a file beside it; no test may change them."""
    folder = tmp_path_factory.mktemp("results")
    asked = ["run", str(ARITHMETIC), "-o", str(folder / "arithmetic"), "--no-report"]
    outcome = CliRunner().invoke(app, asked)
    assert outcome.exit_code == 0, outcome.output
    two_models(folder)
    return folder


@pytest.fixture(scope="session")
def kept(
    results: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Dashboard, Path]]:
    """A dashboard of the results that goes on, and its cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        started = dashboard(results)
        found = started.__enter__()
    yield found, folder
    started.__exit__(None, None, None)


@pytest.fixture
def site(kept: tuple[Dashboard, Path], monkeypatch: pytest.MonkeyPatch) -> Dashboard:
    """The dashboard of the results, for tests that change nothing there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept[1]))
    return kept[0]


def copy_run(run: Path, folder: Path, **changed: str) -> Path:
    """A run's folder with some of its files changed; an empty text takes the file away."""
    folder.mkdir()
    for name in ("manifest.json", "records.jsonl", "score.json", "gate.json"):
        text = changed.get(name.partition(".")[0], (run / name).read_text(encoding="utf-8"))
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def records(
    count: int, model: str = "a", *, right: Callable[[int], bool] = lambda n: n % 3 > 0
) -> list[dict[str, Any]]:
    """Records of sums with everything that pages show."""
    return [
        {
            "id": f"t{n}",
            "model": model,
            "category": ("sums", "products")[n % 2],
            "input": f"What is {n} + {n}? Marbles, apples and so on.",
            "target": str(2 * n),
            "answer": str(2 * n if right(n) else 2 * n + 1),
            "cot": f"1. We add.\n2. {n} + {n} = {2 * n if right(n) else 2 * n + 1}\nActually, that is it.",
            "prob_correct": round(0.5 + (n % 5) / 10, 2),
            "latency_ms": float(100 + (n * 37) % 400),
            "prompt_tokens": 20 + n,
            "completion_tokens": 5,
            "cost_usd": 0.001 * (n + 1),
        }
        for n in range(count)
    ]


def two_models(folder: Path, count: int = 120) -> Path:
    """A file of two models on the same tasks."""
    better = records(count, "b", right=lambda n: n % 4 > 0)
    return write_lines(folder / "two.jsonl", [*records(count), *better])
