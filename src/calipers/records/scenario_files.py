"""A folder of scenarios: a YAML file each, whose name is the scenario's id where it gives none."""

from __future__ import annotations

import json
from pathlib import Path

from calipers.support.config.files import read_config
from calipers.support.errors import DataError

_SUFFIXES = (".yaml", ".yml")
_EXAMPLE = "a scenario is a mapping, for example {input: Where is order 1001?, category: edge_case}"


def list_scenarios(folder: Path) -> list[Path]:
    """Return the YAML files in a folder and in those below it, sorted by path."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    return sorted(path for path in found if path.is_file())


def read_scenario(path: Path) -> bytes:
    """Return the scenario in a file as a line of JSON; dates become texts.

    Raises:
        UsageError: The file cannot be read as YAML.
        DataError: It holds something else than the fields of one scenario.
    """
    value = read_config(path, example=_EXAMPLE).value
    if not isinstance(value, dict):
        raise DataError(f"{path}: not the fields of one scenario", fix=_EXAMPLE)
    try:
        return json.dumps({"id": path.stem, **value}, default=str, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: {error}", fix=_EXAMPLE) from error
