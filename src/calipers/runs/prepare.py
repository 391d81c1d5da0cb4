"""Preparation of a suite: a file or a function is read and checked before anything is called.

The result is a `Prepared` suite, with its plan, prices, checks and notices. The metric settings of
a run are those of its suite and those of its policy, which win.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from calipers.gates.policy import Policy, read_policy
from calipers.gates.policy_fields import find_metric
from calipers.gates.rule_kind import Given
from calipers.judges.judge_spec import require_prices
from calipers.metrics.checks.checks import Checks, read_checks
from calipers.metrics.declare.settings import list_metric_options
from calipers.records.fields import FIELDS
from calipers.records.task_data import Tasks, read_tasks, suggest_target
from calipers.runs.call_records import RecordChecks
from calipers.runs.code_under_test import note_unwatched
from calipers.runs.plan import CallPlan
from calipers.runs.run_options import RunOptions
from calipers.runs.shards import Shard
from calipers.runs.suite import EXAMPLE, Suite, describe_tools, draw_sample, read_suite
from calipers.scores.options import Options
from calipers.scores.resolve_options import (
    POLICY,
    SUITE,
    Layer,
    is_path,
    locate_paths,
    merge_layers,
    read_policy_layer,
)
from calipers.support.config import ConfigFile
from calipers.support.errors import UsageError
from calipers.support.field_paths import split_root
from calipers.support.options import require_type
from calipers.support.plugins import load_installed
from calipers.support.user_code import Function
from calipers.systems.budget import GIVE_PRICE, Pricing, find_pricing
from calipers.systems.images import ImageFiles

if TYPE_CHECKING:
    from calipers.judges.rubrics import Rubric
    from calipers.runs.early_stopping import UntilBetter, UntilDecided

STORED_SETTINGS = "metric_settings"  # the key of the manifest


def read_suite_options(suite: Suite, base: Path, **plain: Any) -> Options:
    """Return the options that a suite is measured by; `plain` are further fields of them."""
    return merge_layers(_list_layers(suite, base).values(), **plain)


def list_stored_settings(suite: Suite, base: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings that the manifest keeps, so that later scores use the same.

    Paths are relative to the result folder.
    """
    layers = _list_layers(suite, base)
    return {kind: _relativize(layer.values, folder) for kind, layer in layers.items()}


def _list_layers(suite: Suite, base: Path) -> dict[str, Layer]:
    layers = {SUITE: Layer("the suite", locate_paths(suite.metric_settings, base))}
    if suite.policy is not None:
        layers[POLICY] = read_policy_layer(base / suite.policy)
    return layers


def _relativize(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    known = list_metric_options()
    relative: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Checks):
            if value.is_portable:  # what rests on files of one's own is applied where it is named
                relative[name] = value.to_list()
        elif is_path(known[name], value, Path()):
            relative[name] = os.path.relpath(value, folder)
        else:
            relative[name] = value
    return relative


_TARGET_FIELDS = ("target", "reference", "expected_behaviors", "checks", "actual", "relevant_ids")


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
    deciding: frozenset[str] = frozenset()  # fields of one's own that metrics, rules, checks read
    given: frozenset[str] = frozenset()  # fields of one's own that the tasks have

    def find_distrust(self, name: str) -> str | None:
        """Return why a system's own word for a field can never count."""
        return "the tasks have it" if name in self.given else self.suite.find_distrust(name)


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
    policy = None if suite.policy is None else read_policy(base / suite.policy)
    if policy is not None:
        _check_calibrations(policy.judges.calibrations)
    read_suite_options(suite, base)
    tasks = read_tasks(suite.data if "://" in suite.data else base / suite.data, suite.map)
    given = tasks.own_fields
    if both := sorted(given.intersection(suite.trust)):
        problem = f"trust: {both[0]} cannot be trusted: the tasks have a field of that name"
        raise UsageError(problem, fix="leave it out, or let the system call its field otherwise")
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
        notices=(
            *_note_no_target(suite, tasks),
            *tasks.notices,
            *_note_unpriced(suite, prices),
            *note_unwatched(suite, base),
        ),
        functions=functions or {},
        deciding=frozenset(_list_deciding(suite, policy)),
        given=given,
        all_tasks=len(tasks),
    )


def _note_no_target(suite: Suite, tasks: Tasks) -> Iterator[str]:
    """Yield a notice if no task, check or judge says which answers are right."""
    says = suite.checks or suite.judges or suite.metrics or suite.trust
    if says or any(task.get(name) is not None for task in tasks.tasks for name in _TARGET_FIELDS):
        return
    yield (
        "no task has a target, and nothing else says which answers are right: no accuracy and no "
        f"pass rate; {suggest_target(tasks.tasks)}"
    )


