"""Differences between the run that a folder holds and the one that is asked for now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.runs.code_under_test import hash_file
from calipers.runs.manifest import CHECKS, IMPORTED, ORDER_SEED, SHARD

MAY_CHANGE = ("budget_usd", "budget_calls", "concurrency", "retries", "timeout_seconds")
_DECIDES_NOTHING = ("description", "metrics")  # keys of the suite that do not affect answers
_MEASURES = "metric_settings"
_DONE_ANEW = ("checks",)  # keys that are applied again to the existing answers
_SHOWN = 60


def list_changes(before: Mapping[str, Any], now: Mapping[str, Any], base: Path) -> list[str]:
    """Return every difference between two manifests that makes old answers stale, in words.

    Compared are the suite without `MAY_CHANGE`, the data, the code under test, the judges' rubrics,
    the prices of the price list, and the servers that environment variables name. `base` is the
    suite's own folder.
    """
    return [
        *_list_differences(_keep_asked(before, before), _keep_asked(now, before)),
        *_compare_shards(before, now),
        *_compare_data(before["data"], now["data"]),
        *_compare_files(before, now, base),
        *_compare_surroundings(before, now),
        *(note_checks(before, now) if ORDER_SEED in before else ()),
    ]


def list_unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return how the manifests of two shards differ, in words; empty if they are of one run."""
    return [
        *_list_differences(one["suite"], other["suite"]),
        *_compare_data(one["data"], other["data"]),
        *(
            f"{name} has other content"
            for name in sorted({*one["files"], *other["files"]})
            if one["files"].get(name) != other["files"].get(name)
        ),
        *_compare_surroundings(one, other),
        *(["they were checked by other checks"] if one.get(CHECKS) != other.get(CHECKS) else []),
    ]


def _compare_shards(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, is_now = (
        "all tasks" if each.get(SHARD) is None else f"shard {each[SHARD]}" for each in (before, now)
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
    policies = {each["suite"]["policy"] for each in (before, now)}
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
        old, new = ({each["name"]: each for each in items} for items in (before, now))
        yield from _list_differences(old, new, place)
    elif before != now and not (_is_empty(before) and _is_empty(now)):
        yield f"{place} was {_format_value(before)}, is {_format_value(now)}"


def _has_names(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(e, dict) and "name" in e for e in items)


def _is_empty(value: Any) -> bool:
    return value is None or value in ([], {})


def _format_value(value: Any) -> str:
    if _is_empty(value):
        return "not there"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
