"""Regular expressions that no text can hang."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.support.patterns import count_groups, find_last
from calipers.systems.reply_text import AnswerRule, read_confidence

PATTERNS = [
    *(r"(\d+)", r"ANSWER: (.*)", r"ANSWER: (.*)$", r"(?m)^A(.*)$", r"(?is)a(.*)b", r"\b(\w+)\b"),
    *(r"(?P<x>a|ab)(c|bcd)", r"^(.*)$", r"x*(a*)", r"<(\w*)>"),
]


@given(text=st.text(alphabet="aAbcdx0 1<>\n:"), pattern=st.sampled_from(PATTERNS))
def test_it_finds_what_pythons_own_engine_finds(text: str, pattern: str) -> None:
    found = find_last(pattern, text)
    theirs = [each for each in re.finditer(pattern, text) if each.group()]
    if found is not None and found.start == found.end:
        return  # engines differ in which of the places where nothing is they call a match
    assert (found is None) == (not theirs)
    if found is None:
        return
    assert (found.start, found.end, found.group) == (*theirs[-1].span(), theirs[-1].group(1) or "")


@given(text=st.text(alphabet="ANSWER: 4\n", max_size=30))
def test_the_end_of_a_text_may_be_followed_by_a_line_break(text: str) -> None:
    ours = find_last(r"ANSWER: (.*)$", f"{text}ANSWER: 4\n")
    assert ours is not None
    assert ours.group == "4"


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(?s)(.*a){12}b"])
def test_no_text_can_hang_it(pattern: str) -> None:
    began = process_time()
    AnswerRule(regex=pattern).read("a" * 200_000 + "!")
    assert process_time() - began < 5


@pytest.mark.parametrize(
    "text", ["\n" * 500_000, "confidence: 1" + " " * 500_000 + "x", "-" * 500_000, "9" * 500_000]
)
def test_no_text_can_hang_the_search_for_confidence(text: str) -> None:
    began = process_time()
    assert read_confidence(text) == (text, None)
    assert process_time() - began < 5


def test_texts_that_are_none_of_unicodes() -> None:
    everything = "".join(map(chr, range(0xE000, 0xF900)))
    for text in ("\ud800 ANSWER: 4", f"{everything} ANSWER: 4", "\x00 ANSWER: 4"):
        assert AnswerRule(regex=r"ANSWER: (\d)").read(text)[0] == "4"


def test_what_it_cannot_do_is_told() -> None:
    with pytest.raises(ValueError, match="look-around"):
        count_groups(r"(?<=a)(b)")
    with pytest.raises(ValueError, match="unclosed group"):
        count_groups("(")
    with pytest.raises(ValueError, match="size limit"):
        count_groups("(((a{999}){999}){999})")
    assert count_groups(r"(?P<x>a)(?:b)(c)") == 2
