"""`calipers init --from FILE`: suite, policy and CI files from somebody's own data.

Of tasks, a suite that asks them, with a stand-in system that gives the most frequent target. Of
records, the same records under the record's names, a policy whose thresholds stand where the
evidence is now, a baseline, and a suite that gives the recorded answers back until a system takes
their place. What is written passes its own gate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import polars as pl
import yaml

from calipers.records.fields import FIELDS, Author
from calipers.records.task_data import read_records, read_tasks
from calipers.runs.starter import read_starter_file, write_files
from calipers.runs.starter.mapping import DataMapping
from calipers.scores.convert import convert
from calipers.scores.score import score
from calipers.support.errors import UsageError

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.scores.result import Measured, Score

RECORDS, POLICY, SUITE, BASELINE = "records.parquet", "policy.yaml", "suite.yaml", "baseline.json"
TASKS, RECORDED, REPLAY, SOLVER = "tasks.jsonl", "recorded.jsonl", "replay.py", "solver.py"
_LARGEST = 1 << 30  # bytes of a file that is written anew
_MOST_REPLAYED = 20_000  # records of a suite
_BLOCKING = ("accuracy", "pass_rate", "safety_rate", "behavior_coverage", "impl_rate")
_WARNING = ("latency_p95_ms", "cost_usd")
_TASK_FIELDS = tuple(name for name, field in FIELDS.items() if field.author is Author.TASK)
_WRITTEN_BY_RUN = ("latency_ms", "start_time", "end_time", "duration_seconds")
_NOT_REPLAYED = (
    *_TASK_FIELDS,
    *_WRITTEN_BY_RUN,
    "tags",
    "weight",
    "turns",
    "messages",
    "checks",
    "tier",
    "variant",
    "prompt",
)
_SLACK = 1.25  # of a value whose interval has no end
_LEAST_MARGIN = 0.01
_TRIALS = 4
_SYSTEM = ("model", "tier", "variant")
_MOST_SYSTEMS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files, the first table, the verdict of the policy on the data, and what to run next."""

    files: tuple[Path, ...]
    score: Score
    gate: GateResult | None
    commands: tuple[str, ...]
    notices: tuple[str, ...] = ()


@dataclass
class _Draft:
    """A policy as far as it is known: limits by metric, and what the records make necessary."""

    blocking: dict[str, str] = field(default_factory=dict)
    warning: dict[str, str] = field(default_factory=dict)
    margins: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed_count: bool = False  # failed calls count as failures
    undecided: bool = False
    stated: bool = False

    def to_dict(self, *, baseline: bool) -> dict[str, Any]:
        """Return the policy's keys and values."""
        thresholds = {"blocking": self.blocking, "warning": self.warning}
        return {
            "thresholds": {level: rules for level, rules in thresholds.items() if rules},
            **({"missing": self.missing} if self.missing else {}),
            **({"undecided": "ignore"} if self.undecided else {}),
            **({"stated": "ignore"} if self.stated else {}),
            **({"metric_settings": {"errors": "fail"}} if self.failed_count else {}),
            **({"baseline": self._make_baseline()} if baseline else {}),
        }

    def _make_baseline(self) -> dict[str, Any]:
        margins = {name: margin for name, margin in self.margins.items() if name in self.blocking}
        return {"file": BASELINE, "required": False, "margins": margins}


def write_from_data(folder: Path, found: DataMapping, *, force: bool = False) -> Written:
    """Write the files for tasks or records, and return what they show.

    Raises:
        UsageError: A file is there already, and `force` is not set; nothing is written then.
    """
    if found.kind == "tasks":
        return _write_for_tasks(folder, found, force=force)
    return _write_for_records(folder, found, force=force)


# --- tasks: a suite that asks them ---


def _write_for_tasks(folder: Path, found: DataMapping, *, force: bool) -> Written:
    source = Path(found.path)
    tasks = read_tasks(source if source.exists() else found.path, dict(found.fields))
    targets = Counter(str(task["target"]) for task in tasks.tasks if task.get("target") is not None)
    frequent = targets.most_common(1)[0][0] if targets else "I do not know."
    rows = [{**_select_task(task), "model": "stand-in", "answer": frequent} for task in tasks.tasks]
    first = score(rows, by=["model"])
    accuracy = first.groups[0].metrics.get("accuracy")
    rule = _limit_from_below(accuracy) if accuracy is not None else None
    policy = {"thresholds": {"blocking": {"accuracy": rule}}} if rule else _CHECKED
    contents = {
        SUITE: _write_suite(folder, found, has_target=bool(targets)),
        SOLVER: read_starter_file("solver.py", "own").replace('"?"', json.dumps(frequent)),
        POLICY: _head_policy("suite") + _dump(policy),
        **_list_ci_files(),
    }
    files = write_files(folder, contents, force=force)
    notices = [*tasks.notices]
    if not targets:
        notices.append(
            "no column holds what is right: the suite asks for any reply; say in `checks:` what a "
            "good one contains, or name the column: --map target=COLUMN"
        )
    commands = (f"calipers run {_join(folder, SUITE)}",)
    return Written(
        files=tuple(files), score=first, gate=None, commands=commands, notices=tuple(notices)
    )


