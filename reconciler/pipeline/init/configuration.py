"""The configuration that init infers, as its template prints it: every line with its reason."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.domain.snapshot import Snapshot
from reconciler.pipeline.init.clusters import IncludedPath, InferredCluster
from reconciler.report.formatting import count


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster with its Prometheus: empty texts where there is none, or where its series need no label."""

    name: str
    reason: str
    include: tuple[IncludedPath, ...] = ()
    url: str = ""
    url_reason: str = ""
    label: str = ""
    has_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorView:
    """An accelerator and what is known of it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    """What the template of `reconciler.yaml` prints."""

    clusters: tuple[ClusterView, ...]
    priced: tuple[AcceleratorView, ...] = ()
    unpriced: tuple[AcceleratorView, ...] = ()
    without_target: str = ""
    default_class: str = ""


def draft_view(
    clusters: tuple[InferredCluster, ...], url: str, *, has_token: bool, labels: tuple[str, ...] = ()
) -> ConfigurationView:
    """What is known before anything is asked: clusters, and the one Prometheus that was named for them.

    `labels` are the clusters that its series name: a cluster of that name is told apart by it.
    """
    return ConfigurationView(
        clusters=tuple(
            ClusterView(
                name=each.name,
                reason=each.reason,
                include=each.include,
                url=url,
                url_reason="as --prometheus said",
                label=each.name if each.name in labels else "",
                has_token=has_token and bool(url),
            )
            for each in clusters
        )
    )


def complete_view(draft: ConfigurationView, snapshot: Snapshot) -> ConfigurationView:
    """With what the repository tells, and what it does not."""
    entries = list(_accelerators(snapshot))
    models = {each.model for each in snapshot.variants}
    lacking = {each.model for each in snapshot.variants if each.service_class is None}
    classes = sorted({each.service_class.value.name for each in snapshot.variants if each.service_class is not None})
    return replace(
        draft,
        priced=tuple(view for view, is_priced in entries if is_priced),
        unpriced=tuple(view for view, is_priced in entries if not is_priced),
        without_target=_without_target(len(lacking), len(models)),
        default_class=classes[0] if len(classes) == 1 else "",
    )


def _without_target(lacking: int, models: int) -> str:
    if not lacking:
        return ""
    which = "No model has" if lacking == models else f"{lacking} of {models} models have no"
    target = "a latency target" if lacking == models else "latency target"
    return f"{which} {target}: they are sized by how full their replicas are. To give them one:"


def _accelerators(snapshot: Snapshot) -> Iterator[tuple[AcceleratorView, bool]]:
    """Every accelerator that something runs on or may run on, and whether its price is known."""
    running = Counter(each.current.accelerator for each in snapshot.variants if each.current.accelerator)
    optional = {option.accelerator for each in snapshot.variants for option in each.options}
    for name in sorted({*running, *optional}):
        found = [each for catalog in snapshot.catalogs.values() if (each := catalog.find(name)) is not None]
        priced = next((each for each in found if each.cost_per_hour is not None), None)
        used = f"{count(running[name], 'variant')} on it" if running[name] else "a profile names it"
        if priced is None:
            yield AcceleratorView(name=name, reason=used), False
        else:
            place = priced.cost_place or priced.place
            reason = f"{priced.cost_per_hour:g} an hour ({place}), {used}"
            yield AcceleratorView(name=name, reason=reason), True
