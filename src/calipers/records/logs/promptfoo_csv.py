"""CSV of promptfoo (`promptfoo eval -o out.csv`, and the export of its pages).

After the variables, each prompt has a column `[provider] prompt` with the replies, and behind it
`Status`, `Score`, `Named Scores`, `Grader Reason` and `Comment`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calipers.records.any_rows import iterate_rows, parse_cell
from calipers.records.csv_file import Csv
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import as_mapping, keep_extra
from calipers.records.logs.shape import name_scores, read_number, read_score
from calipers.support.registry import register

_PROMPT = re.compile(r"\[(?P<provider>[^\]]+)\] (?P<prompt>.*)", re.DOTALL)
_REPEATED = re.compile(r"_duplicated_\d+$")  # what a second column of the same name is called
_PARTS = ("Status", "Score", "Named Scores", "Grader Reason", "Comment")
_METRIC = "Metric: "
_LABEL = 80  # characters of a prompt that name a tier


class _Prompt(NamedTuple):
    provider: str
    prompt: str
    reply: str  # the column of the replies
    parts: dict[str, str]  # the columns behind it, by what they hold


def _matches(columns: Collection[str]) -> bool:
    return {"Status", "Score", "Grader Reason"} <= set(columns) and any(
        _PROMPT.fullmatch(each) for each in columns
    )


def _find_prompts(columns: Sequence[str]) -> tuple[list[str], list[_Prompt]]:
    """Return the columns of variables, and the prompts with theirs."""
    variables: list[str] = []
    prompts: list[_Prompt] = []
    for place, column in enumerate(columns):
        follows = _strip(columns[place + 1]) if place + 1 < len(columns) else ""
        told = _PROMPT.fullmatch(_strip(column))
        part = _strip(column)
        if told is not None and follows == "Status":
            prompts.append(_Prompt(told["provider"], told["prompt"], column, {}))
        elif prompts and (part in _PARTS or part.startswith(_METRIC)):
            prompts[-1].parts[part] = column
        elif not prompts:
            variables.append(column)
    return variables, prompts


def _strip(column: str) -> str:
    return _REPEATED.sub("", column)


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    table = Csv(path)
    variables, prompts = _find_prompts(table.columns())
    several = len({each.prompt for each in prompts}) > 1
    for place, (row, done) in enumerate(iterate_rows(table)):
        for each in prompts:
            if row.get(each.parts.get("Status", "")):
                given = keep_extra({name: row[name] for name in variables})
                tier = {"tier": each.prompt[:_LABEL]} if several else {}
                yield {"id": str(place), **given, **tier, **_make_record(row, each)}, done


def _make_record(row: Any, prompt: _Prompt) -> Record:
    found = {part: row.get(column) for part, column in prompt.parts.items()}
    status = found.get("Status")
    metrics = {
        name.removeprefix(_METRIC): read_score(value)
        for name, value in found.items()
        if name.startswith(_METRIC)
    }
    return {
        "model": prompt.provider,
        "answer": row.get(prompt.reply),
        "passed": None if status == "ERROR" else status == "PASS",
        "error": (found.get("Grader Reason") or "error") if status == "ERROR" else None,
        "reason": found.get("Grader Reason"),
        "comment": found.get("Comment"),
        **name_scores(
            {
                "total": read_number(found.get("Score")),
                **as_mapping(parse_cell(found.get("Named Scores"))),
                **metrics,
            }
        ),
    }


register(
    LogReader(name="promptfoo CSV", records=_read_records, fits=lambda _: False, tables=_matches)
)
