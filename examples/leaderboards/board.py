"""Write a page on a leaderboard: what it can tell apart, and what it cannot.

    python board.py results.jsonl --by model        # a row per system and task
    python board.py totals.yml --by model --tasks total_tests --passed pass_num_2 --cost total_cost

The second reads published totals, a row per system: `--tasks` names the field with the number of
tasks, `--passed` that of the passed ones, `--rate` the published percentage, `--cost` the cost of
all tasks in USD; a cost of 0 is taken as not known. A further `--by` tells systems of one name
apart. What each system did with each task is not known from totals, so they are compared as
independent samples.

All figures are those of `calipers rank`, `score` and `power`: this only puts them side by side.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

import yaml

import calipers as cal

Record = dict[str, Any]
SYSTEM = "system"
MOST_NAMED = 8  # steps of the list
WIDTH = 120  # of a line of the page
LEVEL = 0.05
NO_BREAK = "\N{NO-BREAK SPACE}"
ROUNDING = 0.06  # of a percentage with one decimal


@dataclass(frozen=True, kw_only=True)
class Board:
    """The records of a leaderboard, and the order in which it lists the systems.

    The rates of its list are those published, else those of all tasks that each system has.
    """

    records: Sequence[Record]
    listed: dict[str, float]  # system to rate, the best first
    is_paired: bool
    metric: str
    cluster: str | None = None  # field of tasks that depend on each other
    doubts: list[str] = field(default_factory=list)  # about the published figures


def read_results(path: Path, names: argparse.Namespace) -> Board:
    """Return the board of a file with a row per system and task."""
    kept = dict(each.split("=", 1) for each in names.where)
    rows = [
        {**row, SYSTEM: name_system(row, names.by)}
        for row in read_lines(path)
        if all(str(row.get(name)) == value for name, value in kept.items())
    ]
    score = cal.score(rows, by=[SYSTEM])
    metric = "accuracy" if "accuracy" in score.groups[0].metrics else "pass_rate"
    rates = {str(group.by[SYSTEM]): group[metric].value or 0.0 for group in score.groups}
    return Board(
        records=rows,
        listed=sort_by_rate(rates),
        is_paired=True,
        metric=metric,
        cluster=names.cluster,
    )


def read_totals(path: Path, names: argparse.Namespace) -> Board:
    """Return the board of a file with the totals of a system in each row."""
    records: list[Record] = []
    rates: dict[str, float] = {}
    doubts: list[str] = []
    rows = list(read_lines(path))
    for row in rows:
        names_alike = sum(other[names.by[0]] == row[names.by[0]] for other in rows)
        system = name_system(row, names.by if names_alike > 1 else names.by[:1])
        tasks, passed = int(row[names.tasks]), int(row[names.passed])
        spent = row.get(names.cost) or None  # a cost of 0 is one that nobody knows
        cost = {} if spent is None else {"cost_usd": spent / tasks}
        records += [
            {"id": f"{system} {n}", SYSTEM: system, "passed": n < passed, **cost}
            for n in range(tasks)
        ]
        rates[system] = 100 * passed / tasks if names.rate is None else float(row[names.rate])
        if abs(rates[system] - 100 * passed / tasks) > ROUNDING:
            doubts.append(
                f"{system}: the published rate is {rates[system]:g} %, but {passed} of {tasks} are "
                f"{100 * passed / tasks:.1f} %"
            )
    listed = sort_by_rate({name: rate / 100 for name, rate in rates.items()})
    return Board(records=records, listed=listed, is_paired=False, metric="pass_rate", doubts=doubts)


def read_lines(path: Path) -> Iterator[Record]:
    """Yield the rows of a file of JSON lines, or of a list in YAML."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".yaml", ".yml"):
        yield from yaml.safe_load(text)
    else:
        yield from (json.loads(line) for line in text.split("\n") if line.strip())


def name_system(row: Record, by: Sequence[str]) -> str:
    """Return the name of a row's system."""
    return ", ".join(str(row[name]) for name in by)


def sort_by_rate(rates: dict[str, float]) -> dict[str, float]:
    """Return the rates, the best first."""
    return dict(sorted(rates.items(), key=lambda each: -each[1]))


def write_page(board: Board, title: str, figure: Path | None = None, place: str = ".") -> str:
    """Return the page, which is to stand in the folder `place`; draw the figure if one is named."""
    ranking = cal.rank(
        board.records,
        by=[SYSTEM],
        metrics=[board.metric],
        unpaired=not board.is_paired,
        cluster=board.cluster,
    )
    costs = measure_costs(board)
    parts = [
        *([f"## {title}\n"] if title else []),
        *state_findings(board, ranking),
        *([] if figure is None else draw(ranking, figure, place)),
        *tabulate(board, ranking, costs),
        *list_order(board, ranking),
        *list_costs(ranking, costs),
    ]
    return "\n".join(parts)


