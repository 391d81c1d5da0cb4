"""What earlier runs left in a folder: whether it may be continued, and which calls are done.

`list_stale_causes` says what makes old answers stale, `RunManifest` compares and rewrites the
manifest, and `State` counts the journal: calls that are missing, have failed or are done, and their
cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from calipers.records.fields import VARIANT
from calipers.records.nested_fields import FAILED_JUDGMENT, get_judgments, sum_judging_cost
from calipers.records.result_folder import MANIFEST
from calipers.records.rows import classify_scalar
from calipers.runs.code_under_test import hash_file
from calipers.runs.folder import CHECKS, FRESH, IMPORTED, ORDER_SEED, SHARD, Folder
from calipers.runs.plan import CallPlan, Key
from calipers.support.errors import DataError, UsageError
from calipers.systems.conversations import sum_user_cost
from calipers.systems.journal import Journal, Tally

MAY_CHANGE = ("budget_usd", "budget_calls", "concurrency", "retries", "timeout_seconds")
_DECIDES_NOTHING = ("description", "metrics")  # keys of the suite that do not affect answers
_MEASURES = "metric_settings"
_DONE_ANEW = ("checks",)  # keys that are applied again to the existing answers
_SHOWN = 60


def list_stale_causes(before: Mapping[str, Any], now: Mapping[str, Any], base: Path) -> list[str]:
    """Return every difference between two manifests that makes old answers stale, in words.

    Compared are the suite without `MAY_CHANGE`, the data, the code under test, the judges' rubrics,
    the prices of the price list, and the servers that environment variables name. `base` is the
    suite's own folder.
    """
    return [
        *_list_differences(_keep_asked(before, before), _keep_asked(now, before)),
        *_note_own_verdicts(before),
        *_compare_shards(before, now),
        *_compare_data(before["data"], now["data"]),
        *_compare_files(before, now, base),
        *_compare_surroundings(before, now),
        *(note_checks(before, now) if ORDER_SEED in before else ()),
    ]


def list_shard_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return how the manifests of two shards differ, in words; empty if they are of one run.

    A module that only one of them has imported while it ran does not differ: not every task leads
    to it.
    """
    code = [{**manifest.get(IMPORTED, {}), **manifest["files"]} for manifest in (one, other)]
    found_by_both = code[0].keys() & code[1].keys()
    return [
        *_list_differences(one["suite"], other["suite"]),
        *_compare_data(one["data"], other["data"]),
        *(
            f"{name} has other content"
            for name in sorted(found_by_both | {*one["files"]} ^ {*other["files"]})
            if code[0].get(name) != code[1].get(name)
        ),
        *_compare_surroundings(one, other),
        *(["they were checked by other checks"] if one.get(CHECKS) != other.get(CHECKS) else []),
    ]


def _note_own_verdicts(before: Mapping[str, Any]) -> Iterator[str]:
    """Yield that systems may have graded themselves, as they could before suites had `trust`."""
    suite = before["suite"]
    if "trust" not in suite and any(system.get("model") is None for system in suite["systems"]):
        version = before.get("version", "an earlier version")
        yield f"it was made by Calipers {version}, in which a system's own verdicts counted"


