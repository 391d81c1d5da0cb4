"""What Spark reads: its session, and sources whose rows stay with the cluster until asked for."""

from calipers.support.errors import require_extra

require_extra("Spark's tables and --engine spark need PySpark", extra="spark", modules=("pyspark",))
