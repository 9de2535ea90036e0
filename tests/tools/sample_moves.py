"""The sample repositories that run on two accelerators, as `move` or `planned` in `expected.yaml` says.

All that may move goes to the second accelerator of `move`; what is `planned` keeps its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import ACCELERATOR_LABEL, Accelerator, Allocation, Catalog
from reconciler.domain.plan import Decision, Outcome, Verdict, VerdictKind
from reconciler.domain.profiles import PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, ModelSettings, PrometheusSettings, Setting, Settings
from reconciler.domain.snapshot import Option, Variant
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef, FieldPath
from reconciler.errors import InputError
from reconciler.manifests.documents import OpenFile, Value, parse_documents
from reconciler.pipeline.edits import Editor, FileEdit, Sheet, sheet_of, write_edits
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import Declaration, merge
from reconciler.snapshot.declarations import clusters_of, read_commit
from reconciler.snapshot.places import place_numbers
from reconciler.snapshot.variants import build_catalogs, declared_variants, join_variants
from tests.tools.sample_clusters import CASES, case_names

ALPHAS_S, BETA_S, BATCH = (0.006958, 0.0062), 0.000042, 64
"""The profiles of what is left and of what is moved to, which is a little faster: as many replicas do."""
COSTS_PER_HOUR = (6.88, 2.49)
"""Of one device: two of the second cost less than one of the first, by more than the starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMove:
    """A repository before and after: the fields that are wanted of what was moved, by object, and why others stay."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    moved: Mapping[ResourceKey, Mapping[FieldPath, str]]
    held: Mapping[ResourceKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """Where every variant's edits of one commit are made, as one change."""

    files: Mapping[str, bytes]
    editor: Editor = field(default_factory=lambda: Editor(renderer=Renderer()))
    edits: dict[str, list[FileEdit]] = field(default_factory=dict)

    def open_file(self, path: str) -> OpenFile:
        return OpenFile(path, self.files[path])

    def open_sheet(self, reference: DocumentRef) -> Sheet:
        return sheet_of(self.open_file(reference.path).documents_near(reference.document), reference)

    def draw(self, variant: Variant, accelerator: Accelerator, option: Option) -> None:
        """Note the edits of one variant; InputError where they cannot be made."""
        decision = _decide(variant, option)
        edits: dict[str, list[FileEdit]] = {}
        for each in self.editor.move_edits(decision, variant, accelerator, self.open_sheet):
            edits.setdefault(each.path, []).append(each)
        self.write(edits)
        for path, group in edits.items():
            self.edits.setdefault(path, []).extend(group)

    def write(self, edits: Mapping[str, list[FileEdit]]) -> dict[str, bytes]:
        written = {path: write_edits(path, self.files.get(path, b""), group) for path, group in edits.items()}
        return {**self.files, **written}


def move_names() -> list[str]:
    """The folders of the samples in which something moves."""
    return [name for name in case_names() if "move" in said_of(name)]


def planned_names() -> list[str]:
    """The folders of the samples whose variants keep their accelerators."""
    return [name for name in case_names() if "planned" in said_of(name)]


def said_of(case: str) -> Mapping[str, Value]:
    """What a sample says of itself."""
    value = parse_documents("expected.yaml", (CASES / case / "expected.yaml").read_bytes())[0].value
    return value if isinstance(value, dict) else {}


def move(case: str, files: Mapping[str, bytes], *, back: bool = False) -> SampleMove:
    """Move everything to the second of the sample's accelerators, or back to the first."""
    desk, variants, catalog, names = _open(case, files, back=back)
    moved: dict[ResourceKey, dict[FieldPath, str]] = {}
    held: dict[ResourceKey, str] = {}
    for variant in variants:
        if variant.current.accelerator == names[-1]:
            continue
        option = next((each for each in variant.options if each.accelerator == names[-1]), None)
        hold = variant.hold or (None if option is None else option.unwritable)
        reason = str(hold or ("it is no option" if option is None else ""))
        if not reason and option is not None:
            try:
                desk.draw(variant, catalog.accelerators[names[-1]], option)
            except InputError as error:
                reason = str(error)
        if reason or option is None or variant.workload is None:
            held[variant.key] = reason
            continue
        for key, fields in _wanted(variant, variant.workload, catalog.accelerators[names[-1]], option):
            moved.setdefault(replace(key, part=""), {}).update(fields)
    return SampleMove(before=dict(files), after=desk.write(desk.edits), moved=moved, held=held)