def measure_costs(board: Board) -> dict[str, Any]:
    """Return the cost of pass of each system for which it is known."""
    if not any("cost_usd" in record for record in board.records):
        return {}
    score = cal.score(board.records, by=[SYSTEM], metrics=["cost_of_pass"], cluster=board.cluster)
    found = {str(group.by[SYSTEM]): group["cost_of_pass"] for group in score.groups}
    return {name: each for name, each in found.items() if each.value is not None}


def state_findings(board: Board, ranking: Any) -> Iterator[str]:
    """Yield what is sure, a bullet each."""
    systems, pairs = ranking.systems, ranking.pairs
    best = [each.name for each in systems if "a" in each.group]
    sure = [pair for pair in pairs if is_told_apart(pair)]
    tasks = f"{systems[0].n_tasks:,} tasks{'' if board.is_paired else ' each'}"
    tasks += f" by {board.cluster}" if board.cluster else ""
    yield bullet(
        f"**{len(systems)} systems, {tasks}.** {len(sure):,} of {len(pairs):,} pairs "
        f"({100 * len(sure) / len(pairs):.0f} %) can be told apart, all pairs at once at 95 %."
    )
    if len(best) > 1:
        others = f"{', '.join(best[1:-1])} and {best[-1]}" if best[2:] else best[1]
        yield bullet(f"**First place is shared**: {best[0]} cannot be told apart from {others}.")
    else:
        yield bullet(f"**First place is sure**: {best[0]} is better than every other system.")
    exact = [f"{each.name} ({each.rank})" for each in systems if each.rank_low == each.rank_high]
    if len(exact) == len(systems):
        yield bullet("**Sure places**: all.")
    else:
        widest = max(systems, key=lambda each: each.rank_high - each.rank_low)
        named = f": {', '.join(exact)}" if exact else ""
        yield bullet(
            f"**Sure places**: {len(exact) or 'none'}{named}. "
            f"The widest range is that of {widest.name}, {widest.rank_low} to {widest.rank_high}."
        )
    if sure and len(sure) < len(pairs):
        least = min(abs(pair.difference) for pair in sure)
        most = max(abs(pair.difference) for pair in pairs if not is_told_apart(pair))
        yield bullet(
            f"**Differences**: some pairs {points(least)} apart are told apart, others up to "
            f"{points(most)} apart are not."
        )
    yield bullet(state_resolution(board, ranking))
    yield ""


def state_resolution(board: Board, ranking: Any) -> str:
    """Return the smallest difference of two systems that so many tasks can show, and its price."""
    first, second = ranking.systems[:2]
    sides = [
        [record for record in board.records if record[SYSTEM] == each.name]
        for each in (first, second)
    ]
    gap = abs(first.value - second.value)
    plan: Record = {"metrics": [board.metric], "cluster": board.cluster}
    plan |= {"delta": gap} if gap else {}
    if board.is_paired:
        found = cal.power(sides[0], sides[1], **plan)
    else:
        found = cal.power(sides[0], correlation=0.0, **plan)
    measured = found.groups[0].metrics[board.metric]
    if measured.detectable is None:
        return f"**Resolution**: not known: {measured.reasons}"
    said = (
        f"**Resolution**: had only {first.name} and {second.name} been compared, so many tasks "
        f"would have shown a difference of {points(measured.detectable)} in four of five cases."
    )
    if not gap:
        return f"{said} They have the same rate."
    return (
        f"{said} They are {points(gap)} apart: that takes about {measured.plans[0].tasks:,} tasks."
    )


def tabulate(board: Board, ranking: Any, costs: dict[str, Any]) -> Iterator[str]:
    """Yield the table of the systems in the order of the list."""
    ranked = {each.name: each for each in ranking.systems}
    head = ["listed", "system", "measured, 95 % for all at once", "place may be", "group"]
    head += ["cost of 1,000 passes"] if costs else []
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---|' * (len(head) - 1)}"
    for place, (name, rate) in enumerate(board.listed.items(), 1):
        each = ranked[name]
        cells = [
            f"{place}: {100 * rate:.1f} %",
            name,
            f"{100 * each.value:.1f} % [{100 * each.low:.1f}, {100 * each.high:.1f}]",
            " to ".join(dict.fromkeys((str(each.rank_low), str(each.rank_high)))),
            each.group,
        ]
        cells += [dollars(costs[name]) if name in costs else "not known"] if costs else []
        yield f"| {' | '.join(cells)} |"
    yield ""


