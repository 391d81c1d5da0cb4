"""Columns under other names than the record's: which tool they are from, and which `--map` fits."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from shlex import quote
from typing import Any

from calipers.records.fields import FIELDS
from calipers.support.field_paths import split_path, split_root

_PLAIN = re.compile(r"[^\W\d_][\w -]*\w|[^\W\d_]")
_SUGGESTED = 6  # fields to map at most
_CUTOFF = 0.8
_WHAT_FOR = ("value", "text", "final", "name")  # what a path may end in, behind what it is
# Lists of which a record has one element that counts; of others, the first is one of many records.
_SINGLE = {
    "choices",
    "candidates",
    "content",
    "generations",
    "messages",
    "output",
    "outputs",
    "parts",
}
# Families of models after which people call the columns of a wide table.
_FAMILIES = re.compile(
    r"(?:^|.*[\W_])(claude|command-r|deepseek|gemini|gemma|glm|gpt|grok|kimi|llama|mi[sx]tral|nova"
    r"|o[1-9]|phi|qwen)(?![^\W\d_]).*",
    re.IGNORECASE | re.DOTALL,
)
_ANSWERS = re.compile(r".+[\W_](answer|response|output|prediction|completion)s?", re.IGNORECASE)


# Rows that --map can make records of, by the keys that all of them have; what a log reader knows is
# no longer among them.
_TOOL_COLUMNS = {
    ("a", "b", "winner"): "answers compared in pairs",
    ("input", "actual_output"): "test cases of DeepEval",
    ("input", "actualOutput"): "test cases of DeepEval",
    ("cases", "failures", "analyses"): "a report of pydantic-evals",
    ("trial_name", "task_name", "verifier_result"): "the result of a trial of Harbor",
    ("schema_version", "session_id", "agent", "steps"): "a trajectory in ATIF",
    ("source", "message", "step_id"): "the steps of a trajectory in ATIF",
    ("type", "session_id", "message"): "a stream of Claude Code",
    ("type", "sessionId", "message"): "a session of Claude Code",
    ("timestamp", "type", "payload"): "a session of Codex",
}
_TIMES = ("latency", "duration", "elapsed", "elapsedtime", "responsetime", "runtime")
_SYNONYMS = {
    "answer": "output outputs response prediction predictions completion actualoutput generated "
    "generatedtext modeloutput result generation reply hypothesis modelanswer finalanswer "
    "choices0messagecontent choices0text candidates0contentparts0text",
    "target": "expected expectedoutput groundtruth groundtruths label gold goldanswer "
    "correctanswer referenceanswer truth solution targets",
    "input": "question prompt query userinput inputs request instruction problem",
    "correct": "iscorrect exactmatch ismatch acc accuracy",
    "passed": "success pass ispass ok",
    "prob_correct": "confidence probability prob",
    "cot": "reasoning rationale thought thoughts chainofthought explanation",
    "model": "modelname modelid engine system llm llmname systemname",
    "latency_ms": "durationms responsetimems executiontimems elapsedms",
    "prompt_tokens": "inputtokens tokensin prompttokencount",
    "completion_tokens": "outputtokens tokensout completiontokencount",
    "cost_usd": "cost totalcost price",
    "category": "topic subject tasktype domain",
    "id": "taskid questionid exampleid sampleid uid customid traceid runid requestid task qid "
    "instanceid problemid itemid",
}


def recognize_tool(columns: Collection[str]) -> str | None:
    """Return a description of the tool whose rows have these columns, or None."""
    return next((what for keys, what in _TOOL_COLUMNS.items() if set(keys).issubset(columns)), None)


def suggest_fields(columns: Sequence[str], *, close: float = _CUTOFF) -> dict[str, str]:
    """Return the record's fields that columns are called like, or nearly, each with its column.

    `close` says how nearly, from 0 to 1. A path counts by its last name, after all columns.

    >>> suggest_fields(["question", "output", "Model", "doc.label"])
    {'answer': 'output', 'target': 'doc.label', 'input': 'question', 'model': 'Model'}
    """
    by_name = {_normalize_name(field): field for field in FIELDS}  # `Latency (ms)`
    by_name |= {name: field for field, names in _SYNONYMS.items() for name in names.split()}
    fields: dict[str, str] = {}
    for column in sorted(columns, key=lambda column_name: bool(split_root(column_name)[1])):
        if any(other.startswith((f"{column}.", f"{column}[")) for other in columns):
            continue  # an object, or a list of objects: what is inside it is named
        if not _SINGLE.issuperset(_list_indexed(column)):
            continue
        is_path = bool(split_root(column)[1])
        last = str(split_path(column)[-1]).lower()
        field = next(filter(None, map(by_name.get, _list_endings(column))), None)
        if field is None and is_time_without_unit(column):
            continue
        if field is None and is_path:
            field = last if last in FIELDS else None
        elif field is None:
            close_to = get_close_matches(column.lower(), FIELDS, n=1, cutoff=close)
            field = close_to[0] if close_to else None
        if field is not None and column not in FIELDS and field not in columns:
            fields.setdefault(field, column)
    order = [*_SYNONYMS, *FIELDS]
    return dict(sorted(fields.items(), key=lambda entry: order.index(entry[0])))


def _list_indexed(column: str) -> Iterator[str]:
    """Yield the names of the lists that a path goes through."""
    steps = split_path(column)
    yield from (str(at).lower() for at, step in pairwise(steps) if isinstance(step, int))


def _list_endings(column: str) -> Iterator[str]:
    """Yield what a column may be called: its path, each shorter end of it, and what is one of it.

    >>> list(_list_endings("doc.choices[0].text"))
    ['docchoices0text', 'choices0text', '0text', 'text', 'choices0']
    """
    steps = [_normalize_name(str(step)) for step in split_path(column)]
    yield from ("".join(steps[at:]) for at in range(len(steps)))
    if steps[-1] in _WHAT_FOR:
        yield "".join(steps[-3:-1] if steps[-2:-1] == ["0"] else steps[-2:-1])


def suggest_answers(columns: Sequence[str]) -> list[str]:
    """Return the columns of a wide table that are called like systems, or their answers.

    >>> suggest_answers(["Question", "Gold Answer", "GPT Answer", "Claude Answer"])
    ['GPT Answer', 'Claude Answer']
    >>> suggest_answers(["Nr", "Question", "Mistral, Large", "Llama 3.1 (8B)"])
    ['Mistral, Large', 'Llama 3.1 (8B)']
    """
    known = suggest_fields(columns)
    others = [name for name in columns if name not in known.values() and name not in FIELDS]
    patterns = (_ANSWERS, _FAMILIES)
    answers = [name for name in others if any(pattern.fullmatch(name) for pattern in patterns)]
    return answers if len(answers) > 1 and "answer" not in {*known, *columns} else []


def is_time_without_unit(column: str) -> bool:
    """Return True if a column is called a time that may be in seconds or in milliseconds."""
    return _normalize_name(column) in _TIMES


def _normalize_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def suggest_maps(columns: Sequence[str]) -> list[str]:
    """Return `--map` options for columns named like a field of the record, or nearly."""
    return format_map_options(suggest_fields(columns))[:_SUGGESTED]


def format_map_options(fields: Mapping[str, str]) -> list[str]:
    """Return the `--map` options, as a shell takes them, that read fields from other columns."""
    return [f"--map {quote(f'{field}={column}')}" for field, column in fields.items()]


def write_map(fields: Mapping[str, str]) -> str:
    """Return the line of a suite that reads fields from other columns.

    >>> write_map({"input": "Question", "target": "Gold Answer"})
    'map: {input: Question, target: Gold Answer} in the suite'
    """
    pairs = (f"{name}: {_quote(column)}" for name, column in fields.items())
    return f"map: {{{', '.join(pairs)}}} in the suite"


def _quote(name: str) -> str:
    """Return a name as YAML takes it in a flow mapping."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def list_paths(row: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of a row's fields, and the paths into objects and the first of lists.

    >>> list(list_paths({"id": "a", "turns": [{"text": "Hi"}]}))
    ['id', 'turns', 'turns[0].text']
    """
    for name, value in row.items():
        path = f"{prefix}{name}"
        yield path
        if isinstance(value, Mapping):
            yield from list_paths(value, f"{path}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from list_paths(value[0], f"{path}[0].")
