"""The engine for a cluster: the same features inside the workers, the same aggregates natively.

Workers run the very code of the Polars engine on Arrow batches, so that no regular expression or
number can be read differently. Totals are plain Spark group-bys through Narwhals: no group has to
fit on one worker, and only totals reach the driver.
"""

from calipers.support.errors import require_extra

require_extra("--engine spark needs PySpark", extra="spark", modules=("pyspark",))

from calipers.engines.spark.engine import run  # noqa: E402 (only where Spark is installed)

__all__ = ["run"]
