"""Files of tools that cannot be read: their names, and how to convert them to records."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote
from typing import Any

from calipers.records.fields import FIELDS
from calipers.support.errors import DataError

_SUGGESTED = 6  # fields to map at most
_CLOSE = 0.8


@dataclass(frozen=True, slots=True)
class Foreign:
    """A tool's file, told by its keys: all of `has`, and any of `any_of`."""

    what: str
    fix: str
    has: frozenset[str]
    any_of: frozenset[str] = frozenset()

    def matches(self, keys: Collection[str]) -> bool:
        """Say whether an object with these keys is of this kind."""
        return self.has.issubset(keys) and (not self.any_of or not self.any_of.isdisjoint(keys))


def _declare(what: str, has: str, fix: str, any_of: str = "") -> Foreign:
    return Foreign(what, fix, frozenset(has.split()), frozenset(any_of.split()))


# One JSON document, or a row that holds another tool's trace: no rows of records as they are.
_DOCUMENTS = (
    _declare(
        "traces of MLflow",
        "spans",
        "write request and response as input and answer, a line per trace: "
        "mlflow.search_traces(...)[['trace_id', 'request', 'response']]",
        "trace_metadata request_metadata client_request_id assessments execution_time_ms",
    ),
    _declare(
        "run states of HELM",
        "adapter_spec request_states",
        "write a line per request state, with input, answer and target",
    ),
)
_TABLE = _declare(
    "a table of MLflow or pandas (columns and data apart)",
    "columns data",
    "write a line per row: pandas.read_json(FILE, orient='split')"
    ".to_json('records.jsonl', orient='records', lines=True)",
)
# Rows that --map can make records of.
_ROWS = (
    _declare("answers compared in pairs", "a b winner", ""),
    _declare("a table of MLflow", "inputs outputs", "", "targets ground_truth predictions"),
    _declare("a table of MLflow", "inputs predictions", ""),
    _declare("runs of LangSmith", "inputs outputs run_type", ""),
    _declare("a table of Ragas", "user_input response", "", "retrieved_contexts reference"),
    _declare("a table of Ragas", "question contexts", "", "ground_truth ground_truths"),
    _declare("test cases of DeepEval", "input", "", "actual_output actualOutput"),
    _declare("traces of Langfuse", "projectId", "", "htmlPath observations traceId"),
    _declare("spans of Braintrust", "root_span_id span_attributes", ""),
    _declare("calls of Weave", "op_name trace_id", ""),
    _declare("spans of Phoenix", "context.span_id", ""),
    _declare("replies of the OpenAI Batch API", "custom_id response", ""),
)
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


def refuse_foreign(first: Any, where: str) -> None:
    """Raise DataError where the first JSON value of a file is of a tool that is not read."""
    found = first if isinstance(first, Mapping) else _take_first(first)
    for each in _DOCUMENTS:
        if each.matches(found.keys()):
            raise DataError(f"{where}: {each.what}, which are not read as they are", fix=each.fix)
    data = found.get("data")
    if (
        _TABLE.matches(found.keys())
        and isinstance(data, list)
        and isinstance(found["columns"], list)
    ):
        raise DataError(f"{where}: {_TABLE.what}, which is not read as it is", fix=_TABLE.fix)
    if isinstance(found.get("info"), Mapping) and isinstance(data, Mapping) and "spans" in data:
        raise DataError(f"{where}: a trace of MLflow, which is not read", fix=_DOCUMENTS[0].fix)


def recognize_tool(columns: Collection[str]) -> str | None:
    """Return a description of the tool whose rows have these columns, or None."""
    return next((each.what for each in _ROWS if each.matches(columns)), None)


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


def _take_first(value: Any) -> Mapping[str, Any]:
    first = value[0] if isinstance(value, list) and value else None
    return first if isinstance(first, Mapping) else {}
