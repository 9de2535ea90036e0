"""What sizing by saturation needs beside loads: how full replicas are, how much they hold, what waits before them."""

from reconciler.metrics.engines import offered
from reconciler.metrics.quantities.endpoint_picker import QUEUE_BYTES, QUEUE_SIZE
from reconciler.metrics.quantities.kubernetes import READY_REPLICAS
from reconciler.metrics.quantities.loads import FINISHED, WAITING
from reconciler.metrics.quantities.quantity import PER_POD, Name, Quantity

PEAK_WINDOW_S = 60.0
RETENTION_S = 600.0
"""Over so long a time requests are counted before a model may go to zero."""
STORED_WINDOW_S = 86_400.0
"""So long the capacity of pods that are gone is remembered."""

KV_TOKENS = offered(lambda engine: engine.kv_tokens)

SATURATION_QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.KV_CACHE_USAGE,
        unit="fraction",
        reason="how full a replica was within the last minute",
        by=PER_POD,
        candidates=tuple(each.peak() for each in offered(lambda engine: engine.kv_cache_usage)),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.NUM_WAITING,
        unit="requests",
        reason="the longest queue of a replica within the last minute",
        by=PER_POD,
        candidates=tuple(gauge.peak() for gauge in WAITING),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.KV_TOKENS,
        unit="tokens",
        reason="how much the KV cache of a replica holds",
        by=PER_POD,
        candidates=tuple(each.latest() for each in KV_TOKENS),
    ),
    Quantity(
        name=Name.PREFIX_HIT_RATE,
        unit="fraction",
        reason="the part of prompts that needs no new room",
        by=PER_POD,
        candidates=tuple(each.latest() for each in offered(lambda engine: engine.prefix_hit_rate)),
    ),
    QUEUE_SIZE,
    QUEUE_BYTES,
    Quantity(
        name=Name.REQUESTS_IN_RETENTION,
        unit="requests",
        reason="whether a model may go to zero",
        by=PER_POD,
        candidates=tuple(counter.gain("increase") for counter in FINISHED),
        window_s=RETENTION_S,
    ),
    READY_REPLICAS,
    Quantity(
        name=Name.STORED_KV_TOKENS,
        unit="tokens",
        reason="how much a replica would hold of a variant that has none now",
        by=PER_POD,
        candidates=tuple(each.latest("last_over_time") for each in KV_TOKENS),
        window_s=STORED_WINDOW_S,
    ),
)
"""Asked in namespaces where somebody sizes by saturation."""
