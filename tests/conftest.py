"""What holds for all tests: a busy machine is slow, which is no failure."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("calipers", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calipers")

# Spark's Java runs each query once or twice: to compile it for speed takes longer than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
