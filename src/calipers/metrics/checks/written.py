"""Checks as a key of a suite or a policy: read with the file, and in its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from calipers.metrics.checks.check import NamedCheck, make_check_schema, read_list

_folder: ContextVar[Path] = ContextVar("folder", default=Path())


@contextmanager
def resolve_from(folder: Path) -> Iterator[None]:
    """Read, inside the block, checks whose paths are relative to a folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


class _CheckListSchema:
    """Says what a list of checks is, when a schema is asked for: it takes every kind of check."""

    def __get_pydantic_json_schema__(self, _: object, __: object) -> dict[str, Any]:
        return {"type": "array", "items": make_check_schema()}


WrittenChecks = Annotated[
    tuple[NamedCheck, ...],
    PlainValidator(lambda value: tuple(read_list(value, _folder.get()))),
    PlainSerializer(lambda checks: [json.loads(each.written) for each in checks], return_type=list),
    _CheckListSchema(),
]
