"""What only kustomizations in the paths of no cluster build of a cluster's files."""

from collections.abc import Callable, Iterator

from reconciler.errors import InputError
from reconciler.placement.kustomize.build import Builder, Gathering
from reconciler.placement.roots import Used, is_component

Holds = Callable[[str], bool]


def outside_roots(builder: Builder, used: Used, holds: Holds, is_held: Holds) -> dict[str, Gathering]:
    """What to build for a cluster, by directory or file, so that nothing in its paths is lost.

    `is_held` says whether a path belongs to any cluster. A kustomization outside that builds the very objects is their
    environment. So is every one that builds upon what has no namespace yet; else what lies in the paths is whole, and
    whoever builds upon it is another environment.
    """
    chosen: dict[str, Gathering] = {}
    for target in sorted(used.users):
        if any(map(holds, _files_of(builder, target))):
            chosen.update(_choose(builder, target, _tops_of(builder, used, target, is_held)))
    for gathering in chosen.values():
        _leave_out(gathering, lambda path: is_held(path) and not holds(path))
    return chosen


def _files_of(builder: Builder, target: str) -> tuple[str, ...]:
    """The kustomization of a directory, or the file itself."""
    return (target,) if builder.repository.has_file(target) else builder.repository.kustomizations_in(target)


def _tops_of(builder: Builder, used: Used, target: str, is_held: Holds) -> list[str]:
    """The outermost kustomizations around a target, none where one in a cluster's paths builds it."""
    tops = used.tops(target)
    around = (path for each in tops | used.users[target] for path in _files_of(builder, each))
    if any(map(is_held, around)):
        return []
    return sorted(top for top in tops if not is_component(builder, top))


def _choose(builder: Builder, target: str, tops: list[str]) -> Iterator[tuple[str, Gathering]]:
    built = {top: gathering for top in tops if (gathering := _build(builder, top)) is not None}
    own = _build(builder, target) if built else None
    if own is None:
        yield from built.items()
        return
    names = {draft.identity.effective for draft in own.drafts}
    same = {
        top: gathering
        for top, gathering in built.items()
        if names <= {draft.identity.effective for draft in gathering.drafts}
    }
    if same:
        yield from same.items() if names else ()
    elif all(draft.identity.namespace or not draft.identity.is_namespaced for draft in own.drafts):
        yield target, own
    else:
        yield from built.items()


def _build(builder: Builder, target: str) -> Gathering | None:
    """What stands there, built by itself; None for a component, and for what cannot be read."""
    if builder.repository.has_file(target):
        return builder.build_files((target,))
    try:
        kustomization = builder.read(target)
    except InputError:
        return None
    return None if kustomization.is_component else builder.build(kustomization)


def _leave_out(gathering: Gathering, is_anothers: Holds) -> None:
    """What belongs to another cluster is that one's."""
    gathering.drafts = [draft for draft in gathering.drafts if not is_anothers(draft.source.document.path)]
    gathering.paths = {path for path in gathering.paths if not is_anothers(path)}
