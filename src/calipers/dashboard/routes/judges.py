"""The judges of a run: how far they agree, and which way each leans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.routes.shared import filter_form, nav
from calipers.dashboard.site import SiteHere, query_of
from calipers.judges.audit import AuditGroup

router = APIRouter()


@router.get("/runs/{id_}/judges")
def judges(site: SiteHere, request: Request, id_: str) -> Response:
    """How far judges agree, and which way each leans."""
    found, query = site.run(id_), query_of(request)
    opened = site.indexes.open(found.entry)
    judged = "judgments" in opened.index.summary.fields
    return site.page(
        "judges.html",
        **nav(found, query, "judges"),
        **filter_form(query, opened),
        audit=site.measuring.audit(opened, query.rows, found.name) if judged else None,
        names_of=_measures_of,
        calibrations=_calibrations(found.entry.folder, site.catalog),
        opened=opened,
    )


def _calibrations(folder: Path | None, catalog: Catalog) -> list[dict[str, Any]]:
    """Return what calibration files in a run's folder say of its judges."""
    from calipers.scores.calibration import SCHEMA  # noqa: PLC0415 (loads much)

    found = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.stored(path)
        if content is not None and content.get("schema") == SCHEMA:
            found += [each for each in content.get("judges", ()) if isinstance(each, dict)]
    return found


def _measures_of(group: AuditGroup) -> list[str]:
    """The measures that any judge has a value of."""
    every = dict.fromkeys(name for judge in group.judges for name in judge.measures)
    return [
        name
        for name in every
        if any(judge.measures[name].value is not None for judge in group.judges)
    ]
