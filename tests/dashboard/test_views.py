"""What a view shows: filters, an order, a search, as its address says, and exports of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers
from calipers.dashboard.catalog import Catalog
from calipers.dashboard.index_cache import Indexes, Opened
from calipers.dashboard.measurements import Measurements
from calipers.dashboard.pages.downloads import write_csv_rows, write_json_rows
from calipers.dashboard.selection import OPERATORS, RESERVED, Filter, Query, Search, read_query
from calipers.support.errors import UsageError
from tests.dashboard.dashboards import records, two_models
from tests.dashboard.indexed import ids, opened, query
from tests.files import write_lines

Forty = tuple[list[dict[str, Any]], Opened]


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forty]:
    """Forty tasks of two models, and their index."""
    folder = tmp_path_factory.mktemp("forty")
    path = two_models(folder, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield [json.loads(line) for line in path.read_text().splitlines()], opened(path)


@pytest.mark.parametrize(
    ("asked", "keeps"),
    [
        ("model=a", lambda r: r["model"] == "a"),
        ("model=a&model=b", lambda _: True),
        ("model!=a", lambda r: r["model"] != "a"),
        ("latency_ms>=300", lambda r: r["latency_ms"] >= 300),
        ("latency_ms<=300&model=b", lambda r: r["latency_ms"] <= 300 and r["model"] == "b"),
        ("correct=false", lambda r: r["answer"] != r["target"]),
        ("answer~=7", lambda r: "7" in r["answer"]),
        ("q=MARBLES", lambda _: True),
        ("q=what is 7 ", lambda r: "What is 7 " in r["input"]),
        ("q=what is 7 &model=b", lambda r: "What is 7 " in r["input"] and r["model"] == "b"),
        ("prompt_tokens=25", lambda r: r["prompt_tokens"] == 25),
        ("category=sums&category!=sums", lambda _: False),
    ],
)
def test_filters(forty: Forty, asked: str, keeps: Any) -> None:
    rows, found = forty
    assert ids(found, asked) == [row["id"] for row in rows if keeps(row)]


@pytest.mark.usefixtures("cache")
def test_sorting_puts_rows_without_a_value_last(tmp_path: Path) -> None:
    rows = records(20)
    for n in (3, 11):
        del rows[n]["latency_ms"]
    found = opened(write_lines(tmp_path / "r.jsonl", rows))
    known = [row for row in rows if "latency_ms" in row]
    rising = ids(found, "sort=latency_ms")
    assert rising == [r["id"] for r in sorted(known, key=lambda r: r["latency_ms"])] + ["t3", "t11"]
    falling = ids(found, "sort=-latency_ms")
    assert falling[-2:] == ["t3", "t11"]
    assert falling[:-2] == rising[:-2][::-1]
    assert set(ids(found, "sort=-latency_ms&q=marbles")) == {row["id"] for row in rows}
    assert ids(found, "sort=latency_ms&q=marbles")[:18] == rising[:18]


@pytest.mark.usefixtures("cache")
def test_a_search_goes_on_from_where_it_was(tmp_path: Path) -> None:
    rows = records(3000)
    parts = tmp_path / "table"
    parts.mkdir()
    for number in range(3):
        frame = pl.DataFrame(rows[number * 1000 : (number + 1) * 1000])
        frame.write_parquet(parts / f"part-{number}.parquet")
    entry = Catalog(tmp_path).list_entries()[0]
    found = Indexes().open(entry, wait=30)
    assert found.index.rows == 3000
    search = Search(found.index, "marbles", None)
    search.go_on(seconds=60, hits=10)
    assert search.hits >= 10
    search.go_on(seconds=60)
    assert search.done
    assert search.hits == 3000
    assert search.list_rows().to_list() == list(range(3000))


@pytest.mark.parametrize(
    "asked",
    [
        "nothing=1",
        "latency_ms>=abc",
        "correct=perhaps",
        "model>=3",
        "sort=nothing",
        "page=0",
        "page=x",
    ],
)
def test_what_makes_no_sense_is_told(forty: Forty, asked: str) -> None:
    with pytest.raises(UsageError) as told:
        ids(forty[1], asked)
    assert told.value.fix


NAMES = st.text(min_size=1, max_size=8).filter(
    lambda name: name[-1] not in "!<>~" and name not in RESERVED
)


@given(
    st.builds(
        Query,
        filters=st.lists(
            st.builds(
                Filter, NAMES, st.sampled_from(list(OPERATORS)), st.text(min_size=1, max_size=8)
            ),
            max_size=4,
            unique=True,
        ).map(tuple),
        text=st.text(max_size=8).map(str.strip),
        sort=st.text(max_size=8),
        page=st.integers(1, 10**6),
        by=st.lists(st.text(min_size=1, max_size=4), max_size=2, unique=True).map(tuple),
    )
)
def test_an_address_says_all_of_a_view(view: Query) -> None:
    again = read_query(parse_qsl(view.to_url().removeprefix("?"), keep_blank_values=True))
    assert again == view


def test_an_address_has_bounds() -> None:
    with pytest.raises(UsageError, match="filters at once"):
        query(urlencode([(f"f{n}", "1") for n in range(100)]))
    with pytest.raises(UsageError, match="characters"):
        query(urlencode({"q": "x" * 1000}))


def test_where_a_row_stands(tmp_path: Path, cache: Path) -> None:
    del cache
    found = opened(two_models(tmp_path, 10))
    selected = found.selector.select(query("model=b"))
    assert selected.find_neighbours(10) == (1, None, 11)
    assert selected.find_neighbours(15) == (6, 14, 16)
    assert selected.find_neighbours(19) == (10, 18, None)
    assert selected.find_neighbours(3) == (None, None, None)


@pytest.mark.usefixtures("cache")
def test_a_score_of_a_view_is_that_of_its_records(tmp_path: Path) -> None:
    path = two_models(tmp_path)
    found = opened(path)
    ours = Measurements().score(found, query("model=b&category=sums&latency_ms%3E=200"), "x")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [
        r for r in lines if r["model"] == "b" and r["category"] == "sums" and r["latency_ms"] >= 200
    ]
    expected = calipers.score(kept).groups[0]
    assert ours.groups[0].to_dict()["metrics"] == expected.to_dict()["metrics"]


@pytest.mark.usefixtures("cache")
def test_exports_hold_the_rows_and_no_formula(tmp_path: Path) -> None:
    rows = records(4)
    rows[0]["answer"] = '=HYPERLINK("http://evil")'
    rows[1]["answer"] = "@SUM(1)"
    rows[2]["answer"] = "-5"
    rows[3]["cost_usd"] = 0.5
    found = opened(write_lines(tmp_path / "r.jsonl", rows))
    every = pl.Series([0, 1, 2, 3])
    text = "".join(write_csv_rows(found.index, every))
    frame = pl.read_csv(text.encode(), infer_schema=False)
    assert frame["answer"].to_list() == ['\'=HYPERLINK("http://evil")', "'@SUM(1)", "-5", "7"]
    assert frame["cost_usd"].to_list()[3] == "0.5"
    assert [row["answer"] for row in json.loads("".join(write_json_rows(found.index, every)))] == [
        row["answer"] for row in rows
    ]
