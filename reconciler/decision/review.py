"""Somebody else's change compared with a plan, decided on the base with the same answers."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields

from reconciler.decision.decide import DIGITS, DecisionsOnDemand, Solved, solve
from reconciler.decision.staged_plan import StagedPlan
from reconciler.decision.variant_states import TOLERANCE, Allocations, bounds_of
from reconciler.decision.verdicts import give_verdicts, judge_changes
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, TotalCost, VerdictKind
from reconciler.domain.profiles import PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.recording import Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import AllocationRemark, HeadView, Objection, ReleaseChange, Review, SettingRemark
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import SETTING_DEFINITIONS
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import join_words
from reconciler.optimizer.device_use import DeviceUse
from reconciler.policy.comparing import Shift, compare_rules
from reconciler.policy.port import Spoken
from reconciler.snapshot.declarations import Commit

KEPT = "its replicas stay as they are and are not sized"
UNREADABLE = "cannot be read any more"


def is_gone(variant: Variant, head: HeadView) -> bool:
    """Whether merging the head takes away what serves a variant of the base."""
    after = head.variants.get(variant.key)
    if after is None:
        return absence_of(variant, head) is None
    is_missing = after.workload is None and after.is_held_by(HoldKind.SCALE_TARGET_MISSING)
    return is_missing and variant.workload is not None and _unreadable_at([variant.workload.place.path], head) is None


def tells_replicas(variant: Variant) -> bool:
    """Whether its replicas can be read: not those of a target that cannot be, or that somebody else fills in."""
    return variant.workload is not None and variant.workload.replicas is not None


def absence_of(variant: Variant, head: HeadView) -> SettingRemark | None:
    """What is said of a variant that the head does not declare; None where it is gone."""
    place, workload = variant.place, variant.workload
    broken = head.broken.get(variant.key)
    if broken is not None:
        return _remark(variant, f"{UNREADABLE}: {broken.reason}", Objection.REFUSE, broken.place)
    paths = [place.path, *([workload.place.path] if workload is not None else [])]
    if (unreadable := _unreadable_at(paths, head)) is not None:
        return _remark(variant, UNREADABLE, Objection.REFUSE, unreadable)
    cluster = next((each for each in head.settings.clusters if each.name == variant.key.cluster), None)
    if place.path in head.paths and (cluster is None or not cluster.holds(place.path)):
        words = f"is outside of its cluster's paths from then on: {KEPT}"
        return _remark(variant, words, Objection.HOLD, (cluster.place if cluster is not None else None) or place)
    if workload is not None and (heir := _claimant_of(workload, head)) is not None:
        return _remark(variant, f"is declared as {heir.key.label} from then on", Objection.NONE, heir.place)
    if workload is not None and workload.key in head.workloads:
        return _remark(variant, f"is not declared any more: {KEPT}", Objection.HOLD, workload.place)
    return None


def unreadable_target(variant: Variant, head: HeadView) -> SettingRemark | None:
    """That the head has the scale target of a variant in an unreadable file; None where that is not so."""
    after = head.variants.get(variant.key)
    if after is None or after.workload is not None or variant.workload is None:
        return None
    place = _unreadable_at([variant.workload.place.path], head)
    return None if place is None else _remark(variant, f"its scale target {UNREADABLE}", Objection.REFUSE, place)


def _claimant_of(workload: Workload, head: HeadView) -> Variant | None:
    """Who declares a scale target in the head."""
    found = (each for each in head.variants.values() if each.workload is not None and each.workload.key == workload.key)
    return next(found, None)


def _unreadable_at(paths: Iterable[str], head: HeadView) -> Place | None:
    """Where one of some files is that the head has and that cannot be read."""
    for path in paths:
        if path in head.unread:
            return Place(path=path)
        for finding in head.findings:
            if finding.place.path == path and finding.severity is Severity.ERROR:
                return finding.place
    return None


def _remark(variant: Variant, words: str, objection: Objection, place: Place) -> SettingRemark:
    return _note(variant.key, words, place, objection)


def judge_newcomer(variant: Variant, known: Sequence[Variant]) -> AllocationRemark:
    """What is known of a new variant: its price, whose load it shares, and what its profile can keep."""
    profile = None if variant.current_option is None else variant.current_option.profile
    target = variant.service_class.value.itl if variant.service_class is not None else None
    is_missed = profile is not None and target is not None and itl_s(profile, 1) > target.limit_s
    objection = Objection.SLO if is_missed else Objection.NONE
    price, target_key = variant.current_cost_per_hour, variant.workload.key if variant.workload is not None else None
    is_running = any(each.workload is not None and each.workload.key == target_key for each in known)
    cost = 0.0 if is_running else None if price is None else price * variant.current.replicas
    return AllocationRemark(
        variant=variant.key,
        before=None,
        after=variant.current,
        objection=Objection.HOLD if variant.hold is not None else objection,
        path=variant.place.path,
        line=variant.place.line,
        added_cost_per_hour=cost,
        facts=tuple(_facts(variant, known, profile, target)),
    )


def itl_s(profile: PerformanceProfile, batch: int) -> float:
    """The mean time between tokens of so many requests at once, prompts left out: no load is faster."""
    return profile.alpha_s + profile.beta_s * batch


def _facts(
    variant: Variant, known: Iterable[Variant], profile: PerformanceProfile | None, target: SloTarget | None
) -> Iterator[str]:
    if variant.hold is not None:
        yield f"it is held: {variant.hold.words}"
    beside = sorted(each.key.label for each in known if each.model == variant.model)
    if beside:
        yield f"it shares the load of {beside[0]}" + (f" and {len(beside) - 1} more" if beside[1:] else "")
    else:
        yield "its load is not known before it runs"
    if profile is None or target is None:
        return
    limit = f"its target of {1000 * target.limit_s:g} ms between tokens"
    if itl_s(profile, 1) > target.limit_s:
        yield f"by its profile a single request takes {1000 * itl_s(profile, 1):.3g} ms a token: it never keeps {limit}"
    elif itl_s(profile, profile.max_batch_size) <= target.limit_s:
        yield f"by its profile a full replica ({profile.max_batch_size} requests at once) keeps {limit}"
    else:
        most = int((target.limit_s - profile.alpha_s) / profile.beta_s)
        yield f"by its profile a replica keeps {limit} up to {most} requests at once"


GONE = "is gone"
CONFIGURATION_FILE = "reconciler.yaml"
"""Where people look for a setting whose line is not known."""
NOT_TRIED = "a review does not try it: the base's stands"


def remark_on_variants(
    pairs: Iterable[tuple[Variant, Variant]], changed_at: Mapping[ResourceKey, Place]
) -> Iterator[SettingRemark]:
    """Of variants before and after: holds that come and go, what a replica is, and every setting that changes.

    `changed_at` is where scale targets change.
    """
    for before, after in sorted(pairs, key=lambda each: each[0].key):
        key = after.key
        yield from _holds(before, after)
        yield from _class(before, after)
        yield from _replica(before, after, changed_at.get(key))
        for setting in SETTING_DEFINITIONS:
            was, now = before.settings[setting].value, after.settings[setting].value
            if was != now:
                source = after.settings[setting].source.place or after.place
                words = f"{setting.name} is {_shown(now)} instead of {_shown(was)}"
                yield _note(key, words, source)


LAUNCHED = {
    "tensor parallel size": "tensor_parallel",
    "most requests at once": "max_num_seqs",
    "most tokens of an iteration": "batched_tokens",
    "longest context": "max_model_tokens",
    "share of the device's memory": "memory_fraction",
    "type of the KV cache": "kv_dtype",
    "tokens of a KV block": "block_tokens",
    "KV blocks": "num_blocks_override",
    "tokens of the KV cache": "total_kv_tokens_override",
}
"""How an engine is started, by what people call it."""


def devices_of_replica(variant: Variant) -> Mapping[str, int]:
    """What a replica takes of each resource, by its containers; by its profile what it costs is counted in."""
    counted = {
        each.resource: each.devices_per_replica
        for each in variant.options
        if each.accelerator == variant.current.accelerator
    }
    return counted or (variant.workload.devices if variant.workload is not None else {})


def _replica(before: Variant, after: Variant, changed_at: Place | None) -> Iterator[SettingRemark]:
    """What becomes of what a replica is: its model, its devices, its engine and how that is started."""
    old, new = before.workload, after.workload
    if before.model.model_id != after.model.model_id:
        words = f"serves {after.model.model_id} instead of {before.model.model_id}, whose load is not known"
        yield _note(after.key, words, after.place, Objection.HOLD)
    if old is not None and new is not None and before.priority != after.priority:
        was, now = (each.priority.value if each.priority is not None else None for each in (before, after))
        if was != now:
            place = after.priority.source.place if after.priority is not None else None
            yield _note(after.key, f"its priority is {_shown(now)} instead of {_shown(was)}", place or after.place)
    yield from _own_profiles(before, after)
    if old is None or new is None:
        return
    yield from _autoscaler(before, after)
    place = changed_at or new.place
    if old.key != new.key:
        yield _note(
            after.key, f"scales {new.key.kind} {new.key.label} instead of {old.key.kind} {old.key.label}", new.place
        )
    if set(before.served_names) != set(after.served_names):
        words = f"is served as {join_words(after.served_names)} instead of {join_words(before.served_names)}"
        yield _note(after.key, words, place)
    if old.template_labels != new.template_labels:
        changed = sorted({key for key, _ in old.template_labels.items() ^ new.template_labels.items()})
        words = f"the labels of its pods change ({join_words(changed)}): what selects them may lose them"
        yield _note(after.key, words, place)
    changes = [
        f"{new.devices.get(resource, 0)} {resource} a replica instead of {old.devices.get(resource, 0)}"
        for resource in sorted(old.devices.keys() | new.devices.keys())
        if old.devices.get(resource, 0) != new.devices.get(resource, 0)
    ]
    if old.engine != new.engine:
        changes.append(f"engine {_shown(new.engine)} instead of {_shown(old.engine)}")
    if old.launch is not None and new.launch is not None:
        for name, field in LAUNCHED.items():
            was, now = getattr(old.launch, field), getattr(new.launch, field)
            if was != now:
                changes.append(f"{name} {_shown(now)} instead of {_shown(was)}")
    measured = "; its profile was measured before" if after.options else ""
    for words in changes:
        yield _note(after.key, f"{words}{measured}", place, Objection.HOLD if measured else Objection.NONE)
    gone, come = (
        [image for image in one if image not in other]
        for one, other in ((old.images, new.images), (new.images, old.images))
    )
    if come:
        words = f"image {join_words(come)}" + (f" instead of {join_words(gone)}" if gone else "")
        yield _note(after.key, f"{words}; how fast that is, is not known", place)


def _own_profiles(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    """Profiles that its own resource states."""
    was = {each.accelerator: each.profile for each in before.options}
    for option in after.options:
        old, new = was.get(option.accelerator), option.profile
        is_own = new.place is not None and new.place.path == after.place.path
        if old is not None and is_own and replace(old, place=new.place, learning=new.learning) != new:
            changes = "; ".join(_profile_changes(old, new))
            yield _note(after.key, f"its profile on {option.accelerator} changes: {changes}", new.place)


def _profile_changes(old: PerformanceProfile, new: PerformanceProfile) -> Iterator[str]:
    """`alpha 5 ms instead of 6.958 ms`."""
    for field in fields(PerformanceProfile):
        was, now = getattr(old, field.name), getattr(new, field.name)
        if was != now and field.name not in ("place", "learning"):
            name, is_time = field.name.removesuffix("_s").replace("_", " "), field.name.endswith("_s")
            then, before = (f"{1000 * each:.6g} ms" if is_time and each else _shown(each) for each in (now, was))
            yield f"{name} {then} instead of {before}"


MOST_TOLD = 5
"""Values of one release that are listed one by one."""


def remark_on_releases(changes: Iterable[ReleaseChange], variants: Iterable[Variant]) -> Iterator[SettingRemark]:
    """What becomes of the charts behind variants; of other releases in their namespaces, which pods they select."""
    by_target: dict[ResourceKey, list[Variant]] = {}
    for variant in variants:
        if variant.workload is not None:
            by_target.setdefault(replace(variant.workload.key, part=""), []).append(variant)
    told: Counter[tuple[ResourceKey, str]] = Counter()
    namespaces = {(key.cluster, key.namespace) for key in by_target}
    for change in changes:
        served = [each for target in change.targets for each in by_target.get(target, ())]
        for variant in served:
            told[variant.key, change.release] += 1
            if told[variant.key, change.release] <= MOST_TOLD:
                measured = "; its profile and price were measured before" if variant.options else ""
                words = f"{change.words} ({change.release}): what its chart makes of that is not known{measured}"
                yield _note(variant.key, words, change.place, Objection.HOLD)
        is_near = (change.cluster, change.namespace) in namespaces or (change.is_rendered and not change.namespace)
        if not served and (change.selects or change.is_rendered) and is_near:
            may = "what it selects may be others" if change.selects else "what its chart makes of that is not known"
            words = f"{change.words}: {may}"
            yield SettingRemark(
                subject=change.release,
                words=words,
                cluster=change.cluster,
                objection=Objection.HOLD,
                path=change.place.path,
                line=change.place.line,
            )
    for (key, release), count in told.items():
        if count > MOST_TOLD:
            yield _note(key, f"{count - MOST_TOLD} more values of {release} change", None, Objection.HOLD)


def scaled_by(variant: Variant) -> str:
    """`HorizontalPodAutoscaler qwen between 1 and 3 replicas`; empty where its replicas are a count of their own."""
    workload = variant.workload
    if workload is None or not workload.bounds_of or workload.replicas is None:
        return ""
    most = max((each.written for each in workload.replica_fields if each.is_ceiling and each.written), default=None)
    upper = f"between {workload.replicas} and {most} replicas" if most else f"from {workload.replicas} replicas on"
    return f"{workload.bounds_of} {upper}"


def _autoscaler(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    """Bounds that become others, also where only the larger one does; a number that changes says it itself."""
    was, now = scaled_by(before), scaled_by(after)
    if now and not was and before.current == after.current:
        yield _note(after.key, f"is scaled by {now} from then on", after.place)
    if was and now and was != now and after.workload is not None:
        yield _note(after.key, f"is scaled by {now} instead of {was}", after.workload.place)
    elif was and not now:
        yield _note(after.key, f"is not scaled any more by {was}", after.place)


def _holds(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    had, has = {hold.kind for hold in before.holds}, {hold.kind for hold in after.holds}
    for hold in after.holds:
        if hold.kind not in had:
            words = f"is held from then on: {hold.words}"
            yield _note(after.key, words, hold.place or after.place, Objection.HOLD)
    for hold in before.holds:
        if hold.kind not in has:
            yield _note(after.key, f"is not held any more: {hold.words}", after.place)


def _class(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    old = before.service_class.value if before.service_class is not None else None
    new = after.service_class.value if after.service_class is not None else None
    if old is not None and new is not None and replace(old, place=new.place) != new:
        named = f"is {new.name} instead of {old.name}" if old.name != new.name else f"{new.name} changes"
        targets = "; ".join(_targets(old, new))
        chosen = after.service_class.source.place if after.service_class is not None else None
        place = new.place if old.name == new.name else chosen
        yield _note(after.key, f"its service class {named}" + (f": {targets}" if targets else ""), place or after.place)
    elif old is None and new is not None:
        yield _note(after.key, f"its service class is {new.name}, where it had none", after.place)
    elif old is not None and new is None:
        words = f"has no service class any more, and no target: it had {old.name}"
        yield _note(after.key, words, after.place, Objection.HOLD)


def _targets(old: ServiceClass, new: ServiceClass) -> Iterator[str]:
    """Every target that becomes another one, and whether that asks for more."""
    for name in ("ttft", "itl", "wait"):
        was, now = getattr(old, name), getattr(new, name)
        if was == now:
            continue
        looser = was is not None and (now is None or now.limit_s > was.limit_s)
        stricter = now is not None and (was is None or now.limit_s < was.limit_s)
        how = " (looser)" if looser else " (stricter)" if stricter else ""
        is_same = now is not None and was is not None and now.statistic == was.statistic
        yield f"{name.upper()} {_target(now)} instead of {_target(was, with_statistic=not is_same)}{how}"


def _target(target: SloTarget | None, *, with_statistic: bool = True) -> str:
    if target is None:
        return "without a target"
    limit = f"{target.limit_s:g} s" if target.limit_s >= 1 else f"{1000 * target.limit_s:g} ms"
    return f"{target.statistic} {limit}" if with_statistic else limit


def remark_on_settings(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    """What becomes of the facts and rules that the configuration states."""
    yield from _prices(base, head)
    yield from _profiles(base, head)
    for old in base.clusters:
        new = next((each for each in head.clusters if each.name == old.name), old)
        yield from _pools(old, new)
    yield from _rules(base, head)


def _prices(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    now = {each.name: each for each in head.accelerators}
    for old in base.accelerators:
        new = now.get(old.name)
        if new is None:
            yield _note(old.name, f"{GONE} from the catalog", _file_of(old.place))
        elif new.cost_per_hour != old.cost_per_hour:
            words = f"costs {_price(new.cost_per_hour, head)} instead of {_price(old.cost_per_hour, base)}"
            yield _note(old.name, words, new.place)
    known = {each.name for each in base.accelerators}
    for new in head.accelerators:
        if new.name not in known:
            yield _note(new.name, f"is new in the catalog: it costs {_price(new.cost_per_hour, head)}", new.place)


def listed_prices(base: Snapshot, head: Snapshot) -> Iterator[SettingRemark]:
    """Prices that count and that the configuration does not state: those of ConfigMaps."""
    stated = {each.name: each.cost_per_hour for each in base.settings.accelerators}
    told = {each.name for each in head.settings.accelerators if stated.get(each.name) != each.cost_per_hour}
    for cluster, catalog in base.catalogs.items():
        now = head.catalogs[cluster].accelerators if cluster in head.catalogs else {}
        for name, old in catalog.accelerators.items():
            new = now.get(name)
            if new is not None and new.cost_per_hour != old.cost_per_hour and name not in told:
                prices = (_price(new.cost_per_hour, head.settings), _price(old.cost_per_hour, base.settings))
                remark = _note(name, f"costs {prices[0]} instead of {prices[1]}", new.cost_place or new.place)
                yield replace(remark, cluster=cluster)


def _price(cost_per_hour: float | None, settings: Settings) -> str:
    return "an unknown price" if cost_per_hour is None else f"{cost_per_hour:g} {settings.currency}/h"


def _profiles(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    before, after = _by_model(base), _by_model(head)
    for (model, accelerator), old in before.items():
        new = after.get((model, accelerator))
        if new is None:
            yield _note(model, f"its profile on {accelerator} {GONE}", _file_of(old.place))
        elif replace(old, place=new.place, learning=new.learning) != new:
            changes = "; ".join(_profile_changes(old, new))
            yield _note(model, f"its profile on {accelerator} changes: {changes}", new.place)
    for (model, accelerator), new in after.items():
        if (model, accelerator) not in before:
            yield _note(model, f"has a profile on {accelerator}, where it had none", new.place)


def _by_model(settings: Settings) -> Mapping[tuple[str, str], PerformanceProfile]:
    return {(model.model_id, each.accelerator): each for model in settings.models for each in model.profiles}


def _pools(old: ClusterSettings, new: ClusterSettings) -> Iterator[SettingRemark]:
    before, after = ({pool.name: pool for pool in cluster.pools} for cluster in (old, new))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if now is None:
            yield _note(f"pool {name}", GONE, _file_of(was.place if was is not None else None))
        elif was is None:
            yield _note(f"pool {name}", f"is new: {_devices(now.devices)}", now.place)
        elif replace(was, place=now.place) != now:
            changes = [
                f"{word} {_shown(one)} instead of {_shown(other)}"
                for word, one, other in (
                    ("devices", _measured(now.devices), _measured(was.devices)),
                    ("device", now.device, was.device),
                    ("reserve", now.reserve, was.reserve),
                    ("tier", now.tier, was.tier),
                    ("costPerHour", now.cost_per_hour, was.cost_per_hour),
                )
                if one != other
            ]
            yield _note(f"pool {name}", f"changes: {'; '.join(changes)}", now.place)


def _measured(devices: int | None) -> int | str:
    return "as measured" if devices is None else devices


def _devices(devices: int | None) -> str:
    return "as many devices as are measured" if devices is None else f"{devices} devices"


def _rules(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    """A rule that is relaxed, or may be, needs a person: it may be what would have stopped the change."""
    for each in compare_rules(base.rules, head.rules):
        is_weaker = each.shift in (Shift.RELAXED, Shift.UNCLEAR)
        then = "this change is judged by the base's rules all the same" if is_weaker else "in force once this is merged"
        place = _file_of(each.rule.place) if each.is_gone else each.rule.place
        objection = Objection.HOLD if is_weaker else Objection.NONE
        yield _note(f"rule {each.rule.name}", f"{each.words}; {then}", place, objection)
    if head.pull_requests.auto_merge and not base.pull_requests.auto_merge:
        words = "lets everything that rules allow merge by itself, once this is merged"
        yield _note("pullRequests.autoMerge", words, Place(path=CONFIGURATION_FILE, line=1), Objection.HOLD)


def _file_of(place: Place | None) -> Place | None:
    """The file of what is gone, whose line means nothing any more."""
    return None if place is None else Place(path=place.path)


def _shown(value: object) -> str:
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _note(
    subject: str | ResourceKey, words: str, place: Place | None, objection: Objection = Objection.NONE
) -> SettingRemark:
    return SettingRemark(
        subject=subject if isinstance(subject, str) else subject.label,
        cluster="" if isinstance(subject, str) else subject.cluster,
        words=words,
        objection=objection,
        path=place.path if place else "",
        line=place.line if place else 0,
    )


def connections_changed(names: Iterable[str]) -> tuple[SettingRemark, ...]:
    """That a head changes what a review never takes from it."""
    place = Place(path="reconciler.yaml")
    return tuple(_note(name, f"changes; {NOT_TRIED}", place, Objection.HOLD) for name in names)


# Somebody else's change compared with what a plan would do. Two problems are posed with the same answers: that of the
# base and, where the head says anything else that sizes or costs, that of the head, in which what runs is what the base
# declares. The head's numbers are put in the place of a plan's and judged by the base's rules.

STOPPING = (VerdictKind.REFUSE, VerdictKind.HOLD, VerdictKind.CLAMP)
HELD = -1
"""Stands for the replicas of a variant that a plan holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedBase:
    """A base, decided once for all heads that are compared with it, from the answers of `recording`."""

    recording: Recording
    snapshot: Snapshot
    commit: Commit
    """Its files as they were read: a head has most of them too."""
    solved: Solved
    recommended: DecisionsOnDemand

    @classmethod
    def of(cls, recording: Recording, snapshot: Snapshot, commit: Commit) -> "ReviewedBase":
        """Decide on the base as a plan does."""
        solved = solve(snapshot, {})
        return cls(
            recording=recording,
            snapshot=snapshot,
            commit=commit,
            solved=solved,
            recommended=solved.decisions_of(solved.staged),
        )

    def needed(self, variants: Iterable[str]) -> dict[str, int]:
        """The replicas that a plan would give variants of these names; HELD for one that it would not decide."""
        named = {str(key): key for key in self.recommended}
        known = [(name, self.recommended[named[name]]) for name in variants if name in named]
        return {name: HELD if each.outcome is Outcome.HELD else each.desired.replicas for name, each in known}


