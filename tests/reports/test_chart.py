"""A chart is Vega-Lite, and does by itself what people expect of a chart."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.reports.charts import FIGURES
from calipers.reports.charts.forest import draw_differences
from calipers.reports.charts.trend import TrendPoint, draw_trend

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `figures`)")


def records(models: int = 2) -> list[dict[str, Any]]:
    return [
        {
            "id": str(number),
            "model": f"m{model}",
            "tier": tier,
            "prob_correct": number % 10 / 10,
            "correct": (number + model) % 3 == 0,
            "passed": number % 2 == 0,
            "impl_rate": 0.5,
            "cost_usd": 0.1 * (number + 1) * (model + 1),
            "latency_ms": 10.0 * (number + 1),
            "prompt_tokens": 3,
            "completion_tokens": number,
            "scores": {"quality": 0.5},
        }
        for model in range(models)
        for tier in ("T0", "T1")
        for number in range(12)
    ]


@cache
def every_chart() -> dict[str, cal.Chart]:
    """Every kind of chart, the figures of scores by the fields that change how they look."""
    found: dict[str, cal.Chart] = {}
    for by in ([], ["model", "tier"]):
        for profile in ("reasoning", "tiers"):
            charts = cal.score(records(), by=by, profile=profile).charts()
            found |= {f"{name} by {by}": chart for name, chart in charts.items()}
    compared = draw_differences(
        cal.compare(
            [row | {"id": f"{row['tier']} {row['id']}"} for row in records(1)],
            [row | {"id": f"{row['tier']} {row['id']}", "correct": True} for row in records(1)],
        )
    )
    assert not isinstance(compared, str)
    found["differences"] = compared
    found |= cal.rank(records(3), by="model").charts()
    for verdict in ("pass", ""):
        points = [
            TrendPoint(
                run=run, full_name=run, verdict=verdict, system=name, value=0.5, low=0.4, high=None
            )
            for run in ("one", "two")
            for name in ("a", "b")
        ]
        found[f"trend {verdict}"] = draw_trend(points, "accuracy", None)
    return found


def chart() -> cal.Chart:
    return every_chart()["accuracy by ['model', 'tier']"]


def test_every_chart_is_what_the_schema_of_vega_lite_allows() -> None:
    schema = pytest.importorskip("altair.vegalite.v6.schema", reason="Altair has the schema")
    jsonschema = pytest.importorskip("jsonschema")
    charts = every_chart()
    drawn = {name.partition(" ")[0] for name in charts}
    names = {name for figures in FIGURES.values() for name in figures}
    names -= {"agent_composite"}  # drawn as accuracy is
    assert drawn == names | {"differences", "rank_accuracy", "trend"}
    checker = jsonschema.Draft7Validator(schema.load_schema())
    for name, each in charts.items():
        assert checker.is_valid(each.to_dict()), name
    wrong = chart().to_dict()
    wrong["layer"][0]["mark"]["strokeWidht"] = 1
    assert not checker.is_valid(wrong)


def test_altair_takes_a_chart() -> None:
    altair = pytest.importorskip("altair")
    assert altair.Chart.from_dict(chart().to_dict()).to_dict()["layer"] == chart().spec["layer"]


def test_the_specification_can_be_changed_without_harm() -> None:
    changed = chart().to_dict()
    changed["title"]["text"] = "Ours"
    assert chart().to_dict()["title"]["text"] == "accuracy: 33 % everywhere"
    assert json.loads(chart().to_json()) == chart().to_dict()
    assert "\n" not in chart().to_json(indent=None)


def is_page(data: bytes) -> bool:
    return b"<html" in data and b"cdn." not in data.partition(b"</script")[0]


@pytest.mark.parametrize(
    ("ending", "is_one"),
    [
        ("svg", lambda data: data.startswith(b"<svg")),
        ("pdf", lambda data: data.startswith(b"%PDF")),
        ("PNG", lambda data: data.startswith(b"\x89PNG")),
        ("json", lambda data: json.loads(data) == chart().to_dict()),
        pytest.param("html", is_page, marks=pytest.mark.long),
    ],
)
def test_a_chart_saves_by_the_ending_of_the_name(
    tmp_path: Path, ending: str, is_one: Callable[[bytes], bool]
) -> None:
    place = tmp_path / f"chart.{ending}"
    assert chart().save(str(place)) == place
    assert is_one(place.read_bytes())


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cal.UsageError, match="not saved as 'gif'") as told:
        chart().save(tmp_path / "chart.gif")
    assert ".svg, .pdf, .png, .html, .json" in str(told.value.fix)


def test_a_notebook_gets_vega_lite_and_a_picture() -> None:
    shown = chart()._repr_mimebundle_()
    assert shown["application/vnd.vegalite.v6+json"] == chart().to_dict()
    assert shown["text/html"].startswith("<div><svg")
    assert repr(chart()) == "Chart('accuracy: 33 % everywhere')"
