"""One decision for a pipeline: a suite is run or records are read, and the policy decides.

Nothing is guessed: inputs that are missing, empty or contradict each other are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.gates.gate_options import GateOptions
from calipers.records.result_folder import GATE, REPORT
from calipers.runs.ci_baseline import BASELINE, fetch_baseline
from calipers.runs.run_options import CiOptions, GateRequest, ReportOptions
from calipers.support.errors import CalipersError, UsageError
from calipers.support.files import write_whole

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.gates.rules.baseline_rule import Baseline
    from calipers.runs.finish import RunResult
    from calipers.scores.score import Progress
    from calipers.systems.journal import Watch

SUMMARY, JUNIT = "summary.md", "junit.xml"
AGAINST = "against.json"  # the baseline that was fetched
FOLDER = Path("results/ci")
_DECIDED = (GATE, SUMMARY, JUNIT, REPORT, AGAINST)  # by one call, and removed by the next
_PREFIX = "CALIPERS_"
_STDIN = "-"  # stands for standard input wherever records are read, even if a file has that name
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_SERVICES = ("github", "gitlab")
_EITHER = "--suite FILE, or --records FILE… --policy FILE (CALIPERS_SUITE, _RECORDS, _POLICY)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a pipeline asks for: a suite, or records and a policy."""

    suite: Path | None
    records: tuple[str, ...]
    policy: Path  # the suite's own where no other is given
    by: tuple[str, ...]
    baseline: Path | None
    fetch_from: str | None
    save_baseline: bool
    fresh: bool
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict of this very call; None where a run was stopped before there was one."""

    gate: GateResult | None
    run: RunResult | None = None
    notices: tuple[str, ...] = ()


def choose_folder(given: str | None, env: Mapping[str, str]) -> Path:
    """Return the folder of the results; what an earlier call decided there is removed."""
    is_given = given is not None and given.strip()
    folder = Path((given if is_given else env.get(f"{_PREFIX}OUTPUT", "").strip()) or FOLDER)
    if any(sign < " " for sign in str(folder)):
        raise UsageError("the output folder has a line break in its name", fix="-o FOLDER")
    for name in _DECIDED:
        _remove(folder / name)
    return folder


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}, and it would be taken for the result of this call",
            fix="remove it, or name another folder: -o FOLDER",
        ) from error


def read_inputs(given: Mapping[str, Any], env: Mapping[str, str], folder: Path) -> Inputs:
    """Return the inputs, an option before its variable; an empty value is one not given.

    Raises:
        UsageError: An input is missing, contradicts another, or names a file that is not there.
    """
    values = {name: _find_value(name, given, env) for name in CiOptions.__dataclass_fields__}
    suite, records = values["suite"], tuple(_list_records(given.get("records"), env))
    if suite and records:
        raise UsageError("both a suite and records are given", fix=f"one of them: {_EITHER}")
    if not (suite or records):
        what = "a policy is given, but no records" if values["policy"] else "nothing to decide on"
        raise UsageError(what, fix=_EITHER)
    if records and values["fresh"]:
        raise UsageError("--fresh is for a suite: records are not called", fix="leave --fresh out")
    service = _find_service(values["fetch_baseline"], env)
    if values["baseline"] and service:
        fix = "leave one of --baseline and --fetch-baseline out"
        raise UsageError("two baselines to compare with", fix=fix)
    inputs = Inputs(
        suite=_require_file(suite, "suite"),
        records=records,
        policy=_find_policy(values["policy"], suite),
        by=_list_fields(given.get("by"), env),
        baseline=_require_file(values["baseline"], "baseline"),
        fetch_from=service,
        save_baseline=values["save_baseline"] or False,
        fresh=values["fresh"] or False,
        folder=folder,
    )
    _check_baselines(inputs)
    return inputs


def _find_value(name: str, given: Mapping[str, Any], env: Mapping[str, str]) -> Any:
    """Return a text or a truth value; None where neither option nor variable says anything."""
    if (value := given.get(name)) not in (None, "", ()):
        return value.strip() or None if isinstance(value, str) else value
    variable = f"{_PREFIX}{name.upper()}"
    text = env.get(variable, "").strip()
    if not text:
        return None
    if name not in ("save_baseline", "fresh"):
        return text
    if text.lower() not in _TRUTHS:
        raise UsageError(f"{variable} is {text!r}", fix="true or false")
    return _TRUTHS[text.lower()]


def _find_service(named: str | None, env: Mapping[str, str]) -> str | None:
    """Return whom to ask for a baseline; true stands for the service that runs this build."""
    named = (named or "").lower()
    if named in _SERVICES:
        return named
    if named and named not in _TRUTHS:
        variable = f"{_PREFIX}FETCH_BASELINE"
        raise UsageError(f"{variable} is {named!r}", fix="github, gitlab, true or false")
    if not _TRUTHS.get(named):
        return None
    return "gitlab" if env.get("GITLAB_CI") else "github"


def _list_fields(given: Any, env: Mapping[str, str]) -> tuple[str, ...]:
    written = given or env.get(f"{_PREFIX}BY", "").replace(",", "\n").split("\n")
    return tuple(dict.fromkeys(name.strip() for name in written if name.strip()))


def _list_records(given: Any, env: Mapping[str, str]) -> Iterator[str]:
    """Yield every file that is named, once.

    An option is one name or glob. A line of the variable is one too if there is such a file;
    otherwise it holds several, separated by spaces.
    """
    names = [name for name in given or () if name.strip()]
    if not names:
        lines = env.get(f"{_PREFIX}RECORDS", "").replace("\r", "\n").split("\n")
        for line in filter(None, (written.strip() for written in lines)):
            names += [line] if _match(line) else line.split()
    seen: set[Path] = set()
    for name in names:
        matches = _match(name)
        if not matches:
            raise UsageError(f"{name}: no such records", fix=f"check {_PREFIX}RECORDS or --records")
        for match in matches:
            place = Path(match).resolve()
            if place not in seen:
                seen.add(place)
                yield match


def _match(name: str) -> list[str]:
    """Return the files that a name or a glob stands for."""
    if "://" in name and not any(map(str.isspace, name)):
        return [name]  # elsewhere: whoever reads it finds out
    with suppress(OSError, ValueError):  # a name that is too long, or no name at all
        if Path(name).exists():
            return [name if name != _STDIN else f"./{name}"]
        if has_magic(name):
            return sorted(glob(name, recursive=True))  # noqa: PTH207 (it may be absolute)
    return []


def _require_file(name: str | None, what: str) -> Path | None:
    if name is None:
        return None
    if not Path(name).is_file():
        variable = f"{_PREFIX}{what.upper()}"
        raise UsageError(f"{name}: no such {what}", fix=f"check --{what} or {variable}")
    return Path(name)


def _find_policy(named: str | None, suite: str | None) -> Path:
    """Return the policy to decide by: the one given, otherwise the suite's."""
    if (given := _require_file(named, "policy")) is not None:
        return given
    if suite is None:
        raise UsageError("records need a policy to decide by", fix="--policy FILE, CALIPERS_POLICY")
    from calipers.runs.suite import read_suite  # noqa: PLC0415 (loads pydantic)

    file = _require_file(suite, "suite")
    assert file is not None
    written = read_suite(file).policy
    if written is None:
        raise UsageError(
            f"{suite}: it names no policy, so there is nothing to decide by",
            fix="write policy: FILE in the suite, or give --policy FILE (CALIPERS_POLICY)",
        )
    return file.parent / written


