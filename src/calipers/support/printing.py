"""What all results share: they print as text, Markdown, LaTeX, CSV and HTML, and become tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from calipers.support.errors import UsageError
from calipers.support.strict_json import dump_strict

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


class Printed:
    """A result that prints as a table and shows as HTML in a notebook."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        raise NotImplementedError

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return strict JSON; equal input and seed give equal bytes."""
        return dump_strict(self.to_dict(), indent=indent)

    def to_markdown(self) -> str:
        """Return the tables as Markdown, for a pull request or a paper's notes."""
        return str(self._render("markdown"))

    def to_latex(self) -> str:
        """Return the tables as LaTeX with the rules of booktabs."""
        return str(self._render("latex"))

    def to_csv(self) -> str:
        """Return the numbers as CSV in full precision; an empty cell is a null."""
        return str(self._render("csv"))

    def __str__(self) -> str:
        return str(self._render("text"))

    def _repr_html_(self) -> str:
        from calipers.reports.dispatch import render_in_notebook  # noqa: PLC0415 (loads renderers)

        return render_in_notebook(self)

    def _render(self, form: str) -> Any:
        from calipers.reports.dispatch import render  # noqa: PLC0415 (loads renderers)

        return render(self, form)


class Tabular:
    """A result that is a table: `_list_rows` yields its rows."""

    __slots__ = ()

    def _list_rows(self) -> Iterable[Mapping[str, Any]]:
        raise NotImplementedError

    def to_polars(self) -> pl.DataFrame:
        """Return the result as a Polars frame, numbers in full precision."""
        import polars as pl  # noqa: PLC0415 (nothing else here needs it)

        return pl.DataFrame(list(self._list_rows()), infer_schema_length=None, strict=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return the same as a pandas frame; pyarrow is not needed.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 (not a dependency)
        except ImportError:
            raise UsageError(
                "to_pandas: pandas is not installed", fix="install it: pip install pandas"
            ) from None
        frame = self.to_polars()
        return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return the same as a data frame of a Spark session, classic or Connect's.

        `measured.to_spark(spark).write.saveAsTable("evals.scores")` makes a table of it.
        """
        import polars as pl  # noqa: PLC0415 (nothing else here needs it)

        typed = self.to_polars().with_columns(pl.col(pl.Null).cast(pl.String))
        return session.createDataFrame(typed.to_arrow(compat_level=pl.CompatLevel.oldest()))


def list_metric_rows(
    by: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row per metric: the group, the metric's name, then its values that fit into cells.

    >>> list(list_metric_rows({"model": "m0"}, {"accuracy": {"value": 0.5, "plans": []}}))
    [{'model': 'm0', 'metric': 'accuracy', 'value': 0.5}]
    """
    for name, values in metrics.items():
        yield {**by, "metric": name, **keep_scalars(values)}


def keep_scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that fit into a cell: numbers, texts and nulls."""
    return {k: v for k, v in values.items() if v is None or isinstance(v, str | int | float | bool)}