def review(base: ReviewedBase, head: HeadView, *, head_commit: str) -> Review:
    """What the head does to the fleet that `base` declares."""
    snapshot = base.snapshot
    known = {variant.key: variant for variant in snapshot.variants}
    renamed = find_renamed(known, head)
    gone = {key for key, variant in known.items() if key not in renamed and is_gone(variant, head)}
    comparison = _Comparison.of(base, head, gone, renamed)
    kept = {key: after for key in known if (after := renamed.get(key) or head.variants.get(key)) and key not in gone}
    heirs = {variant.key for variant in renamed.values()}
    added = [head.variants[key] for key in sorted(head.variants.keys() - known.keys() - heirs)]
    allocations = (
        *filter(None, (comparison.remark(variant) for variant in known.values())),
        *(comparison.newcomer(variant, tuple(known.values())) for variant in added),
    )
    absences = (absence_of(known[key], head) for key in sorted(known.keys() - head.variants.keys() - renamed.keys()))
    before = sum(base.recommended.costs_of(key)[0] or 0.0 for key in base.recommended)
    moved = [each.added_cost_per_hour for each in allocations]
    return Review(
        base=snapshot.commit,
        head=head_commit,
        currency=snapshot.settings.currency,
        totals=TotalCost(
            cost_before_per_hour=round(before, DIGITS),
            cost_after_per_hour=round(before + comparison.added_cost(known.keys(), allocations), DIGITS),
        ),
        unpriced=sum(each is None for each in moved),
        clusters=len(snapshot.settings.clusters),
        allocations=allocations,
        others=(
            *filter(None, absences),
            *filter(None, (unreadable_target(known[key], head) for key in sorted(known))),
            *remark_on_variants(((known[key], after) for key, after in kept.items()), head.changed_at),
            *remark_on_releases(head.releases, kept.values()),
            *remark_on_settings(snapshot.settings, head.settings),
            *(listed_prices(snapshot, head.snapshot) if head.snapshot is not None else ()),
            *connections_changed(head.untried),
        ),
        failures=snapshot.observed.failures,
        refusals=snapshot.observed.refusals,
        findings=tuple(_only_in(head.findings, snapshot.findings)),
        notes=head.notes,
    )


