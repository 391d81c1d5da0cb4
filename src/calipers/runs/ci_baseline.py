"""The baseline of the default branch, asked of GitHub or GitLab.

Only builds of the default branch of the same repository count, and on GitHub only pushes to it: a
fork may have a branch of the same name. That there is none yet is an answer; that nobody could be
asked is an error.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from calipers.support.errors import UsageError
from calipers.support.version import __version__

BASELINE = "baseline.json"
LARGEST = 64 << 20  # bytes of a baseline, and of the archive that holds it
LONGEST = 120.0  # seconds of one request
PAUSES = (1.0, 4.0)  # seconds before a request is made again
_LARGEST_ANSWER = 8 << 20  # bytes of JSON
_SILENCE = 30.0  # seconds
_PART = 1 << 16
_BUILDS = 20  # green builds that are looked through, the newest first
_MOST_FILES = 100  # in an archive
_NOT_FOUND = 404
_SERVER_FAULT = 500
_TOO_MANY = 429
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_RECORD_AGAIN = "build the default branch again"
_RIGHTS = {
    "github": "the job needs the permission `actions: read`, and its token in GITHUB_TOKEN",
    "gitlab": "CI_JOB_TOKEN must be allowed to read the artifacts of its own project",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBaseline:
    """What the service answered: a baseline, that there is none, or that this build makes it."""

    content: bytes | None = None
    is_recording: bool = False  # this is a build of the default branch itself
    notice: str


def fetch_baseline(service: str, env: Mapping[str, str], folder: Path) -> FetchedBaseline:
    """Return the baseline of the default branch, from `github` or `gitlab`.

    `env` are the variables of the build, and `folder` the one that its results go to.

    Raises:
        UsageError: The service could not be asked, or what it gave is no archive of a baseline.
    """
    try:
        return _fetch_from_github(env) if service == "github" else _fetch_from_gitlab(env, folder)
    except (_NotFoundError, LookupError, TypeError, ValueError, AttributeError) as error:
        problem = f"an answer of {service} is not as its documentation says"
        if isinstance(error, _NotFoundError):
            problem = f"{service} does not find {error}"
        raise _make_error(problem, fix=_RIGHTS[service]) from error


def _fetch_from_github(env: Mapping[str, str]) -> FetchedBaseline:
    server, repository = _require(env, "GITHUB_API_URL"), _require(env, "GITHUB_REPOSITORY")
    workflow = _require(env, "GITHUB_WORKFLOW_REF").partition("@")[0].rpartition("/")[2]
    token = env.get("GITHUB_TOKEN") or env.get("GH_TOKEN")
    if not token:
        raise _make_error("no token is given", fix=_RIGHTS["github"])
    if not _REPOSITORY.fullmatch(repository):
        raise _make_error(f"GITHUB_REPOSITORY is {repository!r}", fix="owner/name is expected")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    api = _ServiceApi(f"{server.rstrip('/')}/repos/{repository}", headers, fix=_RIGHTS["github"])
    branch = str(api.ask("")["default_branch"])
    if env.get("GITHUB_EVENT_NAME") == "push" and env.get("GITHUB_REF") == f"refs/heads/{branch}":
        return _record(branch)
    artifact = f"{env.get('CALIPERS_ARTIFACT') or 'calipers'}-baseline"
    for build in _list_builds(api, repository, workflow, branch):
        named = api.ask(f"/actions/runs/{build['id']}/artifacts", name=artifact)["artifacts"]
        kept = [
            archive for archive in named if archive["name"] == artifact and not archive["expired"]
        ]
        if kept:
            newest = max(kept, key=lambda archive: int(archive["id"]))
            archive = api.get(f"/actions/artifacts/{int(newest['id'])}/zip")
            commit = str(build["head_sha"])[:7]
            return FetchedBaseline(
                content=_unpack(archive),
                notice=f"compared with the baseline of {branch}: build {build['id']}, {commit}",
            )
    return _find_none(branch)


def _list_builds(
    api: _ServiceApi, repository: str, workflow: str, branch: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the newest green builds of this workflow that a push to the branch has started."""
    asked = {"branch": branch, "event": "push", "status": "success", "per_page": str(_BUILDS)}
    try:
        answer = api.ask(f"/actions/workflows/{quote(workflow, safe='')}/runs", **asked)
    except _NotFoundError:  # it has never run; or builds are hidden from us
        api.ask("/actions/runs", per_page="1")
        return
    for build in answer["workflow_runs"]:
        head = build["head_repository"] or {}  # null where the fork is gone
        is_ours = str(head.get("full_name")).lower() == repository.lower()
        is_push = (build["event"], build["head_branch"]) == ("push", branch)
        if is_ours and is_push and build["conclusion"] == "success":
            yield build


