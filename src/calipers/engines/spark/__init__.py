"""The engine for a cluster: sessions, Spark's sources, and the work in workers."""

from calipers.support.errors import require_extra

require_extra("Spark's tables and --engine spark need PySpark", extra="spark", modules=("pyspark",))