def _list_deciding(suite: Suite, policy: Policy | None) -> Iterator[str]:
    """Yield the user's own fields that metrics and checks of the suite or its policy read."""
    names = () if policy is None else policy.list_metrics(Given())
    checks = (*suite.checks, *(() if policy is None else policy.checks))
    fields = [
        *(name for metric in map(find_metric, names) for f in metric.features for name in f.fields),
        *(metric.field for metric in suite.metrics if metric.field is not None),
        *Checks(tuple(checks)).compared_fields,
    ]
    yield from (split_root(name)[0] for name in fields if name not in FIELDS)


def _check_calibrations(files: Sequence[str]) -> None:
    if files:
        from calipers.scores.calibration import read_calibration_files  # noqa: PLC0415 (only where they are)

        read_calibration_files(files)


def _find_prices(suite: Suite) -> list[Pricing | None]:
    prices = [find_pricing(system) for system in suite.systems]
    if suite.budget_usd is not None:
        for name, model in _list_unpriced(suite, prices):
            problem = f"budget_usd: no price is known for {name} ({model})"
            raise UsageError(problem, fix=GIVE_PRICE)
        require_prices(suite.judges)
    return prices


def _list_unpriced(suite: Suite, prices: list[Pricing | None]) -> Iterator[tuple[str, str]]:
    """Yield the models without a known price: the systems', then the simulated user's."""
    for system, pricing in zip(suite.systems, prices, strict=True):
        if pricing is None and system.model is not None:
            yield system.name, system.model
    if suite.user is not None and find_pricing(suite.user) is None:
        yield "the simulated user", suite.user.model


def _note_unpriced(suite: Suite, prices: list[Pricing | None]) -> Iterator[str]:
    if unknown := [name for name, _ in _list_unpriced(suite, prices)]:
        yield f"no price is known for {', '.join(unknown)}: its cost stays unknown"
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, prices, strict=True):
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
        from calipers.runs.early_stopping import UntilBetter  # noqa: PLC0415 (loads NumPy)

        options = read_suite_options(suite.suite, suite.base)
        return UntilBetter(suite.plan, options, asked.until_better, asked.evidence, asked.seed)
    if not asked.until_decided:
        return None
    from calipers.runs.early_stopping import plan_until_decided  # noqa: PLC0415 (only where asked for)

    return plan_until_decided(suite, asked.seed)


_TASKS, _POLICY = "tasks.jsonl", "policy.json"
_TEMPORARY_FOLDERS: list[TemporaryDirectory[str]] = []  # as long as this process runs


def make_temporary_folder() -> Path:
    """Return a folder that is removed when Python ends."""
    _TEMPORARY_FOLDERS.append(TemporaryDirectory(prefix="calipers-run-"))
    return Path(_TEMPORARY_FOLDERS[-1].name)


def prepare_function(
    function: Any, tasks: Any, policy: Any, checks: Any, **settings: Any
) -> Prepared:
    """Return a function, or an agent, as a suite that has been checked; see `run`.

    Raises:
        ArgumentTypeError: The tasks or the policy are of another type.
        UsageError: A setting is not one of a suite, or has a wrong value.
    """
    base = make_temporary_folder()
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or ""
    name = name if name.isidentifier() else "function"
    (base / f"{name}.py").write_text(_read_source(function), encoding="utf-8")
    document = {
        "name": name,
        **settings,
        "data": _write_tasks(tasks, base),
        "systems": [{"name": name, "python": f"{name}.py:{name}"}],
        **({} if policy is None else {"policy": _write_policy(policy, base)}),
    }
    suite = Suite.of(ConfigFile(f"run({name})", document), example=EXAMPLE)
    return prepare_suite(suite, base, functions={name: function}, checks=checks)


def _read_source(function: Any) -> str:
    """Return what identifies the function's version: its source, or else its bytecode."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # defined at a prompt, or not a plain function
        code = getattr(function, "__code__", None)
        return f"# {getattr(code, 'co_code', b'').hex()} {getattr(code, 'co_consts', ())}\n"


def _write_tasks(tasks: Any, base: Path) -> str:
    if isinstance(tasks, str) and "://" in tasks:
        return tasks
    if isinstance(tasks, str | Path):
        return str(Path(tasks).resolve())
    require_type(
        "tasks",
        tasks,
        list | tuple,
        expected="a file or a list of records",
        fix='for example tasks=[{"id": "q1", "input": "2 + 2", "target": "4"}]',
    )
    records = [{"input": task} if isinstance(task, str) else task for task in tasks]
    try:
        lines = [json.dumps(record, allow_nan=False) for record in records]
    except (TypeError, ValueError) as error:
        raise UsageError(f"tasks: {error}", fix="a task is a dict of JSON values") from error
    (base / _TASKS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return _TASKS


def _write_policy(policy: Any, base: Path) -> str:
    if isinstance(policy, str | Path):
        return str(Path(policy).resolve())
    require_type(
        f"policy={policy!r}",
        policy,
        Mapping,
        expected="a file or a mapping",
        fix='for example policy={"thresholds": {"blocking": {"accuracy": 90}}}',
    )
    (base / _POLICY).write_text(json.dumps(policy, default=str), encoding="utf-8")
    return _POLICY
