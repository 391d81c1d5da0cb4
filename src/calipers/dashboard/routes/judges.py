"""The judges of a run: how far they agree, and which way each leans."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.routes.shared import make_filter_form, make_nav
from calipers.dashboard.site import SiteHere, encode_pairs, get_query
from calipers.scores.calibration import SCHEMA, Calibration, read_calibrations
from calipers.support.errors import UsageError

router = APIRouter()


@router.get("/runs/{id_}/judges")
def show_judges(site: SiteHere, request: Request, id_: str) -> Response:
    """Show how far judges agree, and the bias of each."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    judged = any(map(opened.index.summary.fields.__contains__, ("judgments", "winner")))
    return site.render(
        "judges.html",
        **make_nav(found, query, "judges"),
        **make_filter_form(query, opened),
        audit=site.measuring.audit(opened, query.rows, found.name) if judged else None,
        record_link=lambda id_: f"/runs/{found.id}/samples?{encode_pairs({'id': id_})}",
        calibrations=_read_calibrations(found.entry.folder, site.catalog),
        opened=opened,
    )


def _read_calibrations(folder: Path | None, catalog: Catalog) -> list[Calibration]:
    """Return the calibrations of the judges from the files in a run's folder."""
    found: list[Calibration] = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.read_stored(path)
        if content is not None and content.get("schema") == SCHEMA:
            with suppress(UsageError):  # another program's, or an older one
                found += read_calibrations(path)
    return found