def unreviewed(base: ReviewedBase, head_commit: str, reason: str) -> Review:
    """What is said of a head that cannot be judged."""
    currency = base.snapshot.settings.currency
    unknown = TotalCost(cost_before_per_hour=None, cost_after_per_hour=None)
    return Review(base=base.snapshot.commit, head=head_commit, currency=currency, totals=unknown, unreviewed=reason)


def find_renamed(known: Mapping[ResourceKey, Variant], head: HeadView) -> Mapping[ResourceKey, Variant]:
    """What the head declares under another name, kind or namespace, by the key of the base.

    The same model in the same cluster went and came once each.
    """

    def by_model(variants: Iterable[Variant]) -> Mapping[tuple[str, str], list[Variant]]:
        found: dict[tuple[str, str], list[Variant]] = {}
        for each in variants:
            found.setdefault((each.key.cluster, each.model.model_id), []).append(each)
        return found

    went = by_model(each for each in known.values() if each.key not in head.variants and is_gone(each, head))
    came = by_model(each for key, each in head.variants.items() if key not in known)
    return {
        old.key: came[model][0] for model, (old, *more) in went.items() if not more and len(came.get(model, ())) == 1
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A problem with a plan's answer to it, and the decisions in which variants get what a head gives them."""

    solved: Solved
    recommended: DecisionsOnDemand
    decisions: DecisionsOnDemand
    said: Mapping[ResourceKey, tuple[Spoken, ...]]
    wanted: Allocations
    use: DeviceUse
    taken: Counter[str]
    """Devices that all variants then take of each pool."""

    @classmethod
    def of(
        cls,
        solved: Solved,
        recommended: DecisionsOnDemand,
        wanted: Allocations,
        standing: Mapping[ResourceKey, Variant],
        *,
        is_decided: bool = True,
    ) -> "_Judged":
        """No pass changes what the head gives, and every rule has its say; decisions only where they are asked for.

        `standing` are variants of the base of which a replica becomes another one: what they cost now is what these do,
        for approvals, and for budgets, which what runs may exceed.
        """
        guard = solved.situation.formulated.guard
        if standing and guard.shared:
            known = {key: each for key, each in standing.items() if key in guard.subjects}
            subjects = {key: replace(guard.subjects[key], variant=each) for key, each in known.items()}
            guard = replace(guard, shared=guard.rules.shared({**guard.subjects, **subjects}))
        situation = replace(
            solved.situation,
            paid={key: each.cost_of(each.current) for key, each in standing.items()},
            formulated=replace(solved.situation.formulated, guard=guard),
        )
        solved = replace(solved, situation=situation)
        wanted = {key: wanted.get(key, now) for key, now in situation.current.items()}
        use, said = DeviceUse.of(situation.formulated.problem), {}
        decisions = recommended  # never read where nothing is asked of them
        if is_decided:
            holds = StagedPlan.aimed_at(situation, solved.solution).holds
            said = judge_changes(situation, StagedPlan(allocations=wanted, holds={}))
            staged = give_verdicts(situation, StagedPlan(allocations=wanted, holds=holds, said=said))
            decisions = solved.decisions_of(staged)
        return cls(
            solved=solved,
            recommended=recommended,
            decisions=decisions,
            said=said,
            wanted=wanted,
            use=use,
            taken=use.pools(wanted),
        )

    def spoken(self, key: ResourceKey) -> tuple[Spoken, ...]:
        """What rules say of a change: those that judge changes, and those that bound them."""
        guard, desired = self.solved.situation.formulated.guard, self.wanted[key]
        subject = guard.subjects.get(key)
        if subject is None:
            return ()
        is_move = desired.replicas > 0 and desired.accelerator != subject.current.accelerator
        limits = guard.rules.limits(subject).on(is_move=is_move)
        found = (
            guard.rules.broken(subject),
            limits.stopped(desired.replicas) if desired.replicas != subject.current.replicas or is_move else None,
            guard.rules.refuse(subject, desired.accelerator) if is_move else None,
            *self.said.get(key, ()),
        )
        return tuple(each for each in found if each is not None)

    def scarce(self, key: ResourceKey, base: "_Judged") -> Iterator[str]:
        """The pools that have fewer devices than all variants then take, of those that a change takes more of."""
        runs = base.solved.situation.current
        before = base.use.pools({key: runs[key]} if key in runs else {})
        after = self.use.pools({key: self.wanted[key]})
        for pool in self.solved.situation.formulated.problem.pools:
            if after[pool.name] > before[pool.name] and self.taken[pool.name] > pool.devices:
                yield f"{pool.name} has {pool.devices} devices, {self.taken[pool.name]} would be taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """Base and head, each as a problem that is solved; `gone` and `renamed` are variants of the base."""

    base: ReviewedBase
    head: HeadView
    gone: Set[ResourceKey]
    renamed: Mapping[ResourceKey, Variant]
    before: _Judged
    after: _Judged

    @classmethod
    def of(
        cls, base: ReviewedBase, head: HeadView, gone: Set[ResourceKey], renamed: Mapping[ResourceKey, Variant]
    ) -> "_Comparison":
        """Judge what the head gives every variant; what goes and what is renamed as a change of the base."""
        known = {variant.key: variant for variant in base.snapshot.variants}
        wanted = dict(_wanted(known, gone, renamed, head))
        found = () if head.snapshot is None else (each.key for each in head.snapshot.variants)
        is_asked = bool(gone or renamed or known.keys() - set(found))
        before = _Judged.of(base.solved, base.recommended, wanted, {}, is_decided=is_asked)
        if head.snapshot is None:
            return cls(base=base, head=head, gone=gone, renamed=renamed, before=before, after=before)
        heirs = {variant.key for variant in renamed.values()}
        declared = {key: each.current for key, each in head.variants.items() if tells_replicas(each)}
        given = {key: each for key, each in declared.items() if key not in known and key not in heirs}
        solved = solve(head.snapshot, {})
        standing = {
            each.key: known[each.key]
            for each in head.snapshot.variants
            if each.key in known
            and each.workload is not None
            and devices_of_replica(each) != devices_of_replica(known[each.key])
        }
        recommended = solved.decisions_of(solved.staged)
        after = _Judged.of(solved, recommended, {**wanted, **given}, standing)
        return cls(base=base, head=head, gone=gone, renamed=renamed, before=before, after=after)

    def judged(self, key: ResourceKey) -> _Judged:
        """The problem by which a variant is judged."""
        is_in_head = key in self.after.wanted and key not in self.gone and key not in self.renamed
        return self.after if is_in_head else self.before

    def remark(self, variant: Variant) -> AllocationRemark | None:
        """What becomes of a variant of the base; None where that is nothing."""
        key, judged = variant.key, self.judged(variant.key)
        after = None if key in self.gone else self.renamed.get(key) or self.head.variants.get(key, variant)
        given = None if after is None else after.current if tells_replicas(after) else variant.current
        is_same = judged.wanted[key] == variant.current and key not in judged.solved.situation.paid
        is_told = after is not None and after.hold is not None  # by a remark of its own
        runs_on = variant.current.accelerator
        needed_before = self.base.recommended.replicas_on(key, runs_on)
        is_replanned = not is_told and judged.recommended.replicas_on(key, runs_on) != needed_before
        if is_same and key not in self.gone and key not in self.renamed and not is_replanned:
            return None
        now = self.base.recommended[key]
        decision = _with_past(judged.decisions[key], now)
        needed = judged.recommended.replicas_on(key, decision.desired.accelerator)
        place = _place_of(after or variant)
        unknown = (
            (f"it is not known how fast {decision.desired.accelerator} is for it",) if is_unknown(decision) else ()
        )
        remark = AllocationRemark(
            variant=key,
            renamed=self.renamed[key].key if key in self.renamed else None,
            before=variant.current,
            after=given,
            objection=_objection(decision, now, needed),
            path=place.path,
            line=place.line,
            judged=decision,
            demand=judged.recommended[key].demand,
            needed=needed,
            needed_before=needed_before if is_replanned else None,
            added_cost_per_hour=self._added(decision, after, is_unknown(decision)),
            facts=unknown,
            carried=_carried(decision),
            carried_before=_carried(now, before=True),
            scaled_by=scaled_by(after) if after is not None and not scaled_by(variant) else "",
        )
        remark = _bounded(remark, variant, after, needed_before)
        spoken = () if is_same and key not in self.gone else judged.spoken(key)
        return self._with_objections(remark, judged, spoken, after)

    def newcomer(self, variant: Variant, known: Sequence[Variant]) -> AllocationRemark:
        """What is known of a variant that the base does not have, and what rules say of it."""
        remark = judge_newcomer(variant, known)
        if variant.key not in self.after.wanted:
            return remark
        return self._with_objections(remark, self.after, self.after.spoken(variant.key), variant)

    def _with_objections(
        self, remark: AllocationRemark, judged: _Judged, spoken: Sequence[Spoken], after: Variant | None
    ) -> AllocationRemark:
        """The remark with what rules, pools and the variant's own bounds say against it; the gravest counts."""
        breaks, approvals = _names(spoken, STOPPING), _names(spoken, (VerdictKind.NEEDS_APPROVAL,))
        scarce = tuple(judged.scarce(remark.variant, self.before))
        objection = Objection.REFUSE if breaks or scarce else remark.objection
        if objection is Objection.NONE and approvals:
            objection = Objection.APPROVAL
        facts = (*remark.facts, *scarce, *_outside_of_bounds(after))
        return replace(remark, objection=objection, breaks=breaks, approvals=approvals, facts=facts)

    def added_cost(self, known: Iterable[ResourceKey], remarks: Iterable[AllocationRemark]) -> float:
        """What all of it adds an hour, of what has a price: also where only a price changes."""
        named = {each.variant: each.added_cost_per_hour for each in remarks}
        others = [key for key in known if key not in named]
        repriced = (
            _difference(self.base.recommended.costs_of(key)[0], self.judged(key).decisions.costs_of(key)[1])
            for key in others
        )
        return sum(each for each in (*named.values(), *repriced) if each is not None)

    def _added(self, decision: Decision, after: Variant | None, is_unknown_move: bool) -> float | None:
        if is_unknown_move:
            return _added_by_move(decision, after, self.base, self.head)
        return _difference(decision.cost_before_per_hour, decision.cost_after_per_hour)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _names(spoken: Iterable[Spoken], kinds: Container[VerdictKind]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.rule.name for each in spoken if each.kind in kinds))


