"""What is saved or loaded as a file: rows, figures, and the scripts and styles of all pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from calipers.dashboard.assets import ASSETS, MEDIA, asset_text
from calipers.dashboard.catalog import NotHere
from calipers.dashboard.exports import as_csv, as_json
from calipers.dashboard.site import SiteHere, query_of

if TYPE_CHECKING:
    from calipers.reports.charts.style import Drawing

_PIXELS = 2  # of a PNG per pixel of the drawing
_FOR_A_YEAR = {"cache-control": "private, max-age=31536000, immutable"}

router = APIRouter()


@router.get("/runs/{id_}/export.{kind}")
def export(site: SiteHere, request: Request, id_: str, kind: str) -> Response:
    """The rows of the view as a file, written as they are read."""
    found, query = site.run(id_), query_of(request)
    opened = site.indexes.open(found.entry)
    if kind not in ("csv", "json"):
        raise NotHere("an export is csv or json")
    opened.selector.whole(query)  # a search goes on to its end
    rows = opened.selector.select(query, seconds=float("inf")).rows
    parts = as_csv(opened.index, rows) if kind == "csv" else as_json(opened.index, rows)
    name = f"{found.id}.{kind}"
    return StreamingResponse(
        parts,
        media_type="text/csv; charset=utf-8" if kind == "csv" else "application/json",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


@router.get("/runs/{id_}/figures/{name}.{kind}")
def figure(site: SiteHere, request: Request, id_: str, name: str, kind: str) -> Response:
    """A figure of the view, as SVG or PNG."""
    from calipers.reports.charts import draw_charts  # noqa: PLC0415 (loads Altair)

    found, query = site.run(id_), query_of(request)
    charts, _ = draw_charts(site.pictured_score(found, query))
    if name not in charts or kind not in ("svg", "png"):
        raise NotHere(f"there is no figure {name}.{kind} of this view")
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    media = "image/svg+xml" if kind == "svg" else "image/png"
    return Response(_saved(charts[name], kind), media_type=media, headers=headers)


def _saved(chart: Drawing, kind: str) -> bytes:
    if kind == "svg":
        text = io.StringIO()
        chart.save(text, format="svg")
        return text.getvalue().encode()
    data = io.BytesIO()
    chart.save(data, format="png", scale_factor=_PIXELS)
    return data.getvalue()


@router.get("/static/{version}/{name}")
def asset_file(version: str, name: str) -> Response:
    """A script or a style; another version has another address."""
    del version
    if name not in ASSETS:
        raise NotHere("no such file")
    media = MEDIA[name.rpartition(".")[2]]
    return Response(asset_text(name), media_type=media, headers=_FOR_A_YEAR)
