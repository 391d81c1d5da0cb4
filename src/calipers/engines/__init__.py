"""Run the declarations: here with Polars, on a cluster with Spark, to the same numbers."""
