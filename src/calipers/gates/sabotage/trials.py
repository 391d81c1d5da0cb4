"""Trials: the records of a gate are read once, broken in every way, and decided on again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any

import polars as pl

from calipers.engines.plan import FAILED, name_kept
from calipers.engines.read_rows import pick_engine
from calipers.gates.decide import GateQuestion, decide, decide_data, make_table, record_run
from calipers.gates.result import GateResult, Trial
from calipers.gates.rules.baseline_rule import Baseline
from calipers.gates.sabotage.damage import KINDS, SabotageKind
from calipers.gates.sabotage.doses import FAILS, ORDER, RAN, RIGHT, ROW, SOURCE, Dose, MarkedRecords
from calipers.metrics.families.answers import correct
from calipers.metrics.families.scenarios import passed
from calipers.records.batch import Source
from calipers.records.convert import find_types, look_through, read_batches
from calipers.records.readers.lines import PipedLines
from calipers.records.readers.tables import SourceTable
from calipers.records.reading_options import DEFAULT_READING
from calipers.records.sinks import Watch
from calipers.records.sources import open_sources
from calipers.scores.score import Progress, score_data
from calipers.support.errors import CalipersError, UsageError

MOST_ROWS = 1_000_000

_IDENTITY = ("id", "model", "tier", "variant", "run")


def try_sabotage(
    data: Any, question: GateQuestion, result: GateResult, progress: Progress = lambda _: None
) -> GateResult:
    """Return what a gate decided, with what it decides on the same records broken in every way.

    Raises:
        UsageError: There are too many records to be broken in memory, or they can be read once.
    """
    sources = open_again(data, question)
    frame = _read_frame(sources, question)
    if not frame.height:
        return replace(result, sabotage=())
    names = tuple(source.name for source in sources)
    trials = []
    with DEFAULT_READING.apply():  # joined tasks and columns of answers are in the records now
        records = mark_records(frame, names, question, result)
        planned = [
            (kind, hit)
            for kind in KINDS
            for place in kind.find(records)
            for hit in kind.list_hits(place)
        ]
        for done, (kind, hit) in enumerate(planned, start=1):
            trials.append(_run_trial(records, kind, hit))
            progress(done / len(planned))
    return replace(result, sabotage=tuple(trials))


def _read_frame(sources: Sequence[Source], question: GateQuestion) -> pl.DataFrame:
    """Return all records with all their fields; bad rows are the gate's own to refuse."""
    frames, rows = [], 0
    known, field_map = look_through(list(sources)), question.options.map
    types = find_types(known, field_map)
    for at, source in enumerate(known):
        for batch, _ in read_batches(source, field_map, types):
            frames.append(batch.frame.with_columns(pl.lit(at).alias(SOURCE)))
            rows += batch.frame.height
            if rows > MOST_ROWS:
                raise UsageError(
                    "--sabotage decides many times on all records, of which there are more than "
                    f"{MOST_ROWS:,}",
                    fix="give it a part of them, such as one system's or one day's",
                )
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def open_again(data: Any, question: GateQuestion) -> list[Source]:
    """Return the sources of `data`; raise UsageError if they cannot be read twice, and here."""
    sources = open_sources(data)
    if pick_engine(question.options.engine, sources) == "spark":
        raise UsageError(
            "--sabotage breaks records in memory, not on Spark", fix="give it a file with a part"
        )
    for source in sources:
        if isinstance(source, PipedLines):
            raise UsageError(
                f"--sabotage reads the records twice, and {source.name} can be read once",
                fix="write them to a file first",
            )
    return sources


def mark_records(
    frame: pl.DataFrame, sources: tuple[str, ...], question: GateQuestion, result: GateResult
) -> MarkedRecords:
    """Return the records with what the gate makes of each.

    What keeps the gate from a pass beside the records, such as rows that cannot be read, is kept.
    """
    outcomes: list[pl.DataFrame] = []
    question = _ask_again(_drop_files(question))
    watch = question.table.watch

    def take(rows: pl.DataFrame) -> None:
        outcomes.append(rows.select(ROW, FAILED, passed.name, correct.name))
        watch.take(rows)

    seen = Watch(kept=(*watch.kept, ROW), columns={**watch.columns, ROW: name_kept(ROW)}, take=take)
    tables = _make_tables(frame.with_row_index(ROW), sources)
    unbroken = decide(question, score_data(tables, question.options, watch=seen))
    beside = (reason for reason in result.incomplete if reason not in unbroken.incomplete)
    asked = replace(question.asked, incomplete=(*question.asked.incomplete, *beside))
    known = pl.concat(outcomes).with_columns(pl.col(ROW).cast(pl.Int64)).sort(ROW)
    verdicts = pl.concat_list(passed.name, correct.name)
    marks = known.select(
        ROW,
        _hash_rows(frame, question.options.seed),
        (~pl.col(FAILED)).alias(RAN),
        (~pl.col(FAILED) & ~verdicts.list.contains(item=False)).alias(RIGHT),
        (~pl.col(FAILED) & verdicts.list.contains(item=False)).alias(FAILS),
    )
    return MarkedRecords(
        question=replace(question, asked=asked),
        sources=sources,
        frame=frame,
        marks=marks,
        warned=frozenset(_list_warnings(unbroken)),
    )


