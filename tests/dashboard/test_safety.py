"""Who may ask, what can be reached, and what a browser may do with the answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.safety import COOKIE, HEADERS
from tests.dashboard.dashboards import Dashboard, records, two_models
from tests.files import write_lines

Serving = Callable[..., Dashboard]
SECRET = "the-secret-outside"


def test_every_answer_has_the_headers(tmp_path: Path, serving: Serving) -> None:
    two_models(tmp_path, 5)
    site = serving(tmp_path)
    run = site.ids()["two.jsonl"]
    for path in ("/", "/nothing", f"/runs/{run}", f"/runs/{run}/samples?x=1", f"/runs/{run}/score"):
        headers = site.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value, (path, name)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:80"])
def test_other_names_are_refused(tmp_path: Path, serving: Serving, host: str) -> None:
    assert serving(tmp_path).get("/", headers={"Host": host}).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1234", "127.0.0.1:99"])
def test_our_names_are_known(tmp_path: Path, serving: Serving, host: str) -> None:
    assert serving(tmp_path).get("/", headers={"Host": host}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_reads(tmp_path: Path, serving: Serving, method: str) -> None:
    assert serving(tmp_path).get("/", method=method).status == 405


def test_a_head_is_an_answer_without_its_body(tmp_path: Path, serving: Serving) -> None:
    answer = serving(tmp_path).get("/", method="HEAD")
    assert answer.status == 200
    assert answer.body == b""


def test_other_sites_may_link_and_not_load(tmp_path: Path, serving: Serving) -> None:
    site = serving(tmp_path)
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    link = {**elsewhere, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    frame = {**elsewhere, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert site.get("/", headers=elsewhere).status == 403
    assert site.get("/", headers=frame).status == 403
    assert site.get("/", headers=link).status == 200


def test_another_address_needs_the_token(tmp_path: Path, serving: Serving) -> None:
    site = serving(tmp_path, hosts=None, token="right-token")
    assert site.get("/").status == 401
    assert site.get("/?token=wrong-token").status == 401
    assert site.get("/", headers={"Cookie": f"{COOKIE}=wrong-token"}).status == 401
    answer = site.get("/compare?token=right-token&base=x")
    assert answer.status == 303
    assert answer.headers["location"] == "/compare?base=x"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    seen = site.get("/", headers={"Cookie": cookie.partition(";")[0], "Host": "any.example"})
    assert seen.status == 200
    assert "right-token" not in seen.text
    away = site.get("//evil.example/%5Cx?token=right-token").headers["location"]
    assert away.startswith("/evil.example")


@pytest.fixture
def fenced(tmp_path: Path) -> Path:
    """A folder to look at, with a secret beside it."""
    folder = tmp_path / "shown"
    folder.mkdir()
    two_models(folder, 5)
    write_lines(tmp_path / "secret.jsonl", [{"id": SECRET, "answer": SECRET}])
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../secret.jsonl",
        "/runs/..%2Fsecret.jsonl",
        "/runs/..%2fsecret.jsonl/samples",
        "/runs/%2e%2e/secret.jsonl",
        "/runs/....//secret.jsonl",
        "/runs/{secret}",
        "/runs/{encoded}",
        "/static/x/../../secret.jsonl",
        "/static/x/..%2F..%2Fsecret.jsonl",
        "/static/x/%2Fetc%2Fpasswd",
        "/runs/%00",
        "/runs/two.jsonl",
        "/runs/..",
        "/compare?base={secret}&candidate=..%2Fsecret.jsonl",
    ],
)
def test_nothing_outside_can_be_read(fenced: Path, serving: Serving, path: str) -> None:
    secret = fenced.parent / "secret.jsonl"
    encoded = str(secret).replace("/", "%2F")
    answer = serving(fenced).get(path.format(secret=secret, encoded=encoded))
    assert answer.status == 404
    assert SECRET not in answer.text


def test_links_that_lead_out_are_not_there(fenced: Path, serving: Serving) -> None:
    outside = fenced.parent
    (fenced / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (fenced / "folder").symlink_to(outside)
    (fenced / "loop").symlink_to(fenced)
    (fenced / "inner.jsonl").symlink_to(fenced / "two.jsonl")
    os.mkfifo(fenced / "pipe.jsonl")
    names = {entry.name for entry in Catalog(fenced).list_entries()}
    assert names == {"two.jsonl", "inner.jsonl"}
    assert SECRET not in serving(fenced).get("/").text


def test_files_of_a_run_that_lead_out_are_not_read(fenced: Path, serving: Serving) -> None:
    run = fenced / "run"
    run.mkdir()
    manifest = {"schema": "calipers.run/1", "suite": {"systems": []}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    write_lines(run / "records.jsonl", records(3))
    (fenced.parent / "gate.json").write_text(
        json.dumps(
            {
                "schema": "calipers.gate/1",
                "verdict": "pass",
                "checks": [],
                "records": 1,
                "errors": 0,
            }
            | {"incomplete": [], "evidence": "point", "confidence": 0.95, "policy": SECRET}
        )
    )
    (run / "gate.json").symlink_to(fenced.parent / "gate.json")
    site = serving(fenced)
    assert SECRET not in site.get(f"/runs/{site.ids()['run']}/gate").text
    (run / "records.jsonl").unlink()
    (run / "records.jsonl").symlink_to(fenced.parent / "secret.jsonl")
    assert "run" not in {entry.name for entry in Catalog(fenced).list_entries()}


def test_a_file_that_becomes_a_link_is_gone(fenced: Path, serving: Serving) -> None:
    site = serving(fenced)
    run = site.ids()["two.jsonl"]
    assert site.get(f"/runs/{run}/samples").status == 200
    (fenced / "two.jsonl").unlink()
    (fenced / "two.jsonl").symlink_to(fenced.parent / "secret.jsonl")
    answer = site.get(f"/runs/{run}/samples")
    assert answer.status == 404
    assert SECRET not in answer.text


def test_looking_changes_nothing(tmp_path: Path, serving: Serving) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    path = two_models(folder, 5)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    site = serving(folder)
    run = site.ids()["two.jsonl"]
    for part in (
        "",
        "/score",
        "/figures",
        "/samples",
        "/samples/1",
        "/facets",
        "/judges",
        "/export.csv",
    ):
        assert site.get(f"/runs/{run}{part}").status == 200, part
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
    assert list(folder.iterdir()) == [path]
