"""Downloads: rows, figures, and the scripts and styles of all pages."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from calipers.dashboard.assets import ASSETS, MEDIA, read_asset
from calipers.dashboard.catalog import NotHere
from calipers.dashboard.exports import as_csv, as_json
from calipers.dashboard.site import SiteHere, get_query
from calipers.reports.charts import draw_charts
from calipers.reports.charts.saving import PIXELS

_FOR_A_YEAR = {"cache-control": "private, max-age=31536000, immutable"}

router = APIRouter()


@router.get("/runs/{id_}/export.{kind}")
def export(site: SiteHere, request: Request, id_: str, kind: str) -> Response:
    """Send the rows of the view as a file, written as they are read."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    if kind not in ("csv", "json"):
        raise NotHere("an export is csv or json")
    opened.selector.select_all(query)  # a search goes on to its end
    rows = opened.selector.select(query, seconds=float("inf")).rows
    parts = as_csv(opened.index, rows) if kind == "csv" else as_json(opened.index, rows)
    name = f"{found.id}.{kind}"
    return StreamingResponse(
        parts,
        media_type="text/csv; charset=utf-8" if kind == "csv" else "application/json",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


@router.get("/runs/{id_}/figures/{name}.{kind}")
def send_figure(site: SiteHere, request: Request, id_: str, name: str, kind: str) -> Response:
    """Send a figure of the view, as SVG or PNG."""
    found, query = site.run(id_), get_query(request)
    charts, _ = draw_charts(site.get_score(found, query))
    if name not in charts or kind not in ("svg", "png"):
        raise NotHere(f"there is no figure {name}.{kind} of this view")
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    media = "image/svg+xml" if kind == "svg" else "image/png"
    data = charts[name].render(kind, PIXELS if kind == "png" else 1)
    return Response(data, media_type=media, headers=headers)


@router.get("/static/{version}/{name}")
def send_asset(version: str, name: str) -> Response:
    """Send a script or a style; another version has another address."""
    del version
    if name not in ASSETS:
        raise NotHere("no such file")
    media = MEDIA[name.rpartition(".")[2]]
    return Response(read_asset(name), media_type=media, headers=_FOR_A_YEAR)
