"""The manifests that bring statuses into a cluster: what their templates print."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

KUBECTL = "registry.k8s.io/kubectl:v1.34.1"
"""The first that can apply a subresource without a flag of its own is 1.32."""


CARRIER = "reconciler-status-"
"""How the names of all objects that deliver a status begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredStatus:
    """A status of one resource, as the manifest that kubectl applies: JSON, which is YAML too."""

    resource: str
    file: str
    manifest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDeliveryView:
    """The carrier, its Job and the rights of that Job; a hook of Argo CD where `is_hook`."""

    name: str
    target_namespace: str
    job: str
    statuses: tuple[DeliveredStatus, ...]
    is_hook: bool
    image: str = KUBECTL


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxDeliveryView:
    """The Flux Kustomization that applies the carrier once the one it waits for is healthy."""

    name: str
    home_namespace: str
    path: str
    awaited: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEntryView:
    """The entry by which a kustomization lists a file of ours."""

    path: str


def delivered_status(
    *, api_version: str, kind: str, name: str, namespace: str, status: Mapping[str, object]
) -> DeliveredStatus:
    """One status with what identifies its resource."""
    manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    return DeliveredStatus(resource=name, file=f"{name}.json", manifest=json.dumps(manifest, sort_keys=True))


def delivery_view(
    group: str, directory: str, namespace: str, statuses: tuple[DeliveredStatus, ...], *, is_flux: bool
) -> StatusDeliveryView:
    """The carrier of a group in one directory and namespace.

    A hook is replaced by name. A Job that Flux applies cannot change, so its name says what it applies.
    """
    name = carrier_name(group, directory, namespace)
    view = StatusDeliveryView(name=name, target_namespace=namespace, job=name, statuses=statuses, is_hook=not is_flux)
    contents = (each.manifest for each in statuses)
    return replace(view, job=f"{name}-{_digest(*contents, KUBECTL)}") if is_flux else view


def carrier_name(group: str, directory: str, namespace: str) -> str:
    """What all objects are called that deliver the statuses of a group in one directory and namespace."""
    return f"{CARRIER}{_digest(group, directory, namespace)}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
