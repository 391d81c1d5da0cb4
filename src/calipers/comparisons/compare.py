"""Compare runs: read them, choose the metrics, compare all pairs, and say what changed and why.

Tasks that flipped are right in one run and wrong in the other. The causes of a change are the
model, the scorer, and the tasks; their parts sum to the whole change. Five steps lead from the base
to the candidate, each changing one thing: the base's own tasks are cut down to the common ones
(tasks removed), these are scored again by one scorer (scorer), the answers change (model), the
candidate's own scores come back (scorer), and its other tasks join (tasks added).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import polars as pl

from calipers.comparisons.compare_result import Attribution, Compared, Margin, Pair, SliceVerdict
from calipers.comparisons.comparison_options import CompareOptions
from calipers.comparisons.pairing import compare_across, compare_independent, compare_pairs
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, TASK, Feature
from calipers.metrics.families.repeated_runs import succeeded
from calipers.metrics.thresholds import parse_margin, read_scale
from calipers.records.batch import format_bad_rows, format_nulled
from calipers.records.completeness import explain_missing
from calipers.records.fields import VARIANT
from calipers.records.result_folder import MANIFEST, RECORDS, read_json_object
from calipers.records.sources import STDIN, open_sources
from calipers.scores.crossed import TASK_FIELD, name_factors
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.scores.score import check_fields
from calipers.scores.score_plan import refuse_absent
from calipers.scores.task_values import (
    TELL_SYSTEMS_APART,
    VALUE,
    TaskRows,
    measure_tasks,
    name_kept_field,
    note_pooled,
    read_task_rows,
    settle_metric,
    split_rows,
)
from calipers.statistics.paired import holm
from calipers.support.errors import EmptyError, UsageError, make_write_error, nearest, quote_name

LOST, WON = "base right, candidate wrong", "base wrong, candidate right"
_OCCURRENCE = "_occurrence"
_RUN = "_run"
_PLACE = "_place"


def find_flips(base: TaskRows, candidate: TaskRows) -> pl.DataFrame | None:
    """Return the rows that flipped in the first binary metric; None if there is none.

    Rows are paired by id, and by run where both sides have runs; else in their order. Columns are
    `id`, `run`, whether the candidate `lost` it, `target`, and the answers of both sides.
    """
    feature = _find_binary(base, candidate)
    if feature is None:
        return None
    sides = [_select_known(side.rows, feature) for side in (base, candidate)]
    by_run = all(side["run"].null_count() == 0 for side in sides)
    keys: tuple[str, ...] = (TASK, _RUN) if by_run else (TASK,)
    if by_run:
        run = pl.col("run").cast(pl.String).str.replace(r"\.0$", "")  # 1.0 is the "1" of a CSV
        sides = [side.with_columns(run.alias(_RUN)) for side in sides]
    if not (base.is_one_per_task and candidate.is_one_per_task):
        # A run may occur twice, as of two models: the first is paired with the first.
        occurrence = pl.int_range(pl.len()).over(keys).alias(_OCCURRENCE)
        sides = [side.with_columns(occurrence) for side in sides]
        keys = (*keys, _OCCURRENCE)
    sides = [side.with_row_index(_PLACE) for side in sides]
    ours, theirs = (side.select(*keys, _PLACE, feature) for side in sides)  # the rest is wide
    flipped = ours.join(theirs, on=keys, suffix="_candidate").filter(
        pl.col(feature) != pl.col(f"{feature}_candidate")
    )
    base_rows, candidate_rows = (
        side[flipped[place]]
        for side, place in zip(sides, (_PLACE, f"{_PLACE}_candidate"), strict=True)
    )
    return (
        base_rows.with_columns(candidate_rows["answer"].alias("candidate"))
        .sort("id", *keys)
        .select(
            "id",
            "run",
            pl.col(feature).alias("lost"),
            "target",
            pl.col("answer").alias("base"),
            "candidate",
        )
    )


def write_flips(flips: pl.DataFrame | None, path: Path) -> None:
    """Write the rows that flipped to a file, a line each."""
    if flips is None:
        raise UsageError("--flips needs a metric of right or wrong", fix="--metric accuracy")
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in flips.iter_rows(named=True):
                line = {
                    "id": row["id"],
                    "run": format_run(row["run"]),
                    "flip": LOST if row["lost"] else WON,
                    "target": row["target"],
                    "base": row["base"],
                    "candidate": row["candidate"],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise make_write_error(path, error) from error


def _find_binary(*sides: TaskRows) -> str | None:
    """Return the first binary feature of which one value is better, or None."""
    for metric in sides[0].plan.metrics:
        averaged = metric.averaged
        yes_or_no = isinstance(averaged, Feature) and averaged.dtype == pl.Boolean
        if yes_or_no and metric.better and all(side.has_fields(metric) for side in sides):
            assert isinstance(averaged, Feature)
            return averaged.name
    return None


def _select_known(rows: pl.DataFrame, feature: str) -> pl.DataFrame:
    return rows.select(TASK, "id", feature, "run", "target", "answer").drop_nulls(feature)


def format_run(run: Any) -> Any:
    """Return a run's number as it was written."""
    return int(run) if isinstance(run, float) and run.is_integer() else run


