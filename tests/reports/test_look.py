"""The parts of every page: what is escaped, what is drawn, what a browser is allowed."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from calipers.metrics import catalogue, metric_named
from calipers.reports.pages.cards import choose_scale, group_by_family, make_bar
from calipers.reports.pages.environment import clean_text, make_environment
from calipers.reports.pages.page_scripts import (
    COLOURS,
    dump_page_json,
    load_script,
    make_policy,
    read_static,
)
from calipers.scores.result import Group, Measured
from tests.browser import Watched, browser, needs_browser, watched

__all__ = ["browser", "watched"]

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\u2028\x1b[31m"


def rendered(source: str, **values: object) -> str:
    return make_environment().from_string(source).render(**values)


def test_everything_is_escaped_and_nothing_is_forgotten() -> None:
    assert "<script>" not in rendered("{{ text }}", text=HOSTILE)
    with pytest.raises(UndefinedError):
        rendered("{{ nothing }}")


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_in_a_page_cannot_end_its_element(value: object) -> None:
    text = str(dump_page_json(value))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == value


@given(st.text())
def test_no_control_character_reaches_a_page(text: str) -> None:
    assert all(each.isprintable() or each in "\n\t" for each in clean_text(text))


def test_a_card_shows_value_interval_and_the_reason_of_a_null() -> None:
    known = Measured(value=0.5, n=10, missing=2, low=0.25, high=0.75, interval="wilson")
    unknown = Measured(value=None, n=0, missing=3, reason="no record has <b>answer</b>")
    groups = [
        Group(by={"model": HOSTILE}, records=12, errors=0, metrics={"accuracy": known}),
        Group(by={"model": "b"}, records=3, errors=0, metrics={"accuracy": unknown}),
    ]
    source = (
        '{% from "parts/metrics.html" import metric_card %}{{ metric_card("accuracy", groups) }}'
    )
    page = rendered(source, groups=groups)
    assert "50 % <small>± 25</small>" in page
    assert "no record has &lt;b&gt;answer&lt;/b&gt;" in page
    assert 'x="25.0" y="2" width="50.0"' in page
    assert "<script>" not in page
    assert "<img" not in page
    assert 'href="#def-accuracy"' in page


@given(st.data())
def test_bars_stay_on_their_scale(data: st.DataObject) -> None:
    metric = metric_named(data.draw(st.sampled_from(sorted(catalogue()))))
    low, value, high = sorted(data.draw(st.lists(st.floats(0, 1e9), min_size=3, max_size=3)))
    measured = Measured(value=value, n=1, missing=0, low=low, high=high)
    bar = make_bar(measured, choose_scale(metric, [measured]))
    assert bar is not None
    assert 0 <= bar.low <= bar.low + bar.width <= 100.01
    assert 0 <= bar.value <= 100


def test_every_metric_is_in_one_family() -> None:
    families = list(group_by_family(catalogue()))
    names = [name for family in families for name in (*family.first, *family.others)]
    assert sorted(names) == sorted(catalogue())


def test_the_style_has_every_colour_of_the_charts_in_light_dark_and_print() -> None:
    tokens = {token for value in COLOURS.values() for token in re.findall(r"--[a-z0-9-]+", value)}
    style = read_static("style.css")
    assert tokens <= set(re.findall(r"(--[a-z0-9-]+): light-dark\(#\w{6}, #\w{6}\);", style))
    on_paper = re.search(r"@media print \{\s*:root, :root\[data-theme\] \{([^}]*)\}", style)
    assert on_paper is not None
    assert "color-scheme: light;" in on_paper[1]


def test_the_content_policy_allows_only_the_texts_by_hash() -> None:
    policy = make_policy(["a()"], ["b {}"])
    hashes = re.findall(r"sha256-([A-Za-z0-9+/=]+)'", policy)
    assert [b64decode(each) for each in hashes] == [
        sha256(text).digest() for text in (b"a()", b"b {}")
    ]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


@needs_browser
def test_the_drawing_script_works_without_eval(watched: Watched) -> None:
    spec = {
        "data": {"values": [{"a": HOSTILE, "b": 1}, {"a": "datum['b']", "b": 2}]},
        "mark": {"type": "bar", "color": "var(--series-1)"},
        "encoding": {"y": {"field": "a", "type": "nominal"}, "x": {"field": "b", "type": "quantitative"}},
        "width": 300,
        "height": 80,
    }  # fmt: skip
    scripts = [load_script(), read_static("figures.js")]
    policy = make_policy(scripts, [read_static("style.css")])
    watched.page.set_content(
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{read_static('style.css')}</style>"
        '<figure class="vega" data-spec="s"><div class="canvas"></div>'
        f'<script type="application/json" id="s">{dump_page_json(spec)}</script></figure>'
        + "".join(f"<script>{script}</script>" for script in scripts)
    )
    watched.figures_drawn()
    assert watched.page.locator("figure svg .mark-rect path").count() == 2
    assert "datum['b']" in (watched.page.locator("figure svg").text_content() or "")
