"""What holds for all tests: a busy machine is slow, which is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("calipers", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calipers")
