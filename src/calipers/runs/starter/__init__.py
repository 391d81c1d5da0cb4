"""What `calipers init` writes: a suite, its data, a system to try, a policy, and files for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calipers.support.errors import UsageError, make_write_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

TEMPLATES = {
    "agent": "an agent with tools, by checks of what it says and does",
    "qa": "questions with known answers",
    "prompts": "two prompts compared on the same questions",
    "rag": "answers from passages",
    "judge": "a judge that people have checked",
    "traces": "traces of agents, with a tool map and people's ratings",
}
_SHARED = {
    ".github/workflows/calipers.yml": "github.yml",
    "calipers.gitlab-ci.yml": "gitlab.yml",
    "replay.py": "replay.py",
}
_REPLAYED = ("judge", "traces")  # templates whose answers are recorded


def list_template_files(template: str) -> dict[str, Traversable]:
    """Return the files of a template, by the name that each has in the user's folder."""
    from importlib.resources import files  # noqa: PLC0415 (only where they are asked for)

    kept = files(__name__).joinpath("files")
    own = {file.name: file for file in kept.joinpath(template).iterdir() if file.is_file()}
    shared = {
        name: kept.joinpath("shared", at)
        for name, at in _SHARED.items()
        if name != "replay.py" or template in _REPLAYED
    }
    return dict(sorted(own.items())) | shared


def write_starter(folder: Path, template: str = "agent", *, force: bool = False) -> list[Path]:
    """Write the files of a template into a folder and return their paths.

    Raises:
        UsageError: One of them is there already, and `force` is not set; nothing is written then.
    """
    sources = list_template_files(template)
    return write_files(folder, {n: s.read_bytes() for n, s in sources.items()}, force=force)


def read_starter_file(name: str, group: str = "shared") -> str:
    """Return the text of a file that several templates share, or those of a user's own data."""
    from importlib.resources import files  # noqa: PLC0415 (only where they are asked for)

    return files(__name__).joinpath("files", group, name).read_text(encoding="utf-8")


def write_files(
    folder: Path, texts: Mapping[str, str | bytes], *, force: bool = False
) -> list[Path]:
    """Write texts into a folder, by their names, and return their paths.

    Raises:
        UsageError: One of them is there already, and `force` is not set; nothing is written then.
    """
    contents = {folder / name: text for name, text in texts.items()}
    there = [path for path in contents if path.exists() or path.is_symlink()]
    if there and not force:
        raise UsageError(
            f"{', '.join(map(str, there))}: there already",
            fix="name another folder, or overwrite with --force",
        )
    try:
        for path, text in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise make_write_error(error.filename, error) from error
    return list(contents)
