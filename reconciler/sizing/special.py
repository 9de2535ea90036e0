"""The special functions of scipy, without the rest of their package.

Importing `scipy.special` also loads its layer for other array libraries, and with it numpy's Fortran compiler and test
tools: 0.1 s, a fifth of a small plan. The functions themselves are in one compiled module, which is loaded here as it
is; the numbers are the same to the last bit. A release of scipy that keeps them elsewhere is asked the usual way.
"""

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_PACKAGE = "scipy.special"
_NAMES = ("betainc", "gammaincc", "gammainccinv", "gammaln", "ndtr", "ndtri", "stdtrit")


def _load() -> ModuleType:
    if _PACKAGE not in sys.modules and (spec := find_spec(_PACKAGE)) is not None:
        sys.modules[_PACKAGE] = module_from_spec(spec)  # has a path, so that modules in it are found; is never run
        try:
            compiled = importlib.import_module(f"{_PACKAGE}._ufuncs")
        except ImportError:
            pass
        else:
            if all(hasattr(compiled, name) for name in _NAMES):
                return compiled
        finally:
            del sys.modules[_PACKAGE]
    return importlib.import_module(_PACKAGE)


_functions = _load()
betainc = _functions.betainc
gammaincc = _functions.gammaincc
gammainccinv = _functions.gammainccinv
gammaln = _functions.gammaln
ndtr = _functions.ndtr
ndtri = _functions.ndtri
stdtrit = _functions.stdtrit
