"""Run the declarations: on this machine with Polars, on a cluster with Spark, to the same numbers."""
