"""How this process works: its garbage collector, and its libraries' threads and plugins, set here and nowhere else."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by numpy's libraries when they are loaded. No product of ours is large enough for two threads."""
PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
"""pydantic looks for plugins in all installed packages: 5 ms of every start, for what nobody here uses."""
COLLECTED_AFTER = 1_000_000
"""New objects: what is imported stays, and looking through it again and again was a seventh of a start."""


def set_up_process() -> None:
    """Prepare a process for one command, before anything large is imported; what a person has set stays."""
    gc.set_threshold(COLLECTED_AFTER)
    os.environ.setdefault(PLUGINS, "__all__")
    for variable in THREADS:
        os.environ.setdefault(variable, "1")


def return_memory() -> None:
    """Give memory back that was freed and that the C library keeps, where it is glibc: 90 MiB of 10,000 variants.

    Answers are read in blocks of megabytes, for which nothing that comes after them has a use.
    """
    import ctypes  # numpy has it loaded

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Millions of small objects that all stay alive: collecting costs more than parsing (6.4 s against 1.3 s).

    Afterwards they are left out of collections: looking through a fleet's plan while it is printed takes 0.6 s.
    """
    was_enabled = gc.isenabled()
    gc.unfreeze()  # what an earlier plan of this process left out and is not referenced any more
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