def _with_past(decision: Decision, base: Decision) -> Decision:
    """A decision on the head with what the base says of the time before."""
    was = {(each.name, each.statistic): each.before_s for each in base.slos}
    full = decision.fullness
    return replace(
        decision,
        fullness=None if full is None else replace(full, before=base.fullness.before if base.fullness else None),
        cost_before_per_hour=base.cost_before_per_hour,
        slos=tuple(
            replace(each, before_s=was.get((each.name, each.statistic), each.before_s)) for each in decision.slos
        ),
    )


def _bounded(remark: AllocationRemark, before: Variant, after: Variant | None, needed: int | None) -> AllocationRemark:
    """The remark with a maximum of its own that a head sets below what the load needs."""
    if after is None or needed is None or not tells_replicas(after):
        return remark
    was, now = (bounds_of(each, keeps_current=False).maximum for each in (before, after))
    if now is None or now == was or now >= needed:
        return remark
    words = f"its maxReplicas of {now} is below the {needed} that its load needs"
    objection = Objection.SLO if remark.objection in (Objection.NONE, Objection.APPROVAL) else remark.objection
    return replace(remark, facts=(*remark.facts, words), objection=objection)


def _outside_of_bounds(after: Variant | None) -> Iterator[str]:
    """That a head gives a variant fewer or more replicas than its own bounds allow."""
    if after is None or not tells_replicas(after):
        return
    own, replicas = bounds_of(after, keeps_current=False), after.current.replicas
    if replicas < own.minimum:
        yield f"that is below its minReplicas of {own.minimum}"
    elif own.maximum is not None and replicas > own.maximum:
        yield f"that is above its maxReplicas of {own.maximum}"


