"""Which clusters a repository describes, and by which files, with the reason for each answer."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.config.loading import DEFAULT_CLUSTER
from reconciler.pipeline.init.looking import Deployment, FoundFiles

FOLDER = "clusters"
IN_CLUSTER = "https://kubernetes.default.svc"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludedPath:
    """Files that describe a cluster, as a glob, and why."""

    glob: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredCluster:
    """A cluster, why it is one, and which files describe it: without `include` all."""

    name: str
    reason: str
    include: tuple[IncludedPath, ...] = ()


def infer_clusters(found: FoundFiles, wanted: str = "") -> tuple[InferredCluster, ...]:
    """The clusters of a repository; `wanted` is how somebody called the only one."""
    folders = sorted({path.split("/")[1] for path in found.paths if _is_below_folder(path)})
    if len(folders) > 1:
        return tuple(_by_folder(found, name) for name in folders)
    destinations = _by_destination(found)
    if len(destinations) > 1:
        return tuple(_of_destination(name, each) for name, each in sorted(destinations.items()))
    if wanted:
        return (InferredCluster(name=wanted, reason="as --cluster says"),)
    if folders:
        return (InferredCluster(name=_name(folders[0]), reason=f"the only directory in {FOLDER}/"),)
    named = [each for each in destinations if each not in ("", IN_CLUSTER)]
    if named:
        return (InferredCluster(name=_name(named[0]), reason="where Argo CD deploys to"),)
    return (InferredCluster(name=DEFAULT_CLUSTER, reason="nothing here names a cluster: call it what you call it"),)


def _is_below_folder(path: str) -> bool:
    return path.startswith(f"{FOLDER}/") and path.count("/") > 1


def _by_folder(found: FoundFiles, folder: str) -> InferredCluster:
    own = f"{FOLDER}/{folder}/"
    include = [IncludedPath(glob=f"{own}**", reason="its own directory")]
    include += _reached(found, own)
    return InferredCluster(name=_name(folder), reason=f"a directory in {FOLDER}/", include=tuple(include))


def _reached(found: FoundFiles, own: str) -> Iterator[IncludedPath]:
    """Directories outside that are deployed by what lies in a cluster's own."""
    seen: set[str] = set()
    for each in found.deployments:
        is_outside = each.directory and not f"{each.directory}/".startswith(own)
        if each.path.startswith(own) and is_outside and each.directory not in seen:
            seen.add(each.directory)
            yield IncludedPath(glob=f"{each.directory}/**", reason=f"{each.kind} {each.name} deploys it ({each.path})")


def _by_destination(found: FoundFiles) -> dict[str, list[Deployment]]:
    grouped: dict[str, list[Deployment]] = defaultdict(list)
    for each in found.applications:
        if each.directory:
            grouped[each.destination].append(each)
    return grouped


def _of_destination(destination: str, deployments: list[Deployment]) -> InferredCluster:
    host = "in-cluster" if destination == IN_CLUSTER else destination.partition("://")[2] or destination
    first = {each.directory: each for each in reversed(deployments)}
    return InferredCluster(
        name=_name(host),
        reason="Argo CD deploys to it",
        include=tuple(
            IncludedPath(glob=f"{directory}/**", reason=f"{each.kind} {each.name} deploys it ({each.path})")
            for directory, each in sorted(first.items())
        ),
    )


def _name(text: str) -> str:
    return _NO_NAME.sub("-", text).strip("-._")[:63] or DEFAULT_CLUSTER
