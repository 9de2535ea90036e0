"""Replicas that are loaded unevenly: sticky sessions, or routing by prefix."""

import random

import numpy as np

from tests.incidents.profiles import given
from tests.incidents.rows import Incident, Play
from tests.incidents.stage import ALPHA_S, BETA_S, BUSY_PER_S, MAX_BATCH, MOST_PER_S, Stage, constant, since

TARGETS = given().replace("ttft: 1s", "ttft: 300ms")


def uneven(full: int, waiting: float, minutes: float) -> Play:
    """So many pods are full and have so many requests waiting, the others are loaded to a fifth."""

    def play(stage: Stage) -> None:
        calm = stage.pods
        stage.pods = [stage.pod(index, (1.02 if index < full else 0.2) * MOST_PER_S) for index in range(stage.replicas)]
        draw = random.Random(stage.seed)  # noqa: S311 - the same series in every run
        for pod in stage.pods[:full]:
            queue = constant(waiting) * np.array([draw.uniform(0.8, 1.2) for _ in pod.waiting])
            pod.waiting, pod.wait_s = np.rint(queue), queue / MOST_PER_S
            pod.ttft_s = 0.06 + pod.wait_s
            pod.running = constant(MAX_BATCH)
            pod.itl_s = constant(ALPHA_S + BETA_S * MAX_BATCH)
        before = slice(0, since(minutes).start)
        for pod, earlier in zip(stage.pods, calm, strict=True):
            for name in ("finished", "running", "waiting", "itl_s", "wait_s", "ttft_s"):
                getattr(pod, name)[before] = getattr(earlier, name)[before]
        stage.arrivals = np.sum([pod.finished for pod in stage.pods], axis=0)

    return play


def one_hot(share: float) -> Play:
    """One pod has so many times the load of each other, and all keep their targets."""

    def play(stage: Stage) -> None:
        each = stage.replicas * 0.7 * BUSY_PER_S / (stage.replicas - 1 + share)
        stage.pods = [stage.pod(index, each * (share if index == 0 else 1)) for index in range(stage.replicas)]
        stage.arrivals = np.sum([pod.finished for pod in stage.pods], axis=0)

    return play


UNEVEN = (
    *(
        Incident(
            name=f"uneven: {engine}, {full} of 6 full, {waiting:g} waiting each, for {minutes:g} min",
            happened=f"{full} of six replicas are full with {waiting:g} waiting each, the others are nearly idle",
            play=uneven(full, waiting, minutes),
            engine="given" if engine == "queue" else engine,
            settings=TARGETS if engine == "queue" else "",
            after=(6, 7, 8, 9),
        )
        for engine in ("queue", "saturation")
        for full in (1, 2)
        for waiting in (20, 60, 200)
        for minutes in (30, 180)
    ),
    *(
        Incident(
            name=f"uneven: queue, a replica with {share:g} times the load of others",
            happened="routing by prefix gives one replica more, and all keep their targets",
            play=one_hot(share),
            engine="given",
            settings=TARGETS,
            after=after,
        )
        for share, after in ((1.1, (5, 6)), (1.6, (6, 7)))
    ),
)
