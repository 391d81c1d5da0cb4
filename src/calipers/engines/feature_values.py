"""The values of features as expressions: constants, where no record has the fields they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings


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
        self._features = [each for layer in self.layers for each in layer]
        self._expressions = {each.name: self._express(each) for each in self._features}
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
            and not any(each.name in self._of_failures for each in feature.inputs)
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
        row = row.with_columns(_express(each, settings).alias(each.name) for each in layer)
    found = row.select(each.name for each in features).collect(engine="in-memory")
    return {each.name: pl.lit(each[0], dtype=each.dtype) for each in found}


def _sort_layers(features: Sequence[Feature]) -> Iterator[list[Feature]]:
    """Yield features that can be computed at once, those that others depend on first."""
    depth: dict[Feature, int] = {}
    for feature in features:
        inputs = [depth[source] for source in feature.reads if isinstance(source, Feature)]
        depth[feature] = 1 + max(inputs, default=0)
    for level in range(1, max(depth.values(), default=0) + 1):
        yield [feature for feature in features if depth[feature] == level]
