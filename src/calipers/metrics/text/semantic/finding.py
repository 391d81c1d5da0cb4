"""Location of a model's files: a folder, an installed package that carries them, or the hub.

Weights are read from safetensors files alone: they hold numbers, never code.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path

from calipers.support.errors import UsageError

CONFIG, WEIGHTS = "config.json", "*.safetensors"

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_PATIENCE = 5.0  # seconds until a hub counts as out of reach
_WAYS = "give its folder, or an installed package that carries it"


def find_model(name: str) -> Path:
    """Return the folder with the configuration, the tokenizer and the weights of a model."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _has_model(folder):
            raise UsageError(
                f"the folder {name} holds no model", fix=f"it needs {CONFIG} and {WEIGHTS}"
            )
        return folder.resolve()
    return _search_package(name) or _from_hub(name)


def hash_model(folder: Path) -> str:
    """Return the hash of a model's files, on which its numbers depend."""
    digest = sha256()
    for path in sorted({path for each in _FILES for path in folder.glob(each)}):
        with path.open("rb") as file:
            digest.update(f"{path.name}\0".encode())
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _has_model(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and any(folder.glob(WEIGHTS))


def _search_package(name: str) -> Path | None:
    """Return the shallowest folder of a package that holds a model; nothing is imported."""
    module = name.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    roots = (spec and spec.submodule_search_locations) or ()
    found = (path.parent for root in roots for path in Path(root).rglob(CONFIG))
    models = [folder for folder in found if _has_model(folder)]
    return min(models, key=lambda folder: (len(folder.parts), folder), default=None)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 (only where it is needed)

    with suppress(OSError, ValueError):  # not there yet, or only a part of it
        folder = Path(snapshot_download(name, local_files_only=True, allow_patterns=_FILES))
        if _has_model(folder):
            return folder
    folder = Path(_download(name))
    if not _has_model(folder):
        raise UsageError(f"the model {name} has no {WEIGHTS} on the hub", fix="name another")
    return folder


def _download(name: str) -> str:
    """Return a fresh copy of the model's files, in the hub's own cache."""
    from huggingface_hub import HfApi, errors, snapshot_download  # noqa: PLC0415

    try:
        # Asked first, since this call can be told how long to wait.
        revision = HfApi().model_info(name, timeout=_PATIENCE).sha
        return str(
            snapshot_download(
                name, revision=revision, allow_patterns=_FILES, ignore_patterns=["*/*"]
            )
        )
    except Exception as error:  # its HTTP library has errors of its own
        why = f"the model {name} is not on this machine, and the hub cannot be reached"
        if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
            why = f"no folder, no installed package and no model of the hub is called {name}"
        elif isinstance(error, errors.OfflineModeIsEnabled):
            why = f"the model {name} is not on this machine, and HF_HUB_OFFLINE is set"
        raise UsageError(why, fix=_WAYS) from error
