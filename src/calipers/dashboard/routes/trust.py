"""Whether to trust a run: what looks wrong in its records, and how far its judges agree."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.run import Run
from calipers.dashboard.site import SiteHere, get_query, redirect_form
from calipers.reports.doctor import describe_file, describe_support, list_findings
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
        run=found,
        query=query,
        here="judges",
        audit=site.measuring.audit(opened, query.rows, found.name) if judged else None,
        record_link=lambda task: _locate_records(found, task),
        calibrations=_read_calibrations(found.entry.folder, site.catalog),
        opened=opened,
    )


@router.get("/runs/{id_}/doctor")
def show_doctor(site: SiteHere, request: Request, id_: str) -> Response:
    """Show what a view's records hold and support, and what looks wrong in them."""
    found, query = site.run(id_), get_query(request)
    if (elsewhere := redirect_form(request, query)) is not None:
        return elsewhere
    opened = site.open(found)
    diagnosis = None
    if opened.complete:
        path = found.entry.records
        diagnosis = site.measuring.diagnose(opened, query.rows, found.name, path)
    return site.render(
        "doctor.html",
        run=found,
        query=query,
        here="doctor",
        diagnosis=diagnosis,
        file_blocks=describe_file,
        finding_blocks=list_findings,
        support_lines=describe_support,
        record_link=lambda task: _locate_records(found, task),
        opened=opened,
    )


def _locate_records(run: Run, task: str) -> str:
    return f"/runs/{run.id}/samples?{urlencode({'id': task})}"


def _read_calibrations(folder: Path | None, catalog: Catalog) -> list[Calibration]:
    found: list[Calibration] = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.read_stored(path)
        if content is not None and content.get("schema") == SCHEMA:
            with suppress(UsageError):  # another program's, or an older one
                found += read_calibrations(path)
    return found