def _compare_shards(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, is_now = (
        "all tasks" if manifest.get(SHARD) is None else f"shard {manifest[SHARD]}"
        for manifest in (before, now)
    )
    if was != is_now:
        yield f"it was of {was}, and this run is of {is_now}"


def _keep_asked(of: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite without what only measures the answers, unless that chose the calls."""
    dropped = () if ORDER_SEED in before else (_MEASURES,)
    return {key: value for key, value in of["suite"].items() if key not in dropped}


def _compare_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before["sha256"] != now["sha256"]:
        tasks = f"{before['tasks']} tasks then, {now['tasks']} now"
        yield f"{now['path']} has other content ({tasks})"


def _compare_files(before: Mapping[str, Any], now: Mapping[str, Any], base: Path) -> Iterator[str]:
    """Yield the files of the code under test that differ, as they were and as they are on the disk.

    A changed policy is applied to the same answers, unless it has decided which calls were made.
    """
    policies = {manifest["suite"]["policy"] for manifest in (before, now)}
    then = {**before["files"], **before.get(IMPORTED, {})}
    today = {**{name: hash_file(base.resolve() / name) for name in then}, **now["files"]}
    for name in sorted(today.keys() - (set() if ORDER_SEED in before else policies)):
        if name not in then:
            yield f"{name} is new in the code under test"
        elif then[name] != today[name]:
            yield f"{name} has changed" if (base / name).is_file() else f"{name} is gone"


def _compare_surroundings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs of the rubrics, the prices on the list, and the servers.

    Prices of the suite's own are in the suite; folders from before servers were noted have none.
    """
    rubrics = before.get("rubrics", {})
    for name, digest in now.get("rubrics", {}).items():
        if rubrics.get(name, digest) != digest:
            yield f"the rubric of {name} has other content"
    old_prices, prices = before.get("prices", {}), now.get("prices", {})
    for name in prices.keys() & old_prices.keys():
        then, today = old_prices[name], prices[name]
        listed = "suite" not in (then["source"], today["source"])
        if listed and then["usd_per_million"] != today["usd_per_million"]:
            yield f"the price of {name} has changed ({then['source']} then, {today['source']} now)"
    servers = now.get("servers", {})
    old_servers = before.get("servers", servers)
    for name in sorted({*old_servers, *servers}):
        if old_servers.get(name) != servers.get(name):
            yield f"the environment variable {name} has another value"


def note_policy(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the policy has changed, if it decides on the same answers."""
    name = now["suite"]["policy"]
    if name is not None and before["files"].get(name) != now["files"].get(name):
        yield f"{name} has changed: the answers that are there are decided on again"
    if before["suite"].get(_MEASURES, {}) != now["suite"][_MEASURES]:
        yield f"{_MEASURES} has changed: the answers that are there are measured again"


def note_checks(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the checks have changed."""
    if before.get(CHECKS) != now.get(CHECKS):
        yield "the checks have changed: the answers that are there are checked again"


def _list_differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield `systems.mini.settings.temperature was 0, is 1`: each difference by its path."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            if place or key not in (*MAY_CHANGE, *_DECIDES_NOTHING, *_DONE_ANEW):
                at = f"{place}.{key}" if place else key
                yield from _list_differences(before.get(key), now.get(key), at)
    elif _has_names(before) and _has_names(now):
        old, new = ({item["name"]: item for item in items} for items in (before, now))
        yield from _list_differences(old, new, place)
    elif before != now and not (_is_empty(before) and _is_empty(now)):
        yield f"{place} was {_format_value(before)}, is {_format_value(now)}"


def _has_names(items: Any) -> bool:
    return isinstance(items, list) and all(
        isinstance(e, dict) and isinstance(e.get("name"), str) for e in items
    )


def _is_empty(value: Any) -> bool:
    return value is None or value in ([], {})


def _format_value(value: Any) -> str:
    if _is_empty(value):
        return "not there"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


REPLACED_COUNTS = (
    "replaced_calls",
    "replaced_usd",
)  # by later calls: of the state, and of the manifest
SPENT = "spent_usd"


class RunManifest:
    """The manifest of a run, in memory and on disk."""

    def __init__(self, folder: Folder, content: dict[str, Any], base: Path) -> None:
        self._folder = folder
        self._base = base  # the suite's own folder
        self._content = content
        self.checks_changed = False  # since the folder's records were checked

    def begin(self, order_seed: int | None) -> list[str]:
        """Write the manifest, and take over what it records of earlier runs.

        Return what the user is to be told. The seed draws the order of the tasks, of a run until
        the gate is decided.

        Raises:
            UsageError: The answers in the folder are of another suite, other data or other code.
        """
        now, before = self._content, self._folder.read_manifest() or {}
        notices: list[str] = []
        if before:
            if changes := list_stale_causes(before, now, self._base):
                raise UsageError(
                    f"{self._folder.path}: its answers are stale: {'; '.join(changes)}",
                    fix="--fresh calls again and keeps the old answers beside the folder, "
                    f"-o FOLDER takes another one; {', '.join(MAY_CHANGE)} may change",
                )
            changed = list(note_checks(before, now))
            self.checks_changed = bool(changed)
            notices += (*note_policy(before, now), *changed)
        for name in (*REPLACED_COUNTS, SPENT):
            now[name] = before.get(name, 0)
        now[IMPORTED] = before.get(IMPORTED, {})
        now[FRESH] = now[FRESH] or before.get(FRESH, False)
        now |= self._seed(before, order_seed)
        self._folder.remove_verdicts()
        self.note({})
        return notices

    def note(self, changed: Mapping[str, Any]) -> None:
        """Update some keys, in memory and on disk."""
        self._content |= changed
        self._folder.write_json(MANIFEST, self._content)

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def _seed(self, before: Mapping[str, Any], seed: int | None) -> dict[str, int]:
        """Return the seed of the order of tasks; after results were seen, it must not change."""
        drawn = before.get(ORDER_SEED)
        if seed is None:
            return {} if drawn is None else {ORDER_SEED: drawn}
        if drawn not in (None, seed):
            raise UsageError(
                f"{self._folder.path}: its tasks were drawn with --seed {drawn}, not {seed}",
                fix=f"continue with --seed {drawn}, or start again: --fresh",
            )
        return {ORDER_SEED: seed}


CALL_IS_MISSING, CALL_HAS_FAILED, CALL_IS_DONE = 0, 1, 2


class State:
    """A byte per call, and the sums."""

    def __init__(self, plan: CallPlan, journal: Journal) -> None:
        self._plan = plan
        self._path = journal.path
        self._systems = {system.name: at for at, system in enumerate(plan.suite.systems)}
        self.calls = [bytearray(plan.per_system) for _ in plan.suite.systems]
        self.tally = Tally(plan.calls)
        self.replaced_calls = 0  # failed ones that were made again
        self.replaced_usd = 0.0
        self.dearest: dict[int, float] = {}  # what a system's dearest call cost
        self.dearest_judging: dict[int, float] = {}  # the same of its judges
        self._judging: dict[tuple[int, int], float] = {}  # what judges cost, where they do
        self.unjudged: set[tuple[int, int]] = set()  # done, but a judge failed
        self.predicted: type | None = None  # the type of what was predicted first
        self._read(journal)
        self.tally.begin()

    @property
    def missing(self) -> int:
        """The number of calls without a record."""
        return sum(call.count(CALL_IS_MISSING) for call in self.calls)

    def _read(self, journal: Journal) -> None:
        """Count every line once; of two records of one call the later counts, a good one first."""
        lines: list[dict[int, tuple[int, int]]] = [{} for _ in self.calls]
        failed: dict[tuple[int, int], dict[str, Any]] = {}
        doubles = False
        for start, end, record in journal.read_lines():
            system, number = self.locate(record)
            self.predicted = self.predicted or classify_scalar(record.get("predicted"))
            states = self.calls[system]
            judging, dearest = sum_judging_cost(record), self.dearest_judging.get(system, 0.0)
            self.dearest_judging[system] = max(judging, dearest)
            if states[number] == CALL_IS_DONE:
                doubles = True
                if (system, number) in self.unjudged:  # the later one has more judgments
                    lines[system][number] = (start, end)
                    paid = self._judging.get((system, number), 0.0)
                    self.tally.judge(judging - paid)
                    self.note_judgments(system, number, record)
                continue
            if (before := failed.pop((system, number), None)) is not None:
                doubles = True
                self.tally.add(before, sign=-1)
                self.replaced_calls += 1
                self.replaced_usd += before.get("cost_usd") or 0.0
            self.tally.add(record)
            if (cost := record.get("cost_usd")) is not None:
                cost += sum_user_cost(record)
                self.dearest[system] = max(cost, self.dearest.get(system, 0.0))
            lines[system][number] = (start, end)
            states[number] = CALL_IS_DONE
            self.note_judgments(system, number, record)
            if record.get("error") is not None:
                states[number] = CALL_HAS_FAILED
                failed[system, number] = record
        if doubles:
            journal.keep_only(iter(sorted(span for line in lines for span in line.values())))

    def locate(self, record: Mapping[str, Any]) -> tuple[int, int]:
        """Return the system and the number of the call that a record is of, or raise DataError."""
        key = identify_record(record)
        system, number = self._systems.get(key[1]), self._plan.number(key)
        if system is None or number is None:
            raise DataError(
                f"{self._path}: a record that is none of the suite's: "
                f"id {key[0]}, model {key[1]}, run {key[3]}",
                fix="take it out, or start over with another folder: -o FOLDER",
            )
        return system, number

    def note_judgments(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Note what the judges of a call's record cost, and whether one failed."""
        if "judgments" not in record:
            self.unjudged.discard((system, number))
            return
        if cost := sum_judging_cost(record):
            self._judging[system, number] = cost
        failed = any(judgment.get(FAILED_JUDGMENT) for judgment in get_judgments(record))
        (self.unjudged.add if failed else self.unjudged.discard)((system, number))


def identify_record(record: Mapping[str, Any]) -> Key:
    """Return what identifies a record."""
    run = record.get("run")
    tier = record.get("tier")
    tier = record.get(VARIANT) if tier is None else tier  # a suite has tiers or prompts, not both
    return (
        str(record.get("id")),
        str(record.get("model")),
        None if tier is None else str(tier),
        run if isinstance(run, int) else 0,
    )


class CallChooser(Protocol):
    """Chooses the calls of a run."""

    def calls(self, system: int) -> Iterator[int]:
        """Yield the numbers of the system's calls to make, one at a time."""

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Take the record of a finished call."""

    async def ready(self) -> None:
        """Wait until the records so far have been evaluated."""


class AllCalls:
    """Every call that is open, in the plan's order."""

    def __init__(self, state: State) -> None:
        self._state = state

    def calls(self, system: int) -> Iterator[int]:
        """Yield the calls without a record, or with one of a failed call."""
        return (at for at, state in enumerate(self._state.calls[system]) if state != CALL_IS_DONE)

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Do nothing: no further call depends on a record."""

    async def ready(self) -> None:
        """Return at once."""
