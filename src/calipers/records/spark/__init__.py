"""Spark: its session, and sources whose rows stay on the cluster until they are needed."""

from calipers.support.errors import require_extra

require_extra("Spark's tables and --engine spark need PySpark", extra="spark", modules=("pyspark",))
