"""What is measured, by which groups, and how: the fields to read, the features, the totals.

The plan also holds the features' values as expressions, with constants where no record has the
fields that a feature reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import polars as pl

from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Feature,
    Influence,
    Metric,
    OneOf,
    Rank,
    is_met,
)
from calipers.metrics.declare.distributions import (
    declare_histogram,
    declare_mode,
    declare_wide_bin,
    declare_wide_histogram,
)
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.judged import flag_counts, flagged
from calipers.records.batch import Wanted, find_column


class FeatureValues:
    """The values of some features, the same for every chunk of records that has the same fields.

    Where the column `failure` is true, those in `of_failures` have the values given there.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        settings: Settings,
        *,
        failure: str,
        of_failures: Mapping[str, float],
    ) -> None:
        self.layers = list(_sort_layers(features))  # what can be computed at once
        self._settings = settings
        self._failure = failure
        self._of_failures = of_failures
        self._features = [feature for layer in self.layers for feature in layer]
        self._expressions = {feature.name: self._express(feature) for feature in self._features}
        self._constants: dict[frozenset[str], dict[str, pl.Expr]] = {}  # by the missing fields

    def express(self, records: pl.DataFrame) -> dict[str, pl.Expr]:
        """Return the value of each feature in these records."""
        return {**self._expressions, **self._evaluate_constant(records)}

    def _express(self, feature: Feature) -> pl.Expr:
        value = _express(feature, self._settings)
        if feature.name not in self._of_failures:
            return value
        instead = pl.lit(self._of_failures[feature.name])
        return pl.when(self._failure).then(instead).otherwise(value)

    def _evaluate_constant(self, records: pl.DataFrame) -> dict[str, pl.Expr]:
        """Return the constant values of features whose fields no record has, evaluated once."""
        if not records.height:
            return {}
        nulls = zip(records.columns, records.null_count().row(0), strict=True)
        empty = frozenset(name for name, count in nulls if count == records.height)
        if empty not in self._constants:
            without = {
                feature.name: pl.lit(None, dtype=feature.dtype)
                for feature in self._features
                if not empty.isdisjoint(feature.null_without)
            }
            self._constants[empty] = self._evaluate_nulls(records, empty) | without
        return self._constants[empty]

    def _evaluate_nulls(self, records: pl.DataFrame, empty: frozenset[str]) -> dict[str, pl.Expr]:
        features = tuple(
            feature
            for feature in self._features
            if feature.fields
            and empty.issuperset(feature.fields)
            and not any(inner.name in self._of_failures for inner in feature.inputs)
        )
        fields = tuple((name, records.schema[name]) for name in sorted(empty))
        return _evaluate_nulls(features, fields, self._settings)


@lru_cache(maxsize=4096)
def _express(feature: Feature, settings: Settings) -> pl.Expr:
    """Return a feature's value; for few rows it takes as long to build as to compute."""
    return feature.expression(settings).cast(feature.dtype)


@lru_cache(maxsize=64)
def _evaluate_nulls(
    features: tuple[Feature, ...], fields: tuple[tuple[str, pl.DataType], ...], settings: Settings
) -> dict[str, pl.Expr]:
    """Return the values of features, in the order of their layers, where all they read is null."""
    row = pl.DataFrame({name: pl.Series([None], dtype=dtype) for name, dtype in fields}).lazy()
    for layer in _sort_layers(features):
        row = row.with_columns(_express(feature, settings).alias(feature.name) for feature in layer)
    evaluated = row.select(feature.name for feature in features).collect(engine="in-memory")
    return {column.name: pl.lit(column[0], dtype=column.dtype) for column in evaluated}


def _sort_layers(features: Sequence[Feature]) -> Iterator[list[Feature]]:
    """Yield features that can be computed at once, those that others depend on first."""
    depth: dict[Feature, int] = {}
    for feature in features:
        inputs = [depth[source] for source in feature.reads if isinstance(source, Feature)]
        depth[feature] = 1 + max(inputs, default=0)
    for level in range(1, max(depth.values(), default=0) + 1):
        yield [feature for feature in features if depth[feature] == level]


FAILED = "_calipers_failed"  # a failed call that is in no metric
FAILURE = "_calipers_failure"  # a failed call that counts as a failure (--errors fail)
TRUNCATED = "_calipers_truncated"  # replies that were cut off stay in the metrics, and are counted
CLUSTER_TEXT = (
    "_calipers_cluster_text"  # what a cluster is told by, where rows are grouped afterwards
)
SAME_ID = "_calipers_same_id"  # a task in all groups, where rows are grouped afterwards
IDENTITY = (
    "_calipers_identity"  # what tells the calls of a task apart: the same twice is worth a warning
)

JUDGMENTS = "judgments"
CALL_FIELDS = ("model", "tier", "variant", "run")
IDENTITY_FIELDS = ("id", *CALL_FIELDS)
_AS_FAILURES = {"passed": False, "correct": False, "impl_rate": 0.0}
_MEASURED = ("metrics", "described", "medians", "binned", "widely_binned", "of_tasks")
_SAMPLE_TEXTS = ("cot",)  # Z 7.2 keeps it beside the per-task values


