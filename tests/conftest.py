"""What holds for all tests: a busy machine is slow, which is no failure."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import calipers
from calipers.support.plugins import _KINDS
from tests.dealing import SPARK, make_dealer, sort_slowest_first, unit_of
from tests.engines_at_hand import why_spark_is_missing
from tests.examples import LONG

_LIBRARY = str(Path(calipers.__file__).parent)
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target)
for _profile in ("calipers", LONG):
    settings.register_profile(
        _profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=100 if _profile == LONG else 10,
        # On a build machine a failure is told at once: to make it small takes minutes.
        phases=_PHASES if "CI" in os.environ else (*_PHASES, Phase.shrink),
        # There the same examples are tried every time, so that red says that the code has changed;
        # new ones are drawn wherever people work on it.
        derandomize="CI" in os.environ,
    )
settings.load_profile("calipers")

# Spark's Java runs each query once or twice: to compile it for speed takes longer than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
_UNCOMPILED = (
    "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN "
    "--conf spark.sql.adaptive.enabled=false pyspark-shell"
)

# Processes of `pytest -n` have it from readline, which sets it for those that it starts.
os.environ.pop("COLUMNS", None)

# What is kept from one use to the next stays out of the home of who runs the tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).resolve().parents[1] / "build" / "cache")


gc.disable()  # until all is collected: what is imported stays


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their parameter: packed ones differ from process to process, by the time."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Look for garbage only among what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return who deals out the tests to processes; none without pytest-xdist."""
    return make_dealer(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs Spark where there is none.

    Under the profile `long` every property is a long test, as it is tried on many examples.
    """
    missing = why_spark_is_missing()
    long = settings.get_current_profile_name() == LONG
    if not long:  # where Spark is tested at length, it is set as users have it
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _UNCOMPILED)
    for item in items:
        if long and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.long)
        spark = item.get_closest_marker("spark") is not None
        if spark and unit_of(item.nodeid) != SPARK:
            raise pytest.UsageError(f"{item.nodeid}: name it after Spark, as it is marked so")
        if spark and missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))
    if hasattr(config, "workerinput"):  # in a process of `pytest -n`
        sort_slowest_first(items)


@pytest.fixture(autouse=True)
def _nothing_stays_registered() -> Iterator[None]:
    """Forget after each test what it registered; what calipers itself registers stays."""
    before = {id(each): {*vars(each)["_things"]} for each in _KINDS.values()}
    yield
    for registry in _KINDS.values():
        for name in vars(registry)["_things"].keys() - before.get(id(registry), set()):
            if not (registry.find_origin(name) or "").startswith(_LIBRARY):
                registry.remove(name)