def _wanted(
    variant: Variant, workload: Workload, accelerator: Accelerator, option: Option
) -> Iterator[tuple[ResourceKey, dict[FieldPath, str]]]:
    """The fields of each object that a move is about, and their values."""
    if option.flavors:
        yield workload.key, {(*variant.flavors_field, index): name for index, name in enumerate(option.flavors)}
        return
    for pod in workload.pods:
        yield (
            workload.key,
            {(*pod.path, "nodeSelector", key): value for key, value in accelerator.node_selector.items()},
        )
    resources, count = workload.device_resources, option.devices_per_replica
    if resources is not None and workload.devices.get(option.resource) != count:
        yield workload.key, {(*resources, kind, option.resource): str(count) for kind in ("limits", "requests")}
    if not variant.key.part:
        yield variant.key, {("metadata", "labels", ACCELERATOR_LABEL): accelerator.name}


def _open(
    case: str, files: Mapping[str, bytes], *, back: bool
) -> tuple[_Desk, tuple[Variant, ...], Catalog, list[str]]:
    settings, placed = declare_moves(case, files, back=back)
    names = [each.name for each in settings.accelerators]
    catalogs = build_catalogs(settings, placed)
    variants = join_variants(settings, placed, catalogs)
    return _Desk(files=dict(files)), variants, next(iter(catalogs.values())), names[::-1] if back else names


def declare_moves(case: str, files: Mapping[str, bytes], *, back: bool = False) -> tuple[Settings, Declaration]:
    """The settings by which everything of a sample moves to its second accelerator (or back), and what it declares."""
    settings, placed = declare_planned(case, files)
    wanted = {"accelerator": Setting(value=settings.accelerators[0 if back else -1].name)}
    return replace(settings, models=tuple(replace(each, settings=wanted) for each in settings.models)), placed


def declare_planned(case: str, files: Mapping[str, bytes]) -> tuple[Settings, Declaration]:
    """The settings of a sample with profiles of both accelerators for each of its models, and what it declares."""
    said = said_of(case).get("move") or said_of(case)["planned"]
    assert isinstance(said, dict)
    accelerators, devices = _accelerators(said)
    settings = _settings(case, accelerators)
    manifests = [ManifestFile(path=path, body=body) for path, body in files.items()]
    commit = read_commit(
        manifests, files, clusters_of(settings), lambda paths: [each for each in manifests if each.path in paths]
    )
    placed = place_numbers(merge(commit.declared), commit.fleet, settings)
    found = declared_variants(settings, placed)
    ids = sorted({each.model.model_id for each in found})
    models = tuple(_model(each, accelerators, devices) for each in ids)
    return replace(settings, models=models), placed


def _settings(case: str, accelerators: tuple[Accelerator, ...]) -> Settings:
    """What a run would be told: a queue sizes all of them, for metric targets say nothing of accelerators."""
    standard = ServiceClass(name="standard", ttft=SloTarget(limit_s=2.0, percentile=95.0), itl=SloTarget(limit_s=0.06))
    return Settings(
        clusters=tuple(_clusters(case)),
        accelerators=accelerators,
        service_classes=(standard,),
        defaults={"serviceClass": Setting(value=standard.name), "sizing.engine": Setting(value="queueing")},
        status="off",
    )


def _accelerators(said: Mapping[str, Value]) -> tuple[tuple[Accelerator, ...], dict[str, int]]:
    listed, devices = said["accelerators"], said.get("devices")
    assert isinstance(listed, dict)
    found = []
    for (name, selector), cost_per_hour in zip(listed.items(), COSTS_PER_HOUR, strict=True):
        assert isinstance(selector, dict)
        labels = {key: str(value) for key, value in selector.items()}
        found.append(Accelerator(name=name, device=name, node_selector=labels, cost_per_hour=cost_per_hour))
    counts = devices if isinstance(devices, dict) else {}
    return tuple(found), {name: count for name, count in counts.items() if isinstance(count, int)}


def _clusters(case: str) -> list[ClusterSettings]:
    named = said_of(case).get("clusters")
    found = named if isinstance(named, dict) else {"prod": ["**"]}
    prometheus = PrometheusSettings(url="http://127.0.0.1:9")
    return [
        ClusterSettings(name=name, include=tuple(map(str, paths)), prometheus=prometheus)  # type: ignore[arg-type]  # lists of globs
        for name, paths in found.items()
    ]


def _model(model: str, accelerators: tuple[Accelerator, ...], devices: Mapping[str, int]) -> ModelSettings:
    profiles = tuple(
        PerformanceProfile(
            accelerator=each.name,
            alpha_s=alpha_s,
            beta_s=BETA_S,
            max_batch_size=BATCH,
            accelerators_per_replica=devices.get(each.name),
        )
        for each, alpha_s in zip(accelerators, ALPHAS_S, strict=True)
    )
    return ModelSettings(model_id=model, profiles=profiles)


def _decide(variant: Variant, option: Option) -> Decision:
    return Decision(
        variant=variant.key,
        model=variant.model,
        group="all",
        outcome=Outcome.CHANGE,
        current=variant.current,
        desired=Allocation(accelerator=option.accelerator, replicas=variant.current.replicas),
        verdict=Verdict(kind=VerdictKind.HOLD, reason="a test"),
        steps=(),
    )