def _select_task(task: Mapping[str, Any]) -> dict[str, Any]:
    return {name: task[name] for name in _TASK_FIELDS if task.get(name) is not None}


def _write_suite(folder: Path, found: DataMapping, *, has_target: bool) -> str:
    """Return the text of a suite that asks the tasks of a file."""
    text = "{input}" if "input" in found.known else f"{{{(found.unused or ('id',))[0]}}}"
    lines = [
        "# Tasks of your own:   calipers run suite.yaml",
        "# As it is, this asks the stand-in of solver.py, which always gives the most frequent",
        "# target: what a system has to beat. It needs no key, and passes (exit code 0).",
        "# Your editor completes this file when told its schema:   calipers schema suite",
        "",
        _dump({"name": _name_suite(found)}).rstrip(),
        _dump({"data": _locate(folder, found.path)}).rstrip(),
    ]
    if found.fields:
        lines.append(_dump({"map": dict(found.fields)}).rstrip())
    lines += ["", _dump({"prompt": text}).rstrip()]
    if has_target:
        lines += [
            '# answer: {after: "ANSWER:"}    # where the reply says more than the answer',
        ]
    else:
        lines += ["", "checks:                           # docs/checks.md", _ANY_REPLY]
    lines += ["", _SYSTEMS, "policy: policy.yaml", ""]
    return "\n".join(lines)


_ANY_REPLY = "  - {expect: says something, length: {at_least: 1, unit: chars}}"
_SYSTEMS = """systems:
  - name: stand-in
    python: solver.py:answer       # put your own function, or a model, in its place:
  # - name: mini
  #   model: openai:gpt-4o-mini    # provider:model; base_url for any server as OpenAI's
  #   api_key_env: OPENAI_API_KEY  # the variable's name; a key never stands in a file

cache: .cache                      # models' replies, kept for the next run; --fresh asks again"""
_CHECKED = {"thresholds": {"blocking": {"pass_rate": "≥ 90%"}}}


