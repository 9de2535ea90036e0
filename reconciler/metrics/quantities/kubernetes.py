"""What kube-state-metrics tells of pods and scale targets: whose a pod is, and how many replicas there are to be."""

from reconciler.metrics.quantities.quantity import POD_LABEL_OF_VARIANT, Name, Quantity

WORKLOAD_LABELS = {"Deployment": "deployment", "StatefulSet": "statefulset"}
"""The kinds whose replicas it tells, with the label that names the object."""
OWNERSHIP_WINDOW_S = 600.0
"""A pod that is gone still counts in rates over their window, so whose it was is remembered for longer than that."""
LIVE_WINDOW_S = 120.0
"""So old may a sample be that says what is now: two scrapes a minute apart, of which one may fail."""


def exists(metric: str, only: str) -> str:
    """Whether a series was there within the window."""
    return f"group by ($by) (last_over_time({metric}{{{only},$where}}[$window]))"


def asked_for(metric: str, label: str) -> str:
    """What each object asks for, where all who lately told it agree; NaN agrees with nothing."""
    told = f"last_over_time({metric}{{$where}}[$window])"
    return f"max by ($namespace, {label}) ({told}) == min by ($namespace, {label}) ({told})"


POD_OWNERS = (
    Quantity(
        name=Name.POD_LABELS,
        unit="exists",
        reason="the variant that a pod's label names",
        by=("namespace", "pod", POD_LABEL_OF_VARIANT),
        candidates=(exists("kube_pod_labels", f'{POD_LABEL_OF_VARIANT}!=""'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
    Quantity(
        name=Name.POD_OWNER,
        unit="exists",
        reason="the ReplicaSet of a pod",
        by=("namespace", "pod", "owner_name"),
        candidates=(exists("kube_pod_owner", 'owner_kind="ReplicaSet"'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
    Quantity(
        name=Name.REPLICASET_OWNER,
        unit="exists",
        reason="the Deployment of a ReplicaSet",
        by=("namespace", "replicaset", "owner_name"),
        candidates=(exists("kube_replicaset_owner", 'owner_kind="Deployment"'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
)
"""Whose a pod is, beyond what its name says."""
OWNERSHIP = tuple(quantity.name for quantity in POD_OWNERS)

UNSCHEDULABLE = Quantity(
    name=Name.UNSCHEDULABLE,
    unit="exists",
    reason="pods that find no node: more of them would find none either",
    by=("namespace", "pod"),
    candidates=("max by ($by) (kube_pod_status_unschedulable{$where}) > 0",),
)

ON_DEVICES = 'resource=~"requests[.].+/.+"'
QUOTAS = Quantity(
    name=Name.QUOTAS,
    unit="devices",
    reason="what a namespace may still ask for",
    by=("namespace", "resourcequota", "resource"),
    candidates=(
        " - ".join(
            f"max by ($by) (kube_resourcequota{{{ON_DEVICES},type={of},$where}})" for of in ('"hard"', '"used"')
        ),
    ),
)

READY_REPLICAS = Quantity(
    name=Name.READY_REPLICAS,
    unit="replicas",
    reason="how many of the replicas in Git serve",
    by=("namespace",),
    candidates=(
        "max by ($namespace, deployment) (kube_deployment_status_replicas_ready{$where})",
        "max by ($namespace, statefulset) (kube_statefulset_status_replicas_ready{$where})",
    ),
)

LIVE_REPLICAS = Quantity(
    name=Name.LIVE_REPLICAS,
    unit="replicas",
    reason="whether somebody whom Git does not show sets them",
    by=("namespace",),
    candidates=(
        asked_for("kube_deployment_spec_replicas", "deployment"),
        asked_for("kube_statefulset_replicas", "statefulset"),
    ),
    window_s=LIVE_WINDOW_S,
)
