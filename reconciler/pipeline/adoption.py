"""`init --adopt`: an entry of `workloads` for each serving workload that is not managed, each line with its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reconciler.config.files import REPOSITORY_FILE
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Catalog
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import AdapterRule, MetricSource, ResolvedMetric, Scaler, Signal
from reconciler.domain.settings import PrometheusSettings
from reconciler.domain.snapshot import Snapshot, UnmanagedWorkload
from reconciler.domain.variant_settings import BOUNDS, TUNE, WHEN_AUTOSCALED
from reconciler.domain.workloads import Workload
from reconciler.errors import ConfigurationError, InputError
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.edits import Sheet, write_edits
from reconciler.rendering.renderer import Renderer
from reconciler.report.formatting import count, one_line
from reconciler.snapshot.accelerators import recognise
from reconciler.snapshot.tuned import tuned_scaler

LONGEST_SIGNAL = 60
"""Of what an autoscaler scales by: a query may be longer than a comment is read."""

TEMPLATE = "init/workloads.yaml.j2"
KEY = "workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchView:
    """A key that must fit, and its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    """A variant setting of an entry, and why it is given."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """An entry of `workloads`; with an `obstacle` it is only shown as a comment that says what is missing first."""

    workload: ResourceKey
    match: tuple[MatchView, ...]
    reason: str
    settings: tuple[SettingView, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadsView:
    """The entries that the template prints: those that manage, and those that are left to a person."""

    entries: tuple[EntryView, ...] = ()
    left: tuple[EntryView, ...] = ()
    has_heading: bool = True


def propose_entries(snapshot: Snapshot, rules: Sequence[AdapterRule]) -> WorkloadsView:
    """What managing every serving workload takes; nothing that would need a guess is managed.

    `rules` are those of prometheus-adapter in Git.
    """
    several = len(snapshot.settings.clusters) > 1
    sharing = Counter(map(_served, (each.workload for each in snapshot.unmanaged)))
    managed = {(each.key.cluster, each.key.namespace, name) for each in snapshot.variants for name in each.served_names}
    doubtful = dict(_doubtful_namespaces(snapshot))
    entries = []
    for each in snapshot.unmanaged:
        key, served = each.key, _served(each.workload)
        match = {"cluster": key.cluster} if several else {}
        match |= {"namespace": key.namespace, "kind": key.kind, "name": key.name}
        entries.append(
            EntryView(
                workload=key,
                match=tuple(MatchView(name=name, value=value) for name, value in match.items()),
                reason=_reason(each.workload, snapshot.catalogs[key.cluster]),
                settings=tuple(_settings(each, snapshot, rules)),
                obstacle=(
                    _obstacle(each)
                    or doubtful.get((key.cluster, key.namespace), "")
                    or _ambiguity(each.workload, sharing[served] > 1, served in managed)
                ),
            )
        )
    # An entry means every part of an object, so one of them is enough.
    managing = {each.match: each for each in reversed(entries) if not each.obstacle}
    left = {each.match: each for each in reversed(entries) if each.match not in managing}
    return WorkloadsView(entries=tuple(reversed(managing.values())), left=tuple(reversed(left.values())))


def _doubtful_namespaces(snapshot: Snapshot) -> Iterator[tuple[tuple[str, str], str]]:
    """The namespaces with a resource whose scale target is not known: it may mean any workload there."""
    for broken in snapshot.broken:
        words = f"{broken.key.kind} {broken.key.label} cannot be read ({broken.place}) and may scale it"
        yield (broken.key.cluster, broken.key.namespace), words
    for variant in snapshot.variants:
        if variant.workload is None:
            resource = f"{variant.key.kind} {variant.key.label} ({variant.place})"
            words = f"the scale target of {resource} is not in Git: is it this?"
            yield (variant.key.cluster, variant.key.namespace), words


def _served(workload: Workload) -> tuple[str, str, str]:
    return workload.key.cluster, workload.key.namespace, workload.model_id


def _reason(workload: Workload, catalog: Catalog) -> str:
    accelerator, _ = recognise(catalog, workload, "", ())
    devices = sum(workload.devices.values())
    where = count(devices, "device") if devices else "no device"
    if accelerator is not None:
        where = f"{devices or 'unknown'} x {accelerator.name}"
    number = "" if workload.replicas is None else f", {count(workload.replicas, 'replica')}"
    return f"{workload.engine} serves {workload.model_id or 'a model'} on {where}{number} ({workload.place})"


def _settings(unmanaged: UnmanagedWorkload, snapshot: Snapshot, rules: Sequence[AdapterRule]) -> Iterator[SettingView]:
    owner = unmanaged.owner
    if owner is not None and owner.fields:
        signals = ", ".join(one_line(each, limit=LONGEST_SIGNAL) for each in owner.signals)
        comma = "," if ", which" in owner.owner else ""
        scales = f"{owner.owner}{comma} scales it{' by ' if signals else ''}{signals}"
        reason = f"{scales} ({owner.place}): its minimum and maximum are proposed"
        scaler, value = owner.scaler, BOUNDS
        metric = None if scaler is None else _metric(scaler, unmanaged.workload, snapshot, rules)
        if metric is not None and not snapshot.settings.pull_requests.auto_merge:
            by = "" if scaler is None or scaler.metrics[0].source is MetricSource.QUERY else f", {metric.source}"
            reason, value = (
                f"{scales} ({owner.place}{by}): its target, windows and bounds are proposed",
                TUNE,
            )
        elif scaler is not None and not scaler.bounds_only:
            reason += "; with tune its target and windows, for a person to merge"
        yield SettingView(name=WHEN_AUTOSCALED.name, value=value, reason=reason)


def _metric(
    scaler: Scaler, workload: Workload, snapshot: Snapshot, rules: Sequence[AdapterRule]
) -> ResolvedMetric | None:
    """What it goes by, where that follows the load and is known from Git: by its own query or the adapter's rules."""
    clusters = (each.prometheus for each in snapshot.settings.clusters if each.name == workload.key.cluster)
    prometheus = next(clusters, None) or PrometheusSettings(url="")  # often the file is not written yet
    metric = tuned_scaler(scaler, workload, prometheus, rules).metric
    return None if metric is None or metric.signal is Signal.OTHER else metric


