"""PURE. Serving engines as sources of metrics, one file each: its `ENGINE` says which metric carries which quantity.

To add an engine, write its file and add its name to `FILES`; queries and the reading of answers follow.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TypeVar

from reconciler.metrics.engines.serving_engine import (
    BlockLabels,
    Blocks,
    Counter,
    CounterRatio,
    Gauge,
    ServingEngine,
    Usage,
    underscored,
)

FILES = (
    "vllm",
    "sglang",
    "trtllm",
    "triton",
    "tgi",
)
"""In the order in which their metrics are tried."""
ENGINES: dict[str, ServingEngine] = {name: import_module(f"{__name__}.{name}").ENGINE for name in FILES}
SOURCES = (*ENGINES.values(), *(each for engine in ENGINES.values() if (each := underscored(engine)) != engine))
"""The engines under their own metric names, then under those of exporters that replace the colon."""
Metric = TypeVar("Metric", bound=Gauge | Counter | CounterRatio | Usage | Blocks | BlockLabels)


def offered(of: Callable[[ServingEngine], Iterable[Metric]]) -> list[Metric]:
    """The metrics of all engines for one quantity: direct ones first, then those derived from other metrics."""
    return sorted((each for engine in SOURCES for each in of(engine)), key=lambda each: each.is_derived)
