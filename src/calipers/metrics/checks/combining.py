"""From the outcomes of checks to a record's lists, in addition to what the record reports itself.

- `expected_behaviors`: the names of all that is expected.
- `observed_behaviors`: the names of which every check holds.
- `violations`: the names of which any check holds.
- A `forbid` check that is undecided stays in `checks` with `held: null`, and leaves the scenario
  undecided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calipers.metrics.checks.check import NamedCheck

EXPECTED, OBSERVED, VIOLATED = LISTS = ("expected_behaviors", "observed_behaviors", "violations")
RESULTS = "checks"
JUDGED = "judgments"
REPORTED = "reported"  # in a result: the record reports the same itself

Held = Sequence[bool | None]


class Combining:
    """Adds the outcomes of some checks to the lists of records."""

    def __init__(self, checks: Sequence[NamedCheck]) -> None:
        self._checks = checks
        self._names = {
            rule: _drop_repeats(c.name for c in checks if c.rule == rule)
            for rule in ("expect", "forbid")
        }
        self._all = {name for names in self._names.values() for name in names}

    def __call__(self, row: Mapping[str, Any], held: Held) -> tuple[str | None, ...]:
        """Return the three lists and the results that leave something undecided, each as JSON."""
        lists = {name: _read_list(row.get(name)) for name in LISTS}
        earlier = _read_list(row.get(RESULTS)) or []
        reported = self._remove_earlier(lists, earlier)
        expected, observed, violated = (reported[name] for name in LISTS)
        of_checks = {c.name for c in self._checks} | {_find_name(each) for each in earlier}
        unknown = observed is None and any(each not in of_checks for each in expected or ())
        found = self._list_held("expect", held, all)
        broken = self._list_held("forbid", held, any)
        if self._names["expect"]:
            expected = _drop_repeats((*(expected or ()), *self._names["expect"]))
        elif expected is None and not row.get(JUDGED):
            expected = []  # only forbidden things: a reply without any of them passes
        if not unknown and expected is not None:
            observed = _drop_repeats((*(observed or ()), *found))
        violated = _drop_repeats((*(violated or ()), *broken))
        unsure = [
            {"name": check.name, "kind": check.test.key, "rule": check.rule, "held": None}
            for check, holds in zip(self._checks, held, strict=True)
            if check.rule == "forbid" and holds is None
        ]
        kept = [each for each in earlier if _find_name(each) not in self._all]
        results = [*kept, *unsure]
        return (_dump(expected), _dump(observed), _dump(violated), _dump(results or None))

    def append_results(self, earlier: str | None, results: list[Any]) -> str:
        """Return results after those of earlier checks of other names, as JSON."""
        others = [each for each in _read_list(earlier) or () if _find_name(each) not in self._all]
        return json.dumps([*others, *results], ensure_ascii=False)

    def _remove_earlier(
        self, lists: Mapping[str, list[Any] | None], earlier: Iterable[Any]
    ) -> dict[str, list[Any] | None]:
        """Remove what an earlier check of the same name has put into the lists."""
        results = (each for each in earlier if isinstance(each, Mapping) and "held" in each)
        gone = {_find_name(each) for each in results if not each.get(REPORTED)} & self._all
        return {
            name: values if values is None else [each for each in values if each not in gone]
            for name, values in lists.items()
        }

    def _list_held(self, rule: str, held: Held, of: Callable[[Iterable[bool]], bool]) -> list[str]:
        """Return the names of a rule of which all, or any, of the checks hold."""
        outcomes: dict[str, list[bool]] = {name: [] for name in self._names[rule]}
        for check, holds in zip(self._checks, held, strict=True):
            if check.rule == rule:
                outcomes[check.name].append(holds is True)
        return [name for name, each in outcomes.items() if of(each)]


def _drop_repeats(names: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(names))


def _find_name(result: Any) -> Any:
    return result.get("name") if isinstance(result, Mapping) else None


def _read_list(text: Any) -> list[Any] | None:
    if text is None:
        return None
    found = json.loads(text) if isinstance(text, str) else text
    return found if isinstance(found, list) else []


def _dump(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
