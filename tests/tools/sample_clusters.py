"""The sample repositories of `tests/testdata/clusters`, with one replica more of everything that may be written."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.decision.building import declare
from reconciler.decision.declarations import clusters_of, read_commit
from reconciler.decision.placing import place_numbers
from reconciler.decision.variants import build_catalogs, join_variants
from reconciler.domain.allocations import Allocation
from reconciler.domain.declarations import DocumentRef, Form, StatusShape, VariantResource
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.plan import Decision, Outcome, Verdict, VerdictKind
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, ModelSettings, Setting, Settings
from reconciler.domain.variants import Variant
from reconciler.manifests import Edit, OpenFile, edit_file, parse_documents
from reconciler.pipeline.edits import Editor, Sheet, sheet_of
from reconciler.rendering import Renderer
from reconciler.resources import merge

CASES = Path(__file__).parents[1] / "testdata" / "clusters"
SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet")
MODEL = "any"


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
    editor: Editor = field(default_factory=lambda: Editor(renderer=Renderer()))

    def open_file(self, path: str) -> OpenFile:
        return OpenFile(path, self.files[path])

    def open_sheet(self, reference: DocumentRef) -> Sheet:
        return sheet_of(self.open_file(reference.path).documents_near(reference.document), reference)

    def write(self, variant: Variant, replicas: int) -> None:
        decision = _decide(variant, replicas)
        edits: dict[str, list[Edit]] = {}
        for each in self.editor.edits_for(decision, variant, None, self.open_sheet):
            edits.setdefault(each.path, []).append(each.edit)
        for path, group in edits.items():
            self.files[path] = edit_file(self.open_file(path), group)


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
    desk, changed, held = _Desk(files=dict(files)), {}, {}
    for variant in _variants(said, files):
        target = replace(variant.key, kind=variant.key.name.partition(":")[0], name=variant.key.name.partition(":")[2])
        wanted = variant.current.replicas + 1 if counts is None else counts.get(target)
        if variant.obstacle:
            held[target] = variant.obstacle
        elif wanted is not None:
            desk.write(variant, wanted)
            changed[target] = wanted
    return Sample(before=dict(files), after=desk.files, changed=changed, held=held)


def counts_of(case: str, files: Mapping[str, bytes]) -> dict[ResourceKey, int]:
    """How many replicas each scale target gets that may be written."""
    sample = change(case, files)
    return {key: count - 1 for key, count in sample.changed.items()}


def _variants(said: Mapping[str, object], files: Mapping[str, bytes]) -> tuple[Variant, ...]:
    settings = _settings(said)
    manifests = [ManifestFile(path=path, body=body) for path, body in files.items()]
    commit = read_commit(
        manifests, files, clusters_of(settings), lambda paths: [each for each in manifests if each.path in paths]
    )
    asked = said.get("asked")
    targets = {_key(str(text)) for text in (asked if isinstance(asked, list) else ())}
    declared = merge(declare(commit.fleet, commit.readings))
    keys = {*(each.key for each in declared.workloads), *(each.key for each in declared.broken)}
    targets |= {key for key in keys if key.kind in SCALED}
    declared = replace(declared, variants=tuple(_resource(key) for key in sorted(targets)))
    placed = place_numbers(declared, commit.fleet, settings)
    return join_variants(settings, placed, build_catalogs(settings, placed))


def _settings(said: Mapping[str, object]) -> Settings:
    clusters = said.get("clusters")
    named = clusters if isinstance(clusters, dict) else {"prod": ["**"]}
    values = said.get("helmValues", {})
    paths = values if isinstance(values, dict) else {"replicas": values}
    told = {f"helmValues.{name}": Setting(value=str(path)) for name, path in paths.items()}
    if said.get("whenAutoscaled"):
        told["whenAutoscaled"] = Setting(value=str(said["whenAutoscaled"]))
    return Settings(
        clusters=tuple(ClusterSettings(name=name, include=tuple(paths)) for name, paths in named.items()),
        models=(ModelSettings(model_id=MODEL, settings=told),),
    )


def _resource(target: ResourceKey) -> VariantResource:
    return VariantResource(
        key=replace(target, kind="VariantAutoscaling", name=f"{target.kind}:{target.name}"),
        document=DocumentRef(path="variants.yaml", document=0),
        place=Place(path="variants.yaml"),
        form=Form.TARGET,
        status_shape=StatusShape.NONE,
        model_id=MODEL,
        target_kind=target.kind,
        target_name=target.name,
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
