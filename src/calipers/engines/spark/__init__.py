"""The engine for a cluster: workers run the code of the Polars engine on the parts of the rows.

A worker measures the records where they are, and packs the narrow columns into compressed cells.
Spark moves each cell once, so that all runs of a task are in one partition, and keeps it. From
then on a pass over the parts is a job of Spark's, and only totals reach the driver.
"""

from calipers.engines.spark.engine import measure_source, run

__all__ = ["measure_source", "run"]