def _check_baselines(inputs: Inputs) -> None:
    """Refuse a baseline in the folder that each call clears; remove one that is left over."""
    written = _find_baseline_rule(inputs)
    own = None if written is None or written.file is None else Path(written.file)
    cleared = [(inputs.folder / name).resolve() for name in (BASELINE, *_DECIDED)]
    for path in filter(None, (inputs.baseline, own)):
        if path.resolve() in cleared:
            raise UsageError(
                f"{path}: each call writes this folder anew, and the baseline to compare with is "
                "in it",
                fix="keep it elsewhere, or name another folder: -o FOLDER",
            )
    _remove(inputs.folder / BASELINE)


def _find_baseline_rule(inputs: Inputs) -> Baseline | None:
    from calipers.gates.policy import read_policy  # noqa: PLC0415 (loads pydantic)
    from calipers.gates.rules.baseline_rule import Baseline  # noqa: PLC0415

    return read_policy(inputs.policy).find(Baseline)


def decide_build(
    inputs: Inputs, watch: Watch, progress: Progress, env: Mapping[str, str]
) -> Decision:
    """Run the suite or read the records, and decide; gate.json and the report are written.

    Raises:
        CalipersError: The suite, the policy, the records or the baseline cannot be used.
    """
    try:
        inputs.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{inputs.folder}: {error.strerror}"
        raise UsageError(problem, fix="name another folder: -o FOLDER") from error
    notices = []
    if inputs.fetch_from is not None:
        fetched = fetch_baseline(inputs.fetch_from, env, inputs.folder)
        notices.append(fetched.notice)
        inputs = replace(inputs, save_baseline=inputs.save_baseline or fetched.is_recording)
        if fetched.content is not None:
            path = inputs.folder / AGAINST
            write_whole(path, fetched.content)
            inputs = replace(inputs, baseline=path)
    options = _ask_gate(inputs)
    if inputs.suite is not None:
        run = _run_suite(inputs, options, watch)
        return Decision(gate=run.gate, run=run, notices=(*notices, *run.notices))
    gate, further = _gate_records(inputs, options, progress)
    return Decision(gate=gate, notices=(*notices, *gate.notices, *further))


