"""Which accelerators are spot, how many replicas run on them, and what a plan makes of that."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from reconciler.decision.problem.needs import Allocations
from reconciler.domain.identity import ResourceKey
from reconciler.domain.settings import SPOT, Settings
from reconciler.policy.subjects import NO_SPOT, NO_SPOT_CHANGE, SpotChange, SpotCount, Subject

Subjects = Mapping[ResourceKey, Subject]


def spot_accelerators(settings: Settings) -> dict[str, frozenset[str]]:
    """By cluster the accelerators of which any pool has the tier `spot`: which device a replica gets nobody knows."""
    found: dict[str, frozenset[str]] = {}
    for cluster in settings.clusters:
        devices = {pool.device for pool in cluster.pools if pool.tier == SPOT}
        names = {each.name for each in settings.accelerators if each.device in devices}
        found[cluster.name] = frozenset(devices | names)
    return found


def with_spot(subjects: Subjects, settings: Settings) -> dict[ResourceKey, Subject]:
    """The subjects with what is spot for them, and how many replicas run beside them."""
    spot = spot_accelerators(settings)
    if not any(spot.values()):
        return dict(subjects)
    told = {key: replace(each, spot=spot.get(key.cluster, frozenset())) for key, each in subjects.items()}
    counts = {key: each.spot_of(each.current) for key, each in told.items()}
    fleet = sum(counts.values(), NO_SPOT)
    models: defaultdict[object, SpotCount] = defaultdict(SpotCount)
    for key, each in told.items():
        models[each.variant.model.whole] += counts[key]
    return {
        key: replace(
            each,
            beside_in_model=models[each.variant.model.whole] - counts[key],
            beside_in_fleet=fleet - counts[key],
        )
        for key, each in told.items()
    }


def spot_changes(
    subjects: Subjects,
    allocations: Allocations,
    group_of: Mapping[ResourceKey, str],
    urgency: Callable[[ResourceKey], tuple[object, ...]],
) -> Callable[[ResourceKey], tuple[SpotChange, SpotChange]]:
    """What a plan makes of the spot replicas of a variant's model, and of all, the most urgent parts first."""
    if not any(each.spot for each in subjects.values()):
        return lambda _: (NO_SPOT_CHANGE, NO_SPOT_CHANGE)
    members: defaultdict[object, list[ResourceKey]] = defaultdict(list)
    for key, each in subjects.items():
        members[each.variant.model.whole].append(key)

    def change(keys: Iterable[ResourceKey]) -> SpotChange:
        now, by_part = NO_SPOT, defaultdict[tuple[str, str], SpotCount](SpotCount)
        for key in sorted(keys, key=urgency):
            subject = subjects[key]
            before, after = subject.spot_of(subject.current), subject.spot_of(allocations[key])
            now += before
            if after != before:
                by_part[group_of[key], str(subject.variant.model.whole)] += after - before
        return SpotChange(now=now, by_part=by_part)

    models, fleet = {model: change(keys) for model, keys in members.items()}, change(subjects)

    def of(key: ResourceKey) -> tuple[SpotChange, SpotChange]:
        model = subjects[key].variant.model.whole
        part = (group_of[key], str(model))
        return replace(models[model], part=part), replace(fleet, part=part)

    return of