_SCORED = "correct"
_NOWHERE = "\0"  # a name that no field has: the recorded scores are not read


def read_rescored(
    base: Any,
    candidate: Any,
    options: Options,
    *,
    base_normalize: Literal["numeric", "text"] | None,
) -> list[TaskRows]:
    """Return two runs as they were scored, and both as one scorer of today scores them."""
    own = options
    if base_normalize is not None:
        own = replace(options, settings=replace(options.settings, normalize=base_normalize))
    again = replace(options, map={**options.map, _SCORED: _NOWHERE})
    asked = ((base, own), (candidate, options), (base, again), (candidate, again))
    return [read_task_rows(*each) for each in asked]


def attribute_changes(pair: Pair, sides: Sequence[TaskRows], metrics: Sequence[Metric]) -> Pair:
    """Return the comparison with the parts of each change, if the metric is a mean."""
    found = {
        metric.name: replace(pair.metrics[metric.name], attribution=_attribute(sides, metric))
        for metric in metrics
    }
    return replace(pair, metrics=found)


def _attribute(sides: Sequence[TaskRows], metric: Metric) -> Attribution | None:
    """Return the parts of the change; None if the metric is not a mean or a side has no value."""
    tables = [table for side in sides if (table := measure_tasks(side, metric)) is not None]
    if len(tables) < len(sides):
        return None
    base, candidate, base_anew, candidate_anew = tables
    common = base.join(candidate, on=TASK, how="semi").select(TASK)
    if not common.height:
        return None
    before, after = _average(base), _average(candidate)
    old, new = _average(base, common), _average(candidate, common)
    rescored = all(
        table.join(common, on=TASK, how="semi").height == common.height
        for table in (base_anew, candidate_anew)
    )
    if rescored:
        model = _average(candidate_anew, common) - _average(base_anew, common)
        scorer: float | None = (new - old) - model
        reason = None
    else:
        model, scorer = new - old, None
        reason = "not every common task can be scored again: the scorer's part is in the model's"
    return Attribution(
        base=before,
        candidate=after,
        model=model,
        scorer=scorer,
        tasks_removed=old - before,
        tasks_added=after - new,
        reason=reason,
    )


def _average(tasks: pl.DataFrame, among: pl.DataFrame | None = None) -> float:
    if among is not None:
        tasks = tasks.join(among, on=TASK, how="semi")
    return float(tasks[VALUE].mean())  # type: ignore[arg-type]


_TWO = 2


