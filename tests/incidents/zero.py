"""Models at zero replicas whose requests arrive at the gateway."""

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import STEP_S, Stage, constant, since


def arriving(rate_per_s: float, minutes: float = 6, queued: float = 0.0, served_hours_ago: float | None = None) -> Play:
    """Requests arrive for so many minutes; the model was served so many hours ago, or never."""

    def play(stage: Stage) -> None:
        stage.arrivals[since(minutes)] = rate_per_s * STEP_S
        if served_hours_ago is not None:
            stage.days_before = (served_hours_ago / 24,)
        if queued:
            waiting = constant(0.0)
            waiting[since(minutes)] = queued
            names = {"fairness_id": "default", "priority": "0", "inference_pool": "chat"}
            names |= {"model_name": "org/chat", "target_model_name": "org/chat"}
            stage.gauge("inference_extension_flow_control_queue_size", waiting, **names)

    return play


def waiting_alone(queued: float, served_hours_ago: float | None = None) -> Play:
    """As `arriving` with a queue, at a picker that counts no arrivals."""
    arrive = arriving(0.0, queued=queued, served_hours_ago=served_hours_ago)

    def play(stage: Stage) -> None:
        arrive(stage)
        stage.has_gateway = False

    return play


ZERO = tuple(
    Incident(
        name=f"zero: {engine}, {rate} req/s, {about}",
        happened="requests arrive at the gateway for six minutes, and no replica runs",
        play=arriving(float(rate), queued=queued, served_hours_ago=hours),
        engine=engine,
        replicas=0,
        after=after if engine == "queueing" else (1,),
    )
    for engine in ("queueing", "saturation")
    for rate, about, queued, hours, after in (
        (20, "never served", 0.0, None, (1,)),
        (20, "50 wait", 50.0, None, (1,)),
        (100, "served until this morning", 0.0, 13.0, (4, 5)),
        (100, "served until this morning, 50 wait", 50.0, 13.0, (4, 5)),
    )
)
ZERO += tuple(
    Incident(
        name=f"zero: {engine}, only a queue at the gateway, {about}",
        happened="50 requests wait at the gateway for six minutes, nothing counts arrivals, and no replica runs",
        play=waiting_alone(50.0, served_hours_ago=hours),
        engine=engine,
        replicas=0,
        after=(1,),
    )
    for engine in ("queueing", "saturation")
    for about, hours in (("never served", None), ("served until this morning", 13.0))
)
