"""The judges of a run: how far they agree, and which way each leans."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.routes.shared import filter_form, nav
from calipers.dashboard.site import SiteHere, in_query, query_of
from calipers.scores.calibration import SCHEMA, Calibration, read_calibrations
from calipers.support.errors import UsageError

router = APIRouter()


@router.get("/runs/{id_}/judges")
def judges(site: SiteHere, request: Request, id_: str) -> Response:
    """How far judges agree, and which way each leans."""
    found, query = site.run(id_), query_of(request)
    opened = site.indexes.open(found.entry)
    judged = any(map(opened.index.summary.fields.__contains__, ("judgments", "winner")))
    return site.page(
        "judges.html",
        **nav(found, query, "judges"),
        **filter_form(query, opened),
        audit=site.measuring.audit(opened, query.rows, found.name) if judged else None,
        record_link=lambda id_: f"/runs/{found.id}/samples?{in_query({'id': id_})}",
        calibrations=_calibrations(found.entry.folder, site.catalog),
        opened=opened,
    )


def _calibrations(folder: Path | None, catalog: Catalog) -> list[Calibration]:
    """Return what the calibration files in a run's folder say of its judges."""
    found: list[Calibration] = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.stored(path)
        if content is not None and content.get("schema") == SCHEMA:
            with suppress(UsageError):  # another program's, or an older one
                found += read_calibrations(path)
    return found
