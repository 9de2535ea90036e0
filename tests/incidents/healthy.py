"""Healthy fleets, lived through request by request: what a good operator would do at once, and no hold may keep."""

from collections.abc import Sequence

from tests.incidents.lives import ALWAYS, Life, daily, steadily
from tests.incidents.rows import Incident
from tests.incidents.stage import BUSY_PER_S

FULL_PER_S = BUSY_PER_S / 10
"""What a replica does that is sized well, of requests that are ten times as long as those of incidents."""
DAY_H = 25.0
ENGINES = {"queue": ("queueing", True), "queue, no gateway": ("queueing", False), "saturation": ("saturation", False)}


def fleet(
    name: str, happened: str, life: Life, replicas: int, after: Sequence[int], *told_by: str
) -> tuple[Incident, ...]:
    """The same for some of the engines, or for all."""
    return tuple(
        Incident(
            name=f"healthy: {name}: {engine}",
            happened=happened,
            life=life,
            engine=ENGINES[engine][0],
            has_gateway=ENGINES[engine][1],
            replicas=replicas,
            after=tuple(after),
            may_hold=False,
        )
        for engine in told_by or ENGINES
    )


def seldom(an_hour: float, pods: int, output_tokens: float = 1800.0) -> Life:
    """A model that few ask, for a day."""
    return Life(
        rate_per_s=steadily(an_hour / 3600),
        output_tokens=steadily(output_tokens),
        pods=(ALWAYS,) * pods,
        hours=DAY_H,
        kv_blocks=40_000,
    )


LOW = steadily(2 * FULL_PER_S)
REPLACED = tuple((-9.0, -1.08) for _ in range(6)) + tuple((-1.1, 9.0) for _ in range(6))

HEALTHY = (
    *fleet(
        "a night",
        "it is four in the morning",
        Life(rate_per_s=daily(0.5 * FULL_PER_S, 2 * FULL_PER_S, 0.0), pods=(ALWAYS,) * 3, hours=DAY_H),
        3,
        (1, 2),
        "queue, no gateway",
        "saturation",
    ),
    *fleet(
        "a Monday",
        "nobody came on Sunday, and since an hour and a half more and more do",
        Life(rate_per_s=lambda at: FULL_PER_S * max(0.05, 4 + 4 * at / 1.5), pods=(ALWAYS,) * 3, hours=DAY_H),
        3,
        (4, 5),
    ),
    *fleet(
        "a batch at night",
        "short requests come at this hour of every day, and many of them",
        Life(
            rate_per_s=lambda at: FULL_PER_S * (4 if at % 24 >= 23 else 1),
            output_tokens=lambda at: 300.0 if at % 24 >= 23 else 1800.0,
            pods=(ALWAYS,) * 5,
            hours=DAY_H,
        ),
        5,
        (1, 2),
        "queue, no gateway",
        "saturation",
    ),
    *fleet("few requests", "twenty an hour, spread widely", seldom(20, 3), 3, (1,)),
    *fleet("few long answers", "twenty an hour of minutes each", seldom(20, 3, output_tokens=30_000.0), 3, (1,)),
    *fleet(
        "long answers everywhere",
        "most replicas run some and finish one in ten minutes",
        seldom(72, 6, output_tokens=30_000.0),
        6,
        (1, 2),
    ),
    *fleet(
        "a pair of Prometheus",
        "two Prometheus write the same series",
        Life(rate_per_s=LOW, pods=(ALWAYS,) * 6, copies=({"prometheus_replica": "a"}, {"prometheus_replica": "b"})),
        6,
        (2, 3),
        "queue, no gateway",
        "saturation",
    ),
    *fleet(
        "scraped every two minutes",
        "a scrape every two minutes, always",
        Life(rate_per_s=LOW, pods=(ALWAYS,) * 6, step_s=120.0),
        6,
        (2, 3),
    ),
    *fleet(
        "one of many starts",
        "one of forty is always being started again",
        Life(rate_per_s=steadily(20 * FULL_PER_S), pods=(ALWAYS,) * 39, hours=1.5, cv=0.5),
        40,
        (17, 18, 19, 20, 21, 22),
        "queue, no gateway",
        "saturation",
    ),
    *fleet(
        "all replaced",
        "a deployment was over an hour ago",
        Life(rate_per_s=steadily(3 * FULL_PER_S), pods=REPLACED),
        6,
        (3, 4, 5),
        "queue, no gateway",
        "saturation",
    ),
    *fleet(
        "answers of one token",
        "prompts are classified; nothing is kept in any KV cache",
        Life(
            rate_per_s=steadily(30.0),
            output_tokens=steadily(1.0),
            input_tokens=steadily(8000.0),
            cv=0.2,
            prompt_s=5e-5,
            kv_blocks=10**12,
            pods=(ALWAYS,) * 3,
            hours=1.5,
        ),
        3,
        (1, 2),
        "queue",
        "queue, no gateway",
    ),
)
