"""What a system's own word counts for: the fields of its replies that the suite of a run trusts.

A run sorts what systems report of themselves when it writes its records (`runs/call_records.py`);
here the manifest beside the records tells which of it counts, for the sources of metrics
(`metrics/provenance.py`) and for gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.records.completeness import list_origins
from calipers.records.fields import FIELDS
from calipers.records.result_folder import (
    MANIFEST,
    RECORDS,
    TASK_FIELDS,
    get_suite,
    read_json_object,
)
from calipers.records.task_data import TASK
from calipers.support.field_paths import split_root


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFields:
    """What systems may say of themselves in the runs that wrote some records."""

    trusted: tuple[str, ...]  # fields of their replies that count
    given: frozenset[str]  # fields of their own that the tasks have
    is_all: bool  # no record is of another file, whose authors nobody knows


def find_trusted_fields(paths: Iterable[str]) -> TrustedFields | None:
    """Return what counted in the runs that wrote these files; None where none is of a run."""
    manifests = [manifest for path in paths for manifest in _read_manifests(Path(path))]
    trusted = [names for manifest in manifests if (names := list_trusted(manifest)) is not None]
    if not trusted:
        return None
    return TrustedFields(
        trusted=tuple(sorted({name for names in trusted for name in names})),
        given=frozenset(
            name for manifest in manifests for name in list_task_fields(manifest) or ()
        ),
        is_all=len(trusted) == len(manifests),
    )


def find_untrusted(paths: Iterable[str], fields: Iterable[str]) -> str | None:
    """Return which of these fields a run's system has filled although nothing says it counts.

    Fields that every record may have are not asked for: a run has sorted these when it wrote them.
    """
    own = {name: split_root(name)[0] for name in fields if name not in FIELDS}
    manifests = (manifest for path in paths if own for manifest in _read_manifests(Path(path)))
    for manifest in manifests:
        given, trusted = list_task_fields(manifest), list_trusted(manifest)
        if given is None or trusted is None:
            continue  # no run, or of a version that has not noted it
        counted = {*given, *trusted, *FIELDS, TASK}
        for name, root in own.items():
            if counted.isdisjoint((name, root)):
                return name
    return None


def _read_manifests(path: Path) -> list[dict[str, Any] | None]:
    """Return the manifests of the runs whose records a file holds; None for what is of no run."""
    return [
        read_json_object(origin.parent / MANIFEST) if origin.name == RECORDS else None
        for origin in list_origins(path)
    ]


def list_task_fields(manifest: Mapping[str, Any] | None) -> list[str] | None:
    """Return the fields of their own that the run's tasks have; None if the manifest has none."""
    data = (manifest or {}).get("data")
    fields = data.get(TASK_FIELDS) if isinstance(data, dict) else None
    return [str(name) for name in fields] if isinstance(fields, list) else None


def list_trusted(manifest: Mapping[str, Any] | None) -> list[str] | None:
    """Return the fields that a system may report of itself; None if the manifest has no suite."""
    if not (suite := get_suite(manifest)):
        return None
    trusted = suite.get("trust")
    return [str(name) for name in trusted] if isinstance(trusted, list) else []