def compare_data(data: Sequence[Any], options: Options, asked: CompareOptions) -> Compared:
    """Compare all pairs of the data sets, or of the parts of one; or each with the first."""
    data = [list(each) if isinstance(each, Iterator) else each for each in data]
    _refuse_contradictions(data, asked, options)
    read = _read(data, options, asked)
    sides = read
    if asked.between is not None:
        sides = _split_sides(read[0], data[0], asked.between)
        base = asked.base
        if base is None:
            base = _find_first_prompt(data[0], asked.between)
        sides = _put_first(sides, base, asked)
        asked = replace(asked, to_first=asked.to_first or asked.base is not None)
    two = len(sides) == _TWO
    if asked.flips is not None and not two:
        raise UsageError("--flips compares two runs", fix="name two files")
    metrics = _choose_metrics(sides, named=bool(options.metrics))
    margins = _read_margins(asked.margin, metrics)
    paired = partial(compare_pairs, flip_signs=asked.flip_signs)
    of_two = compare_independent if asked.unpaired else paired
    chosen = [pair for pair in combinations(sides, 2) if not asked.to_first or pair[0] is sides[0]]
    if not asked.unpaired:
        _check_common_tasks(chosen)
    pairs = [
        _compare_groups(base, candidate, metrics, options, of_two) for base, candidate in chosen
    ]
    if asked.attribute:
        twice = read_rescored(data[0], data[1], options, base_normalize=asked.base_normalize)
        pairs = [attribute_changes(pair, twice, metrics) for pair in pairs]
    return Compared(
        pairs=tuple(
            judge_slices(
                _apply_margins(pair, margins, options.confidence), metrics, options.confidence
            )
            for pair in _adjust_p_values(pairs, metrics)
        ),
        paired=not asked.unpaired,
        confidence=options.confidence,
        seed=options.seed,
        across=dict(compare_across(sides, metrics)) if asked.unpaired and not two else {},
        named=tuple(options.metrics),
        flips=_count_flips(sides[0], sides[1], asked) if two and not asked.unpaired else {},
        notices=tuple(_list_notices(data, read, sides, asked.between)),
    )


def _count_flips(base: TaskRows, candidate: TaskRows, asked: CompareOptions) -> Mapping[str, int]:
    """Return how many rows were lost and won, and hand them to whoever asked for them.

    Without a metric of right or wrong there are none.
    """
    found = find_flips(base, candidate)
    if asked.flips is not None:
        write_flips(found, asked.flips)
    if found is None:
        return {}
    if asked.take_flips is not None:
        asked.take_flips(found)
    lost = int(found["lost"].sum())
    return {"lost": lost, "won": found.height - lost}


def _refuse_contradictions(data: Sequence[Any], asked: CompareOptions, options: Options) -> None:
    """Raise UsageError for contradictory options, before anything is read."""
    piped = sum(isinstance(each, str) and each == STDIN for each in data)
    wanted = {"--flips": asked.flips is not None, "--attribute": asked.attribute}
    wanted |= {"--random": bool(options.random), "--guarantee": options.guarantee}
    for option in (option for option, is_wanted in wanted.items() if is_wanted and asked.unpaired):
        raise UsageError(
            f"--unpaired pairs no tasks, which {option} needs", fix="leave one of the two out"
        )
    if asked.base_normalize is not None and not asked.attribute:
        raise UsageError("--base-normalize needs --attribute", fix="add --attribute")
    if asked.attribute and len(data) != _TWO:
        raise UsageError("--attribute compares two runs", fix="name two files")
    if piped > 1:
        raise UsageError("standard input can be read once", fix="name a file for one of the two")
    if piped and asked.attribute:
        raise UsageError(
            "standard input can be read once", fix="--attribute reads each run again: name files"
        )
    if asked.between is not None and len(data) != 1:
        raise UsageError("--between splits one data set", fix="name one file")
    if asked.between is not None and asked.between in options.random:
        raise UsageError(
            f"--random: {quote_name(asked.between)} is what the sides of --between differ in, so "
            "that no cell of one is in the other",
            fix=f"leave {quote_name(asked.between)} out of --random",
        )
    if asked.base is not None and asked.between is None:
        raise UsageError(
            "--base needs --between: of several files, the first is the base",
            fix="for example --between model --base gpt-4o-mini",
        )
    if asked.between is None and len(data) < _TWO:
        raise UsageError(
            "comparing needs two data sets",
            fix="name a second file, or split this one: --between model",
        )


