"""Options of a score from what a user gives on the command line, in Python and in files.

Metric settings may come from several places. The later overrides the earlier, with a notice: the
suite of the run that the records are from, the policy, the flags or keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from calipers.metrics.declare.settings import Settings, list_metric_options
from calipers.records.reading_options import F, declare_keywords
from calipers.records.result_folder import MANIFEST, RECORDS, find_folder, read_json_object
from calipers.scores.options import Options, list_options
from calipers.support.config import shown
from calipers.support.errors import UsageError, nearest
from calipers.support.options import (
    Option,
    check_keywords,
    find_option,
    list_own_options,
    read_files,
    read_keywords,
    refuse_unknown,
)

if TYPE_CHECKING:
    from calipers.gates.policy import Policy

    PolicyLike: TypeAlias = "str | Path | Mapping[str, Any] | Policy"

T = TypeVar("T")

SUITE, POLICY = "suite", "policy"  # whose metric settings a run's manifest keeps
_THRESHOLD = "success_threshold"
_CHECKS = "checks"
_SHOWS_ITS_RUN = ("gate", "report")  # commands whose numbers must be those of the run


@dataclass(frozen=True, slots=True)
class Layer:
    """Metric settings from one place, by the names of their fields; no source: flags, keywords."""

    source: str | None
    values: Mapping[str, Any]


def resolve_options(
    command: str,
    given: Mapping[str, Any],
    data: Any = None,
    *,
    policy: PolicyLike | None = None,
    **more: Any,
) -> Options:
    """Return the options of a command: what was given, checked, and what files say beside it.

    Args:
        command: Whose options they are; `audit` is `judge audit`.
        given: What the user gave, by keyword; whatever is not among it has its default.
        data: The records; those of a run bring the metric settings of its suite.
        policy: A policy that brings metric settings, where `given` names none.
        more: Further fields of `Options`.

    Raises:
        ArgumentTypeError: A keyword is not known, or a value is of another type.
        UsageError: A value is refused, or a file cannot be read.
    """
    known = list_options(command)
    refuse_unknown(command, given, known)
    checked = check_keywords(command, given, known)
    own = list_metric_options()
    explicit = {name: value for name, value in checked.items() if name in own}
    plain = {name: value for name, value in checked.items() if name not in own}
    layers = list_run_layers(data)
    asked = plain.get("policy") or policy
    if asked is not None:
        layers = [layer for layer in layers if layer.source != _name_source(POLICY)]
        layers.append(read_policy_layer(asked))
    resolved = merge_layers([*layers, Layer(None, explicit)], **read_files(plain, known), **more)
    if command in _SHOWS_ITS_RUN:
        return resolved
    return replace(resolved, notices=(*resolved.notices, *_note_run(layers)))


def split_own_options(
    command: str, own: type[T], given: Mapping[str, Any], *, strict: bool = True
) -> tuple[T, dict[str, Any]]:
    """Return the options that only this command has, checked, and what else was given.

    Args:
        command: Whose options they are.
        own: The dataclass whose fields declare them.
        given: What the user gave, by keyword; whatever is not among it has its default.
        strict: Whether a keyword that is not declared is refused here, or by who takes the rest.

    Raises:
        ArgumentTypeError: A keyword is not known or is missing, or a value is of another type.
        UsageError: A value is refused, a file cannot be read, or values do not go together.
    """
    if strict:
        refuse_unknown(command, given, list_options(command, own))
    known = list_own_options(command, own)
    mine = {keyword: value for keyword, value in given.items() if keyword in known}
    rest = {keyword: value for keyword, value in given.items() if keyword not in known}
    return read_keywords(command, own, mine), rest


def declare_signature(command: str, own: type | None = None) -> Callable[[F], F]:
    """Give a function with `**options` the signature of a command's declared options.

    Those that only this command has are the fields of the dataclass `own`.
    """
    return declare_keywords(command, list_options(command, own), list_options(command))


def _note_run(layers: Iterable[Layer]) -> Iterator[str]:
    """Yield that metrics are measured as the run that the records are of measured them."""
    for layer in layers:
        if layer.values and layer.source in (_name_source(SUITE), _name_source(POLICY)):
            settings = (
                f"{list_metric_options()[k].key}: {shown(v)}" for k, v in layer.values.items()
            )
            yield f"measured by the metric settings of {layer.source}: {', '.join(settings)}"


def merge_layers(layers: Iterable[Layer], **plain: Any) -> Options:
    """Return options with the metric settings of all layers, the last of which wins.

    Args:
        layers: Where metric settings are said.
        plain: Further fields of `Options`.

    Raises:
        UsageError: A file that they name cannot be read, or values do not go together.
    """
    values: dict[str, tuple[Any, str | None]] = {}
    notices: list[str] = []
    for layer in layers:
        for name, value in layer.values.items():
            before = values.get(name)
            if name == _CHECKS and before is not None:  # each of them is applied
                values[name] = (_read(name, before[0]) + _read(name, value), layer.source)
                continue
            if before is not None and before[0] != value:
                option = list_metric_options()[name]
                now = f"{option.key}: {shown(value)} of {layer.source}"
                now = option.spell(shown(value)) if layer.source is None else now
                notices.append(f"{now} takes precedence over {shown(before[0])} in {before[1]}")
            values[name] = (value, layer.source)
    given = {name: value for name, (value, _) in values.items()}
    threshold = given.pop(_THRESHOLD, None)
    settings = Settings(**{name: _read(name, value) for name, value in given.items()})
    options = Options(**plain, settings=settings, notices=tuple(notices))
    if threshold is None:
        return options
    from calipers.scores.score_plan import set_threshold  # noqa: PLC0415 (only where asked for)

    return set_threshold(options, threshold)


def _read(name: str, value: Any) -> Any:
    read = list_metric_options()[name].read
    return value if read is None or value is None else read(value)


def read_policy_layer(policy: PolicyLike) -> Layer:
    """Return the metric settings of a policy: its own, weights, the latency budget."""
    from calipers.gates.policy import read_policy  # noqa: PLC0415 (loads pydantic)

    source = str(policy) if isinstance(policy, str | Path) else "the policy"
    return Layer(source, read_policy(policy).list_settings())


def read_metric_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `metric_settings` of a file, checked, by the names of fields.

    Raises:
        UsageError: A key is not known, or its value is refused; `key` of the error names it.
    """
    known = list_metric_options()
    settings: dict[str, Any] = {}
    for key, value in given.items():
        option = find_option(key, known.values())
        if option is None:
            keys = [option.key for option in known.values()]
            raise SettingError(
                f"{shown(key)} is not a metric option", fix=nearest(str(key), keys), key=key
            )
        if option.name in settings:
            raise SettingError(f"{shown(key)} is there twice", fix="keep one of them", key=key)
        try:
            checked = option.check(value)
        except UsageError as error:
            message = error.message.replace(option.spell(), option.key, 1)
            raise SettingError(message, fix=error.fix, key=key) from None
        settings[option.name] = str(checked) if isinstance(checked, Path) else checked
    return settings


