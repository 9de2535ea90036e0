"""Gateways that count something else than what reaches the replicas."""

import numpy as np

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import MODEL, NAMESPACE, Stage, since

CONTRADICTORY = ("metrics-contradictory",)


def counts(factor: float, minutes: float = 80.0) -> Play:
    """It counts so many times what arrives."""

    def play(stage: Stage) -> None:
        stage.arrivals[since(minutes)] *= factor

    return play


def began_anew(stage: Stage) -> None:
    """The gateway was started again two minutes ago."""
    stage.has_gateway = False
    total = np.cumsum(stage.arrivals)
    first = since(2).start
    total[first:] -= total[first - 1]
    picked = {"namespace": NAMESPACE, "model_name": MODEL, "target_model_name": MODEL, "pod": "epp-0"}
    stage.others.append(("counter", "inference_objective_request", "_total", picked, total))


def scraped_twice(stage: Stage) -> None:
    """The gateway is scraped by two jobs."""
    picked = {"namespace": NAMESPACE, "model_name": MODEL, "target_model_name": MODEL, "pod": "epp-0"}
    total = np.cumsum(stage.arrivals)
    stage.has_gateway = False
    for job in ("epp", "pods"):
        stage.others.append(("counter", "inference_objective_request", "_total", {**picked, "job": job}, total))


def black_hole(stage: Stage) -> None:
    """One replica answers with errors at once, so that it gets half of the requests."""
    for pod in stage.pods:
        pod.finished[since(12)] *= 0.5
        pod.running[since(12)] *= 0.5
    stage.pods[0].finished[since(12)] = 0
    stage.pods[0].running[since(12)] = 0


GATEWAY = (
    *(
        Incident(
            name=f"gateway: sees {share:.0%}{when}",
            happened=f"the gateway counts {share:.0%} of what replicas complete",
            play=counts(share, minutes),
            holds=CONTRADICTORY if share > 0.7 else (),
        )
        for share in (0.81, 0.85, 0.5)
        for when, minutes in (("", 80.0), (" for ten minutes", 10.0))
    ),
    *(
        Incident(
            name=f"gateway: counts {factor:g} times{when}",
            happened=f"the gateway counts {factor:g} times what arrives",
            play=counts(factor, minutes),
            holds=CONTRADICTORY,
        )
        for factor in (1.3, 2.0, 10.0)
        for when, minutes in (("", 80.0), (" for ten minutes", 10.0))
    ),
    Incident(name="gateway: a little more", happened="probes are counted too", play=counts(1.03)),
    Incident(name="gateway: two jobs", happened="the gateway is scraped by two jobs", play=scraped_twice),
    Incident(name="gateway: started again", happened="its counter began anew", play=began_anew),
    Incident(
        name="gateway: a black hole",
        happened="one replica fails at once and gets half of the requests",
        play=black_hole,
        holds=CONTRADICTORY,
    ),
)
