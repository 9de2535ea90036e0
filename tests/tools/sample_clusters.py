"""The sample repositories of `tests/testdata/clusters`, with one replica more of everything that may be written."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.inventory import ACCELERATOR_LABEL, Allocation
from reconciler.domain.plan import Decision, Outcome, Verdict, VerdictKind
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Form, StatusShape, Variant
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import OpenFile, parse_documents
from reconciler.pipeline.edits import Editor, FileEdit, Sheet, sheet_of, write_edits
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.kthena import KthenaResources
from reconciler.resources.llmaz import Llmaz
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.declarations import clusters_of, read_commit
from reconciler.snapshot.places import place_numbers
from reconciler.snapshot.variants import declared_variants

CASES = Path(__file__).parents[1] / "testdata" / "clusters"
SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet")
OWNER, ACCELERATOR = "acme", "H100"
PROFILE = {"accelerator": ACCELERATOR, "alpha": "6.958ms", "beta": "0.042ms", "maxBatchSize": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A repository before and after; `changed` are the counts that were written, `held` why others were not."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    changed: Mapping[ResourceKey, int]
    held: Mapping[ResourceKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    files: dict[str, bytes]
    edits: dict[str, list[FileEdit]] = field(default_factory=dict)
    editor: Editor = field(default_factory=lambda: Editor(renderer=Renderer()))

    def open_file(self, path: str) -> OpenFile:
        return OpenFile(path, self.files[path])

    def open_sheet(self, reference: DocumentRef) -> Sheet:
        return sheet_of(self.open_file(reference.path).documents_near(reference.document), reference)

    def write(self, variant: Variant, replicas: int) -> None:
        for each in self.editor.count_edits(_decide(variant, replicas), variant, self.open_sheet):
            self.edits.setdefault(each.path, []).append(each)

    def written(self) -> dict[str, bytes]:
        """The files with all edits, which are made together as a change set's are."""
        changed = {path: write_edits(path, self.files.get(path, b""), edits) for path, edits in self.edits.items()}
        return {**self.files, **changed}


def case_names() -> list[str]:
    """The folders of the samples."""
    return sorted(path.name for path in CASES.iterdir())


def read_files(case: str, folder: str = "before") -> dict[str, bytes]:
    """The files of a sample by path."""
    root = CASES / case / folder
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def change(case: str, files: Mapping[str, bytes], counts: Mapping[ResourceKey, int] | None = None) -> Sample:
    """Write a count for each scale target: one more than there is, or what `counts` says."""
    return rewrite(what_is_said(case), files, counts)


def what_is_said(case: str) -> Mapping[str, object]:
    """What `expected.yaml` says of a sample: its clusters, its settings, and which targets are asked for."""
    expected = parse_documents("expected.yaml", (CASES / case / "expected.yaml").read_bytes())[0].value
    return expected if isinstance(expected, dict) else {}


def rewrite(
    said: Mapping[str, object], files: Mapping[str, bytes], counts: Mapping[ResourceKey, int] | None = None
) -> Sample:
    """The same for any files."""
    settings, declared = declare_targets(said, files)
    targets = {each.key: each.scale_target for each in declared.variants}
    wanted, held = {}, {}
    for variant in declared_variants(settings, declared):
        target = targets[variant.key]
        count = variant.current.replicas + 1 if counts is None else counts.get(target)
        if variant.hold is not None:
            held[target] = variant.hold.words
        elif count is not None:
            wanted[target] = (variant, count)
    return write_counts(files, wanted, held)


def write_counts(
    files: Mapping[str, bytes],
    wanted: Mapping[ResourceKey, tuple[Variant, int]],
    held: Mapping[ResourceKey, str] = MappingProxyType({}),
) -> Sample:
    """Write a count for each scale target."""
    desk = _Desk(files=dict(files))
    for variant, count in wanted.values():
        desk.write(variant, count)
    changed = {target: count for target, (_, count) in wanted.items()}
    return Sample(before=dict(files), after=desk.written(), changed=changed, held=held)