def _read(data: Sequence[Any], options: Options, asked: CompareOptions) -> list[TaskRows]:
    """Return each data set, measured; raise if one is empty or none has a field asked for."""
    between = () if asked.between is None else (asked.between,)
    factors = (name for name in name_factors(options) if name != TASK_FIELD)
    kept = ("answer", "target", "run", *TELL_SYSTEMS_APART, *between, *factors)
    kept = tuple(dict.fromkeys(kept))
    read = [read_task_rows(each, options, keep=kept, paired=not asked.unpaired) for each in data]
    for side in read:
        if not side.records:
            raise EmptyError(f"no records in {side.name}", fix="check the file")
    sources = [source for each in data for source in open_sources(each)]
    present = frozenset[str]().union(*(side.present for side in read))
    check_fields(present, read[0].plan, sources, options.map)
    if options.metrics and any(side.records > side.errors for side in read):
        refuse_absent(read[0].plan.metrics, present, sources, options.map)
    return read


def _split_sides(whole: TaskRows, data: Any, field: str) -> list[TaskRows]:
    found = split_rows(whole, field)
    if not found:
        columns = {column for source in open_sources(data) for column in source.columns()}
        raise UsageError(
            f"--between {quote_name(field)}: no record has a value in {quote_name(field)}",
            fix=nearest(field, columns),
        )
    if len(found) < _TWO:
        raise UsageError(
            f"--between {field}: all records have the same value",
            fix="name a field that distinguishes the runs",
        )
    return found


def _put_first(sides: list[TaskRows], base: str | None, asked: CompareOptions) -> list[TaskRows]:
    """Return the sides, the base first; raise UsageError if one was asked for that is not there."""
    names = [side.name for side in sides]
    if base in names:
        return sorted(sides, key=lambda side: side.name != base)
    if asked.base is not None:
        raise UsageError(
            f"--base {quote_name(asked.base)}: no record has this value in {asked.between}",
            fix=nearest(asked.base, names),
        )
    return sides


def _find_first_prompt(data: Any, field: str) -> str | None:
    """Return the suite's first prompt, the base of the others, if a run wrote the records."""
    if field != VARIANT:
        return None
    for source in open_sources(data):
        manifest = read_json_object(Path(source.name).parent / MANIFEST) or {}
        prompts = (manifest.get("suite") or {}).get("prompts")
        if Path(source.name).name == RECORDS and prompts:
            return str(prompts[0]["name"])
    return None


def _choose_metrics(sides: Sequence[TaskRows], *, named: bool) -> list[Metric]:
    """Return the metrics whose fields all sides have; those asked for by name in any case.

    Pass@k and pass^k only by name: of the same verdicts, they would be further tests of one thing.
    """
    planned = sides[0].plan.metrics
    common = (each for each in planned if all(each in side.plan.metrics for side in sides))
    every = [settle_metric(metric, sides) for metric in common]
    measured = [metric for metric in every if all(side.has_fields(metric) for side in sides)]
    if not measured:
        raise UsageError(
            "no metric has its fields on every side", fix="see: calipers metrics, --map, --metric"
        )
    if named:
        return every
    return [metric for metric in measured if succeeded not in metric.features] or measured


def _read_margins(written: float | str | None, metrics: Sequence[Metric]) -> dict[str, float]:
    """Return the margin of each metric in its own unit; none if none was asked for."""
    if written is None:
        return {}
    try:
        margins = {metric.name: parse_margin(written, read_scale(metric)) for metric in metrics}
    except UsageError as error:
        raise UsageError(
            f"--margin {written}: not a margin for every metric compared ({error.message})",
            fix="a number in the metric's unit, for example --metric accuracy --margin 0.02",
        ) from error
    if min(margins.values()) < 0:
        raise UsageError(
            f"--margin {written}: below 0", fix="how much worse is still acceptable: 0.02, say"
        )
    return margins


def _apply_margins(pair: Pair, margins: Mapping[str, float], confidence: float) -> Pair:
    if not margins:
        return pair
    metrics = {
        name: replace(
            each, against=Margin.of(margins[name], each, metric_named(name).better, confidence)
        )
        for name, each in pair.metrics.items()
    }
    groups = tuple(_apply_margins(group, margins, confidence) for group in pair.groups)
    return replace(pair, metrics=metrics, groups=groups)


