"""The images that messages name: where they are, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.support.config.files import shown
from calipers.support.errors import UsageError
from calipers.systems.images import (
    MOST_BYTES,
    TYPES,
    ImageFile,
    NotAnImage,
    get_scheme,
    get_url,
    is_remote,
    list_images,
)

_EXAMPLE = '{"type": "image_url", "image_url": {"url": "photos/cat.png"}}'


class ImageFiles:
    """Finds images by their paths, in the first folder that has one; never outside the folders.

    Args:
        folders: Where paths begin: the folder of the data, then that of the suite.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [each.resolve() for each in folders]
        self._found: dict[str, ImageFile] = {}

    def of(self, messages: Sequence[Mapping[str, Any]], task: str) -> dict[str, ImageFile]:
        """Return the files among the images of messages, by what the messages call them.

        Raises:
            UsageError: A part names no image, or one that cannot be sent.
        """
        found = {}
        for part in list_images(messages):
            url = get_url(part)
            if not isinstance(url, str) or not url:
                raise UsageError(f"the task {task}: an image_url without a url", fix=_EXAMPLE)
            if is_remote(url):
                _check_url(url, task)
            else:
                found[url] = self._find_file(url, task)
        return found

    def hashes(self, base: Path) -> dict[str, str]:
        """Return the SHA-256 of each file that was found, by its path from a folder."""
        paths = {each.path: each.sha256 for each in self._found.values()}
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
                    fix=f"a file of at most {MOST_BYTES >> 20} MiB, {TYPES}, beside the data",
                ) from problem
        return self._found[url]

    def _find_path(self, url: str, task: str) -> Path:
        if len(get_scheme(url)) > 1:
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
    if get_scheme(url) != "data":
        return
    head, _, content = url.partition(",")
    is_image = head.startswith("data:image/") and head.endswith(";base64")
    if not is_image or len(content) > MOST_BYTES * 4 // 3 + 4:
        raise UsageError(
            f"the task {task}: {shown(url[:60])} holds no image of at most {MOST_BYTES >> 20} MiB",
            fix="data:image/png;base64,…",
        )