def list_cluster_fields(cluster: str | None) -> tuple[str, ...]:
    """Return the fields of `--cluster repo,file`, the outermost first.

    >>> list_cluster_fields("repo, file")
    ('repo', 'file')
    """
    return () if cluster is None else tuple(name.strip() for name in cluster.split(","))


def name_presence(name: str) -> str:
    """Return the column that says whether a row has the field."""
    return f"_calipers_has_{name_column(name)}"


@dataclass(frozen=True)
class Plan:
    """What to measure, by what, and how."""

    metrics: tuple[Metric, ...]
    by: tuple[str, ...]
    settings: Settings
    also_watched: tuple[str, ...] = ()
    only_present: bool = False  # leave out the metrics whose fields no row has
    also_present: frozenset[str] = frozenset()  # fields whose absence in all rows says something
    seen: frozenset[str] | None = None  # fields in the first rows: others fill no sample's column
    described: tuple[Feature, ...] = ()  # features whose seven statistics are wanted
    medians: tuple[Rank, ...] = ()  # ranks whose intervals are wanted beside these
    binned: tuple[Feature, ...] = ()  # features in [0, 1] whose histograms are wanted
    widely_binned: tuple[Feature, ...] = ()  # features without an end whose histograms are
    reliability: bool = False  # whether the bins of confidence are shown one by one
    per_task: bool = False  # whether tasks are told apart by their ids, not by hashes alone
    cluster: str | None = None  # a field, or several; else the rows of a task are a cluster
    crossed: bool = False  # a cluster is a combination of values, not the first field that has one
    confidence: float = 0.95
    resamples: int = 0  # intervals by the bootstrap, where there are any
    seed: int = 0
    cells: tuple[str, ...] = ()  # fields that make a task of their own of each task's rows
    nulls_outside: bool = False  # numbers outside their range are nulls, and their rows stay
    kept: tuple[str, ...] = ()  # fields that are kept as they are, of failed calls too
    sampled: Mapping[str, str] | None = None  # what samples hold, if not what is listed
    regrouped_by: tuple[str, ...] = ()  # fields by which the rows are grouped after reading
    regrouped_if_few: tuple[str, ...] = ()  # of these, fields that may take too many values
    of_tasks: tuple[Feature, ...] = ()  # what is told of tasks beside their metrics
    tallied: tuple[Feature, ...] = ()  # texts of each row: how often each is there, by group
    whole: tuple[str, ...] = ()  # all fields of the records, where a function reads them

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The record's fields to read."""
        read = (name for feature in self.features for name in feature.fields)
        named = (*IDENTITY_FIELDS, "error", "finish_reason", *self.keys, *self.kept)
        named = (*named, *self.whole)
        checked = self.settings.checks.fields if self.settings.checks else ()
        return tuple(dict.fromkeys((*named, *read, *checked)))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The fields of the user's own that are read as numbers."""
        return frozenset(name for feature in self.features for name in feature.numbers)

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields by which rows belong together."""
        return (*self.by, *self.regrouped_by, *self.cluster_fields)

    @property
    def cluster_fields(self) -> tuple[str, ...]:
        """The fields that make clusters, the outermost first."""
        return list_cluster_fields(self.cluster)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields whose texts are kept to group by them; a group by one field tells its own."""
        return tuple(name for name in self.regrouped_by if self.by != (name,))

    @cached_property
    def watched(self) -> tuple[str, ...]:
        """The fields whose presence decides something."""
        needs = [need for metric in self.metrics for need in metric.needs]
        named = (
            name
            for need in needs
            for choice in (need.choices if isinstance(need, OneOf) else ((need,),))
            for name in choice
        )
        renamed = (name for name in self.also_watched if name in self.fields)
        return tuple(dict.fromkeys(("id", *self.keys, *named, *renamed)))

    @cached_property
    def having(self) -> tuple[str, ...]:
        """The columns that say whether a row has each of these."""
        return tuple(map(name_presence, self.watched))

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Every feature once, each behind those it stands on."""
        wanted = [feature for metric in self.metrics for feature in metric.features]
        wanted += (*self.described, *self.binned, *map(declare_wide_bin, self.widely_binned))
        wanted += (*self.tallied, *self.of_tasks)
        wanted += [flagged] if any(JUDGMENTS in feature.fields for feature in wanted) else []
        return tuple(dict.fromkeys(inner for feature in wanted for inner in feature.inputs))

    @cached_property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Every aggregate once."""
        of_metrics = (measure for metric in self.metrics for measure in metric.measures)
        every = [measure for measure in of_metrics if isinstance(measure, Aggregate)]
        every += (aggregate for metric in self.metrics for aggregate in metric.also)
        every += (declare_sums(feature) for feature in self.described)
        every += [flag_counts] if flagged in self.features else []
        every += map(declare_histogram, self.binned)
        every += map(declare_wide_histogram, self.widely_binned)
        return tuple(dict.fromkeys(every))

    @cached_property
    def find_modes(self) -> tuple[Aggregate, ...]:
        """What finds the most frequent value of each described feature by counting all values."""
        return tuple(declare_mode(feature) for feature in self.described)

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """Every rank once."""
        every = (measure for metric in self.metrics for measure in metric.measures)
        of_metrics = (measure for measure in every if isinstance(measure, Rank))
        return tuple(dict.fromkeys((*of_metrics, *self.medians)))

    @cached_property
    def sorted_features(self) -> tuple[Feature, ...]:
        """The features whose values are looked up by rank."""
        return tuple(dict.fromkeys((*(rank.feature for rank in self.ranks), *self.described)))

    @cached_property
    def influences(self) -> tuple[Influence, ...]:
        """Every influence once."""
        every = [
            influence
            for metric in self.metrics
            for influence in (metric.influence, *metric.further)
        ]
        every += [rank.influence for rank in self.medians if not rank.of_family]
        return tuple(dict.fromkeys(influence for influence in every if influence is not None))

    @property
    def counts_failures(self) -> bool:
        """Return True if failed calls count as failures."""
        return self.settings.errors == "fail"

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of the compact table."""
        columns: dict[str, pl.DataType] = {
            GROUP: pl.String(),
            TASK: pl.Int64(),
            IDENTITY: pl.Int64(),
            FAILED: pl.Boolean(),
            TRUNCATED: pl.Boolean(),
        }
        columns |= {FAILURE: pl.Boolean()} if self.counts_failures else {}
        columns |= {} if self.cluster is None else {CLUSTER: pl.Int64()}
        columns |= {"id": pl.String()} if self.per_task or self.regrouped_by else {}
        if self.regrouped_by and self.cluster is not None:
            columns[CLUSTER_TEXT] = pl.String()
        columns |= {SAME_ID: pl.Int64()} if self.regrouped_by else {}
        columns |= dict.fromkeys(self.having, pl.Boolean())
        columns |= {feature.name: feature.dtype for feature in self.features if feature.stored}
        return columns

    def list_wanted(self, field_map: Mapping[str, str], *also: str) -> Wanted:
        """Return what a source is read for; `also` names fields kept beside the features."""
        fields = tuple(dict.fromkeys((*self.fields, *also)))
        return Wanted(
            fields,
            field_map,
            keys=self.by,
            numbers=self.numbers,
            nulls_outside=self.nulls_outside,
        )

    def restrict(self, fields: Collection[str]) -> Plan:
        """Return the plan for rows that have these fields."""
        if not self.only_present:
            return self
        known = self.also_present.union(fields)
        met = (
            metric
            for metric in self.metrics
            if all(is_met(need, known.__contains__) for need in metric.needs)
        )
        return replace(self, metrics=tuple(met))

    def leave_out_absent(self, fields: Collection[str]) -> Plan:
        """Return the plan for rows that have no other fields; these are read, and so checked."""
        there = [name for name in self.fields if find_column(name, fields) is not None]
        needed = [name for name in self.watched if find_column(name, fields) is not None]
        return replace(self.restrict(needed), whole=(*self.whole, *there))

    def covers(self, other: Plan) -> bool:
        """Return True if this plan measures all that the other does, in the same groups and ways.

        Texts that are counted are no part of it.
        """
        names = (*_MEASURED, "only_present", "per_task", "reliability", "tallied", "whole")
        same = replace(self, **{name: getattr(other, name) for name in names})
        more = all({*getattr(other, name)} <= {*getattr(self, name)} for name in _MEASURED)
        return same == other and more and self.per_task >= other.per_task

    @cached_property
    def sample_columns(self) -> dict[str, str]:
        """What samples hold of each row, and the column it comes from."""
        if self.sampled is not None:
            return dict(self.sampled)
        plan = self if self.seen is None else self.restrict(self.seen)
        listed = {
            feature.label: feature.name
            for feature in plan.features
            if feature.listed and self._may_be_seen(feature)
        }
        texts = {name: name for name in _SAMPLE_TEXTS if name in self.fields}
        columns = {"id": "id", **{name: name_kept(name) for name in self.by if name != "id"}}
        others = {**listed, **texts}
        return columns | {name: own for name, own in others.items() if name not in columns}

    def _may_be_seen(self, feature: Feature) -> bool:
        """Return True if any row may have a value of a feature, by the fields in the first rows."""
        if self.seen is None or feature.of_record is not None:
            return True
        return any(find_column(name, self.seen) is not None for name in feature.fields)

    @cached_property
    def feature_values(self) -> FeatureValues:
        """The values of all features but those of the user's functions, for every chunk."""
        features = [feature for feature in self.features if feature.of_record is None]
        of_failures = _AS_FAILURES if self.counts_failures else {}
        return FeatureValues(features, self.settings, failure=FAILURE, of_failures=of_failures)


def name_column(field: str) -> str:
    """Return a field's name as part of a column's, since a dot is a path in Spark."""
    return field.replace(".", "·").replace("`", "´")


def name_kept(name: str) -> str:
    """Return a kept field's own column, since a feature may have its name."""
    return f"_calipers_by_{name_column(name)}"
