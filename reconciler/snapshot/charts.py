"""The serving workloads that known charts make of the values of their releases."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import AdapterRule
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.domain.written import DocumentRef, FieldPath, WrittenField
from reconciler.manifests.documents import Value
from reconciler.manifests.wording import name_field
from reconciler.placement.fleet import ELSEWHERE, Fleet
from reconciler.placement.helm import (
    Dependency,
    Release,
    chart_of,
    dependencies_of,
    place_in_release,
    release_values,
    releases_in,
)
from reconciler.placement.objects import Obstacle
from reconciler.placement.places import EffectivePlace, NoPlace
from reconciler.resources.annotations import WORKLOAD_NAMES, check_annotations
from reconciler.resources.charts import (
    ChartShape,
    DevicesShape,
    ParallelShape,
    ScalerShape,
    WorkloadShape,
    find_chart,
    items_of,
    path_in,
    value_of,
)
from reconciler.resources.kubernetes.adapter_rules import ADAPTER_CHART, rules_in_values
from reconciler.resources.kubernetes.pods import PodSpec, PodTemplate, TemplateFields
from reconciler.resources.kubernetes.served_parts import ServedPart, compose_part
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import is_templated, validate

RULE = "chart-values"
_Lookup: TypeAlias = Callable[[str], Value]
_ROLE = "llm-d.ai/role"
"""A chart may give the same role to what serves alone: only its values say whether there is another half."""
_NAMED = re.compile(r"\{([^{}]+)\}")
_TOP: FieldPath = ()
_LONGEST_NAME = 63
_LONGEST_FULLNAME = 55
_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Charted:
    """What the charts of a fleet make: workloads, what sets their replicas, and what cannot be read."""

    workloads: tuple[Workload, ...] = ()
    owners: tuple[ReplicaOwner, ...] = ()
    adapter_rules: tuple[AdapterRule, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_charts(fleet: Fleet) -> Charted:
    """The workloads of every release of a known chart, in every cluster."""
    workloads: list[Workload] = []
    owners: list[ReplicaOwner] = []
    rules: list[AdapterRule] = []
    findings: list[Finding] = []
    for cluster in sorted(fleet.clusters):
        for release in releases_in(fleet, cluster) if cluster != ELSEWHERE else ():
            installed = tuple(_charts_in(fleet, release))
            if chart_of(fleet, release).name == ADAPTER_CHART:
                values = release_values(fleet, release)
                if not isinstance(values, Obstacle):
                    rules += rules_in_values(cluster, values, release.built.place)
                continue
            if not installed or is_templated(release.name) or is_templated(release.namespace):
                continue
            values = release_values(fleet, release)
            if isinstance(values, Obstacle):
                message = f"the models that {release} serves are not known: {values}"
                place = values.place or release.built.place
                findings.append(Finding(place=place, severity=Severity.NOTE, message=message, rule=RULE))
                continue
            for made in _made(fleet, release, installed, values):
                if made.is_made and not is_templated(made.key.name):
                    workload, found = made.workload()
                    workloads.append(workload)
                    findings += found
                    owners += made.owners(workload)
    counts = Counter(workload.key for workload in workloads)
    alone = (each if counts[each.key] == 1 else _contested(each, counts[each.key]) for each in workloads)
    unique = {workload.key: workload for workload in alone}
    return Charted(
        workloads=tuple(unique.values()), owners=tuple(owners), adapter_rules=tuple(rules), findings=tuple(findings)
    )


def _charts_in(fleet: Fleet, release: Release) -> Iterator[tuple[ChartShape, Dependency | None]]:
    """The known charts that a release installs: those that its chart depends on, else its own."""
    found = ((find_chart(each.chart.name, "", ""), each) for each in dependencies_of(fleet, release))
    depended = [(chart, each) for chart, each in found if chart is not None]
    yield from depended
    reference = chart_of(fleet, release)
    own = find_chart(reference.name, reference.address, reference.path)
    if own is not None and not depended:
        yield own, None


def _made(
    fleet: Fleet,
    release: Release,
    installed: Sequence[tuple[ChartShape, Dependency | None]],
    values: dict[str, Value],
) -> Iterator["_Made"]:
    for chart, dependency in installed:
        name, prefix, own = chart.chart, _TOP, values
        if dependency is not None:
            below = values.get(dependency.name)
            name, prefix, own = dependency.name, (dependency.name,), below if isinstance(below, dict) else {}
            if not _is_installed(dependency, values):
                continue
        for shape in chart.workloads:
            for item in items_of(own, shape):
                yield _Made(fleet=fleet, release=release, name=name, prefix=prefix, shape=shape, values=own, item=item)


def _is_installed(dependency: Dependency, values: dict[str, Value]) -> bool:
    """Whether the values leave a dependency on: the first condition that is written counts, else its tags."""
    written = (value_of(values, path) for path in dependency.conditions)
    condition = next((each for each in written if isinstance(each, bool)), None)
    if condition is not None:
        return condition
    tags = [tag for each in dependency.tags if isinstance(tag := value_of(values, ("tags", each)), bool)]
    return any(tags) if tags else True


def _contested(workload: Workload, releases: int) -> Workload:
    words = f"{releases} releases make {workload.key.kind} {workload.key.label}: keep one"
    return replace(workload, unwritable=Hold(kind=HoldKind.REPLICAS_CONTESTED, words=words, place=workload.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One workload of a chart, by the item of the values that it is made of.

    `values` are those of the chart, which stand at `prefix` in those of the release; `name` is the chart's own there.
    """

    fleet: Fleet
    release: Release
    name: str
    prefix: FieldPath
    shape: WorkloadShape
    values: dict[str, Value]
    item: FieldPath

    @property
    def is_made(self) -> bool:
        """Whether the chart makes it with these values."""
        return all(_is_on(self._value(each.path), each.default) for each in self.shape.made)

    @property
    def key(self) -> ResourceKey:
        """The name that the chart gives it."""
        is_group = self.shape.grouped is not None and _is_on(self._value(self.shape.grouped), default=False)
        return ResourceKey(
            cluster=self.release.built.key.cluster,
            namespace=self.release.namespace or "default",
            kind="LeaderWorkerSet" if is_group else "Deployment",
            name=self._text(self.shape.name)[:_LONGEST_NAME],
        )

    def workload(self) -> tuple[Workload, Sequence[Finding]]:
        """The workload with the place of its number, and what is wrong with its annotations."""
        shape, place = self.shape, self._place(self.shape.replicas, "replicas")
        source = self._source()
        annotations = check_annotations(source, WORKLOAD_NAMES)
        is_one_pod = shape.grouped is not None and self.key.kind == "Deployment"
        pods = 1 if is_one_pod else _pods_of(shape.parallel, self._value)
        template = PodTemplate(path=("spec", "template"), fields=TemplateFields(spec=self._pod()), pods=pods)
        served = self._text(shape.served or shape.model or "")
        served = "" if is_templated(served) else served
        part = ServedPart(
            templates=(template,),
            words=self._words(),
            model_id=served,
            served_names=(served,) if served else (),
            labels={key: self._text(text) for key, text in shape.labels.items() if key != _ROLE},
            unsized=next((each.why for each in shape.unsized if _is_above(self._value(each.path), each.default)), ""),
        )
        workload = compose_part(source, part)
        field = self._field(place)
        return replace(
            workload,
            key=self.key,
            document=field.document,
            place=self.release.built.place,
            devices=workload.devices or self._devices(pods),
            template_labels={key: self._text(text) for key, text in shape.labels.items()},
            settings=annotations.settings,
            replicas=field.value,
            replicas_place=field.place,
            replica_fields=(field,),
            considered=_considered(place),
            unwritable=None if isinstance(place, EffectivePlace) else self._hold(place),
            immovable=Hold(kind=HoldKind.NOT_WRITABLE, words="a chart generates it: change its accelerator there"),
        ), annotations.findings

    def owners(self, workload: Workload) -> Iterator[ReplicaOwner]:
        """The autoscaler that the chart makes of it."""
        scaler = self.shape.scaler
        if scaler is None or not _is_on(self._value(scaler.switch), default=False):
            return
        fields = self._bounds(scaler)
        yield ReplicaOwner(
            cluster=workload.key.cluster,
            namespace=workload.key.namespace,
            owner=f"{scaler.kind} {self._text(scaler.name)}",
            target_kind=workload.key.kind,
            target_name=workload.key.name,
            place=fields[0].place if fields else workload.place,
            least=fields[0].value if fields else None,
            makes_autoscaler=scaler.kind == "ScaledObject",
            fields=fields,
        )

    def _bounds(self, scaler: ScalerShape) -> tuple[WrittenField, ...]:
        """Both bounds where they stand; none where one is not written, or nowhere to be written."""
        fields = []
        for path, word in ((scaler.least, "min-replicas"), (scaler.most, "max-replicas")):
            place = self._place(path, word) if path is not None else None
            if not isinstance(place, EffectivePlace):
                return ()
            fields.append(replace(self._field(place), is_ceiling=word == "max-replicas"))
        return tuple(fields)

    # ---- values

    def _value(self, path: str) -> Value:
        return value_of(self.values, path_in(path, self.item))

    def _text(self, template: str) -> str:
        """A text with the values that it names; their own templates stay, and make it no name."""
        return _NAMED.sub(lambda found: self._named(found[1]), template)

    def _named(self, name: str) -> str:
        if name == "release":
            return self.release.name
        if name == "fullname":
            return self._fullname()
        value = self._value(name)
        return "" if value is None or isinstance(value, dict | list) else str(value)

    def _fullname(self) -> str:
        """The name that charts made by `helm create` give what they make, as llm-d's shortens it."""
        own = self.values.get("fullnameOverride")
        name = str(self.values.get("nameOverride") or self.name)
        given = own if isinstance(own, str) and own else None
        full = self.release.name if name in self.release.name else f"{self.release.name}-{name}"
        return (given or full)[:_LONGEST_FULLNAME].removesuffix("-")

    def _source(self) -> KubernetesObject:
        """The object as far as annotations go, each of which stands in the values."""
        written = self._value(self.shape.annotations) if self.shape.annotations is not None else None
        named = {str(key): str(value) for key, value in written.items()} if isinstance(written, dict) else {}
        key = self.key
        place = self.release.built.place
        return KubernetesObject(
            cluster=key.cluster,
            kind=key.kind,
            document=self.release.built.source.document,
            prefix=self.release.built.source.field,
            fields={},
            name=key.name,
            namespace=key.namespace,
            annotations=named,
            places=lambda _: place,
        )

    # ---- pods

    def _pod(self) -> PodSpec:
        shape = self.shape
        containers = self._value(shape.containers) if shape.containers is not None else None
        if not isinstance(containers, list):
            words: list[Value] = [self._text(each) for each in shape.command]
            containers = [
                {
                    "image": self._text(shape.image or ""),
                    "command": words,
                    "args": list(self._arguments()),
                    "env": self._value(shape.env) if shape.env is not None else None,
                    "resources": (self._value(shape.resources) if shape.resources is not None else None) or None,
                }
            ]
        affinity = self._value(shape.affinity) if shape.affinity is not None else None
        terms = self._value(shape.node_terms) if shape.node_terms is not None else None
        if not affinity and isinstance(terms, list):
            required: Value = {"nodeSelectorTerms": terms}
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        selector = self._value(shape.node_selector) if shape.node_selector is not None else None
        fields = {"containers": containers, "nodeSelector": selector or None, "affinity": affinity or None}
        found = validate(PodSpec, fields, locate=lambda _: self.release.built.place).value
        return found or PodSpec()

    def _arguments(self) -> Iterator[str]:
        for path, flag in self.shape.flags.items():
            value = self._value(path)
            if value is not None and not isinstance(value, dict | list):
                yield from (flag, str(value))
        more = self._value(self.shape.args) if self.shape.args is not None else None
        yield from (str(each) for each in (more if isinstance(more, list) else ()))

    def _words(self) -> tuple[str, ...]:
        """The command line where a chart writes one of its own, or adds to that of its container."""
        shape = self.shape
        if shape.containers is None:
            return (*(self._text(each) for each in shape.command), *self._arguments())
        containers = self._pod().containers or []
        first = containers[0] if containers else None
        own = (*(first.command or ()), *(first.args or ())) if first is not None else ()
        parallel, words = shape.parallel, list(own)
        if parallel is not None and parallel.tensor is not None:
            tensor = _number(self._value(parallel.tensor))
            words += ["--tensor-parallel-size", str(tensor)] if tensor is not None and tensor > 1 else []
        return ("vllm", "serve", *words) if first is not None and not first.command else tuple(words)

    def _devices(self, pods: int) -> dict[str, int]:
        shape = self.shape.devices
        if shape is None:
            return {}
        types = [value for value in map(self._value, shape.types) if value]
        resource = _resource_of(shape, types[0] if types else None)
        if shape.count is not None:
            count = _number(self._value(shape.count))
        else:
            parallel = self.shape.parallel or ParallelShape()
            tensor = _number(self._value(parallel.tensor)) if parallel.tensor is not None else None
            # a Deployment has one pod, which is as large as each pod of a group
            count = (tensor or 1) * _local(parallel, self._value, _pods_of(parallel, self._value))
        return {resource: count * pods} if resource and count else {}

    # ---- places

    def _place(self, path: str, word: str) -> EffectivePlace | NoPlace:
        return place_in_release(self.fleet, self.key, self.release, (*self.prefix, *path_in(path, self.item)), word)

    def _field(self, place: EffectivePlace | NoPlace) -> WrittenField:
        """The number where it is written; else the release, with what counts without a number."""
        if isinstance(place, EffectivePlace):
            written = place.origin.written
            value = place.value
            number = int(value) if isinstance(value, int | str) else None
            return replace(written, written=number, value=number)
        built = self.release.built
        path = (*self.release.values_prefix, *self.prefix, *path_in(self.shape.replicas, self.item))
        number = _number(self._value(self.shape.replicas))
        return WrittenField(
            document=DocumentRef(path=built.path, document=built.source.document.index, prefix=built.source.field),
            field=path,
            place=replace(built.place, field=name_field(path)),
            value=self.shape.default if number is None else number,
        )

    def _hold(self, place: NoPlace) -> Hold:
        kind = HoldKind.IGNORED if place.is_ignored else HoldKind.NOT_WRITABLE
        return Hold(kind=kind, words=str(place), place=place.obstacle.place)


