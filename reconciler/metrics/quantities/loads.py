"""The quantities behind every model's load and every variant's observation, asked of each cluster in each run."""

from reconciler.metrics.engines import SOURCES, offered
from reconciler.metrics.quantities.endpoint_picker import ARRIVALS
from reconciler.metrics.quantities.kubernetes import POD_OWNERS, QUOTAS, UNSCHEDULABLE
from reconciler.metrics.quantities.quantity import BOUND, CLUSTER, PER_POD, Name, Quantity

RUNNING = offered(lambda engine: engine.running)
WAITING = offered(lambda engine: engine.waiting)
FINISHED = offered(lambda engine: engine.finished)

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.RUNNING,
        unit="requests",
        reason="which replicas report, and how busy they are",
        by=PER_POD,
        candidates=tuple(gauge.now() for gauge in RUNNING),
        essential=True,
    ),
    Quantity(
        name=Name.LAST_SEEN,
        unit="Unix seconds",
        reason="tells fresh from stale, and stale from missing",
        by=PER_POD,
        candidates=tuple(text for gauge in RUNNING for text in gauge.last_seen()),
        essential=True,
    ),
    Quantity(
        name=Name.COMPLETIONS,
        unit="req/s",
        reason="finished requests: what was served",
        by=PER_POD,
        candidates=tuple(counter.gain() for counter in FINISHED),
        essential=True,
        tells_alternative=True,
    ),
    Quantity(
        name=Name.OUTPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens generated for a request",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.output_tokens)),
        essential=True,
    ),
    Quantity(
        name=Name.QUEUE_GROWTH,
        unit="req/s",
        reason="requests that arrived and are not finished: a saturated variant completes no more than it can",
        by=PER_POD,
        candidates=tuple(
            f"{engine.running[0].growth()} + {engine.waiting[0].growth()}"
            for engine in SOURCES
            if engine.running and engine.waiting
        ),
    ),
    ARRIVALS,
    Quantity(
        name=Name.CHANGES,
        unit="changes",
        reason="tells what is scraped and stands still: it says nothing of now",
        by=PER_POD,
        candidates=tuple(
            f"{engine.running[0].changes()} + {engine.waiting[0].changes()}"
            for engine in SOURCES
            if engine.running and engine.waiting
        ),
    ),
    Quantity(
        name=Name.INPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens of a prompt",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.input_tokens)),
    ),
    Quantity(
        name=Name.INPUT_BUCKETS,
        unit="req/s",
        reason="how far the lengths of prompts differ: who has a long one waits for it, and others behind it",
        by=("namespace", "model", BOUND),
        candidates=tuple(counter.gain() for counter in offered(lambda engine: engine.input_buckets)),
    ),
    Quantity(
        name=Name.WAITING,
        unit="requests",
        reason="requests that wait for a place in a batch",
        by=PER_POD,
        candidates=tuple(gauge.now() for gauge in WAITING),
    ),
    Quantity(
        name=Name.MOST_RUNNING,
        unit="requests",
        reason="the most that a replica had in its batch: it cannot do more than they take",
        by=PER_POD,
        candidates=tuple(gauge.most() for gauge in RUNNING),
    ),
    Quantity(
        name=Name.ITL,
        unit="s",
        reason="mean gap between output tokens",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.itl)),
    ),
    Quantity(
        name=Name.WAIT,
        unit="s",
        reason="mean time in the queue",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.wait)),
    ),
    Quantity(
        name=Name.TTFT,
        unit="s",
        reason="mean time from arrival to the first token",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.ttft)),
    ),
    *POD_OWNERS,
    UNSCHEDULABLE,
    QUOTAS,
)
"""In the order they are asked: a run that is cut short has the essential ones first."""

IN_A_CLUSTER = f'{CLUSTER}!=""'
CLUSTER_LABEL = Quantity(
    name=Name.CLUSTER_LABEL,
    unit="exists",
    reason="whether one server holds several clusters, when none is configured",
    by=("namespace", CLUSTER),
    candidates=tuple(
        f"group by ($by) ({gauge.selector})" for gauge in (each.narrowed(IN_A_CLUSTER) for each in RUNNING)
    ),
)

ESSENTIAL = frozenset(quantity.name for quantity in QUANTITIES if quantity.essential)