def list_order(board: Board, ranking: Any) -> Iterator[str]:
    """Yield where the order of the list does not survive."""
    pairs = {frozenset((pair.a, pair.b)): pair for pair in ranking.pairs}
    values = {each.name: each.value for each in ranking.systems}
    steps = list(pairwise(board.listed))
    sure = [f"{a} before {b}" for a, b in steps if is_told_apart(pairs[frozenset((a, b))])]
    count = f"{len(sure) or 'none'} {'is' if len(sure) == 1 else 'are'} sure"
    named = f": {'; '.join(sure[:MOST_NAMED])}" if sure else ""
    yield wrap(f"**Of the {len(steps)} steps down the list, {count}**{named}.")
    turned = [
        f"{b} ({100 * values[b]:.1f} %) before {a} ({100 * values[a]:.1f} %)"
        for a, b in steps
        if values[a] < values[b]
    ]
    if turned:
        said = "On the tasks that all systems have, neighbours change places"
        yield wrap(f"{said}: {'; '.join(turned)}.")
    yield ""
    for doubt in board.doubts:
        yield wrap(f"A published rate is not that of its own counts: {doubt}.")
        yield ""


def list_costs(ranking: Any, costs: dict[str, Any]) -> Iterator[str]:
    """Yield what a pass costs among the best, and the systems on the frontier."""
    if not costs:
        return
    best = [each.name for each in ranking.systems if "a" in each.group and each.name in costs]
    if len(best) > 1:
        cheap = min(best, key=lambda name: costs[name].value)
        dear = max(best, key=lambda name: costs[name].value)
        yield wrap(
            f"**Among those that share first place, 1,000 passes cost from {dollars(costs[cheap])} "
            f"({cheap}) to {dollars(costs[dear])} ({dear})**, "
            f"{costs[dear].value / costs[cheap].value:.1f} times as much."
        )
        yield ""
    frontier, least = [], float("inf")
    for each in ranking.systems:  # from the best down
        if each.name in costs and costs[each.name].value < least:
            least = costs[each.name].value
            frontier.append(f"{each.name} ({100 * each.value:.0f} %, ${1000 * least:,.0f})")
    said = "Of those whose cost is known, nothing measured better for less per pass than"
    yield wrap(f"{said}: {'; '.join(frontier)}.")
    yield ""


def draw(ranking: Any, path: Path, place: str) -> Iterator[str]:
    """Write the figure of the systems with their intervals, and yield the line that shows it."""
    [chart] = ranking.charts().values()
    chart.save(path)
    yield f"![The systems with their intervals]({os.path.relpath(path, place)})\n"


def is_told_apart(pair: Any) -> bool:
    """Return True if a pair differs, all pairs being tested at once."""
    return pair.p_adjusted is not None and pair.p_adjusted < LEVEL


def wrap(text: str, indent: str = "") -> str:
    """Return the text in lines that break at spaces only."""
    first = "- " if indent else ""
    wrapper = TextWrapper(WIDTH, initial_indent=first, subsequent_indent=indent)
    wrapper.break_on_hyphens = wrapper.break_long_words = False
    return wrapper.fill(text.replace(" %", NO_BREAK + "%")).replace(NO_BREAK, " ")


def bullet(text: str) -> str:
    """Return a bullet of a list."""
    return wrap(text, "  ")


def points(difference: float) -> str:
    """Return a difference of rates in points."""
    return f"{100 * difference:.1f} points"


def dollars(cost: Any) -> str:
    """Return a cost of pass for 1,000 passes."""
    return f"${1000 * cost.value:,.0f} [{1000 * cost.low:,.0f}, {1000 * cost.high:,.0f}]"


def main(words: Sequence[str] | None = None) -> None:
    """Read the file that the command line names, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--by", action="append", required=True, help="field that names the system")
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument(
        "--cluster",
        metavar="FIELD",
        help="of the rows: tasks with one FIELD depend on each other, such as one repository's",
    )
    parser.add_argument("--tasks", metavar="FIELD", help="of totals: the number of tasks")
    parser.add_argument("--passed", metavar="FIELD", help="of totals: the number of passed ones")
    parser.add_argument("--rate", metavar="FIELD", help="of totals: the published percentage")
    parser.add_argument("--cost", metavar="FIELD", help="of totals: the cost of all tasks, USD")
    parser.add_argument("--title", default="What this leaderboard can and cannot tell apart")
    parser.add_argument("--figure", type=Path, help="SVG to draw")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args(words)
    if (given.tasks is None) != (given.passed is None):
        parser.error("--tasks and --passed go together")
    read = read_results if given.tasks is None else read_totals
    try:
        board = read(given.file, given)
    except (OSError, cal.CalipersError) as error:
        parser.error(str(error))
    place = "." if given.output is None else str(given.output.parent)
    page = write_page(board, given.title, given.figure, place)
    if given.output is None:
        print(page)
    else:
        given.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
