"""The title and the facts of a report: what was measured, when and with what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calipers.records.result_folder import get_suite_name, list_suite_parts
from calipers.runs.samples import SampleTable
from calipers.scores.results import Score
from calipers.support.version import __version__

SYSTEM = ("model", "tier")  # what tells systems apart, where nothing else is asked for
_NAMED = 4  # models, or files, on a line
_IN_TITLE = 2  # models, or tasks, that a title names


def make_title(
    table: SampleTable, score: Score, manifest: Mapping[str, Any] | None, n_tasks: int
) -> str:
    """Return the name of the suite; without one, the systems and how many tasks they did."""
    if name := get_suite_name(manifest):
        return name
    models, tiers = (table.list_values(field) for field in SYSTEM)
    systems = " and ".join(models) if len(models) <= _IN_TITLE else f"{len(models)} models"
    if len(tiers) > 1:
        systems = f"{len(tiers)} tiers of {systems}" if systems else f"{len(tiers)} tiers"
    counted, kind = (n_tasks, "task") if n_tasks else (score.records, "record")
    tasks = f"{counted:,} {kind}{'' if counted == 1 else 's'}"
    return f"{systems} on {tasks}" if systems else tasks


def list_facts(
    score: Score, table: SampleTable, manifest: Mapping[str, Any] | None, records: Any, n_tasks: int
) -> Iterator[tuple[str, str]]:
    """Yield what was measured, in pairs of a word and its value."""
    errors = sum(group.errors for group in score.groups)
    failed = f", {errors:,} of them failed calls" if errors else ""
    truncated = sum(group.truncated for group in score.groups)
    cut_off = f", {truncated:,} truncated replies" if truncated else ""
    yield "Records", f"{score.records:,}{failed}{cut_off}"
    if n_tasks:
        yield "Tasks", f"{n_tasks:,}"
    for field in SYSTEM:
        if values := table.list_values(field):
            counted = f"{len(values)}: " if len(values) > _NAMED else ""
            plural = "" if len(values) == 1 else "s"
            yield f"{field.capitalize()}{plural}", f"{counted}{_join_some(values)}"
    yield "Read from", _join_some([each.path for each in score.inputs])
    if (when := _find_time(records)) is not None:
        yield "Records written", when
    if manifest is not None:
        yield from _read_manifest(manifest)
    yield "Measured with", f"Calipers {__version__}, seed {score.seed}"
    yield "Intervals", f"{100 * score.settings['confidence']:g} %"
    if prices := score.settings.get("prices"):
        yield "Prices", str(prices)


def _read_manifest(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts of the run's manifest, as far as it can be read."""
    if systems := list_suite_parts(manifest, "systems"):
        kinds = ("model", "python", "command", "http")
        called = [next((each[kind] for kind in kinds if each.get(kind)), "?") for each in systems]
        words = [" ".join(map(str, e)) if isinstance(e, list) else e for e in called]
        named = [f"{e.get('name')} ({what})" for e, what in zip(systems, words, strict=True)]
        yield "Systems", _join_some(named)
    answers = manifest.get("answers")
    if isinstance(answers, dict) and {"new", "reused"} <= answers.keys():
        yield "Answers", f"{answers['new']} new in the last run, {answers['reused']} reused"
    prices = manifest.get("prices")
    priced = prices.values() if isinstance(prices, dict) else ()
    sources = {str(e["source"]) for e in priced if isinstance(e, dict) and e.get("source")}
    if sources:
        yield "Prices of the run", _join_some(sorted(sources))


def _find_time(records: Any) -> str | None:
    """Return when the newest of the files was last written."""
    given = records if isinstance(records, list | tuple) else [records]
    paths = [Path(each) for each in given if isinstance(each, str | Path)]
    times = [path.stat().st_mtime for path in paths if path.is_file()]
    if not times:
        return None
    return datetime.fromtimestamp(max(times), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _join_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