def _obstacle(unmanaged: UnmanagedWorkload) -> str:
    """Why managing it would come to nothing, or need a guess."""
    workload, owner = unmanaged.workload, unmanaged.owner
    if unmanaged.obstacle or workload.unsized:
        return unmanaged.obstacle or workload.unsized
    if not workload.model_id:
        return "nothing in Git names its model: add `model: NAME`"
    if owner is not None and not owner.fields:
        return f"{owner.owner} sets its replicas ({owner.place}), and its bounds cannot be written"
    if owner is not None:
        return ""
    if workload.unwritable is not None:
        return workload.unwritable.words
    if workload.templated:
        return f"{workload.templated} is filled in by a template"
    if workload.replicas == 0:
        return "it is switched off: 0 replicas in Git, and managing it would start one"
    return "spec.replicas is not in Git: write the live number there first" if workload.replicas is None else ""


def _ambiguity(workload: Workload, is_shared: bool, is_managed: bool) -> str:
    if not (is_shared or is_managed):
        return ""
    return (
        f"several workloads of {workload.key.namespace} serve {workload.model_id}: as variants of one model they share "
        "its requests. Is that so (one Service or router before all of them)? Then uncomment it"
    )


def render_entries(renderer: Renderer, view: WorkloadsView) -> str:
    """The section `workloads` of a configuration file."""
    return renderer.render(TEMPLATE, view)


def with_entries(body: bytes, renderer: Renderer, view: WorkloadsView) -> bytes:
    """A person's configuration file with the entries that manage; ConfigurationError where they cannot be added."""
    try:
        (document,) = parse_documents(REPOSITORY_FILE, body)
        sheet = Sheet(document=document, prefix=())
        listed = sheet.find(KEY)
        if isinstance(listed, list) and listed:
            edits = [
                sheet.append(_items(renderer, (entry,)), len(listed) + number, KEY)
                for number, entry in enumerate(view.entries)
            ]
        else:
            edits = [sheet.insert(_items(renderer, view.entries), KEY)]
        return write_edits(REPOSITORY_FILE, body, edits)
    except (InputError, ValueError) as error:
        words = f"{REPOSITORY_FILE}: the entries cannot be added ({error}): add them by hand:"
        raise ConfigurationError(f"{words}\n{render_entries(renderer, view)}") from error


def _items(renderer: Renderer, entries: Iterable[EntryView]) -> str:
    return renderer.render(TEMPLATE, WorkloadsView(entries=tuple(entries), has_heading=False))
