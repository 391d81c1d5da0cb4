"""`calipers view` on the command line: what goes wrong is told before anything is served."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from calipers.cli import app
from calipers.dashboard import server


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["view", str(tmp_path / "nothing"), "--no-open"])
    assert result.exit_code == 2
    assert "no such folder" in result.output


def test_a_file_that_holds_no_records(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    result = CliRunner().invoke(app, ["view", str(tmp_path / "notes.txt"), "--no-open"])
    assert result.exit_code == 2
    assert "not a file of records" in result.output


def test_checks_with_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "checks.yaml").write_text("- {expect: is brief, lenght: 3}\n")
    arguments = ["view", str(tmp_path), "--no-open", "--checks", str(tmp_path / "checks.yaml")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "checks.yaml:1: lenght is not a known key" in result.output


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["view", str(tmp_path), "--no-open", "--port", port])
    assert result.exit_code == 2
    assert "--port 0 takes any that is free" in result.output


@pytest.mark.parametrize("port", ["-1", "70000", "x"])
def test_a_port_that_is_none(tmp_path: Path, port: str) -> None:
    assert CliRunner().invoke(app, ["view", str(tmp_path), "--port", port]).exit_code == 2


def test_a_host_that_is_not_ours(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["view", str(tmp_path), "--no-open", "--host", "203.0.113.7", "--port", "0"]
    )
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_without_the_extra_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["calipers.cli.look"], "_NEEDED", ("no_such_module",))
    result = CliRunner().invoke(app, ["view", str(tmp_path)])
    assert result.exit_code == 2
    assert "pip install 'calipers[view]'" in result.output


@pytest.mark.parametrize(
    ("host", "token", "address"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:80/"),
        ("::1", None, "http://[::1]:80/"),
        ("192.0.2.1", "abc", "http://192.0.2.1:80/?token=abc"),
    ],
)
def test_the_address_to_open(host: str, token: str | None, address: str) -> None:
    assert server._make_address(host, 80, token) == address


def test_it_listens_only_where_it_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[tuple[str, bool]] = []

    class Stop(Exception):  # noqa: N818
        pass

    def run(self: server._Server, sockets: list[socket.socket]) -> None:
        app = self.config.app
        bound.append((sockets[0].getsockname()[0], app._token is not None))  # type: ignore[union-attr]
        raise Stop

    monkeypatch.setattr(server._Server, "run", run)
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(Stop):
            server.serve(tmp_path, host=host, port=0, ready=lambda _: None)
    assert bound == [("127.0.0.1", False), ("0.0.0.0", True)]


def test_the_first_page_loads_nothing_that_measures_or_draws() -> None:
    code = "import calipers.dashboard.server, sys; print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    late = {
        "scipy",
        "vl_convert",
        "torch",
        "calipers.scores.score",
        "calipers.engines.polars_engine",
    }
    assert set(shown.stdout.split()) & late == set()
