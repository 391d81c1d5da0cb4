"""What looks wrong in the records of a run, and what they support."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from calipers.dashboard.routes.shared import make_filter_form, make_nav
from calipers.dashboard.site import SiteHere, encode_pairs, get_query
from calipers.reports.doctor import file_blocks, finding_blocks, support_lines

router = APIRouter()


@router.get("/runs/{id_}/doctor")
def doctor(site: SiteHere, request: Request, id_: str) -> Response:
    """What the records hold and support, what looks wrong, and what to run next."""
    found, query = site.run(id_), get_query(request)
    if "add_field" in request.query_params:  # from the form: the address says it in our way
        return RedirectResponse(f"/runs/{id_}/doctor{query.to_url()}", 303)
    opened = site.indexes.open(found.entry)
    diagnosis = None
    if opened.complete:
        path = found.entry.records
        diagnosis = site.measuring.diagnose(opened, query.rows, found.name, path)
    return site.render(
        "doctor.html",
        **make_nav(found, query, "doctor"),
        **make_filter_form(query, opened),
        diagnosis=diagnosis,
        file_blocks=file_blocks,
        finding_blocks=finding_blocks,
        support_lines=support_lines,
        record_link=lambda task: f"/runs/{found.id}/samples?{encode_pairs({'id': task})}",
        opened=opened,
    )
