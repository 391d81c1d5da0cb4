"""Statements and their support by passages: examples, both readers against each other, and labels."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.grounding import judge_rows
from calipers.metrics.grounding.support import find_statements, find_stem, judge_text, split_words
from calipers.metrics.text_counts import count_natively
from tests.examples import examples
from tests.shared_data import FOLDER, needs_shared_data

PASSAGES = [
    "The band's third album, Emotive, was released on November 2, 2004 in the United States.",
    "Größe Märkte in Zürich opened 1,250 shops. Its CEO J. R. Müller lives in St. Gallen.",
]


def list_statements(text: str) -> list[str]:
    return [text[each.start : each.end] for each in find_statements(text)]


def supported(text: str, passages: Sequence[str] = PASSAGES) -> list[bool]:
    return [each.is_supported for each in judge_text(text, passages)]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("It rained. It snowed.", ["It rained.", "It snowed."]),
        (
            "Dr. J. R. Müller lives in the U.S. today.",
            ["Dr. J. R. Müller lives in the U.S. today."],
        ),
        ("- Rain fell\n- Snow fell", ["Rain fell", "Snow fell"]),
        ("1. Rain fell [1].\n2) Snow fell [2, 3].", ["Rain fell [1].", "Snow fell [2, 3]."]),
        ("Rain fell on\nthe city.\n\nSnow fell", ["Rain fell on\nthe city.", "Snow fell"]),
        ("It costs 3.50 euros, i.e. little", ["It costs 3.50 euros, i.e. little"]),
        ("雨が降った。雪が降った。", ["雨が降った。", "雪が降った。"]),
        ('"It rained!" he said.', ['"It rained!" he said.']),
    ],
)
def test_sentences_are_statements(text: str, statements: list[str]) -> None:
    assert list_statements(text) == statements


@pytest.mark.parametrize(
    "text",
    [
        *("", "  \n", "Yes.", "No", "It is.", "[1]", "1."),
        *("When did it open?", "“Who knows?”", "誰ですか？"),
        *("Hello!", "Sure, happy to help.", "Thank you for your question!"),
        "Let me know if you have further questions.",
        *("The passages do not say.", "The provided context doesn't mention her age."),
        *("I do not know.", "I'm sorry, that is not covered.", "I cannot find this."),
        "There is not enough information to answer.",
        "Her age is not mentioned in the given documents.",
        "Unable to answer from the context.",
    ],
)
def test_questions_greetings_and_refusals_are_none(text: str) -> None:
    assert list_statements(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "He did not answer the phone for two days in March.",
        "The company never opened a second shop.",
        "They help children read.",
        "No child was hurt.",
        "We did not find a difference between the groups.",
        "Happy Days is a play by Beckett.",
    ],
)
def test_what_sounds_like_one_may_still_state_something(text: str) -> None:
    assert list_statements(text) == [text]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Emotive was released on November 2, 2004.", True),
        ("The album Emotive was released in 2005.", False),
        ("Emotive was their fifth album.", False),
        ("Müllers CEO lives in Geneva.", False),
        ("The CEO J. R. Müller lives in St. Gallen.", True),
        ("They opened 1250 shops in Zurich.", True),
        ("They opened 1350 shops in Zurich.", False),
        ("GROSSE MARKTE IN ZURICH OPENED SHOPS", True),
        ("Emotive lives in Zürich.", False),  # every word is there, but nowhere together
    ],
)
def test_numbers_names_and_neighbours_decide(text: str, *, verdict: bool) -> None:
    assert supported(text) == [verdict]


def test_words_apart_support_less_than_words_together() -> None:
    near = "Lena Okafor leads the harbour office. " + "Ships arrive daily. " * 60
    far = "Lena Okafor sings. " + "Ships arrive daily. " * 60 + "The harbour office leads."
    claim = "Lena Okafor leads the harbour office."
    (close,), (apart,) = judge_text(claim, [near]), judge_text(claim, [far])
    assert close.support == 1 > apart.support
    assert close.nearest == 0


def test_the_nearest_passage_is_the_one_that_holds_most() -> None:
    (judged,) = judge_text("Müller lives in St. Gallen with two dogs.", PASSAGES)
    assert judged.nearest == 1
    assert judged.missing == {"two", "dog"}


def test_no_passages_support_nothing() -> None:
    assert supported("Rome fell in 476.", []) == [False]


@pytest.mark.parametrize(
    ("word", "stem"), [("companies", "compani"), ("company", "compani"), ("gas", "gas"), ("ß", "ß")]
)
def test_stems(word: str, stem: str) -> None:
    assert find_stem(word) == stem


def test_words_are_compared_without_accents_and_capitals() -> None:
    words = split_words("Élan ÉLAN é́lan ＡＢＣ１ ΑΒΓ Ёлка 東京 U+1F600😀x")
    assert [word.text for word in words] == (
        ["elan", "elan", "elan", "abc1", "αβγ", "ёлка", "東", "京", "u", "1f600", "x"]
    )


FORMS = [
    PASSAGES,
    [{"text": text} for text in PASSAGES],
    [{"id": 1, "content": PASSAGES[0], "score": 0.5}, {"page_content": PASSAGES[1], "text": None}],
    [[PASSAGES[0]], [PASSAGES[1]]],
    " ".join(PASSAGES),
    json.dumps(PASSAGES),
]
NAMES = ["passages", "contexts", "retrieved_contexts", "retrieval_context", "context", "documents"]
ANSWER = "Emotive was released in 2004. It sold in Berlin."


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*NAMES, "source_documents"])
def test_passages_come_in_many_forms(form: Any, name: str, tmp_path: Path) -> None:
    rows = [{"id": str(at), "answer": ANSWER, name: form} for at in range(2)]
    path = tmp_path / "a b.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    table = tmp_path / "größe.csv"
    cells = form if isinstance(form, str) else json.dumps(form)
    pl.DataFrame({"answer": [ANSWER], name: [cells]}).write_csv(table)
    for data in (rows, path, table):
        found = cal.score(data, metrics=["rag_usr"]).groups[0].metrics["rag_usr"]
        assert (found.value, found.extras) == (
            0.5,
            {"statements": 2 * found.n, "unsupported": found.n},
        )


def test_lists_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "01.parquet"
    pl.DataFrame({"answer": [ANSWER] * 3, "contexts": [PASSAGES, [], None]}).write_parquet(path)
    found = cal.score(path, metrics=["rag_usr"]).groups[0].metrics["rag_usr"]
    assert (found.value, found.n, found.missing) == (0.75, 2, 1)


def test_a_field_goes_before_its_other_names() -> None:
    row = {"answer": ANSWER, "context": ["Nothing here."], "passages": PASSAGES}
    assert cal.score([row], metrics=["rag_usr"]).groups[0].metrics["rag_usr"].value == 0.5


def test_the_context_of_a_row_can_still_be_grouped_by() -> None:
    rows = [{"answer": ANSWER, "context": each} for each in ("mobile", "web")]
    assert [group.by for group in cal.score(rows, by="context", metrics=["rag_usr"]).groups] == [
        {"context": "mobile"},
        {"context": "web"},
    ]


def test_the_chain_of_thought_can_be_looked_at() -> None:
    row = {"answer": ANSWER, "cot": "Emotive was released in 2004.", "passages": PASSAGES}
    found = cal.score([row], metrics=["rag_usr"], rag_text="cot").groups[0].metrics["rag_usr"]
    assert found.extras == {"statements": 1, "unsupported": 0}


needs_library = pytest.mark.skipif(
    count_natively("judge_statements", pl.Series(["a"]), 3, pl.Series(["a"])) is None,
    reason="the package was built without Rust",
)


def compare(texts: Iterable[str], passages: Iterable[str]) -> int:
    """Compare both readers; return how many rows the library leaves to the other."""
    texts, passages = pl.Series([*texts], dtype=pl.String), pl.Series([*passages], dtype=pl.String)
    counts = count_natively("judge_statements", texts, 3, passages)
    assert counts is not None
    found = judge_rows(texts, passages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIPERS_NATIVE", "0")
        assert found.to_list() == judge_rows(texts, passages).to_list()
    return int((counts[:, 0] < 0).sum())


PIECES = [
    *(
        "Dr. ",
        "U.S. ",
        "1,000",
        "1,00",
        "3.5",
        "2004",
        "[1]",
        "[2, 3]",
        "?",
        "!",
        "…",
        "。",
        " ",
        "\n",
    ),
    *(
        "\n\n",
        "- ",
        "1. ",
        "2) ",
        "* ",
        "I do not know",
        "the passages",
        " do not say",
        "sorry",
        "Hi",
    ),
    *(
        "thank you",
        "Zürich",
        "zurich",
        "companies",
        "company",
        "東京",
        "東",
        "ＡＢＣ",
        "é́",
        "İ",
        "ß",
        "Ǆ",
    ),
    *(
        '"',
        "”",
        "\\",
        "\t",
        "\r\n",
        "x",
        "glass",
        "glasses",
        "running",
        "😀",
        "\u2028",
        "٣",
        "[",
        "]",
    ),
]
pieces = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=12).map("".join)
listed = st.one_of(
    pieces,
    st.recursive(
        st.one_of(pieces, st.integers(), st.none(), st.booleans(), st.floats()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(
                st.sampled_from(["text", "content", "page_content", "id", "score", "é", '"']),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=8,
    ).map(json.dumps),
)


def is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@needs_library
@given(rows=st.lists(st.tuples(pieces.filter(is_utf8), listed.filter(is_utf8)), min_size=1))
@examples(150, deadline=None)
def test_both_readers_agree(rows: list[tuple[str, str]]) -> None:
    compare(*zip(*rows, strict=True))


@needs_library
@pytest.mark.parametrize(
    "passages",
    [
        '["a',
        '["a"] b',
        '["a"]]',
        "[1] Rome",
        '{"text": "a", "text": "b"}',
        '["\\ud800"]',
        "[" * 99,
        '["a\nb"]',
        '[NaN, "Rome"]',
        '{"te\\u0078t": "Rome"}',
        '["Rome",]',
        '\x0b["Rome"]',
        "[]",
        "{}",
    ],
)
def test_odd_passages(passages: str) -> None:
    compare(["Rome a b.", "a"], [passages, passages])


@needs_library
def test_texts_that_repeat_themselves_take_no_time() -> None:
    text = "rome " * 100_000
    assert compare([text, ".!" * 50_000, "[" * 100_000], [text, text, text]) == 0


def read_labelled(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / "grounding" / name).read_text("utf-8").splitlines()
    rows = (json.loads(line) for line in lines)
    return [row for row in rows if row["label"] in ("supported", "not_supported")]


def measure_auroc(right: Sequence[float], wrong: Sequence[float]) -> float:
    low = sorted(wrong)
    wins = sum(bisect_left(low, each) + bisect_right(low, each) for each in right)
    return wins / 2 / len(right) / len(low)


@needs_shared_data
@pytest.mark.parametrize("name", ["wice_claims_dev", "halueval_qa_half"])
def test_labelled_answers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_labelled(f"{name}.jsonl")
    found = judge_rows(
        pl.Series([row["text"] for row in rows]),
        pl.Series([json.dumps(row["passages"]) for row in rows]),
    ).struct.field("support")
    support: dict[str, list[float]] = {"supported": [], "not_supported": []}
    for row, value in zip(rows, found, strict=True):
        if value is not None:
            support[row["label"]].append(value)
    right, wrong = support["supported"], support["not_supported"]
    called = sum(value < 0.5 for value in wrong)
    falsely = sum(value < 0.5 for value in right)
    auroc = measure_auroc(right, wrong)
    recall, specificity = called / len(wrong), 1 - falsely / len(right)
    with capsys.disabled():
        print(  # noqa: T201 (the figures of docs/rag_usr.md)
            f"\n{name}: supported {len(right) - falsely} called so, {falsely} called unsupported; "
            f"not supported {called} called so, {len(wrong) - called} not\n"
            f"  precision {called / (called + falsely):.3f}, recall {recall:.3f}, "
            f"balanced accuracy {(recall + specificity) / 2:.3f}, AUROC {auroc:.3f}"
        )
    assert auroc >= 0.90
    assert (recall + specificity) / 2 >= 0.80


@needs_library
@needs_shared_data
def test_both_readers_agree_on_real_answers() -> None:
    rows = read_labelled("halueval_qa_half.jsonl") + read_labelled("wice_claims_dev.jsonl")[:20]
    random = Random(1)
    cut = [row["text"][: random.randrange(1, 200)] for row in rows]
    assert compare(cut, [json.dumps(row["passages"], ensure_ascii=False) for row in rows]) == 0
    assert compare(cut, [json.dumps(row["passages"]) for row in rows]) == 0
    assert compare(cut, [" ".join(row["passages"]) for row in rows]) == 0