# --- records: a policy where the evidence is, and a suite that gives them back ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """Where the records are read from, with which options, and how a command says so."""

    data: str
    options: Mapping[str, Any]
    named: str  # the options as a command has them
    is_anew: bool  # whether the records were written anew
    notices: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The data and the options as a command has them."""
        return f"{quote(self.data)}{self.named}"


def _write_for_records(folder: Path, found: DataMapping, *, force: bool) -> Written:
    stored = _store_records(folder, found, force=force)
    data, options = stored.data, dict(stored.options)
    by = _choose_groups(found, data, options)
    first = score(data, by=by, **options)
    draft = _draft_policy(first)
    gate = _settle_policy(folder, draft, data, by, options)
    notices = list(stored.notices)
    if gate is None:
        (folder / POLICY).unlink(missing_ok=True)
        notices.append("nothing in these records can fail: no policy is written")
        files = [folder / RECORDS] if stored.is_anew else []
        shown = f"calipers score {data}{stored.named}{_name_fields(by)}"
        return Written(
            files=tuple(files), score=first, gate=None, commands=(shown,), notices=tuple(notices)
        )
    files = [folder / POLICY]
    if gate.verdict == "pass" and draft.margins:
        _write_policy(folder, draft, baseline=True)
        _decide(folder, data, by, {**options, "save_baseline": folder / BASELINE})
        gate = _decide(folder, data, by, options)
        files.append(folder / BASELINE)
    if gate.verdict != "pass":
        why = "; ".join(gate.incomplete) or gate.verdict
        notices.append(f"the policy does not pass yet: {why}")
    if stored.is_anew:
        can_be_asked = by in ([], ["model"])
        replayed = _write_replay(folder, found, first) if can_be_asked else []
        texts = _list_ci_files(suite=bool(replayed), by=by)
        files += [folder / RECORDS, *replayed, *write_files(folder, texts, force=True)]
        if not replayed:
            why = "have no input, or are very many"
            why = why if can_be_asked else f"are told apart by {' and '.join(by)}"
            notices.append(f"no suite is written: the records {why}")
    return Written(
        files=tuple(files),
        score=first,
        gate=gate,
        commands=tuple(_list_next(folder, stored, by, has_suite=folder / SUITE in files)),
        notices=tuple(notices),
    )


def _store_records(folder: Path, found: DataMapping, *, force: bool) -> _Stored:
    """Write the records under the record's names, unless they are too many to be written anew."""
    large = _is_large(found.path)
    anew = () if large else (RECORDS, SUITE, TASKS, RECORDED, REPLAY, *_list_ci_files())
    _refuse_existing(folder, (POLICY, BASELINE, *anew), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    given = {"map": dict(found.fields), "answers": list(found.answers)}
    options: dict[str, Any] = {name: value for name, value in given.items() if value}
    if large:
        note = f"{found.path} is too large to be written anew: the commands read it as it is"
        named = _name_options(found)
        return _Stored(
            data=found.path, options=options, named=named, is_anew=False, notices=(note,)
        )
    written = convert(found.path, folder / RECORDS, on_bad="skip", **options)
    if written.skipped and not written.records:  # then the first of them says why
        (folder / RECORDS).unlink()
        convert(found.path, folder / RECORDS, **options)
    notices = list(written.notices)
    if written.skipped:
        notices.append(f"{written.skipped:,} bad rows are left out: calipers doctor shows them")
    _number_runs(folder / RECORDS)
    return _Stored(
        data=str(folder / RECORDS), options={}, named="", is_anew=True, notices=tuple(notices)
    )


def _list_next(
    folder: Path, stored: _Stored, by: Sequence[str], *, has_suite: bool
) -> Iterator[str]:
    """Yield the commands to run next."""
    policy = f"--policy {_join(folder, POLICY)}"
    yield f"calipers gate {stored.shown} {policy}{_name_fields(by)}"
    if has_suite:
        yield f"calipers run {_join(folder, SUITE)}"
    yield f"calipers report {stored.shown} {policy} -o report.html"


def _name_fields(by: Sequence[str]) -> str:
    return "".join(f" --by {quote(field)}" for field in by)


def _is_large(path: str) -> bool:
    place = Path(path)
    return place.is_file() and place.stat().st_size > _LARGEST


def _name_options(found: DataMapping) -> str:
    """Return the options that read the data as it is."""
    told = [f" --map {quote(f'{name}={column}')}" for name, column in found.fields.items()]
    answers = ",".join(found.answers)
    return "".join(told) + (f" --answers {quote(answers)}" if answers else "")


def _number_runs(path: Path) -> None:
    """Number the runs of a task by a system, where a table repeats it without saying which."""
    frame = pl.read_parquet(path)
    keys = [name for name in ("id", "model", "tier", "variant") if name in frame.columns]
    if "id" not in keys or ("run" in frame.columns and frame["run"].null_count() < frame.height):
        return
    if frame.select(keys).is_duplicated().any():
        run = pl.int_range(1, pl.len() + 1).over(keys).alias("run")
        frame.with_columns(run).write_parquet(path)


def _choose_groups(found: DataMapping, data: str, options: Mapping[str, Any]) -> list[str]:
    """Return the fields that tell several systems apart."""
    wide = ("model",) if found.answers else ()
    names = [name for name in _SYSTEM if name in (*found.known, *wide)]
    if not names:
        return []
    groups = score(data, by=names, **options).groups
    several = {name: {group.by[name] for group in groups} for name in names}
    return [name for name, values in several.items() if 1 < len(values) <= _MOST_SYSTEMS]


def _draft_policy(first: Score) -> _Draft:
    """Return limits that all groups keep: lower bounds rounded down, upper bounds rounded up."""
    draft = _Draft(failed_count=any(group.errors for group in first.groups))
    for name in _BLOCKING:
        found = [group.metrics[name] for group in first.groups if name in group.metrics]
        rules = [rule for measured in found if (rule := _limit_from_below(measured)) is not None]
        if found and len(rules) == len(found) == len(first.groups):
            draft.blocking[name] = min(rules, key=_read_percent)
            draft.margins[name] = _choose_margin(found)
    for name in _WARNING:
        found = [group.metrics[name] for group in first.groups if name in group.metrics]
        limits = [limit for measured in found if (limit := _limit_from_above(measured)) is not None]
        if limits:
            draft.warning[name] = f"<= {max(limits):g}"
    return draft


def _limit_from_below(found: Measured) -> str | None:
    """Return the lower bound in whole percent; None where nothing could be below it."""
    if found.value is None:
        return None
    low = found.low if found.low is not None else found.value - 0.05
    percent = floor(100 * min(low, found.value) + 1e-9)
    return f">= {percent}%" if percent >= 1 else None


def _read_percent(rule: str) -> int:
    return int(rule.removeprefix(">= ").removesuffix("%"))


def _limit_from_above(found: Measured) -> float | None:
    """Return the upper bound with two digits, rounded up."""
    if found.value is None or not isfinite(found.value) or found.value <= 0:
        return None
    high = found.high if found.high is not None and isfinite(found.high) else _SLACK * found.value
    step = 10.0 ** (floor(log10(high)) - 1)
    return ceil(high / step - 1e-9) * step


def _choose_margin(found: Sequence[Measured]) -> str:
    """Return half of the widest interval in whole percent: what chance alone may take away."""
    halves = [
        (measured.high - measured.low) / 2
        for measured in found
        if measured.low is not None and measured.high is not None
    ]
    return f"{ceil(100 * max([_LEAST_MARGIN, *halves]) - 1e-9):d}%"


def _settle_policy(
    folder: Path, draft: _Draft, data: str, by: Sequence[str], options: Mapping[str, Any]
) -> GateResult | None:
    """Return the verdict of the policy, once it passes on the data or cannot be made to."""
    gate = None
    for _ in range(_TRIALS):
        if not draft.blocking and not draft.warning:
            return None
        if not draft.blocking:
            draft.blocking, draft.warning = draft.warning, {}
        _write_policy(folder, draft, baseline=False)
        gate = _decide(folder, data, by, options)
        if gate.verdict == "pass" or not _adapt(draft, gate):
            return gate
    return gate


def _adapt(draft: _Draft, gate: GateResult) -> bool:
    """Relax what keeps the draft from passing; return False if there is nothing to relax."""
    before = json.dumps(draft.__dict__, sort_keys=True)
    for check in gate.checks:
        if check.blocks and check.name in draft.blocking:
            if check.value is not None and check.verdict == "fail":
                lower = floor(100 * check.value + 1e-9)
                rule = f">= {lower}%"
                if check.name in _WARNING or lower < 1 or rule == draft.blocking[check.name]:
                    draft.blocking.pop(check.name)
                elif _read_percent(draft.blocking[check.name]) > lower:
                    draft.blocking[check.name] = rule
                else:
                    draft.blocking.pop(check.name)
            else:
                draft.blocking.pop(check.name)
        elif check.missing and check.name in draft.blocking:
            share = ceil(100 * check.missing / (check.n + check.missing))
            draft.missing[check.name] = f"{min(100, share)}%"
    if gate.verdict == "incomplete":
        draft.undecided = True
        draft.stated = draft.stated or any("state" in cause for cause in gate.incomplete)
    return json.dumps(draft.__dict__, sort_keys=True) != before


def _decide(folder: Path, data: str, by: Sequence[str], options: Mapping[str, Any]) -> GateResult:
    from calipers.gates.decide import gate  # noqa: PLC0415 (pydantic)

    return gate(data, policy=folder / POLICY, by=list(by), **options)


def _write_policy(folder: Path, draft: _Draft, *, baseline: bool) -> None:
    text = _head_policy("records") + _dump(draft.to_dict(baseline=baseline))
    (folder / POLICY).write_text(text, encoding="utf-8")


def _head_policy(kind: str) -> str:
    stands = (
        "# The limits stand where the evidence is now: lower bounds rounded down. Raise them as\n"
        "# it gets better.\n"
        if kind == "records"
        else "# The limit is what the stand-in reaches: raise it once a system of yours is asked.\n"
    )
    shown = RECORDS if kind == "records" else "RESULTS/records.jsonl"
    return (
        f"# What a run must show:   calipers gate {shown} --policy policy.yaml\n"
        "# Which damage to the records it would not notice:   the same with --sabotage\n"
        f"# All keys: docs/gate.md, and calipers schema policy for your editor.\n{stands}\n"
    )


def _write_replay(folder: Path, found: DataMapping, first: Score) -> list[Path]:
    """Write a suite that gives the records back, where they are few and have something to ask."""
    if not 0 < first.records <= _MOST_REPLAYED:
        return []
    frame = pl.read_parquet(folder / RECORDS)
    if "input" not in frame.columns or frame["input"].null_count() == frame.height:
        return []
    rows = [_drop_nulls(row) for row in _read_rows(folder / RECORDS)]
    if "id" not in frame.columns:
        numbers = {
            text: str(n) for n, text in enumerate(dict.fromkeys(r.get("input") for r in rows), 1)
        }
        rows = [{"id": numbers[row.get("input")], **row} for row in rows]
    rows = [{**row, "model": _name_system(row)} for row in rows]
    systems = list(dict.fromkeys(str(row["model"]) for row in rows))
    runs = Counter((str(row["id"]), str(row["model"])) for row in rows)
    tasks: dict[str, dict[str, Any]] = {}
    for row in rows:
        tasks.setdefault(str(row["id"]), {n: row[n] for n in (*_TASK_FIELDS, "id") if n in row})
    if any("input" not in task for task in tasks.values()):
        return []
    trusted = sorted({name for row in rows for name in row if name in _TRUSTED})
    suite = {
        "name": _name_suite(found),
        "data": TASKS,
        "prompt": "{input}",
        "systems": [
            {"name": name, "python": f"{REPLAY}:answer", "files": [RECORDED]} for name in systems
        ],
        **({"runs": max(runs.values())} if max(runs.values()) > 1 else {}),
        **({"trust": trusted} if trusted else {}),
        "policy": POLICY,
    }
    kept = [
        {**{n: v for n, v in row.items() if n not in _NOT_REPLAYED}, "id": str(row["id"])}
        for row in rows
    ]
    head = (
        "# The records, given back:   calipers run suite.yaml\n"
        "# Put your own systems in place of replay.py: python: FILE.py:FUNCTION, command: […], or\n"
        "# model: openai:NAME with api_key_env (docs/suite.md)."
        f"{_WITHOUT_TRUST if trusted else ''}\n\n"
    )
    texts = {
        SUITE: head + _dump(suite),
        TASKS: _write_lines(tasks.values()),
        RECORDED: _write_lines(kept),
        REPLAY: read_starter_file("replay.py", "own"),
    }
    return write_files(folder, texts, force=True)


_TRUSTED = ("passed", "correct", "impl_rate", "judgments", "violations", "expected_behaviors")
_WITHOUT_TRUST = " Then leave `trust` out: what a\n# system says of itself decides nothing."


def _name_system(row: Mapping[str, Any]) -> str:
    """Return what tells the system of a record from others: its model, tier and variant."""
    told = [str(row[name]) for name in _SYSTEM if row.get(name) is not None]
    return " · ".join(told) or "recorded"


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    yield from read_records(str(path))


def _drop_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _write_lines(rows: Any) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows)


