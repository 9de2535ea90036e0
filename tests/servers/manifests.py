"""What a cluster would say to manifests: Kubernetes' own schemas, version by version, and Pod Security `restricted`."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it is typed and does not say so
import pytest
import yaml

from reconciler.errors import ConfigurationError
from reconciler.rendering.kustomize import find_kustomize

VERSIONS = tuple(f"1.{minor}" for minor in range(28, 38))
NATIVE_GROUPS = ("", "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io")
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}

Manifest = Mapping[str, Any]


def build(directory: Path) -> list[Manifest]:
    """The objects that the real Kustomize makes of a directory."""
    try:
        tool = find_kustomize()
    except ConfigurationError as error:
        pytest.skip(f"kustomize: {error}")
    done = subprocess.run([*tool.command, str(directory)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def by_kind(objects: list[Manifest]) -> dict[str, Manifest]:
    """Kind -> object, of objects each of another kind."""
    return {each["kind"]: each for each in objects}


def objections(manifest: Manifest) -> list[str]:
    """What any version of Kubernetes since 1.28 refuses; custom resources it does not know."""
    if manifest["apiVersion"].rpartition("/")[0] not in NATIVE_GROUPS:
        return []
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(dict(manifest), version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{manifest['kind']} {manifest['metadata']['name']}, {version}: {error.message}")
    return found


def pod_spec_of(manifest: Manifest) -> Manifest | None:
    """The specification of the pods that an object makes."""
    spec = manifest.get("spec", {})
    if manifest["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    if "template" in spec:
        spec = spec["template"]["spec"]
    return spec if "containers" in spec else None


def violations(pod: Manifest) -> Iterator[str]:
    """What the Pod Security standard `restricted` refuses, rule by rule as upstream lists them."""
    shared = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        if not VOLUMES & volume.keys():
            yield f"volume {volume['name']}"
    for container in [*pod["containers"], *pod.get("initContainers", []), *pod.get("ephemeralContainers", [])]:
        yield from _violations_of(container, shared)


def _violations_of(container: Manifest, shared: Manifest) -> Iterator[str]:
    own = container.get("securityContext", {})
    effective = {**shared, **own}
    capabilities = own.get("capabilities", {})
    broken = {
        "privileged": own.get("privileged") or own.get("procMount", "Default") != "Default",
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
        "capabilities": capabilities.get("drop") != ["ALL"] or capabilities.get("add"),
        "runAsNonRoot": effective.get("runAsNonRoot") is not True or effective.get("runAsUser") == 0,
        "seccompProfile": effective.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"),
        "hostPort": any(port.get("hostPort") for port in container.get("ports", [])),
    }
    yield from (name for name, is_broken in broken.items() if is_broken)
