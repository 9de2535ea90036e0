"""The address of Prometheus as a job in the cluster says it, where a person named one that only works from here."""

import ipaddress
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from reconciler.domain.records import dataclass
from reconciler.domain.settings import FILL_IN
from reconciler.git.repository import Repository
from reconciler.manifests.documents import Value, parse_readable, text_at, value_at
from reconciler.pipeline.files import is_manifest

PORT = 9090
_LOOKED_FOR = r"^ *\"?kind\"?: *\"?(Service|Prometheus|HelmRelease|Application|ServiceMonitor|PodMonitor)\"?"
_OPERATOR_GROUP = "monitoring.coreos.com/"
_OPERATED = "prometheus-operated"
"""The Service that the Prometheus operator makes for every Prometheus."""
_STACK = "kube-prometheus-stack"
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAddress:
    """What is written as the address of Prometheus, and why; `is_found` false leaves it to a person."""

    url: str
    reason: str
    is_found: bool = True


def is_loopback(url: str) -> bool:
    """Whether an address only works on the machine that says it: through a port-forward, for instance."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host in ("localhost", "host.docker.internal") or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def is_in_cluster(url: str) -> bool:
    """Whether an address only works in a cluster, so that no runner elsewhere reaches it."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    return bool(host) and (
        "." not in host or host.endswith((".svc", ".cluster.local", ".invalid")) or host.count(".") == 1
    )


def job_address(repository: Repository, url: str) -> JobAddress:
    """The address that a job uses for what a person reached by `url`."""
    if not is_loopback(url):
        return JobAddress(url=url, reason="as --prometheus said")
    found = sorted(set(_found(repository)), key=lambda each: (each[0], each[1].url))
    if found and len({each.url for rank, each in found if rank == found[0][0]}) == 1:
        return found[0][1]
    several = f": {', '.join(dict.fromkeys(each.url for _, each in found))}" if found else ""
    return JobAddress(
        url=FILL_IN,
        reason=f"what was asked is this machine: write what a job reaches it by{several}",
        is_found=False,
    )


def _found(repository: Repository) -> Iterator[tuple[int, JobAddress]]:
    """What Git says of a Prometheus, the surest first: a Service, a Prometheus, a chart, who is scraped."""
    sizes = {each.path: each for each in repository.list_files() if is_manifest(each.path)}
    small = {path: each for path, each in sizes.items() if each.size_bytes <= _MOST_BYTES}
    paths = sorted(repository.find_lines(_LOOKED_FOR, small))
    for path, (_, body) in zip(paths, repository.read_files(small[path].oid for path in paths), strict=True):
        for document in parse_readable(path, body)[0]:
            yield from ((rank, each) for rank, each in _of_object(document.value, path))


def _of_object(value: Value, path: str) -> Iterator[tuple[int, JobAddress]]:
    kind, name, namespace = (
        text_at(value, *keys) for keys in (("kind",), ("metadata", "name"), ("metadata", "namespace"))
    )
    if kind == "Service" and namespace and _serves_prometheus(value, name):
        yield 0, _address(name, namespace, _port(value), f"Service {namespace}/{name} ({path})")
    elif kind == "Prometheus" and text_at(value, "apiVersion").startswith(_OPERATOR_GROUP) and namespace:
        yield 1, _address(_OPERATED, namespace, PORT, f"Prometheus {namespace}/{name} ({path})")
    elif kind in ("HelmRelease", "Application") and _chart(value) == _STACK:
        target = text_at(value, "spec", "targetNamespace") or text_at(value, "spec", "destination", "namespace")
        if target or (kind == "HelmRelease" and namespace):
            yield 1, _address(_OPERATED, target or namespace, PORT, f"chart {_STACK} of {kind} {name} ({path})")
    elif kind in ("ServiceMonitor", "PodMonitor") and namespace in ("monitoring", "observability", "prometheus"):
        yield 2, _address(_OPERATED, namespace, PORT, f"{kind} {namespace}/{name} ({path}): look whether it is there")


def _serves_prometheus(value: Value, name: str) -> bool:
    words = (name, *_texts(value_at(value, ("spec", "selector"))))
    is_other = any(word in name for word in ("exporter", "adapter", "pushgateway", "operator", "alertmanager"))
    return not is_other and any(word == "prometheus" or word.startswith("prometheus-") for word in words)


def _texts(value: Value) -> Iterable[str]:
    return (each for each in value.values() if isinstance(each, str)) if isinstance(value, dict) else ()


def _port(value: Value) -> int:
    ports = value_at(value, ("spec", "ports"))
    numbers = [value_at(each, ("port",)) for each in ports] if isinstance(ports, list) else []
    whole = [each for each in numbers if isinstance(each, int)]
    return PORT if PORT in whole or not whole else whole[0]


def _chart(value: Value) -> str:
    return text_at(value, "spec", "chart", "spec", "chart") or text_at(value, "spec", "source", "chart")


def _address(name: str, namespace: str, port: int, reason: str) -> JobAddress:
    return JobAddress(url=f"http://{name}.{namespace}:{port}", reason=f"in the cluster, by {reason}")
