"""Images in messages: files are named by their paths, and sent as data URLs.

Records keep the path. What is sent is read again for each call, and must be an image by its first
bytes, whatever its name is.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calipers.support.config import shown
from calipers.support.errors import UsageError
from calipers.systems.calls import Call, Fault

MOST_BYTES = 20 << 20  # of an image
_TYPES = "PNG, JPEG, GIF or WebP"
_IMAGE = "image_url"  # the type of a part, and its key
_REMOTE = ("http", "https", "data")
_EXAMPLE = '{"type": "image_url", "image_url": {"url": "photos/cat.png"}}'


class NotAnImage(Exception):  # noqa: N818 (reads as a sentence: "raise NotAnImage")
    """A file that cannot be sent; the text says why."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image on the disk, and what it held when the run began."""

    path: Path
    sha256: str

    @classmethod
    def at(cls, path: Path) -> ImageFile:
        """Return the image at a path; NotAnImage says why it cannot be sent."""
        return cls(path, sha256(_read_image(path)).hexdigest())

    def to_url(self) -> str:
        """Return the image as a data URL; NotAnImage where it has changed or cannot be read."""
        content = _read_image(self.path)
        if sha256(content).hexdigest() != self.sha256:
            raise NotAnImage("it has changed during the run")
        return f"data:{detect_type(content)};base64,{b64encode(content).decode()}"


def _read_image(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise NotAnImage(f"{size / (1 << 20):.1f} MiB, more than {MOST_BYTES >> 20} MiB")
        content = path.read_bytes()
    except OSError as error:
        raise NotAnImage(str(error.strerror or error)) from error
    if detect_type(content) is None:
        raise NotAnImage(f"not an image: its first bytes are none of {_TYPES}")
    return content


def detect_type(content: bytes) -> str | None:
    """Return the type of an image by its first bytes; None for anything else.

    >>> detect_type(b"GIF89a"), detect_type(b"<svg/>")
    ('image/gif', None)
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    is_webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    return "image/webp" if is_webp else None


def list_images(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of messages that hold an image."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") == _IMAGE:
                yield part


def get_url(part: Mapping[str, Any]) -> Any:
    """Return the URL or path of an image's part: `image_url: {url: …}`, or a text alone."""
    image = part.get(_IMAGE)
    return image.get("url") if isinstance(image, Mapping) else image


def replace_url(part: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Return the part with another URL, as OpenAI has it."""
    image = part.get(_IMAGE)
    also = image if isinstance(image, Mapping) else {}
    return {**part, _IMAGE: {**also, "url": url}}


def _get_scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


class ImageFiles:
    """Finds images by their paths, in the first folder that has one; never outside the folders.

    Args:
        folders: Where paths begin: the folder of the data, then that of the suite.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._found: dict[str, ImageFile] = {}

    def of(self, messages: Sequence[Mapping[str, Any]], task: str) -> dict[str, ImageFile]:
        """Return the files among the images of messages, by what the messages call them.

        Raises:
            UsageError: A part names no image, or one that cannot be sent.
        """
        files = {}
        for part in list_images(messages):
            url = get_url(part)
            if not isinstance(url, str) or not url:
                raise UsageError(f"the task {task}: an image_url without a url", fix=_EXAMPLE)
            if _get_scheme(url) in _REMOTE:  # sent as it is
                _check_url(url, task)
            else:
                files[url] = self._find_file(url, task)
        return files

    def hashes(self, base: Path) -> dict[str, str]:
        """Return the SHA-256 of each file that was found, by its path from a folder."""
        paths = {file.path: file.sha256 for file in self._found.values()}
        return {
            Path(os.path.relpath(path, base.resolve())).as_posix(): digest
            for path, digest in paths.items()
        }

    def _find_file(self, url: str, task: str) -> ImageFile:
        if url not in self._found:
            try:
                self._found[url] = ImageFile.at(self._find_path(url, task))
            except NotAnImage as problem:
                raise UsageError(
                    f"the task {task}: the image {shown(url)}: {problem}",
                    fix=f"a file of at most {MOST_BYTES >> 20} MiB, {_TYPES}, beside the data",
                ) from problem
        return self._found[url]

    def _find_path(self, url: str, task: str) -> Path:
        if len(_get_scheme(url)) > 1:
            raise UsageError(
                f"the task {task}: the image {shown(url)}: neither a path nor a URL",
                fix="a path from the folder of the data, https://…, or data:image/png;base64,…",
            )
        try:
            paths = [(folder / url).resolve() for folder in self._folders]
        except (OSError, ValueError) as error:
            raise NotAnImage(str(error)) from error
        inside = [path for path in paths if any(map(path.is_relative_to, self._folders))]
        if not inside:
            raise UsageError(
                f"the task {task}: the image {shown(url)} lies outside the folders of the suite "
                "and its data",
                fix="copy it there: no other file is ever sent",
            )
        return next((path for path in inside if path.is_file()), inside[0])


def _check_url(url: str, task: str) -> None:
    """Refuse a data URL that holds no image; other URLs are not fetched."""
    if _get_scheme(url) != "data":
        return
    head, _, content = url.partition(",")
    is_image = head.startswith("data:image/") and head.endswith(";base64")
    if not is_image or len(content) > MOST_BYTES * 4 // 3 + 4:
        raise UsageError(
            f"the task {task}: {shown(url[:60])} holds no image of at most {MOST_BYTES >> 20} MiB",
            fix="data:image/png;base64,…",
        )


async def load_images(call: Call) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a call as they are sent, files as data URLs.

    Raises:
        Fault: An image has changed, or cannot be read any more.
    """
    if not any(list_images(call.messages)):
        return call.messages
    return await asyncio.to_thread(_embed_images, call)


def _embed_images(call: Call) -> list[dict[str, Any]]:
    urls: dict[str, str] = {}
    for url, image in call.images.items():
        try:
            urls[url] = image.to_url()
        except NotAnImage as problem:
            raise Fault("bad_request", f"{url}: {problem}") from problem
    return [
        {**message, "content": _replace_urls(message.get("content"), urls)}
        for message in call.messages
    ]


def _replace_urls(content: Any, urls: Mapping[str, str]) -> Any:
    if not isinstance(content, list):
        return content
    return [
        replace_url(part, urls.get(get_url(part), get_url(part)))
        if isinstance(part, Mapping) and part.get("type") == _IMAGE
        else part
        for part in content
    ]
