"""What holds for all tests: a busy machine is slow, which is no failure."""

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings

_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target)
settings.register_profile(
    "calipers",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # On a build machine a failure is told at once: to make it small takes minutes.
    phases=_PHASES if "CI" in os.environ else (*_PHASES, Phase.shrink),
)
settings.load_profile("calipers")

# Spark's Java runs each query once or twice: to compile it for speed takes longer than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What is kept from one use to the next stays out of the home of who runs the tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).resolve().parents[1] / "build" / "cache")
