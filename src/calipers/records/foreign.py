"""Columns under other names than the record's: which tool they are from, and which `--map` fits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from shlex import quote

from calipers.records.fields import FIELDS

_SUGGESTED = 6  # fields to map at most
_CLOSE = 0.8


# Rows that --map can make records of, by the keys that all of them have; what a log reader knows is
# no longer among them.
_ROWS = {
    ("a", "b", "winner"): "answers compared in pairs",
    ("input", "actual_output"): "test cases of DeepEval",
    ("input", "actualOutput"): "test cases of DeepEval",
}
_SYNONYMS = {
    "answer": "output outputs response prediction predictions completion actualoutput generated "
    "generatedtext modeloutput result generation reply hypothesis modelanswer finalanswer",
    "target": "expected expectedoutput groundtruth groundtruths label gold goldanswer "
    "correctanswer referenceanswer truth solution targets",
    "input": "question prompt query userinput inputs request instruction problem",
    "correct": "iscorrect exactmatch ismatch acc accuracy",
    "passed": "success pass ispass ok",
    "prob_correct": "confidence probability prob",
    "cot": "reasoning rationale thought thoughts chainofthought explanation",
    "model": "modelname modelid engine system",
    "latency_ms": "latency durationms responsetimems executiontimems elapsedms",
    "prompt_tokens": "inputtokens tokensin prompttokencount",
    "completion_tokens": "outputtokens tokensout completiontokencount",
    "cost_usd": "cost totalcost price",
    "category": "topic subject tasktype domain",
    "id": "taskid questionid exampleid sampleid uid customid traceid runid requestid task qid "
    "instanceid problemid itemid",
}


def recognize_tool(columns: Collection[str]) -> str | None:
    """Return a description of the tool whose rows have these columns, or None."""
    return next((what for keys, what in _ROWS.items() if set(keys).issubset(columns)), None)


def suggest_fields(columns: Sequence[str], *, close: float = _CLOSE) -> dict[str, str]:
    """Return the record's fields that columns are called like, or nearly, each with its column.

    `close` says how nearly, from 0 to 1.

    >>> suggest_fields(["question", "output", "Model"])
    {'answer': 'output', 'input': 'question', 'model': 'Model'}
    """
    by_name = {name: field for field, names in _SYNONYMS.items() for name in names.split()}
    found: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"[^a-z0-9]", "", column.lower())
        field = by_name.get(name) or next(
            iter(get_close_matches(column.lower(), FIELDS, n=1, cutoff=close)), None
        )
        if field is not None and column not in FIELDS and field not in columns:
            found.setdefault(field, column)
    order = [*_SYNONYMS, *FIELDS]
    return dict(sorted(found.items(), key=lambda each: order.index(each[0])))


def suggest_maps(columns: Sequence[str]) -> list[str]:
    """Return `--map` options for columns named like a field of the record, or nearly."""
    return map_options(suggest_fields(columns))[:_SUGGESTED]


def map_options(fields: Mapping[str, str]) -> list[str]:
    """Return the `--map` options, as a shell takes them, that read fields from other columns."""
    return [f"--map {quote(f'{field}={column}')}" for field, column in fields.items()]
