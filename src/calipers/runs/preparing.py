"""Preparation of a suite: it is read and checked before anything is called or written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.gates.policy import read_policy
from calipers.judges.prices import check_prices
from calipers.metrics.checks.checks import Checks, read_checks
from calipers.records.tasks import Tasks, read_tasks
from calipers.runs.checking import RecordChecks
from calipers.runs.metric_settings import read_options
from calipers.runs.options import RunOptions
from calipers.runs.plan import CallPlan
from calipers.runs.sampling import draw_sample
from calipers.runs.sharding import Shard
from calipers.runs.suite import Suite, read_suite
from calipers.runs.tools import describe_tools
from calipers.support.errors import UsageError
from calipers.support.functions import Function
from calipers.support.plugins import load_installed
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.images import ImageFiles
from calipers.systems.pricing import GIVE_PRICE, Pricing, find_pricing

if TYPE_CHECKING:
    from calipers.judges.rubrics import Rubric
    from calipers.runs.until_better import UntilBetter
    from calipers.runs.until_decided import UntilDecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A suite that has been read and checked: nothing is called yet, nothing is written."""

    suite: Suite
    base: Path  # the suite's folder, which its paths are relative to
    plan: CallPlan
    prices: Sequence[Pricing | None]
    rubrics: Sequence[Rubric]  # of the judges
    checks: RecordChecks
    notices: tuple[str, ...]
    functions: Mapping[str, Function] = field(default_factory=dict)  # systems that are at hand
    file: Path | None = None  # the suite's own
    shard: Shard | None = None  # whose tasks these are, where not all
    all_tasks: int = 0


def prepare_file(path: str | Path, checks: Any = None) -> Prepared:
    """Read a suite, its data and its policy; every mistake in them is found here.

    `checks`, a file or a list, are added to those of the suite.
    """
    ready = prepare_suite(read_suite(path), Path(path).parent, checks=checks)
    return replace(ready, file=Path(path))


def prepare_suite(
    suite: Suite, base: Path, functions: Mapping[str, Function] | None = None, checks: Any = None
) -> Prepared:
    """Read the data and the policy of a suite whose paths are relative to `base`.

    `functions` are systems that are at hand, by name, and need not be loaded; `checks`, a file or
    a list, are added to those of the suite.
    """
    load_installed()  # a plug-in that fails does so before anything is called
    if checks is not None:
        every = Checks(tuple(suite.checks)) + read_checks(checks)
        suite = suite.model_copy(update={"checks": every.checks})
    rubrics: list[Rubric] = []
    if suite.judges:
        from calipers.judges.panels import list_rubrics  # noqa: PLC0415 (only where they are)

        rubrics = list_rubrics(suite.judges, base)
    if suite.policy is not None:
        _check_calibrations(read_policy(base / suite.policy).judges.calibrations)
    read_options(suite, base)
    tasks = read_tasks(suite.data if "://" in suite.data else base / suite.data)
    if suite.sample is not None:
        tasks = draw_sample(tasks, suite.sample)
    prices = _find_prices(suite)
    return Prepared(
        suite=suite,
        base=base,
        plan=CallPlan(
            suite,
            tasks,
            describe_tools(base / suite.tools) if suite.tools else (),
            ImageFiles(_list_image_folders(suite, base if functions is None else Path.cwd())),
        ),
        prices=prices,
        rubrics=rubrics,
        checks=RecordChecks(suite, tasks, base),
        notices=(*tasks.notices, *_note_unpriced(suite, prices)),
        functions=functions or {},
        all_tasks=len(tasks),
    )


def _check_calibrations(files: Sequence[str]) -> None:
    if files:
        from calipers.scores.calibration import read_all  # noqa: PLC0415 (only where they are)

        read_all(files)


def _find_prices(suite: Suite) -> list[Pricing | None]:
    found = [find_pricing(system) for system in suite.systems]
    if suite.budget_usd is not None:
        for name, model in _list_unpriced(suite, found):
            said = f"budget_usd: no price is known for {name} ({model})"
            raise UsageError(said, fix=GIVE_PRICE)
        check_prices(suite.judges)
    return found


def _list_unpriced(suite: Suite, found: list[Pricing | None]) -> Iterator[tuple[str, str]]:
    """Yield the models without a known price: the systems', then the simulated user's."""
    for system, pricing in zip(suite.systems, found, strict=True):
        if pricing is None and system.model is not None:
            yield system.name, system.model
    if suite.user is not None and find_pricing(suite.user) is None:
        yield "the simulated user", suite.user.model


def _note_unpriced(suite: Suite, found: list[Pricing | None]) -> Iterator[str]:
    if unknown := [name for name, _ in _list_unpriced(suite, found)]:
        yield f"no price is known for {', '.join(unknown)}: its cost stays unknown"
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, found, strict=True):
            if pricing is None:
                yield f"the budget counts what {system.name} itself reports as cost_usd"


def choose_tasks(ready: Prepared, ids: Collection[str]) -> Prepared:
    """Return a suite with some of its tasks, and without its policy, which is about all of them."""
    every = ready.plan.tasks
    tasks = replace(every, tasks=[task for task in every.tasks if str(task["id"]) in ids])
    suite = ready.suite.model_copy(update={"policy": None})
    return _with_tasks(ready, tasks, suite=suite)


def choose_shard(ready: Prepared, shard: Shard) -> Prepared:
    """Return a suite with the tasks of one shard."""
    tasks = shard.select(ready.plan.tasks)
    note = (
        f"shard {shard}: {len(tasks):,} of {ready.all_tasks:,} tasks; once all shards are run, "
        "merge them: calipers run --merge FOLDERS… -o FOLDER"
    )
    return _with_tasks(ready, tasks, shard=shard, notices=(*ready.notices, note))


def _with_tasks(ready: Prepared, tasks: Tasks, **changed: Any) -> Prepared:
    ready = replace(ready, **changed)
    plan = CallPlan(ready.suite, tasks, ready.plan.tools, ready.plan.images)
    return replace(ready, plan=plan, checks=RecordChecks(ready.suite, tasks, ready.base))


def _list_image_folders(suite: Suite, base: Path) -> list[Path]:
    """Return where the paths of images begin: the folder of the data, then that of the suite."""
    if "://" in suite.data:
        return [base]
    data = base / suite.data
    return [data if data.is_dir() else data.parent, base]


def make_call_chooser(suite: Prepared, asked: RunOptions) -> UntilDecided | UntilBetter | None:
    """Return how calls are chosen where not all may be made; None to make them all."""
    if suite.shard is not None and (asked.until_decided or asked.until_better):
        raise UsageError(
            "--shard: a shard sees a part of the tasks, and cannot tell when all is decided",
            fix="leave --until-decided and --until-better out",
        )
    if asked.until_decided and asked.until_better:
        raise UsageError(
            "--until-decided and --until-better: one decides the gate, the other which is better",
            fix="run it twice: what is done is not called again",
        )
    if asked.until_better is not None:
        from calipers.runs.until_better import UntilBetter  # noqa: PLC0415 (loads NumPy)

        options = read_options(suite.suite, suite.base)
        return UntilBetter(suite.plan, options, asked.until_better, asked.evidence, asked.seed)
    if not asked.until_decided:
        return None
    from calipers.runs.until_decided import plan_until_decided  # noqa: PLC0415 (only where asked for)

    return plan_until_decided(suite, asked.seed)
