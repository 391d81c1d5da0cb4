"""What looks wrong in the records of a run, and what they support."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from calipers.dashboard.routes.shared import make_filter_form, make_nav, redirect_form
from calipers.dashboard.site import SiteHere, encode_pairs, get_query
from calipers.reports.doctor import describe_file, describe_support, list_findings

router = APIRouter()


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
        **make_nav(found, query, "doctor"),
        **make_filter_form(query, opened),
        diagnosis=diagnosis,
        file_blocks=describe_file,
        finding_blocks=list_findings,
        support_lines=describe_support,
        record_link=lambda task: f"/runs/{found.id}/samples?{encode_pairs({'id': task})}",
        opened=opened,
    )
