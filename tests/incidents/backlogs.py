"""Backlogs: more arrives than replicas can finish, for a while, with queues that are capped or not."""

import math

import numpy as np

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import COUNT, MOST_PER_S, Stage, since

UNCAPPED = 1e9


def overload(minutes: float, factor: float, most_waiting: float = UNCAPPED) -> Play:
    """Arrivals are so many times what all replicas finish, for so many minutes."""

    def play(stage: Stage) -> None:
        rates = np.full(COUNT, 0.8 * MOST_PER_S * stage.replicas)
        rates[since(minutes)] = factor * MOST_PER_S * stage.replicas
        stage.load(rates, most_waiting=most_waiting)

    return play


def stuck(waiting: float) -> Play:
    """The waiting gauge of one replica has not changed for an hour."""

    def play(stage: Stage) -> None:
        stage.pods[0].waiting[since(60)] = waiting

    return play


def reclaimed(pods: int, minutes: float, *, is_ready_known: bool) -> Play:
    """So many pods were taken away, the others got their load."""

    def play(stage: Stage) -> None:
        per_s, replicas = stage.per_s * stage.replicas, stage.replicas
        rates = np.full(COUNT, per_s / replicas)
        rates[since(minutes)] = per_s / (replicas - pods)
        stage.load(rates * replicas, most_waiting=UNCAPPED)
        for pod in stage.pods[:pods]:
            pod.gone(minutes)
        stage.arrivals[since(minutes)] *= (replicas - pods) / replicas
        if is_ready_known:
            stage.has_kube_state_metrics = False
            named = {"deployment": "chat"}
            ready = np.full(COUNT, float(replicas))
            ready[since(minutes)] -= pods
            stage.gauge("kube_deployment_spec_replicas", float(replicas), **named)
            stage.gauge("kube_deployment_status_replicas_ready", ready, **named)

    return play


def _near(factor: float, minutes: float = 0.0, replicas: int = 6) -> tuple[int, ...]:
    """Within a fifth of what arrives, or of that and of what drains the backlog within an hour; more than there are."""
    least, most = replicas * factor, replicas * (factor + (factor - 1) * minutes / 60)
    return tuple(range(max(math.floor(0.8 * least), replicas + 1), math.ceil(1.2 * most) + 1))


BACKLOGS = (
    *(
        Incident(
            name=f"backlog: {factor:g} x for {minutes:g} min{', no gateway' if not has_gateway else ''}",
            happened=f"{factor:g} times what six replicas finish arrives, for {minutes:g} minutes",
            play=overload(minutes, factor),
            engine="saturation",
            after=_near(factor, minutes),
            has_gateway=has_gateway,
        )
        for factor in (1.05, 1.8, 3.0, 5.0)
        for minutes in (3, 5, 10, 15, 30)
        for has_gateway in (True, False)
    ),
    *(
        Incident(
            name=f"backlog: queue, {factor:g} x for {minutes:g} min{', no gateway' if not has_gateway else ''}",
            happened=f"{factor:g} times what six replicas finish arrives, for {minutes:g} minutes",
            play=overload(minutes, factor),
            # With the headroom of a fifth, or as near to what arrives.
            after=tuple(sorted({*_near(factor), *_near(factor * 1.2)})),
            has_gateway=has_gateway,
        )
        for factor in (1.8, 3.0)
        for minutes in (3, 10, 30)
        for has_gateway in (True, False)
    ),
    *(
        Incident(
            name=f"backlog: {factor:g} x, at most {most:g} waiting",
            happened=f"{factor:g} times what six replicas finish arrives, clients give up",
            play=overload(10, factor, most),
            engine="saturation",
            after=_near(factor),
        )
        for factor in (1.8, 3.0)
        for most in (20, 100, 400)
    ),
    *(
        Incident(
            name=f"backlog: {factor:g} x, at most {most:g} waiting, no gateway",
            happened=f"{factor:g} times what six replicas finish arrives, clients give up, and nothing counts them",
            play=overload(15, factor, most),
            engine="saturation",
            after=(7, 8, 9),
            has_gateway=False,
        )
        for factor, most in ((1.05, 20), (3.0, 100), (3.0, 400))
    ),
    Incident(
        name="backlog: 40 replicas, 1920 req/s at the gateway",
        happened="the gateway counts 1920 req/s for 40 replicas",
        play=overload(20, 1920 / (40 * MOST_PER_S)),
        engine="saturation",
        replicas=40,
        after=_near(1920 / (40 * MOST_PER_S), 20, 40),
    ),
    *(
        Incident(
            name=f"backlog: {pods} of 6 pods reclaimed {minutes:g} min ago{', ready known' if is_ready_known else ''}",
            happened="spot nodes are taken away, and the pods that were asked for are not there yet",
            play=reclaimed(pods, minutes, is_ready_known=is_ready_known),
            engine="saturation",
            # Without kube-state-metrics pods that are just gone still count among those that serve.
            after=(6,) if is_ready_known or minutes > 5 else (6, 7),
            has_kube_state_metrics=is_ready_known,
        )
        for pods in (1, 3)
        for minutes in (3, 8)
        for is_ready_known in (True, False)
    ),
    Incident(
        name="backlog: a waiting gauge that is stuck",
        happened="one replica says that 300 requests wait, for an hour",
        play=stuck(300.0),
        engine="saturation",
        after=(6, 7),
    ),
)
