"""Scipy's functions are the same, however they are loaded."""

import subprocess
import sys

import pytest
import scipy.special

from reconciler.sizing import special

NAMES = ["betainc", "gammaincc", "gammainccinv", "gammaln", "ndtri", "stdtrit"]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_gives_the_bits_of_scipy(name: str) -> None:
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    arguments = {"betainc": (3.5, 200.0, 0.02), "gammaln": (71.25,), "ndtri": (0.975,)}.get(name, (4.0, 0.3))

    assert ours(*arguments) == theirs(*arguments)


def test_scipy_can_be_imported_afterwards_and_is_not_before() -> None:
    code = (
        "import sys; from reconciler.sizing import special;"
        "assert 'scipy.special' not in sys.modules and 'numpy.f2py' not in sys.modules;"
        "import scipy.special; assert scipy.special.betainc(1.0, 2.0, 0.5) == special.betainc(1.0, 2.0, 0.5);"
        "assert scipy.special.softmax([0.0])[0] == 1.0"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_kept_elsewhere_is_asked_the_usual_way() -> None:
    code = (
        "from reconciler.sizing import special;"
        "special._NAMES = ('softmax',);"  # not in the compiled module
        "assert special._load().softmax([0.0])[0] == 1.0"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