def _considered(place: EffectivePlace | NoPlace) -> tuple[str, ...]:
    return tuple(f"{each.kind}: {each} = {each.value}" for each in place.considered)


def _is_on(value: Value, default: bool) -> bool:
    """Whether a switch is on; a number is on above zero."""
    if value is None:
        return default
    return value not in (False, 0, "false", "0", "")


def _is_above(value: Value, default: int) -> bool:
    number = _number(value)
    return value is True or (number if number is not None else default) > 0


def _number(value: Value) -> int | None:
    if isinstance(value, bool):
        return None
    text = str(value) if isinstance(value, int | str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _pods_of(parallel: ParallelShape | None, value: _Lookup) -> int:
    """How many pods one replica has: the workers, else the copies by those of one pod."""
    if parallel is None:
        return 1
    workers = _number(value(parallel.pods)) if parallel.pods is not None else None
    data = _number(value(parallel.data)) if parallel.data is not None else None
    local = _number(value(parallel.data_local)) if parallel.data_local is not None else None
    count = workers or ((data // local) if data and local else 1)
    return min(max(count, 1), _MOST)


def _local(parallel: ParallelShape, value: _Lookup, pods: int) -> int:
    """How many copies each pod runs."""
    local = _number(value(parallel.data_local)) if parallel.data_local is not None else None
    data = _number(value(parallel.data)) if parallel.data is not None else None
    return local or (max(data // pods, 1) if data else 1)


def _resource_of(shape: DevicesShape, written: Value) -> str:
    if not shape.by_type:
        return written if isinstance(written, str) and written else shape.default
    return shape.by_type.get(written, "") if isinstance(written, str) and written else shape.default