def _check_common_tasks(pairs: Sequence[tuple[TaskRows, TaskRows]]) -> None:
    for base, candidate in pairs:
        if not base.rows[TASK].is_in(candidate.rows[TASK].implode()).any():
            raise UsageError(
                f"{base.name} and {candidate.name} have no task in common",
                fix="tasks are paired by id: name the field with --map id=NAME, group alike, "
                "or compare them as independent samples with --unpaired",
            )


def _list_notices(
    data: Sequence[Any], read: Sequence[TaskRows], sides: Sequence[TaskRows], between: str | None
) -> Iterator[str]:
    for name in dict.fromkeys(source.name for each in data for source in open_sources(each)):
        yield from (f"{name}: {lack}" for lack in explain_missing(Path(name)))
    for side in read:
        if side.skipped:
            yield f"{side.name}: {format_bad_rows(side.skipped)}"
        if side.nulled:
            yield f"{side.name}: {format_nulled(side.nulled)}"
    if between is not None and (lost := read[0].rows[name_kept_field(between)].null_count()):
        yield f"{lost} records without {between} are left out"
    for side in sides:
        if side.errors:
            yield f"{side.name}: {side.errors} failed calls are in no metric"
        yield from note_pooled(side)


def _compare_groups(
    base: TaskRows,
    candidate: TaskRows,
    metrics: Sequence[Metric],
    options: Options,
    of_two: Callable[[TaskRows, TaskRows, Sequence[Metric], Options], Pair],
) -> Pair:
    """Return the comparison of all tasks and, if asked for, that of each group on both sides."""
    whole = of_two(base, candidate, metrics, options)
    if not options.by:
        return whole
    texts = set(base.rows[GROUP].unique()) & set(candidate.rows[GROUP].unique())
    groups = []
    for text, key in sort_keys(texts, options.by).items():
        own = pl.col(GROUP) == text
        ours, theirs = (replace(side, rows=side.rows.filter(own)) for side in (base, candidate))
        groups.append(replace(of_two(ours, theirs, metrics, options), by=key))
    return replace(whole, groups=tuple(groups))


def judge_slices(pair: Pair, metrics: Sequence[Metric], confidence: float) -> Pair:
    """Return the pair with which of its groups got worse: p adjusted over the groups (Holm)."""
    if len(pair.groups) < _TWO:
        return pair
    found = []
    for metric in metrics:
        of_groups = [group.metrics.get(metric.name) for group in pair.groups]
        p_values = [None if each is None else each.p_value for each in of_groups]
        if metric.better is None or all(p is None for p in p_values):
            continue
        sign = 1 if metric.better == "higher" else -1
        adjusted = holm(p_values)
        changed = [
            (group.by, sign * (each.difference or 0.0))
            for group, each, p in zip(pair.groups, of_groups, adjusted, strict=True)
            if each is not None and p is not None and p < 1 - confidence
        ]
        verdict = SliceVerdict(
            metric=metric.name,
            slices=sum(p is not None for p in p_values),
            worse=tuple(by for by, change in changed if change < 0),
            better=tuple(by for by, change in changed if change > 0),
            error_rate=1 - confidence,
            p_adjusted=tuple(adjusted),
        )
        found.append(verdict)
    return replace(pair, slices=tuple(found))


def _adjust_p_values(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> list[Pair]:
    """Return the pairs with p adjusted over all pairs and metrics (Holm), complements once."""
    family = {metric.name: metric.averaged or metric.name for metric in metrics}
    tests: dict[tuple[int, Any], float | None] = {
        (number, family[name]): each.p_value
        for number, pair in enumerate(pairs)
        for name, each in pair.metrics.items()
    }
    adjusted = dict(zip(tests, holm(list(tests.values())), strict=True))
    return [
        replace(
            pair,
            metrics={
                name: replace(each, p_holm=adjusted[number, family[name]])
                for name, each in pair.metrics.items()
            },
            groups=tuple(_adjust_p_values(pair.groups, metrics)) if pair.groups else (),
        )
        for number, pair in enumerate(pairs)
    ]
