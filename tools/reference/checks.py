"""The list of all kinds of checks, as the documentation shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calipers.metrics.checks.kinds import load_kinds


def list_kinds() -> str:
    """Return a Markdown table: each kind, what it says about a reply, and an example."""
    rows = [
        f"| `{key}` | {kind.says} | `{key}: {_dump_yaml(kind.example)}` |\n"
        for key, kind in load_kinds().items()
    ]
    return "| test | holds where | example |\n|---|---|---|\n" + "".join(rows)


def _dump_yaml(value: Any) -> str:
    """Return an example on one line of YAML."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_dump_yaml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_dump_yaml, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    return text if not isinstance(value, str) else f"'{value}'" if "\\" in value else text
