"""The baseline of the default branch, from services that stand in for GitHub and GitLab."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from calipers.runs import ci_baseline
from calipers.runs.ci_baseline import FetchedBaseline, fetch_baseline
from calipers.support.errors import UsageError

Reply = int | bytes | dict[str, Any] | str
Answer = Callable[[str], Reply]


@contextmanager
def serve(answer: Answer) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Yield the address of a server, and what it was asked, with the token."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"] or self.headers["JOB-TOKEN"]))
            reply = answer(self.path)
            if isinstance(reply, str):  # another address
                self.send_response(302)
                self.send_header("Location", reply)
                self.end_headers()
                return
            content = json.dumps(reply).encode() if isinstance(reply, dict) else reply
            self.send_response(content if isinstance(content, int) else 200)
            self.end_headers()
            self.wfile.write(b"{}" if isinstance(content, int) else content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci_baseline, "PAUSES", (0.0, 0.0))


def pack(**files: bytes) -> bytes:
    archive = BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name.replace("__", "/").replace("_", "."), content)
    return archive.getvalue()


def build(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "id": number,
        "event": "push",
        "head_branch": "main",
        "head_sha": f"{number:040x}",
        "conclusion": "success",
        "head_repository": {"full_name": "acme/desk"},
        **changed,
    }


def github(
    builds: list[dict[str, Any]], artifacts: dict[int, bytes], elsewhere: str | None = None
) -> Answer:
    """Return the part of GitHub that lists builds and gives their artifacts."""

    def answer(path: str) -> Reply:
        path, _, _query = path.partition("?")
        place = path.removeprefix("/repos/acme/desk")
        if not place:
            return {"default_branch": "main"}
        if place == "/actions/workflows/evals.yml/runs":
            return {"workflow_runs": builds}
        number = int(place.split("/")[3])
        if place.endswith("/zip"):
            return elsewhere or artifacts[number]
        return {
            "artifacts": [
                {"id": number, "name": "calipers-baseline", "expired": False}
                for each in artifacts
                if each == number
            ]
        }

    return answer


def ask_github(answer: Answer, **env: str) -> tuple[FetchedBaseline, list[tuple[str, str | None]]]:
    with serve(answer) as (url, asked):
        known = {
            "GITHUB_API_URL": url,
            "GITHUB_REPOSITORY": "acme/desk",
            "GITHUB_WORKFLOW_REF": "acme/desk/.github/workflows/evals.yml@refs/pull/12/merge",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_REF": "refs/pull/12/merge",
            "GITHUB_TOKEN": "stand-in",
        }
        return fetch_baseline("github", {**known, **env}, Path("results/ci")), asked


def test_the_newest_green_push_to_the_default_branch_is_taken() -> None:
    kept = {7: pack(baseline_json=b"old"), 9: pack(baseline_json=b"new")}
    found, asked = ask_github(github([build(11), build(9), build(7)], kept))
    assert found.content == b"new"
    assert found.notice.startswith("compared with the baseline of main: build 9, ")
    assert not found.is_recording
    listed = next(path for path, _ in asked if "workflows" in path)
    for part in ("branch=main", "event=push", "status=success"):
        assert part in listed
    assert {token for _, token in asked} == {"Bearer stand-in"}


@pytest.mark.parametrize(
    "changed",
    [
        {"head_repository": {"full_name": "mallory/desk"}},
        {"head_repository": None},
        {"event": "pull_request"},
        {"event": "pull_request_target"},
        {"head_branch": "feature"},
        {"conclusion": "failure"},
        {"conclusion": None},
    ],
)
def test_no_other_build_is_trusted(changed: dict[str, Any]) -> None:
    """Not even where the list that was asked for holds it."""
    found, _ = ask_github(github([build(9, **changed)], {9: pack(baseline_json=b"theirs")}))
    assert found.content is None
    assert "no green build of main has recorded a baseline yet" in found.notice


def test_a_push_to_the_default_branch_records_and_compares_with_nothing() -> None:
    pushed = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}
    kept = {9: pack(baseline_json=b"new")}
    found, _ = ask_github(github([build(9)], kept), **pushed)
    assert (found.is_recording, found.content) == (True, None)
    for other in (
        {**pushed, "GITHUB_REF": "refs/tags/main"},
        {**pushed, "GITHUB_EVENT_NAME": "schedule"},
        {**pushed, "GITHUB_REF": "refs/heads/feature/main"},
    ):
        found, _ = ask_github(github([build(9)], kept), **other)
        assert (found.is_recording, found.content) == (False, b"new")


def test_a_workflow_that_never_ran_has_no_baseline() -> None:
    def answer(path: str) -> Reply:
        if "/workflows/" in path:
            return 404
        return {"default_branch": "main", "workflow_runs": []}

    found, asked = ask_github(answer)
    assert found.content is None
    assert asked[-1][0].startswith("/repos/acme/desk/actions/runs"), "whether we may ask at all"


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("part", ["/desk", "/runs", "/artifacts", "/zip"])
def test_who_could_not_ask_says_so(status: int, part: str) -> None:
    works = github([build(9)], {9: pack(baseline_json=b"new")})

    def answer(path: str) -> Reply:
        return status if path.partition("?")[0].endswith(part) else works(path)

    with pytest.raises(UsageError, match="the baseline could not be fetched"):
        ask_github(answer)


def test_a_fault_that_passes_is_tried_again() -> None:
    works = github([build(9)], {9: pack(baseline_json=b"new")})
    faults = [503, 502]
    found, _ = ask_github(lambda path: faults.pop() if faults else works(path))
    assert found.content == b"new"


@pytest.mark.parametrize(
    "env",
    [
        {"GITHUB_TOKEN": ""},
        {"GITHUB_REPOSITORY": ""},
        {"GITHUB_REPOSITORY": "acme/desk/../../orgs"},
        {"GITHUB_API_URL": "file:///etc"},
        {"GITHUB_API_URL": "http://127.0.0.1:9"},
    ],
)
def test_a_build_that_cannot_ask_is_told(env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="the baseline could not be fetched"):
        ask_github(github([], {}), **env)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"null", b'{"default_branch": {}}'])
def test_an_answer_of_another_shape_is_no_answer(answer: bytes) -> None:
    with pytest.raises(UsageError, match="the baseline could not be fetched"):
        ask_github(lambda _: answer)


def test_a_hostile_archive_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ci_baseline, "LARGEST", 1 << 16)
    monkeypatch.chdir(tmp_path)
    for archive in (
        b"no archive",
        pack(baseline_json=b"{}")[:-30],
        pack(other_json=b"{}"),
        pack(____baseline_json=b"{}"),
        pack(baseline_json=b"0" * (1 << 20)),  # a bomb
        b"0" * (1 << 17),
    ):
        with pytest.raises(UsageError, match="the baseline could not be fetched"):
            ask_github(github([build(9)], {9: archive}))
    assert not list(tmp_path.iterdir())


def test_the_token_stays_with_the_service() -> None:
    with serve(lambda _: pack(baseline_json=b"new")) as (store, seen):
        found, _ = ask_github(github([build(9)], {9: b""}, elsewhere=f"{store}/signed"))
    assert found.content == b"new"
    assert seen == [("/signed", None)]


def ask_gitlab(answer: Answer, **env: str) -> tuple[FetchedBaseline, list[tuple[str, str | None]]]:
    with serve(answer) as (url, asked):
        known = {
            "CI_API_V4_URL": url,
            "CI_PROJECT_ID": "5",
            "CI_JOB_NAME": "calipers: [a b]",
            "CI_JOB_TOKEN": "stand-in",
            "CI_DEFAULT_BRANCH": "release/next",
            "CI_PROJECT_DIR": str(Path.cwd()),
        }
        return fetch_baseline("gitlab", {**known, **env}, Path("results/ci")), asked


def test_gitlab_gives_the_file_of_the_newest_green_job() -> None:
    found, asked = ask_gitlab(lambda _: b"new")
    assert found.content == b"new"
    path = "/projects/5/jobs/artifacts/release%2Fnext/raw/results/ci/baseline.json"
    assert asked == [(f"{path}?job=calipers%3A+%5Ba+b%5D", "stand-in")]


def test_gitlab_none_yet_is_told_from_a_token_that_is_worth_nothing() -> None:
    found, _ = ask_gitlab(lambda path: {"id": 1} if path == "/job" else 404)
    assert (found.content, found.is_recording) == (None, False)
    for status in (401, 403, 404, 500):
        with pytest.raises(UsageError, match="the baseline could not be fetched"):
            ask_gitlab(lambda _, status=status: status)  # type: ignore[misc]


def test_gitlab_records_on_the_default_branch_only() -> None:
    found, asked = ask_gitlab(lambda _: 500, CI_COMMIT_BRANCH="release/next")
    assert found.is_recording
    assert not asked
    assert not ask_gitlab(lambda _: b"new", CI_COMMIT_BRANCH="feature")[0].is_recording


@pytest.mark.parametrize(
    "env", [{"CI_JOB_TOKEN": ""}, {"CI_DEFAULT_BRANCH": ""}, {"CI_PROJECT_DIR": "/srv/other"}]
)
def test_gitlab_without_what_it_takes(env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="the baseline could not be fetched"):
        ask_gitlab(lambda _: b"new", **env)