def _wanted(
    known: Mapping[ResourceKey, Variant],
    gone: Set[ResourceKey],
    renamed: Mapping[ResourceKey, Variant],
    head: HeadView,
) -> Iterator[tuple[ResourceKey, Allocation]]:
    """What the head gives each variant of the base: nothing to one that is gone, the same where it does not tell."""
    for key, variant in known.items():
        after = renamed.get(key) or head.variants.get(key)
        if key in gone:
            yield key, replace(variant.current, replicas=0)
        else:
            yield key, after.current if after is not None and tells_replicas(after) else variant.current


def _added_by_move(decision: Decision, after: Variant | None, base: ReviewedBase, head: HeadView) -> float | None:
    """What a move to an accelerator without a profile adds, at a price that the base knows too; None otherwise."""
    name, before = decision.desired.accelerator, decision.cost_before_per_hour
    prices = [
        next((each.cost_per_hour for each in settings.accelerators if each.name == name), None)
        for settings in (base.snapshot.settings, head.settings)
    ]
    if after is None or before is None or after.current_cost_per_hour is None or prices[0] != prices[1]:
        return None
    return after.current_cost_per_hour * after.current.replicas - before


def is_unknown(decision: Decision) -> bool:
    """Whether it is moved to what the base has no measure for."""
    is_serving = decision.desired.replicas > 0 and decision.hold is None
    return is_serving and decision.is_accelerator_change and decision.capacity_after is None


