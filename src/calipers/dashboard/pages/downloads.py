"""Downloads: rows, figures, and the scripts and styles of all pages."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.index import Index
from calipers.dashboard.site import ASSETS, MEDIA, SiteHere, get_query, read_asset
from calipers.reports.charts import draw_charts
from calipers.reports.charts.chart import PIXELS
from calipers.reports.formats.spreadsheets import write_csv

AT_ONCE = 5_000  # rows of an export
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
    parts = (
        write_csv_rows(opened.index, rows) if kind == "csv" else write_json_rows(opened.index, rows)
    )
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


def write_csv_rows(index: Index, rows: pl.Series) -> Iterator[str]:
    """Yield a header, then a line per record: its number, its fields, its measured values."""
    names = _list_names(index)
    yield write_csv([["row", *names]])
    for numbers, part in _read_parts(index, rows):
        records = part.select(names).iter_rows()
        yield write_csv(
            [number, *(str(each).lower() if isinstance(each, bool) else each for each in record)]
            for number, record in zip(numbers, records, strict=True)
        )


def write_json_rows(index: Index, rows: pl.Series) -> Iterator[str]:
    """Yield a list of objects, a line each."""
    names = _list_names(index)
    yield "["
    first = True
    for numbers, part in _read_parts(index, rows):
        for number, record in zip(numbers, part.select(names).iter_rows(named=True), strict=True):
            found = {"row": number, **{n: v for n, v in record.items() if v is not None}}
            yield ("\n" if first else ",\n") + json.dumps(found, ensure_ascii=False, default=str)
            first = False
    yield "\n]\n"


def _list_names(index: Index) -> list[str]:
    return list(dict.fromkeys((*index.summary.fields, *index.summary.values)))


def _read_parts(index: Index, rows: pl.Series) -> Iterator[tuple[list[int], pl.DataFrame]]:
    for start in range(0, len(rows), AT_ONCE):
        numbers = rows.slice(start, AT_ONCE).to_list()
        values = index.read_values(numbers)
        records = index.read_records(numbers)
        own = [name for name in records.columns if name not in values.columns]
        yield numbers, pl.concat([records.select(own), values], how="horizontal")
