"""Growth that nothing proves: replicas that were asked for and do not report, series that stand still."""

import numpy as np

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import Stage, constant, since

AWAITED = ("growth-unproven",)


def full(pods: int, frozen_min: float = 0.0) -> Play:
    """So many pods report that they are nearly full; perhaps nothing changes any more."""

    def play(stage: Stage) -> None:
        stage.load(constant(36.0 * pods), pods)
        for pod in stage.pods:
            pod.kv_cache_usage = np.clip(constant(0.95) + (pod.running - pod.running.mean()) / 1000, 0.0, 1.0)
            if frozen_min:
                pod.frozen(frozen_min)

    return play


def unscheduled(pods: int) -> Play:
    """The others of its pods find no node."""

    def play(stage: Stage) -> None:
        full(pods)(stage)
        for index in range(stage.replicas - pods):
            stage.gauge("kube_pod_status_unschedulable", 1.0, pod=f"chat-5d4c8b7f9-zzzz{index + 2}")
            owner = {"owner_kind": "ReplicaSet", "owner_name": "chat-5d4c8b7f9"}
            stage.gauge("kube_pod_owner", 1.0, pod=f"chat-5d4c8b7f9-zzzz{index + 2}", **owner)

    return play


def quota(hard: float, used: float) -> Play:
    """All replicas are full, and the namespace's quota leaves so much."""

    def play(stage: Stage) -> None:
        full(stage.replicas)(stage)
        for kind, value in (("hard", hard), ("used", used)):
            named = {"resourcequota": "gpus", "resource": "requests.nvidia.com/gpu", "type": kind}
            stage.gauge("kube_resourcequota", value, **named)

    return play


def partly_frozen(stage: Stage) -> None:
    """Two of the replicas hang; the others carry on."""
    for pod in stage.pods[:2]:
        pod.frozen(20)


def long_answers(stage: Stage) -> None:
    """Few requests that run for many minutes, whose tokens come all the time."""
    for pod in stage.pods:
        pod.running[since(12)] = 30.0
        pod.finished[since(12)] = 0.0


PROOF = (
    *(
        Incident(
            name=f"proof: {engine}, {pods} of {replicas} report, at 95 %{', frozen' if frozen else ''}{kube}",
            happened=f"{replicas} were asked for, {pods} report that they are full",
            play=full(pods, frozen),
            engine=engine,
            replicas=replicas,
            has_kube_state_metrics=not kube,
            has_gateway=False,
            holds=AWAITED if engine == "saturation" and not frozen else (),
        )
        for engine in ("saturation", "queueing")
        for frozen in (0.0, 20.0)
        for kube in (", no kube-state-metrics",)
        for pods, replicas in ((2, 3),)
    ),
    *(
        Incident(
            name=f"proof: all report, at 95 %, frozen, {engine}",
            happened="nothing changes any more while requests run",
            play=full(2, 20.0),
            engine=engine,
            replicas=2,
            has_kube_state_metrics=False,
            has_gateway=False,
            holds=("metrics-stale",),
        )
        for engine in ("saturation", "queueing")
    ),
    Incident(
        name="proof: all report, at 95 %",
        happened="both replicas are full",
        play=full(2),
        engine="saturation",
        replicas=2,
        after=(3, 4),
    ),
    Incident(
        name="proof: gateway, 4 of 6 report, load of 8",
        happened="two replicas that were asked for do not report while load grows",
        play=full(4),
        replicas=6,
        after=(6,),
    ),
    Incident(
        name="proof: unschedulable",
        happened="a pod finds no node",
        play=unscheduled(2),
        engine="saturation",
        replicas=3,
        holds=AWAITED,
    ),
    Incident(
        name="proof: quota used up",
        happened="the quota of the namespace leaves nothing",
        play=quota(2, 2),
        engine="saturation",
        replicas=2,
        told=("quota",),
    ),
    Incident(
        name="proof: quota leaves room",
        happened="the quota of the namespace leaves enough",
        play=quota(12, 2),
        engine="saturation",
        replicas=2,
        after=(3, 4),
    ),
    *(
        Incident(
            name=f"proof: two of six hang, {engine}",
            happened="two replicas stand still, requests run in them",
            play=partly_frozen,
            engine=engine,
            has_gateway=False,
        )
        for engine in ("saturation", "queueing")
    ),
)
