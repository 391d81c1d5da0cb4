"""The special functions are scipy's own, with and without the rest of its package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from calipers.statistics import special

SHOW = """
import sys
from calipers.statistics import special
{before}
print(special.stdtrit(4, 0.975), special.betaincinv(2, 3, 0.5), "scipy.special" in sys.modules)
import scipy.special
assert scipy.special.stdtrit(4, 0.975) == special.stdtrit(4, 0.975)
"""


@pytest.mark.parametrize(
    ("before", "whole"),
    [
        ("", False),
        ("special._NEEDED = ()", True),  # another scipy, whose parts are others
        ("special._COMPILED = '_no_such_part'", True),
    ],
)
def test_the_compiled_functions_are_loaded_alone(before: str, *, whole: bool) -> None:
    code = SHOW.format(before=before)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    t, beta, is_whole = result.stdout.split()
    assert float(t) == pytest.approx(2.7764451051977934, rel=1e-14)
    assert float(beta) == pytest.approx(0.3857275681323895, rel=1e-14)
    assert (is_whole == "True") is whole


def test_what_scipy_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        special.no_such_function(1)
