"""Errors that may be none: of files that nobody is known to apply as they stand, or to apply to one cluster."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from reconciler.domain.declared.declarations import Declaration
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import DEFAULT_NAMESPACE
from reconciler.placement.paths import directory_of
from reconciler.resources.registry import KINDS

_NAME: Final = "metadata.name"
"""The field at which an object that is there more than once is told."""
_EVERYTHING: Final = ClusterSettings(name="").include


def _line_of(kinds: Iterable[str]) -> re.Pattern[bytes]:
    """A line that begins an object of one of some kinds."""
    return re.compile(rf"""^[ \t"-]*kind"? *: *["']?({"|".join(sorted(kinds))})\b""".encode(), re.MULTILINE)


_READ: Final = _line_of(KINDS)
_OURS: Final = _line_of(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word)


def doubt(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings with warnings in place of errors."""
    return (replace(each, severity=Severity.WARNING) if each.severity is Severity.ERROR else each for each in findings)


def is_doubtful(path: str, body: bytes, fleet: Fleet) -> bool:
    """Whether a file that cannot be read is perhaps no manifest: a template of ours alone is a mistake for sure.

    What a kustomization or a deployer builds is one.
    """
    if any(path in build.paths and path not in build.plain for build in fleet.clusters.values()):
        return False
    return (_OURS if b"{{" in body else _READ).search(body) is None


def doubt_duplicates(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """What lies twice in directories of their own may be for two clusters, where no cluster has paths of its own."""
    if any(each.include != _EVERYTHING for each in (*settings.clusters, *settings.other_clusters)):
        return declaration
    doubtful = {replace(each.place, field=_NAME) for each in declaration.broken if _lies_apart(each.key, fleet)}
    found = (next(doubt((each,))) if each.place in doubtful else each for each in declaration.findings)
    return replace(declaration, findings=tuple(sorted(found)))


def _lies_apart(key: ResourceKey, fleet: Fleet) -> bool:
    """Whether an object is there more than once, in files of several directories that nobody is known to apply."""
    # What belongs to a whole cluster is built as if it were in a namespace, for a kind that Kustomize does not know.
    own = replace(key, part="")
    found = fleet.objects.get(own) or fleet.objects.get(replace(own, namespace=DEFAULT_NAMESPACE), ())
    places = {directory_of(built.root.path) for built in found if not built.root.deployer}
    are_plain = all(built.root.path in fleet.clusters[key.cluster].plain for built in found)
    return are_plain and len(places) > 1