def _drop_files(question: GateQuestion) -> GateQuestion:
    """Return the question for records in memory: their names are ours, and nothing is written."""
    options = replace(question.options, map={}, bad_rows=None, hash_inputs=False)
    asked = replace(question.asked, save_baseline=None, ratchet=False, sabotage=False)
    return replace(question, asked=asked, options=options)


def _ask_again(question: GateQuestion) -> GateQuestion:
    """Return the question with an empty table of scenarios."""
    table = make_table(question.policy, question.options, question.given, question.asked)
    return replace(question, table=table)


def _make_tables(frame: pl.DataFrame, names: Sequence[str]) -> list[SourceTable]:
    """Return a table per file, under the file's name: a gate may know how much it has to hold."""
    if len(names) == 1:
        return [SourceTable(frame.drop(SOURCE).lazy(), names[0])]
    files = frame.partition_by(SOURCE, as_dict=True, include_key=False, maintain_order=True)
    empty = frame.drop(SOURCE).clear()
    return [SourceTable(files.get((at,), empty).lazy(), name) for at, name in enumerate(names)]


def _hash_rows(frame: pl.DataFrame, seed: int) -> pl.Series:
    """Return a number per row by what identifies it: the same whatever the order of the rows."""
    names = [name for name in _IDENTITY if name in frame.columns]
    seen: Counter[tuple[Any, ...]] = Counter()
    hashes = []
    for identity in frame.select(names).iter_rows() if names else ((),) * frame.height:
        seen[identity] += 1
        text = json.dumps([seed, *map(str, identity), seen[identity]])
        hashes.append(int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big"))
    return pl.Series(ORDER, hashes, dtype=pl.Int64)


def _run_trial(records: MarkedRecords, kind: SabotageKind, hit: Dose) -> Trial:
    """Return what the gate decides on the records, broken in this way and dose."""
    place = hit.place
    broken = kind.damage(records, hit)
    trial = Trial(
        name=f"{kind.name}{place.suffix}",
        kind=kind.name,
        what=kind.what,
        of=place.of,
        dose=hit.dose,
        unit=kind.unit,
        rows=broken.height - records.frame.height if kind.unit == "copies" else len(hit.rows),
        points=None if place.scope is None else 100 * len(hit.rows) / place.scope,
        verdict="incomplete",
    )
    try:
        decided = _decide(records, kind, broken)
    except CalipersError as error:
        return replace(trial, reason=f"the gate refuses them: {error.message}")
    blocking = (f"{check.name}: {check.reason}" for check in decided.checks if check.blocks)
    return replace(
        trial,
        verdict=decided.verdict,
        warned=not records.warned.issuperset(_list_warnings(decided)),
        reason=next(chain(blocking, decided.incomplete), None),
    )


def _list_warnings(result: GateResult) -> Iterator[str]:
    return (f"{check.name} {dict(check.by)}" for check in result.checks if check.verdict == "warn")


def _decide(records: MarkedRecords, kind: SabotageKind, frame: pl.DataFrame) -> GateResult:
    question = _ask_again(records.question)
    tables = _make_tables(frame, records.sources)
    if kind.baseline == "dropped":
        written = question.policy.find(Baseline)
        if written is not None and written.required:
            raise UsageError("the policy requires a baseline", fix="--against FILE")
        question = replace(question, given=replace(question.given, recorded=None))
    if kind.baseline != "swapped":
        return decide_data(tables, question)
    score = score_data(tables, question.options, watch=question.table.watch)
    given = replace(question.given, recorded=record_run(question, score))
    return decide(replace(question, given=given), score)
