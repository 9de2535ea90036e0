"""Which paths of a repository describe which cluster, as far as those who deploy them tell: advice, never a fact."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from reconciler.domain.identity import Place
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import Fleet

MOST_NAMED = 3
_PARTS_OF_SERVER = re.compile(r"[/.:]+")


def clusters_example(names: Sequence[str], fleet: Fleet) -> str:
    """`clusters` of a reconciler.yaml for these clusters, the first of them, with the paths that they seem to have."""
    entries = (
        f"{{name: {name}, paths: {{include: [{_globs(propose_paths(name, fleet))}]}}, "
        f"prometheus: {{url: ..., matchLabels: {{cluster: {name}}}}}}}"
        for name in names[:MOST_NAMED]
    )
    return f"clusters: [{', '.join(entries)}]"


def propose_paths(name: str, fleet: Fleet) -> tuple[str, ...]:
    """Directories that Argo CD or Flux deploys to a cluster, and those that bear its name; sorted, none in another."""
    deployed = {
        deployer.directory
        for build in fleet.clusters.values()
        for deployer in build.deployers.values()
        if deployer.directory and _is_for(name, deployer)
    }
    found = deployed | set(_named_like(name, fleet.repository.paths))
    return tuple(sorted(each for each in found if not any(each.startswith(f"{other}/") for other in found)))


def _is_for(name: str, deployer: Deployer) -> bool:
    destination = deployer.spec.get("destination")
    if destination is not None:
        return name in (destination.text("name"), *_PARTS_OF_SERVER.split(destination.text("server")))
    place: Place = deployer.source.place
    return name in (*place.path.split("/"), *deployer.directory.split("/"))


def _named_like(name: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")[:-1]
        if name in parts:
            yield "/".join(parts[: parts.index(name) + 1])


def _globs(directories: Sequence[str]) -> str:
    return ", ".join(json.dumps(f"{each}/**", ensure_ascii=False) for each in directories[:MOST_NAMED]) or "..."
