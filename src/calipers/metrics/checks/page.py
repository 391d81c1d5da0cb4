"""The list of all kinds of checks, as the documentation shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calipers.metrics.checks.kinds import KINDS


def kinds_table() -> str:
    """Return a table in Markdown: each kind, what it says of a reply, and an example."""
    rows = [
        f"| `{key}` | {kind.says} | `{key}: {_yaml(kind.example)}` |\n"
        for key, kind in KINDS.items()
    ]
    return "| test | holds where | example |\n|---|---|---|\n" + "".join(rows)


def _yaml(value: Any) -> str:
    """Return an example on one line, as YAML has it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_yaml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    return text if not isinstance(value, str) else f"'{value}'" if "\\" in value else text
