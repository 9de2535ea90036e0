"""Render proof: Kustomize itself says what a plan changes of the objects that a cluster gets."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.records import dataclass
from reconciler.domain.variant_settings import MEASURED
from reconciler.errors import InputError
from reconciler.git.repository import EntryKind, Repository
from reconciler.manifests.documents import Value, parse_documents
from reconciler.manifests.wording import Field, format_field
from reconciler.pipeline.prepare import Prepared
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import DEPLOYING_KINDS
from reconciler.rendering.kustomize import Kustomize, find_kustomize
from reconciler.report.status import CARRIER
from reconciler.resources.annotations import PREFIX
from reconciler.resources.registry import AUTOSCALERS, KINDS
from reconciler.snapshot.declarations import read_recorded

_COUNTS = frozenset({"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount"})
_PLACING = frozenset({"nodeSelector", "resources", "inferenceFlavors"})
"""Where a change of accelerator shows in a scale target."""
_HOLDERS = DEPLOYING_KINDS | {name for name, kind in KINDS.items() if kind.holds_numbers}
"""Kinds that hold numbers of other objects, in fields of any name or inside of texts."""

Name = tuple[str, str]
Objects = Mapping[tuple[str, str, str], dict[str, Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was rendered before and after: `changed` of `objects` in `roots`; a deployer's are `unrendered`."""

    tool: str
    roots: int
    objects: int
    changed: int
    unrendered: tuple[str, ...] = ()

    def __str__(self) -> str:
        changed = f"{self.changed} of {self.objects} objects change"
        words = (
            f"Rendered by {self.tool}: {changed} in {self.roots} {'root' if self.roots == 1 else 'roots'}, as wanted."
        )
        if self.unrendered:
            words += f" Not rendered, because a deployer changes them further: {', '.join(self.unrendered)}."
        return words


def prove(repository: Repository, prepared: Prepared) -> Proof:
    """Render every kustomization that the plan touches, before and after.

    Raises ConfigurationError without a tool, InputError when anything but the wanted fields differs. The tool fetches
    what a remote base names; nothing else here leaves the machine.
    """
    kustomize = find_kustomize()
    files = {path: body for change_set in prepared.edited.change_sets for path, body in change_set.files.items()}
    fleet = _build(prepared)
    roots, unrendered = _roots_of(fleet, files)
    others = {root for path in files for root in fleet.roots_elsewhere(path)}
    wanted = _WantedChanges.of(prepared)
    objects = changed = 0
    with tempfile.TemporaryDirectory(prefix="reconciler-prove-") as name_of_folder:
        folder = Path(name_of_folder)
        if roots:
            _check_out(repository, folder)
        before = {root: _render(kustomize, folder, root) for root in roots}
        for path, body in files.items() if roots else ():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        for root in roots:
            after = _render(kustomize, folder, root)
            changed += _compare(root, before[root], after, None if root in others else wanted)
            objects += len(after)
    return Proof(tool=kustomize.name, roots=len(roots), objects=objects, changed=changed, unrendered=unrendered)


def _build(prepared: Prepared) -> Fleet:
    recording = prepared.recording
    return read_recorded(
        recording.manifests, recording.withheld, recording.settings, recording.paths, recording.repository
    ).fleet


def _roots_of(fleet: Fleet, files: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The directories to render, and those that a deployer changes further."""
    touched = set(files)
    found = {built.root for path in touched for built in fleet.reaches(path)}
    # A kustomization that is given its first patch had nothing in what it builds.
    roots = {each.root for build in fleet.clusters.values() for each in build.objects}
    found |= {root for root in roots if not touched.isdisjoint(fleet.repository.kustomizations_in(root.path))}
    directories = {root for root in found if fleet.repository.kustomizations_in(root.path)}
    plain = {root.path for root in directories if not root.deployer}
    return tuple(sorted(plain)), tuple(sorted({str(root) for root in directories if root.deployer}))


def _check_out(repository: Repository, folder: Path) -> None:
    """Every plain file of the commit: kustomizations may read files of any kind."""
    entries = [entry for entry in repository.list_files() if entry.kind is EntryKind.FILE]
    contents = repository.read_files(entry.oid for entry in entries)
    for entry, (_, body) in zip(entries, contents, strict=True):
        (folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / entry.path).write_bytes(body)


def _render(kustomize: Kustomize, folder: Path, root: str) -> Objects:
    values = (document.value for document in parse_documents(root, kustomize.build(folder, root)))
    return {_name_of(value): value for value in values if isinstance(value, dict)}


def _name_of(fields: dict[str, Value]) -> tuple[str, str, str]:
    metadata = fields.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    return str(fields.get("kind", "")), str(names.get("namespace") or ""), str(names.get("name", ""))


_MEASURED = ("metadata", "annotations", PREFIX + MEASURED.annotation)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WantedChanges:
    """What the plan means to change, by kind and name of scale targets, and by name of their resources.

    `told` are the resources that may get a status, changed or held.
    """

    targets: Mapping[Name, Decision]
    resources: frozenset[Name]
    told: frozenset[Name]
    counts: frozenset[int]

    @classmethod
    def of(cls, prepared: Prepared) -> "_WantedChanges":
        changes = {each.variant: each for each in prepared.plan.with_outcome(Outcome.CHANGE)}
        variants = [variant for variant in prepared.snapshot.variants if variant.key in changes]
        targets = {
            (variant.workload.key.kind, variant.workload.key.name): changes[variant.key]
            for variant in variants
            if variant.workload is not None
        }
        return cls(
            targets=targets,
            resources=frozenset((variant.key.kind, variant.key.name) for variant in variants),
            told=frozenset((variant.key.kind, variant.key.name) for variant in prepared.snapshot.variants),
            counts=frozenset(decision.desired.replicas for decision in changes.values()),
        )

    def hold(self, name: Name, path: Field, value: Value) -> bool:
        """Whether a field of an object may have become this value."""
        target = self.targets.get(name)
        is_count = path[-1:] != () and path[-1] in _COUNTS
        if target is not None and target.canary is not None and not path:
            return value is not None  # a whole object that was not there
        if target is not None and is_count and value == target.desired.replicas:
            return True
        if target is not None and target.is_accelerator_change and not _PLACING.isdisjoint(path):
            return True
        if name in self.told and (path[:1] == ("status",) or path == _MEASURED):
            return True
        if name[1].startswith(CARRIER):
            return True
        if name in self.resources and path[:2] == ("metadata", "labels"):
            return True
        if name[0] in _HOLDERS:
            return isinstance(value, str) or value in self.counts
        return is_count and value in self.counts and name[0] in AUTOSCALERS


def _compare(root: str, before: Objects, after: Objects, wanted: _WantedChanges | None) -> int:
    """How many objects differ; raises InputError when one differs otherwise than it was meant to, if at all."""
    changed = 0
    for name in sorted(before.keys() | after.keys()):
        kind, _, called = name
        differences = list(_differences(before.get(name), after.get(name), ()))
        changed += bool(differences)
        for path, old, new in differences:
            if wanted is None or not wanted.hold((kind, called), path, new):
                words = f"{kind} {called} {format_field(path)} would change from {old!r} to {new!r}"
                words = f"the render proof failed: {words}, which the change does not say: please report it"
                raise InputError(root or ".", 0, "", words)
    return changed


def _differences(before: Value, after: Value, path: Field) -> Iterator[tuple[Field, Value, Value]]:
    """Every leaf that differs, with what it was and what it is."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index))
    elif before != after:
        yield path, before, after
