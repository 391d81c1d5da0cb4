"""Images in messages, to a server over real HTTP: straight, and by way of pydantic-ai."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calipers.systems.images import MOST_BYTES
from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
OTHER = b"\x89PNG\r\n\x1a\n" + b"others"
TEXT = {"type": "text", "text": "what is it?"}


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def asks(*parts: Any) -> dict[str, Any]:
    return {"id": "a", "messages": [{"role": "user", "content": [TEXT, *parts]}]}


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    urls = [each["image_url"]["url"] for each in body["messages"][-1]["content"][1:]]
    return {"content": " ".join(url[-30:] for url in urls)}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        yield found


@pytest.fixture(params=["straight", "pydantic-ai"])
def system(
    request: pytest.FixtureRequest, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    if request.param == "straight":
        return chat(server.url)
    pytest.importorskip("pydantic_ai", reason="the extra run is not installed")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key-4711")
    return {"name": "mini", "model": "openai-chat:tiny"}


def folder(path: Path, task: dict[str, Any], system: dict[str, Any], **more: Any) -> SuiteFolder:
    (path / "photos").mkdir()
    (path / "photos" / "cat.png").write_bytes(PNG)
    return suite_folder(path, [task], [system], **more)


def test_files_and_urls_are_sent(
    tmp_path: Path, server: ChatServer, system: dict[str, Any]
) -> None:
    far = "https://example.org/cat.png"
    suite = folder(tmp_path, asks(image("photos/cat.png"), image(far)), system)
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    sent = server.seen[0]["messages"][-1]["content"]
    assert sent[0]["text"] == "what is it?"
    assert [each["image_url"]["url"] for each in sent[1:]] == [data_url(PNG), far]
    [record] = suite.records()
    assert record["messages"][0]["content"][1] == image("photos/cat.png")  # and no bytes
    assert record["answer"]


def test_the_suite_may_name_them_by_a_field(
    tmp_path: Path, server: ChatServer, system: dict[str, Any]
) -> None:
    content = [TEXT, {"type": "image_url", "image_url": "photos/{name}.png"}]
    task = {"id": "a", "name": "cat"}
    messages = [{"role": "user", "content": content}]
    assert folder(tmp_path, task, system, messages=messages).run("--no-report").exit_code == 0
    [_, sent] = server.seen[0]["messages"][-1]["content"]
    assert sent["image_url"]["url"] == data_url(PNG)


def test_paths_begin_at_the_data(tmp_path: Path, server: ChatServer) -> None:
    suite = folder(tmp_path, asks(image("photos/cat.png")), chat(server.url))
    data = tmp_path / "data"
    (data / "photos").mkdir(parents=True)
    (data / "photos" / "cat.png").write_bytes(OTHER)
    (tmp_path / "tasks.jsonl").rename(data / "tasks.jsonl")
    suite.write(data="data/tasks.jsonl").run("--no-report")
    [_, sent] = server.seen[0]["messages"][-1]["content"]
    assert sent["image_url"]["url"] == data_url(OTHER)


def test_a_changed_image_makes_answers_stale(tmp_path: Path, server: ChatServer) -> None:
    suite = folder(tmp_path, asks(image("photos/cat.png")), chat(server.url), cache="cache")
    suite.run("--no-report")
    (tmp_path / "photos" / "cat.png").write_bytes(OTHER)
    told = suite.run("--no-report")
    assert told.exit_code == 2
    assert "photos/cat.png has changed" in told.output
    (tmp_path / "out" / "records.jsonl").rename(tmp_path / "old.jsonl")
    (tmp_path / "out" / "manifest.json").unlink()
    suite.run("--no-report")
    assert len(server.seen) == 2  # the cache knows the other image


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("photos/dog.png", "photos/dog.png: No such file"),
        ("../secret.png", "lies outside the folders of the suite and its data"),
        ("/etc/passwd", "lies outside"),
        ("photos/link.png", "lies outside"),
        ("notes.png", "not an image: its first bytes are none of PNG, JPEG, GIF or WebP"),
        ("large.png", "more than 20 MiB"),
        ("photos", "Is a directory"),
        ("file:///etc/passwd", "neither a path nor a URL"),
        ("data:text/html;base64,PGI+", "holds no image"),
        ("", "an image_url without a url"),
        ("a\0b", "embedded null"),
    ],
)
def test_what_cannot_be_sent(tmp_path: Path, server: ChatServer, url: str, said: str) -> None:
    home = tmp_path / "suite"
    home.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    suite = folder(home, asks(image(url)), chat(server.url))
    (home / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    (home / "notes.png").write_text("no image")
    with (home / "large.png").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    told = suite.run("--no-report")
    assert told.exit_code == 2
    assert said in " ".join(told.output.split())
    assert not server.seen


def test_other_parts_are_for_servers_that_speak_as_openais(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key-4711")
    system = {"name": "mini", "model": "openai-chat:tiny"}
    suite = folder(tmp_path, asks({"type": "file", "file": {}}), system)
    assert suite.run("--no-report").exit_code == 3
    assert "a part of type file" in (suite.errors()["a"] or "")
