"""Figures: they say what the score says, hostile names do no harm, and files are what they seem."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import calipers as cal
from calipers.metrics import PROFILES
from tests.commands import run
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `figures`)")

from calipers.reports.charts import FIGURES, draw_charts
from calipers.reports.charts.forest import draw_differences

Row = dict[str, Any]
NAMES = ["composite_by_tier", "cost_pass_rate", "pass_rate"]


def runs(tier: str | None, passes: float, cost: float | None, **fields: Any) -> list[Row]:
    """Twenty runs of ten tasks; the same ones every time."""
    chance = random.Random(f"{tier} {fields}")
    return [
        {
            "id": str(number % 10),
            "tier": tier,
            "run": number // 10,
            "passed": chance.random() < passes,
            "impl_rate": chance.random(),
            "cost_usd": None if cost is None else cost * (1 + chance.random()),
            **fields,
        }
        for number in range(20)
    ]


def measured(*rows: list[Row], by: str | list[str] = "tier") -> cal.Score:
    return cal.score([row for some in rows for row in some], by=by, profile="tiers")


THREE = (runs("T0", 0.3, 0.1), runs("T1", 0.6, 0.2), runs("T2", 0.5, 0.3))


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    return ["\n".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def drawn(score: cal.Score) -> dict[str, str]:
    """Each figure as it is written, but for the slower PNG."""
    return {name: chart.render("svg").decode() for name, chart in draw_charts(score)[0].items()}


def told_by(score: cal.Score) -> dict[str, str]:
    """The texts of each figure, on lines."""
    return {name: "\n".join(texts(svg)) for name, svg in drawn(score).items()}


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the figures of three tiers."""
    folder = tmp_path_factory.mktemp("figures")
    measured(*THREE).save_figures(folder)
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without pictures, where only the files matter: to draw takes longer than all else."""
    monkeypatch.setattr("calipers.reports.charts.chart.Chart.render", lambda *_: b"x")


def rows_of(chart: Any) -> list[Row]:
    """Every row of data that a chart carries."""
    found: list[Row] = []
    parts = [chart.to_dict()]
    while parts:
        part = parts.pop()
        found += part.get("data", {}).get("values", [])
        parts += (*part.get("layer", []), *part.get("concat", []))
    return found


# --- what they show ---


def test_the_bars_are_the_groups_histograms() -> None:
    score = measured(*THREE)
    bars = [row for row in rows_of(score.charts()["composite_by_tier"]) if "runs" in row]
    for group in score.groups:
        histogram = group.histograms["composite_score"]
        assert histogram is not None
        assert sum(histogram.counts) == 20
        for low, high, count in zip(
            histogram.edges[:-1], histogram.edges[1:], histogram.counts, strict=True
        ):
            found = {"from": low, "to": high, "runs": count, "share": count / 20}
            assert any(found.items() <= row.items() for row in bars)


def test_the_points_are_the_scores_values_with_their_intervals() -> None:
    score = measured(*THREE)
    points = {
        row["full_name"]: row for row in rows_of(score.charts()["cost_pass_rate"]) if "note" in row
    }
    for group in score.groups:
        cost, rate = group.metrics["cost_usd"], group.metrics["pass_rate"]
        assert cost.value
        assert cost.low
        assert cost.high
        assert {
            "x": 1000 * cost.value,
            "x_low": 1000 * cost.low,
            "x_high": 1000 * cost.high,
            "y": rate.value,
            "y_low": rate.low,
            "y_high": rate.high,
        }.items() <= points[group.by["tier"]].items()
    assert {name: row["on_front"] for name, row in points.items()} == {
        "T0": True,
        "T1": True,
        "T2": False,  # dearer than T1, and passes less often
    }


def test_the_texts_tell_what_is_seen() -> None:
    score = measured(*THREE)
    told = told_by(score)
    assert sorted(told) == NAMES
    composite = told["composite_by_tier"]
    assert "Composite score of runs, by tier" in composite
    for group in score.groups:
        assert group.statistics is not None
        found = group.statistics["composite_score"]
        assert found is not None
        assert f"{group.grade}, median {found['median']:.3f}, 20 runs" in composite
    scatter = told["cost_pass_rate"].splitlines()
    assert "Cost of a run against pass rate, by tier" in scatter
    assert "Bars are 95 % intervals." in scatter
    assert {"T0", "T1", "T2", "mean cost of 1,000 runs (USD)", "pass rate"} <= set(scatter)


def test_what_cannot_be_drawn_is_said_in_the_caption() -> None:
    free = runs("free", 0.5, None)
    never = runs("never", 0.0, 0.1)
    unknown = [row | {"passed": None, "impl_rate": None} for row in runs("unknown", 1, 0.1)]
    told = told_by(measured(*THREE, free, never, unknown))
    scatter = told["cost_pass_rate"]
    assert "Left out, without a cost: free." in scatter
    assert "Left out, without a pass rate: unknown." in scatter
    assert "Nothing passed, so that a pass costs infinitely much: never." in scatter
    assert "Without a composite score: unknown." in told["composite_by_tier"]


def test_models_have_colours_and_a_legend() -> None:
    rows = [
        *runs("T0", 0.3, 0.1, model="m0"),
        *runs("T1", 0.5, 0.2, model="m0"),
        *runs("T0", 0.6, 0.3, model="m1"),
        *runs("T1", 0.9, 0.4, model="m1"),
    ]
    score = measured(rows, by=["model", "tier"])
    told = told_by(score)
    assert {"m0", "m1"} <= set(told["cost_pass_rate"].splitlines())  # in the legend
    points = [row for row in rows_of(score.charts()["cost_pass_rate"]) if "note" in row]
    assert {(row["name"], row["series"]) for row in points} == {
        (tier, model) for tier in ("T0", "T1") for model in ("m0", "m1")
    }
    panels = [line for line in told["composite_by_tier"].splitlines() if line.startswith("m")]
    assert panels == ["m0, T0", "m1, T0", "m0, T1", "m1, T1"]  # a row per tier


def test_without_a_tier_all_runs_are_one_picture() -> None:
    told = told_by(measured(*THREE, by=[]))
    assert "all runs" in told["composite_by_tier"].splitlines()
    assert "all runs" in told["cost_pass_rate"].splitlines()


@pytest.mark.long
def test_many_tiers_are_not_all_named_nor_all_shown() -> None:
    score = measured(*(runs(f"T{n:02}", n / 60, 0.01 + n / 100) for n in range(45)))
    charts = score.charts()
    composite = charts["composite_by_tier"].to_dict()
    assert len(composite["concat"]) == 36
    assert "The first 36 of 45 groups." in composite["title"]["subtitle"]
    scatter = charts["cost_pass_rate"]
    assert "Only points on the front are named." in scatter.to_dict()["title"]["subtitle"]
    rows = rows_of(scatter)
    front = {row["name"] for row in rows if row.get("on_front")}
    assert {row["text"] for row in rows if "text" in row} == front
    assert 0 < len(front) < 45


def test_the_interval_of_one_task_is_labelled() -> None:
    lonely = [row | {"id": "x"} for row in runs("T9", 0.5, 0.1)]
    told = told_by(measured(*THREE, lonely))["cost_pass_rate"]
    assert "Bars of a single task hold for that task only: T9." in told


# --- the files ---


def test_hostile_names_are_escaped() -> None:
    name = '<script>alert("1")</script> & \x1b[2J\x00 {{x}} ]]>'
    score = measured(runs(name, 0.5, 0.1), *THREE)
    figures = drawn(score)
    for svg in figures.values():
        assert "<script" not in svg
        assert "&lt;script&gt;" in svg
        assert "\x1b" not in svg
        tags = {node.tag.rpartition("}")[2] for node in ET.fromstring(svg).iter()}  # it parses
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath"}
    assert "<script>alert" in "\n".join(texts(figures["composite_by_tier"]))


@pytest.mark.long
def test_the_same_score_gives_the_same_bytes(figures: Path, tmp_path: Path) -> None:
    measured(*THREE).save_figures(tmp_path)
    files = sorted(path.name for path in figures.iterdir())
    assert files == [f"{name}.{suffix}" for name in NAMES for suffix in ("pdf", "png", "svg")]
    for name in files:
        one, other = ((folder / name).read_bytes() for folder in (figures, tmp_path))
        if name.endswith(".pdf"):  # the order of its fonts varies
            assert one.startswith(b"%PDF")
        else:
            assert one == other


def test_a_png_is_a_picture_of_a_fair_size(figures: Path) -> None:
    for name in NAMES:
        data = (figures / f"{name}.png").read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        assert 600 < width < 4000
        assert 300 < height < 4000
        assert len(data) > 10_000


def test_nothing_points_outside(figures: Path) -> None:
    for path in figures.glob("*.svg"):
        svg = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert "http" not in svg
        assert "@import" not in svg


# --- the command line ---


@pytest.mark.usefixtures("undrawn")
def test_figures_are_written_and_the_score_is_printed(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", [row for rows in THREE for row in rows])
    folder = tmp_path / "new" / "figures"
    result = run("score", data, "--profile", "tiers", "--by", "tier", "--figures", folder)
    assert result.exit_code == 0
    assert "composite_score" in result.stdout
    assert len(list(folder.iterdir())) == 9


def test_a_figure_that_cannot_be_drawn_is_a_note(tmp_path: Path) -> None:
    rows = [{"id": "a", "tier": "T0", "passed": True}]
    data = write_lines(tmp_path / "a.jsonl", rows)
    folder = tmp_path / "figures"
    result = run("score", data, "--profile", "tiers", "--by", "tier", "--figures", folder)
    assert result.exit_code == 0
    assert "note: no figure composite_by_tier: no run has a composite score" in result.stderr
    assert "note: no figure cost_pass_rate: no group has both" in result.stderr
    assert not folder.exists()


def test_no_record_no_figure(tmp_path: Path) -> None:
    data = tmp_path / "empty.jsonl"
    data.touch()
    folder = tmp_path / "figures"
    assert run("score", data, "--profile", "tiers", "--figures", folder).exit_code == 3
    assert not folder.exists()


def test_what_is_refused_is_refused_before_any_work(tmp_path: Path) -> None:
    data = tmp_path / "nowhere.jsonl"
    taken = write_lines(tmp_path / "file", [])
    asked = ("score", data, "--profile", "tiers", "--by", "tier", "--figures")
    for folder in (taken, taken / "below"):
        told = run(*asked, folder)
        assert told.exit_code == 2
        assert (
            told.stderr
            == f"error: --figures {folder}: {taken} is not a folder\n  name another folder\n"
        )


def test_no_record_has_a_tier(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", [{"id": "a", "passed": True}])
    folder = tmp_path / "figures"
    told = run("score", data, "--profile", "tiers", "--by", "tier", "--figures", folder)
    assert told.exit_code == 2
    assert "--by tier: no record has a value in tier" in told.stderr
    assert not folder.exists()


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "calipers.support.errors.find_spec", lambda name: None if "vl" in name else sys
    )
    asked = ("--profile", "tiers", "--figures", tmp_path / "figures")
    told = run("score", tmp_path / "nowhere.jsonl", *asked)
    assert told.exit_code == 2
    assert "install it: pip install 'calipers[figures]'" in told.stderr
    with pytest.raises(cal.CalipersError, match="vl-convert is not installed"):
        measured(*THREE).charts()


@pytest.mark.usefixtures("undrawn")
def test_a_folder_that_stops_being_one(tmp_path: Path) -> None:
    score = measured(*THREE)
    (tmp_path / "cost_pass_rate.png").mkdir()
    with pytest.raises(cal.UsageError, match=r"cost_pass_rate\.png"):
        score.save_figures(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    with pytest.raises(cal.UsageError, match="name another folder"):
        score.save_figures(write_lines(tmp_path / "file", []))


def test_every_profile_has_figures() -> None:
    assert set(FIGURES) == set(PROFILES)
    assert list(FIGURES["tiers"]) == NAMES


@needs_shared_data
def test_the_runs_of_scylla() -> None:
    score = cal.score(
        FOLDER / "agent_runs" / "scylla_haiku_runs.jsonl",
        by="tier",
        profile="tiers",
        map={"id": "subtest"},
        on_bad="skip",
    )
    charts, left_out = draw_charts(score)
    assert list(charts) == NAMES
    assert not set(left_out) & set(NAMES)
    front = [row["name"] for row in rows_of(charts["cost_pass_rate"]) if row.get("on_front")]
    assert set(front) == {"T2", "T6"}


def test_without_a_pass_rate_cost_stands_against_accuracy() -> None:
    rows = [
        {"id": str(number), "model": model, "correct": number % 4 < right, "cost_usd": cost}
        for model, right, cost in (("a", 1, 0.1), ("b", 3, 0.2), ("c", 2, 0.3))
        for number in range(40)
    ]
    score = cal.score(rows, by="model")
    chart = score.charts()["cost_pass_rate"].to_dict()
    assert chart["title"]["text"] == "Cost of a run against accuracy, by model"
    front = [
        row["name"] for row in rows_of(score.charts()["cost_pass_rate"]) if row.get("on_front")
    ]
    assert set(front) == {"a", "b"}


def test_without_a_profile_nothing_is_counted_for_figures() -> None:
    rows = [{"id": str(n), "latency_ms": 10.0 * (n + 1)} for n in range(30)]
    assert "latency" not in cal.score(rows).charts()


def test_the_bars_of_a_histogram_are_the_shares_of_the_calls() -> None:
    rows = [{"id": str(n), "latency_ms": ms} for n, ms in enumerate([1.0, 1.1, 1.3, 100.0])]
    chart = cal.score(rows, profile="reasoning").charts()["latency"]
    bars = [row for row in rows_of(chart) if "share" in row]
    assert [(row["from"], row["to"], row["share"]) for row in bars] == [
        (1.0, 1.25, 0.5),
        (1.25, 1.6, 0.25),
        (100.0, 125.0, 0.25),
    ]


def test_a_comparison_draws_its_differences() -> None:
    base = [{"id": str(n), "correct": n % 2 == 0, "passed": n % 3 > 0} for n in range(60)]
    better = [row | {"correct": n % 8 > 0} for n, row in enumerate(base)]
    compared = cal.compare(base, better)
    chart = draw_differences(compared)
    assert not isinstance(chart, str)
    rows = {row["name"]: row for row in rows_of(chart) if "difference" in row}
    found = compared.pairs[0].metrics
    assert {"accuracy", "pass_rate"} <= set(rows)
    assert not {"usr", "error_rate"} & set(rows)  # 1 − accuracy, and not asked for
    for name, row in rows.items():
        assert row["difference"] == found[name].difference
        if found[name].low is not None:
            assert (row["low"], row["high"]) == (found[name].low, found[name].high)
    assert rows["accuracy"]["verdict"] == "better"
    assert rows["pass_rate"]["verdict"] == "neither"
    assert "<svg" in compared._repr_html_()


def test_a_comparison_without_shares_has_no_picture() -> None:
    rows = [{"id": str(n), "latency_ms": n} for n in range(5)]
    compared = cal.compare(rows, rows, metrics=["latency_mean_ms"])
    assert draw_differences(compared) == "no metric that is a share has a difference"
    assert "<svg" not in compared._repr_html_()