def _ask_gate(inputs: Inputs) -> GateOptions:
    """Return what is asked of the gate.

    A run that passes is recorded as a baseline, which changes nothing about the decision. Where the
    policy wants a comparison and there is nothing to compare with, only a build that is asked to
    record the first baseline can pass.
    """
    written = _find_baseline_rule(inputs)
    has_own = written is not None and written.file is not None and Path(written.file).exists()
    lacks_one = written is not None and not has_own and inputs.baseline is None
    is_first = lacks_one and inputs.save_baseline
    target = inputs.folder / BASELINE
    return GateOptions(
        policy=inputs.policy,
        against=inputs.baseline,
        save_baseline=target if is_first else None,
        save_on_pass=None if is_first else target,
        suite=inputs.suite,
    )


def _run_suite(inputs: Inputs, options: GateOptions, watch: Watch) -> RunResult:
    from calipers.runs.prepare import prepare_suite  # noqa: PLC0415
    from calipers.runs.run import run_suite  # noqa: PLC0415
    from calipers.runs.suite import read_suite  # noqa: PLC0415

    assert inputs.suite is not None
    suite, base = read_suite(inputs.suite), inputs.suite.parent
    if suite.policy is None or base / suite.policy != inputs.policy:
        suite = suite.model_copy(update={"policy": str(inputs.policy.resolve())})
    ready = replace(prepare_suite(suite, base), file=inputs.suite)
    request = GateRequest(options=options, by=inputs.by)
    return run_suite(ready, inputs.folder, watch, fresh=inputs.fresh, request=request)


def _gate_records(
    inputs: Inputs, options: GateOptions, progress: Progress
) -> tuple[GateResult, list[str]]:
    """Return the verdict on all the records, and why there is no report."""
    from calipers.gates.decide import gate_data  # noqa: PLC0415
    from calipers.reports.data.report_builder import make_report  # noqa: PLC0415
    from calipers.scores.resolve_options import resolve_options  # noqa: PLC0415

    records, given = list(inputs.records), {"by": inputs.by}
    chosen = resolve_options("gate", given, records, policy=inputs.policy)
    gate = gate_data(records, options, chosen, progress)
    write_whole(inputs.folder / GATE, gate.to_json() + "\n")

    def write_report() -> None:
        shown = resolve_options("report", given, records, policy=inputs.policy)
        page = make_report(records, ReportOptions(), shown, gate=gate)
        write_whole(inputs.folder / REPORT, page.to_html())

    return gate, list(_try_report(write_report))


def _try_report(write: Callable[[], None]) -> Iterator[str]:
    """Write a report; yield why there is none, which the decision does not depend on."""
    try:
        write()
    except CalipersError as error:
        yield f"no {REPORT}: {error.message}; {error.fix}"
    except Exception as error:  # noqa: BLE001 (the decision counts, not the page)
        yield f"no {REPORT}: {type(error).__name__}: {error}"


def read_verdict(folder: Path, gate: GateResult) -> str:
    """Return the verdict in the folder's gate.json; raise UsageError if it is not this one."""
    path = folder / GATE
    try:
        is_ours = path.read_text(encoding="utf-8") == gate.to_json() + "\n"
    except (OSError, ValueError):
        is_ours = False
    if not is_ours:
        raise UsageError(
            f"{path} is not what this call has decided",
            fix="only one call at a time may write to a folder: -o FOLDER",
        )
    return gate.verdict
