"""What `calipers init` writes: a suite, its scenarios, an agent to try, and a policy."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from calipers.support.errors import UsageError, unwritable

NAMES = ("suite.yaml", "policy.yaml", "scenarios.jsonl", "agent.py")


def write_starter(folder: Path, *, force: bool = False) -> list[Path]:
    """Write the files into a folder; one that is there already stays, unless forced."""
    paths = [folder / name for name in NAMES]
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        raise UsageError(
            f"{', '.join(map(str, there))}: there already",
            fix="name another folder, or overwrite with --force",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            content = files(__name__).joinpath("files", path.name).read_bytes()
            path.write_bytes(content)
    except OSError as error:
        raise unwritable(error.filename, error) from error
    return paths
