"""PURE. Serving engines as sources of metrics: one file each, registered here by its name.

To add one, write its file and put it at the end of `ENGINES`: quantities, queries and the reading of answers follow.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from reconciler.metrics.engines.serving_engine import ServingEngine, underscored
from reconciler.metrics.engines.sglang import SGLANG
from reconciler.metrics.engines.tgi import TGI
from reconciler.metrics.engines.triton import TRITON
from reconciler.metrics.engines.trtllm import TRTLLM
from reconciler.metrics.engines.vllm import VLLM

ENGINES = {engine.name: engine for engine in (VLLM, SGLANG, TRTLLM, TRITON, TGI)}
"""In the order their candidates are asked."""
SOURCES = (*ENGINES.values(), *(each for engine in ENGINES.values() if (each := underscored(engine)) != engine))
"""The engines as they name their metrics, then as exporters rename them that allow no colon."""


class EngineMetric(Protocol):
    """A metric that an engine exports, or several worked together."""

    @property
    def is_derived(self) -> bool:
        """Whether it is worked out of metrics that are about something else."""
        ...


Metric = TypeVar("Metric", bound=EngineMetric)


def offered(of: Callable[[ServingEngine], Iterable[Metric]]) -> list[Metric]:
    """What engines offer of a quantity: first all that they tell themselves, then what is derived."""
    found = [each for engine in SOURCES for each in of(engine)]
    return sorted(found, key=lambda each: each.is_derived)


__all__ = ["ENGINES", "SOURCES", "ServingEngine", "offered"]