# --- files ---


def _list_ci_files(*, suite: bool = True, by: Sequence[str] = ()) -> dict[str, str]:
    """Return the files for CI: of a suite as templates have them, else of records."""
    github, gitlab = read_starter_file("github.yml"), read_starter_file("gitlab.yml")
    if not suite:
        fields = " ".join(by)
        github = _name_records(github, "          ", fields)
        gitlab = _name_records(gitlab, "    ", fields)
    return {".github/workflows/calipers.yml": github, "calipers.gitlab-ci.yml": gitlab}


def _name_records(text: str, indent: str, by: str) -> str:
    """Return a CI file that decides on records instead of running a suite."""
    given = (
        f"CALIPERS_RECORDS: {RECORDS}   # what your job writes\n{indent}CALIPERS_POLICY: {POLICY}"
    )
    lines = []
    for line in text.replace("CALIPERS_SUITE: suite.yaml", given).splitlines():
        if "CALIPERS_FETCH_BASELINE" in line or "CALIPERS_FRESH" in line:
            continue
        if "CALIPERS_BY: model" in line and not by:
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def _refuse_existing(folder: Path, names: Sequence[str], *, force: bool) -> None:
    there = [folder / name for name in names if (folder / name).exists()]
    if there and not force:
        raise UsageError(
            f"{', '.join(map(str, there))}: there already",
            fix="name another folder, or overwrite with --force",
        )


def _name_suite(found: DataMapping) -> str:
    """Return the file's name as far as a folder of results may have it."""
    stem = Path(found.path).name.split(".")[0]
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem).strip("-_")
    return kept or "own-data"


def _locate(folder: Path, path: str) -> str:
    """Return the data's path as the suite names it: relative where that is shorter."""
    place = Path(path)
    if not place.exists():
        return path
    try:
        return str(place.resolve().relative_to(folder.resolve(), walk_up=True))  # type: ignore[call-arg]
    except (TypeError, ValueError):
        import os  # noqa: PLC0415

        return os.path.relpath(place.resolve(), folder.resolve())


def _join(folder: Path, name: str) -> str:
    return quote(str(folder / name))


def _dump(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=96)
