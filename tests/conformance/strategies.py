"""Records as logs hold them: nulls, empty strings, Unicode, numbers in every spelling, bin edges."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    "42 42. 42.0 +42 -42 042 1,000 1000 1,000.50 1000.5 .5 0.5 -.5 -0 0 0.0 007 7 1,00 1e3 $5 5% −5 "
    "9007199254740993 9007199254740992 9007199254740993.0 1,234,567 1234567 12,34 3.1400 3.14"
).split()

_assigned = st.characters(exclude_categories=("Cs", "Cn", "Co"))
_spaces = st.sampled_from(
    list(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u3000")
)
_fragments = st.sampled_from(
    [
        *("1. ", "2.", "- ", "* ", "-", "*", "\n", "\r\n", "\r", "\n\n", "  ", "12. first", "٣. "),
        *("Actually", "SORRY", "correction", "let me fix", "I made a mistake", "mista\u212ae"),
        *("2 + 3 = 5", "2 + 3 = 6", "10 / 4 = 2.5", "<<16-3=13>>13", "<<2*2=5>>", "7 x 6 = 42"),
        *(
            "$5 + $2.50 = $7.50",
            "1/3 = 0.33",
            "(2 + 3) * 4 = 20 = 5 * 4",
            "1,000 − 1 = 999",
            "x = 5",
        ),
        *("word", "über", "数学", "🙂", "I", "i̇", "İ", "ß", "Σ", "ς"),
    ]
)

texts = st.lists(st.one_of(_fragments, _spaces, st.text(_assigned, max_size=6)), max_size=8).map(
    "".join
)
answers = st.one_of(
    st.sampled_from(NUMBERS),
    st.builds(lambda a, number, b: a + number + b, _spaces, st.sampled_from(NUMBERS), _spaces),
    st.sampled_from(["", " ", "yes", "Yes ", "NO", "Straße", "STRASSE", "A" * 80, "a" * 80 + "b"]),
    st.integers(-5, 5),
    st.sampled_from([18.0, 18.5, 1000.0, 1e22, 0.1, -0.0]),
    st.booleans(),
    texts,
)

_edges = [k / 10 for k in range(11)]
probabilities = st.one_of(
    st.sampled_from([*_edges, *(math.nextafter(edge, 0.5) for edge in _edges)]),
    st.floats(0, 1),
)
counts = st.one_of(st.integers(0, 5), st.integers(0, 10**9))
latencies = st.one_of(
    st.sampled_from([0, 0.0, 1, 1.5, 250, 5e-324]), st.floats(0, 1e9, allow_nan=False)
)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values)


_ids = st.sampled_from(["a", "b", "Größe", "7", "01", 7, ""])
_told = st.one_of(answers.map(str), texts, st.sampled_from(["Yes, 42.", "no 7 or 8", '9. "x"\n']))
_passage = st.one_of(
    _told,
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.one_of(st.none(), _ids),
            **dict.fromkeys(("text", "content", "page_content"), _told),
            "score": st.floats(0, 1),
        },
    ),
)
passages = st.one_of(_told, st.lists(_passage, max_size=7))

_values: dict[str, st.SearchStrategy[Any]] = {
    "target": answers,
    "answer": answers,
    "cot": texts,
    "prob_correct": probabilities,
    "prompt_tokens": counts,
    "completion_tokens": counts,
    "latency_ms": latencies,
    "passages": passages,
    "relevant_ids": st.lists(_ids, max_size=4),
}
_errors = st.sampled_from([None, None, None, None, None, "timeout: no answer", ""])
_sparse = st.fixed_dictionaries(
    {},
    optional={
        **{name: _maybe(values) for name, values in _values.items()},
        "correct": st.one_of(st.none(), st.none(), st.booleans()),
        "error": _errors,
    },
)
# Rows that lack nothing and repeat themselves: full bins, common answers, tasks with several runs.
_dense = st.fixed_dictionaries(
    {
        **_values,
        "target": st.sampled_from(["7", "8"]),
        "answer": st.sampled_from(["7", "7.0", " 8", "9"]),
        "prob_correct": st.sampled_from([*_edges, 0.05, 0.15]),
        "latency_ms": st.sampled_from([1, 2.5, 3, 250]),
    }
)


@st.composite
def data_sets(draw: st.DrawFn, *, groups: int, rows: int) -> list[list[dict[str, Any]]]:
    """Groups of records; all with ids, a few of them shared by several rows, or none with one."""
    sparse = st.lists(_sparse, min_size=1, max_size=rows)
    dense = st.lists(_dense, min_size=1, max_size=3 * rows)
    found = draw(st.lists(st.one_of(sparse, dense), min_size=1, max_size=groups))
    if draw(st.booleans()):
        for group in found:
            for row in group:
                row["id"] = draw(st.sampled_from(["a", "b", "c", 4]))
    return found