def counts_of(case: str, files: Mapping[str, bytes]) -> dict[ResourceKey, int]:
    """How many replicas each scale target gets that may be written."""
    sample = change(case, files)
    return {key: count - 1 for key, count in sample.changed.items()}


def declare_targets(said: Mapping[str, object], files: Mapping[str, bytes]) -> tuple[Settings, Declaration]:
    """The settings of a sample, and what it declares with a resource for each of its scale targets."""
    clusters = _settings(said, ())
    manifests = [ManifestFile(path=path, body=body) for path, body in files.items()]
    commit = read_commit(
        manifests, files, clusters_of(clusters), lambda paths: [each for each in manifests if each.path in paths]
    )
    asked = said.get("asked")
    targets = {_key(str(text)) for text in (asked if isinstance(asked, list) else ())}
    declared = merge(commit.declared)
    keys = {*(each.key for each in declared.workloads), *(each.key for each in declared.broken)}
    targets |= {key for key in keys if key.kind in SCALED}
    settings = _settings(said, sorted({target.name for target in targets}))
    # What Kthena and llmaz declare themselves would claim targets, too.
    variants = tuple(_resource(key) for key in sorted(targets))
    declared = replace(declared, variants=variants, kthena=KthenaResources(), llmaz=Llmaz())
    return settings, place_numbers(declared, commit.fleet, settings)


def _settings(said: Mapping[str, object], names: Iterable[str]) -> Settings:
    """What a `reconciler.yaml` of these words makes: each target serves a model of its own name."""
    clusters = said.get("clusters")
    named = clusters if isinstance(clusters, dict) else {"prod": ["**"]}
    values = said.get("helmValues", {})
    written = {
        "apiVersion": "reconciler.io/v1alpha1",
        "kind": "Configuration",
        "clusters": [
            {"name": name, "paths": {"include": paths}, "prometheus": {"url": "http://127.0.0.1:9"}}
            for name, paths in named.items()
        ],
        "accelerators": [{"name": ACCELERATOR, "costPerHour": 6.88}],
        "serviceClasses": [{"name": "standard", "ttft": "2s", "itl": "60ms"}],
        "models": [{"id": f"{OWNER}/{name}", "servedNames": [name], "profiles": [PROFILE]} for name in names],
        "defaults": {
            "serviceClass": "standard",
            "helmValues": values if isinstance(values, dict) else {"replicas": values},
            "whenAutoscaled": said.get("whenAutoscaled", "hold"),
        },
        "status": "off",
        "policies": [],  # what is written is tested, not what may be
    }
    return load_settings(
        repository_file=json.dumps(written, indent=1).encode(),
        read_repository_file=lambda _path: None,
        flags=Flags(),
        environment=Environment(),
    ).settings


def _resource(target: ResourceKey) -> VariantResource:
    return VariantResource(
        key=replace(target, kind="VariantAutoscaling"),
        document=DocumentRef(path="variants.yaml", document=0),
        place=Place(path="variants.yaml"),
        form=Form.TARGET,
        status_shape=StatusShape.NONE,
        model_id=f"{OWNER}/{target.name}",
        target_kind=target.kind,
        target_name=target.name,
        labels={ACCELERATOR_LABEL: ACCELERATOR},
    )


def _decide(variant: Variant, replicas: int) -> Decision:
    return Decision(
        variant=variant.key,
        model=variant.model,
        group="all",
        outcome=Outcome.CHANGE,
        current=variant.current,
        desired=Allocation(accelerator=variant.current.accelerator, replicas=replicas),
        verdict=Verdict(kind=VerdictKind.HOLD, reason="a test"),
        steps=(),
    )


def _key(text: str) -> ResourceKey:
    cluster, namespace, kind, name = text.split("/")
    return ResourceKey(cluster=cluster, namespace=namespace, kind=kind, name=name)