def _unpack(archive: bytes) -> bytes:
    """Return the baseline in an artifact's archive, which anybody may have made."""
    try:
        with zipfile.ZipFile(BytesIO(archive)) as files:
            names = files.namelist()
            if names.count(BASELINE) != 1 or len(names) > _MOST_FILES:
                raise _make_error(f"the artifact does not hold one {BASELINE}", fix=_RECORD_AGAIN)
            with files.open(BASELINE) as file:
                content = file.read(LARGEST + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        problem = "the artifact is no archive that can be read"
        raise _make_error(problem, fix=_RECORD_AGAIN) from error
    if len(content) > LARGEST:
        raise _make_error(f"{BASELINE} is larger than {LARGEST >> 20} MiB", fix=_RECORD_AGAIN)
    return content


def _fetch_from_gitlab(env: Mapping[str, str], folder: Path) -> FetchedBaseline:
    branch = _require(env, "CI_DEFAULT_BRANCH")
    if env.get("CI_COMMIT_BRANCH") == branch:  # a merge request has none, nor has one of a fork
        return _record(branch)
    server, project = _require(env, "CI_API_V4_URL"), _require(env, "CI_PROJECT_ID")
    place = os.path.relpath(folder.resolve() / BASELINE, Path(env.get("CI_PROJECT_DIR") or "."))
    if place.startswith(".."):
        raise _make_error(f"{folder} is outside of the project", fix="-o FOLDER inside of it")
    headers = {"JOB-TOKEN": _require(env, "CI_JOB_TOKEN")}
    api = _ServiceApi(server.rstrip("/"), headers, fix=_RIGHTS["gitlab"])
    path = f"/projects/{quote(project, safe='')}/jobs/artifacts/{quote(branch, safe='')}/raw/"
    try:
        content = api.get(path + quote(Path(place).as_posix()), job=_require(env, "CI_JOB_NAME"))
    except _NotFoundError:  # there is none; or the token is worth nothing
        api.ask("/job")
        return _find_none(branch)
    return FetchedBaseline(
        content=content,
        notice=f"compared with the baseline of {branch}: the newest green job there",
    )


def _record(branch: str) -> FetchedBaseline:
    return FetchedBaseline(
        is_recording=True,
        notice=f"a build of {branch}: it records the baseline that others are compared with",
    )


def _find_none(branch: str) -> FetchedBaseline:
    return FetchedBaseline(
        notice=f"no green build of {branch} has recorded a baseline yet: nothing to compare with"
    )


def _require(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise _make_error(f"{name} is not set", fix="this is for a build there; else --baseline")
    return value


def _make_error(problem: str, *, fix: str) -> UsageError:
    return UsageError(f"the baseline could not be fetched: {problem}", fix=fix)


class _NotFoundError(Exception):
    """The service has nothing under an address, or does not show it to us."""


@dataclass(frozen=True, slots=True)
class _ServiceApi:
    """The part of a service that is about one repository."""

    base: str
    headers: Mapping[str, str]
    fix: str

    def ask(self, path: str, **query: str) -> Any:
        """Return the value in a JSON answer."""
        return json.loads(self._try(path, query, _LARGEST_ANSWER))

    def get(self, path: str, **query: str) -> bytes:
        """Return the content of a file."""
        return self._try(path, query, LARGEST)

    def _try(self, path: str, query: Mapping[str, str], limit: int) -> bytes:
        """Return an answer; a fault of the server or the network is tried again a few times."""
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        pauses = [*PAUSES]
        while True:
            try:
                return self._open(url, limit)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == _NOT_FOUND:
                    raise _NotFoundError(path or self.base) from None
                is_passing = error.code >= _SERVER_FAULT or error.code == _TOO_MANY
                if not (pauses and is_passing):
                    raise self._fail(f"{self._server} answered {error.code}") from None
            except (OSError, HTTPException, ValueError) as error:
                if not pauses:
                    problem = str(error) or type(error).__name__
                    raise self._fail(f"{self._server}: {problem}") from error
            time.sleep(pauses.pop(0))

    def _open(self, url: str, limit: int) -> bytes:
        scheme = urlsplit(url).scheme
        if scheme not in ("http", "https"):
            raise self._fail(f"{self._server} is not the address of a server")
        request = urllib.request.Request(url, headers={"User-Agent": f"calipers/{__version__}"})  # noqa: S310
        for name, value in self.headers.items():
            request.add_unredirected_header(name, value)  # not for the store it leads to
        end = time.monotonic() + LONGEST
        with urllib.request.urlopen(request, timeout=_SILENCE) as reply:  # noqa: S310 (checked)
            if scheme == "https" and urlsplit(reply.url).scheme != "https":
                raise self._fail(f"{self._server} leads to an address without encryption")
            parts = bytearray()
            while part := reply.read(_PART):
                parts += part
                if len(parts) > limit or time.monotonic() > end:
                    many = f"{limit >> 20} MiB, {LONGEST:g} s"
                    raise self._fail(f"{self._server} sends more, or longer, than {many}")
            if reply.length:
                raise OSError("the answer was cut short")
        return bytes(parts)

    @property
    def _server(self) -> str:
        return urlsplit(self.base).netloc or self.base

    def _fail(self, problem: str) -> UsageError:
        return _make_error(problem, fix=self.fix)
