"""Model output is hostile: whatever a record holds, a report only shows it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

import calipers as cal
from tests.reports.pages_at_hand import HOSTILE, hostile_records, page_of, records

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

OURS = {
    *("html", "head", "meta", "style", "script", "title", "body", "a", "header", "span", "nav"),
    *("button", "main", "h1", "h2", "h3", "h4", "div", "section", "p", "strong", "ul", "li", "dl"),
    *("dt", "dd", "article", "svg", "rect", "small", "table", "caption", "thead", "tbody", "tr"),
    *("th", "td", "figure", "figcaption", "details", "summary", "pre", "code", "footer"),
    *("b", "i", "ol", "br", "mark"),
}
SAID = {
    *("href", "class", "id", "title", "content", "name", "charset", "lang", "http-equiv", "role"),
    *("aria-label", "aria-hidden", "focusable", "tabindex", "scope", "type", "viewbox", "x", "y"),
    *("preserveaspectratio", "width", "height", "data-metric", "data-spec", "data-label"),
    *("data-toggle-theme", "fill"),
}


@pytest.fixture(scope="module")
def html() -> str:
    return cal.report(hostile_records(), title=HOSTILE[1]).to_html()


def test_no_text_becomes_an_element_or_an_attribute(html: str) -> None:
    page = page_of(html)
    assert {tag for tag, _ in page.tags} <= OURS
    assert {name for _, attributes in page.tags for name in attributes} <= SAID
    links = [each.get("href") or "" for _, each in page.tags if "href" in each]
    assert all(link.startswith("#") for link in links)
    assert HOSTILE[1] in page.text
    assert "{{7*7}}" in page.text  # and not 49


def test_no_control_character_is_in_the_page(html: str) -> None:
    shown = html.partition("<main")[2].partition("</main>")[0]
    assert not set(shown) & {"\x1b", "\x07", "\x00", "\u202e", "\u2028"}


def test_only_our_scripts_run_and_each_is_allowed_by_its_hash(html: str) -> None:
    page = page_of(html)
    [policy] = [
        each["content"]
        for _, each in page.tags
        if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    run = [text for attributes, text in page.scripts if attributes.get("type") is None]
    hashes = {f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in run}
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert len(run) == 5  # theme, style, opening, Vega, figures


def test_the_policy_stands_before_any_script(html: str) -> None:
    assert html.index("Content-Security-Policy") < html.index("<style") < html.index("<script")


def test_texts_are_data_in_figures_and_never_expressions(html: str) -> None:
    def walk(part: object) -> None:
        if isinstance(part, dict):
            for key, value in part.items():
                assert key not in ("expr", "signal", "url", "href", "labelExpr", "transform")
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    specs = page_of(html).specs()
    assert specs
    for spec in specs.values():
        walk(spec)


def test_nothing_points_outside(html: str) -> None:
    page = page_of(html)
    assert not [each for _, each in page.tags if {"src", "action", "srcset", "poster"} & set(each)]
    own = [text for attributes, text in page.scripts if attributes.get("type") != "x"]
    style = next(text for text in own if ":root" in text)
    assert "url(" not in style
    assert "@import" not in style


def test_markdown_is_text_too() -> None:
    told = cal.report(hostile_records(), title=HOSTILE[0]).to_markdown()
    assert "<script" not in told
    assert "<img" not in told
    assert "\x1b" not in told
    assert not re.search(r"(?<!\\)\[[^\]]*\]\(", told)


def test_notebooks_show_text_too() -> None:
    made = cal.report(hostile_records())
    shown = made._repr_html_() + cal.score(hostile_records(), by="model")._repr_html_()
    base, candidate = records(20, models=("a",)), records(20, models=("b",))
    shown += cal.compare(base, candidate, metrics=["accuracy"])._repr_html_()
    page = page_of(shown)
    tags = {tag for tag, _ in page.tags}
    assert "script" not in tags
    assert "img" not in tags
    assert not [name for _, each in page.tags for name in each if name.startswith("on")]
    assert "svg" in tags