class SettingError(UsageError):
    """A mistake in `metric_settings`, under the key that it names."""

    def __init__(self, message: str, *, fix: str, key: Any) -> None:
        super().__init__(message, fix=fix)
        self.key = key


def locate_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return metric settings whose paths, relative to a file's folder, lead there from here."""
    known = list_metric_options()
    return {
        name: str(folder / value) if is_path(known[name], value, folder) else value
        for name, value in values.items()
    }


def is_path(option: Option, value: Any, folder: Path) -> bool:
    """Return True if an option's value in a file is a path, relative to that file's folder."""
    if not isinstance(value, str) or option.relative is None or _is_number(value):
        return False
    return option.relative == "always" or (folder / value).exists()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def list_run_layers(data: Any) -> list[Layer]:
    """Return the metric settings of the run that the records are of; none where there are several.

    A run keeps them in its manifest: those of its suite, and those of its policy.
    """
    if isinstance(data, str | Path):
        data = [data]
    if not isinstance(data, list | tuple) or not all(isinstance(name, str | Path) for name in data):
        return []
    folders = [folder for name in data if (folder := _find_run(name)) is not None]
    layers_of_runs = [_read_run_layers(folder) for folder in folders if len(folders) == len(data)]
    return (
        layers_of_runs[0]
        if layers_of_runs and all(layers == layers_of_runs[0] for layers in layers_of_runs)
        else []
    )


def _find_run(path: str | Path) -> Path | None:
    """Return the result folder that a path is, or whose journal it is; None of another path."""
    try:
        return find_folder(Path(path).parent if Path(path).name == RECORDS else path)
    except (OSError, ValueError):  # not a path: whoever reads it says so
        return None


def _read_run_layers(folder: Path) -> list[Layer]:
    stored = (read_json_object(folder / MANIFEST) or {}).get("metric_settings")
    if not isinstance(stored, dict):
        return []
    return [
        Layer(_name_source(kind), locate_paths(read_metric_settings(values), folder))
        for kind in (SUITE, POLICY)
        if isinstance(values := stored.get(kind), dict) and values
    ]


def _name_source(kind: str) -> str:
    return f"the {kind} of the run"


def group_by_system(options: Options) -> Options:
    """Return options that group the systems of a wide table, unless a user groups otherwise."""
    return replace(options, by=("model",)) if options.answers and not options.by else options
