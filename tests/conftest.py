"""What holds for all tests: a busy machine is slow, which is no failure."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile("calipers", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calipers")

# Spark's Java runs each query once or twice: to compile it for speed takes longer than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What is kept from one use to the next stays out of the home of who runs the tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).resolve().parents[1] / "build" / "cache")