def _place_of(variant: Variant) -> Place:
    """Where its replicas are written, else where it is declared."""
    workload = variant.workload
    return (workload.replicas_place if workload is not None else None) or variant.place


def _carried(decision: Decision, *, before: bool = False) -> float | None:
    """How much of its demand a variant carries, as a fraction; None where that is not known, or nothing is asked."""
    carries = decision.capacity_before if before else decision.capacity_after
    return None if not decision.demand or carries is None else carries / decision.demand


def _objection(decision: Decision, base: Decision, needed: int | None) -> Objection:
    """What is missed afterwards, unless it was missed by more before; without a change unless it was missed before.

    Of two overloads the one that carries less is worse.
    """
    if decision.outcome is Outcome.HELD or is_unknown(decision):
        return Objection.HOLD
    is_changed = decision.desired != decision.current
    share, share_before = _carried(decision), _carried(base, before=True)
    is_known = share is not None and share_before is not None
    is_more, is_less = (
        is_known and (one or 0.0) > (other or 0.0) * (1 + TOLERANCE)
        for one, other in ((share, share_before), (share_before, share))
    )

    def worse(after: float, before: float | None, limit: float) -> bool:
        if before is not None and math.isinf(before) and math.isinf(after):
            return is_less or (is_changed and not is_more)
        return after > limit and (before is None or before <= limit or (is_changed and after >= before))

    full = decision.fullness
    is_missed = any(slo.after_s is not None and worse(slo.after_s, slo.before_s, slo.target_s) for slo in decision.slos)
    is_overfull = full is not None and full.after is not None and worse(full.after, full.before, full.limit)
    serves_nobody = decision.desired.replicas == 0 and bool(needed)
    return Objection.SLO if is_missed or is_overfull or serves_nobody else Objection.NONE


def _only_in(head: Iterable[Finding], base: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong in the head alone; a line that moved is the same finding."""
    known = {(each.place.path, each.place.field, each.message) for each in base}
    for finding in head:
        is_known = (finding.place.path, finding.place.field, finding.message) in known
        if not is_known and finding.severity is not Severity.NOTE:
            yield finding
