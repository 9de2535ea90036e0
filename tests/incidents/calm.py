"""Calm days, true growth and true shrink: a harness under which nothing ever moves proves nothing."""

import numpy as np

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import COUNT, Stage, since


def load_since(minutes: float, factor: float) -> Play:
    """The load is that many times what it was, for so many minutes."""

    def play(stage: Stage) -> None:
        factors = np.ones(COUNT)
        factors[since(minutes)] = factor
        stage.load(factors * stage.per_s * stage.replicas)

    return play


def idle(stage: Stage) -> None:
    """Nothing came for two hours."""
    stage.load(np.zeros(COUNT))


CALM = (
    Incident(name="calm: queue", happened="nothing"),
    Incident(name="calm: queue, no gateway", happened="nothing", has_gateway=False),
    Incident(name="calm: queue, no kube-state-metrics", happened="nothing", has_kube_state_metrics=False),
    Incident(name="calm: queue, idle", happened="no request for over an hour", play=idle, after=(1,)),
    Incident(name="calm: saturation", happened="nothing", engine="saturation", replicas=4),
    Incident(
        name="calm: saturation, no kube-state-metrics",
        happened="nothing",
        engine="saturation",
        replicas=4,
        has_kube_state_metrics=False,
    ),
    Incident(name="growth: queue", happened="half as much again", play=load_since(20, 1.5), after=(8, 9)),
    Incident(
        name="growth: queue, no gateway",
        happened="a fifth more requests",
        play=load_since(20, 1.25),
        has_gateway=False,
        after=(7, 8),
    ),
    Incident(
        name="growth: saturation",
        happened="half as much again",
        play=load_since(20, 1.5),
        engine="saturation",
        replicas=4,
        after=(5, 6, 7, 8),
    ),
    Incident(name="shrink: queue", happened="half as many for over an hour", play=load_since(80, 0.5), after=(3, 4)),
    Incident(
        name="shrink: queue, no gateway",
        happened="half as many for over an hour",
        play=load_since(80, 0.5),
        has_gateway=False,
        after=(3, 4),
    ),
    Incident(
        name="shrink: saturation",
        happened="half as many requests for over an hour",
        play=load_since(80, 0.5),
        engine="saturation",
        replicas=4,
        after=(2, 3),
    ),
)
