"""What custom resources that serve models have in common: parts with pods, an engine, a model and a number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.domain.written import FieldPath, WrittenField
from reconciler.manifests.wording import describe, name_field
from reconciler.resources.annotations import PREFIX, WORKLOAD_NAMES, check_annotations
from reconciler.resources.kubernetes.engines import ROLE_LABEL, find_served_names, read_launch, why_unsized
from reconciler.resources.kubernetes.pods import MAX_REPLICAS, Container, PodTemplate, compose, read_variables, words_of
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.validation import is_templated


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of replicas as written, and where; `default` is what counts where nothing is written, if that is known.

    A ceiling is only ever raised.
    """

    path: FieldPath
    written: object
    default: int | None = None
    is_ceiling: bool = False

    @property
    def number(self) -> int | None:
        """None where nothing is written, text that is filled in later, or what is no number of replicas."""
        if isinstance(self.written, bool) or not isinstance(self.written, int):
            return None
        return self.written if 0 <= self.written <= MAX_REPLICAS else None

    @property
    def is_readable(self) -> bool:
        """Whether nothing is written, or a number."""
        return self.written is None or self.number is not None

    @property
    def value(self) -> int | None:
        """The number that counts, None where that is not known."""
        if self.number is not None or self.written is not None:
            return self.number
        return self.default

    def check(self, source: KubernetesObject, severity: Severity = Severity.ERROR) -> Iterator[Finding]:
        """A count, nothing, or text that is filled in later: anything else is a mistake."""
        if not (self.is_readable or is_templated(self.written)):
            yield source.complain(self.path, self._mistake, severity)

    @property
    def _mistake(self) -> str:
        return f"expected an integer of at least 0, got {describe(self.written)}"

    def hold(self, source: KubernetesObject) -> Hold | None:
        """Why the number is not known, where it is not just filled in later."""
        if self.is_readable or is_templated(self.written):
            return None
        place = source.locate(self.path)
        return Hold(
            kind=HoldKind.NOT_WRITABLE, words=f"{name_field(self.path)}: {self._mistake} ({place})", place=place
        )

    def as_field(self, source: KubernetesObject) -> WrittenField:
        """Where an edit finds it."""
        return WrittenField(
            document=source.ref,
            field=self.path,
            place=source.locate(self.path),
            is_ceiling=self.is_ceiling,
            written=self.number,
            value=self.value,
        )


MADE_BY_CONTROLLER = "its controller makes its pods: change its accelerator there"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPart:
    """A part of a custom resource that serves a model; the whole resource where it has no `name`.

    `counts` all get the number of replicas, the first says how many run. `engine` is the one that runs, where the
    pods alone do not say it; `words` are the engine's command line where that is not just a container's.
    `made` is the kind and the name of the object that the controller makes of it, `labels` are those that it gives the
    pods, `port` is that of the server where the controller chooses it.
    """

    counts: tuple[Count, ...] = ()
    name: str = ""
    templates: tuple[PodTemplate, ...] = ()
    engine: str = ""
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    model_id: str = ""
    served_names: tuple[str, ...] = ()
    devices: Mapping[str, int] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, str] | None = None
    unsized: str = ""
    unwritable: Hold | None = None
    port: str = ""


def severity_of(source: KubernetesObject) -> Severity:
    """How severe a mistake in an object is: nothing is decided by one that bears no annotation of ours."""
    is_annotated = any(name.startswith(PREFIX) for name in source.annotations)
    return Severity.ERROR if is_annotated else Severity.WARNING


def read_parts(source: KubernetesObject, parts: Sequence[ServedPart], findings: Sequence[Finding]) -> Iterator[Piece]:
    """A workload for each part, or the broken resource, and all findings."""
    severity, annotations = severity_of(source), check_annotations(source, WORKLOAD_NAMES)
    composed = [(part, *compose(source, part.templates)) for part in parts]
    found = (
        *findings,
        *(replace(fault, severity=severity) for _, _, faults in composed for fault in faults),
        *(fault for part in parts for count in part.counts for fault in count.check(source, severity)),
        *annotations.findings,
    )
    yield from break_on(source, found)
    if any(each.severity is Severity.ERROR for each in found):
        return
    for part, workload, _ in composed:
        built = _build(source, part, workload)
        yield replace(built, settings=annotations.settings, templated=built.templated or _name_templated(part))


def _name_templated(part: ServedPart) -> str:
    return next((name_field(each.path) for each in part.counts if is_templated(each.written)), "")


def _build(source: KubernetesObject, part: ServedPart, workload: Workload) -> Workload:
    first = part.counts[0]
    return replace(
        _serving(source, part, workload),
        unwritable=part.unwritable or next(filter(None, (each.hold(source) for each in part.counts)), None),
        immovable=Hold(kind=HoldKind.NOT_WRITABLE, words=MADE_BY_CONTROLLER),
        replicas=first.value,
        replicas_place=source.locate(first.path),
        replica_fields=tuple(each.as_field(source) for each in part.counts),
    )


def compose_part(source: KubernetesObject, part: ServedPart) -> Workload:
    """The workload of a part without its number; what is wrong in its pods is left to those who make them."""
    return _serving(source, part, compose(source, part.templates)[0])


def _serving(source: KubernetesObject, part: ServedPart, workload: Workload) -> Workload:
    key = replace(source.key, part=part.name)
    engine = part.engine or workload.engine
    words = part.words
    names = find_served_names(words) or workload.served_names or part.served_names
    model = part.model_id or workload.model_id or next(iter(names), "")
    labels = {**source.labels, **part.labels}
    return replace(
        workload,
        key=key,
        engine=engine,
        launch=read_launch(engine, words, part.variables) if words and engine else workload.launch,
        model_id=model,
        served_names=names,
        devices=workload.devices if part.devices is None else part.devices,
        template_labels={**workload.template_labels, **part.labels},
        port=part.port or workload.port,
        unsized=part.unsized or why_unsized(engine, words, labels.get(ROLE_LABEL, ""), model) or workload.unsized,
        becomes=None if part.made is None else replace(key, kind=part.made[0], name=part.made[1], part=""),
    )


def bounds_owner(
    source: KubernetesObject, owner: str, part: str, bounds: tuple[Count, Count] | None, place: FieldPath
) -> ReplicaOwner:
    """What sets the replicas of a part in the cluster, with its bounds where they stand in the resource itself."""
    counts = () if bounds is None else bounds
    is_known = bool(counts) and all(count.is_readable for count in counts)
    return ReplicaOwner(
        cluster=source.cluster,
        namespace=source.namespace,
        owner=owner,
        target_kind=source.kind,
        target_name=source.name,
        target_part=part,
        place=source.locate(place),
        least=counts[0].value if counts else None,
        fields=tuple(count.as_field(source) for count in counts) if is_known else (),
    )


def command_line(container: Container | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words of a container's command line with its variables filled in, and these variables."""
    if container is None:
        return (), {}
    variables = read_variables(container.env)
    return tuple(words_of(container, variables)), variables
