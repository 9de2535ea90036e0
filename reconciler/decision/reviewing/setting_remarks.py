"""What else a head changes that decisions rest on: owners, classes, bounds, prices, profiles, pools, rules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.reported.review import HeadView, Objection, SettingRemark
from reconciler.domain.rules import AutoMergeRule
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import SETTING_DEFINITIONS

GONE = "is gone"
CONFIGURATION_FILE = "reconciler.yaml"
"""Where people look for a setting of which nobody wrote down the line."""
NOT_TRIED = "a review does not try it: the base's stands"


def remark_on_variants(known: Mapping[ResourceKey, Variant], head: HeadView) -> Iterator[SettingRemark]:
    """Holds that the head brings and takes away, and every setting of a variant that becomes another."""
    for key in sorted(known.keys() & head.variants.keys()):
        before, after = known[key], head.variants[key]
        yield from _holds(before, after)
        yield from _class(before, after)
        for setting in SETTING_DEFINITIONS:
            was, now = before.settings[setting].value, after.settings[setting].value
            if was != now:
                source = after.settings[setting].source.place or after.place
                words = f"{setting.name} is {_shown(now)} instead of {_shown(was)}"
                yield _remark(key.label, words, source)


def _holds(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    had, has = {hold.kind for hold in before.holds}, {hold.kind for hold in after.holds}
    for hold in after.holds:
        if hold.kind not in had:
            words = f"is held from then on: {hold.words}"
            yield _remark(after.key.label, words, hold.place or after.place, Objection.HOLD)
    for hold in before.holds:
        if hold.kind not in has:
            yield _remark(after.key.label, f"is not held any more: {hold.words}", after.place)


def _class(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    old = before.service_class.value if before.service_class is not None else None
    new = after.service_class.value if after.service_class is not None else None
    if old is not None and new is not None and replace(old, place=new.place) != new:
        named = f"is {new.name} instead of {old.name}" if old.name != new.name else f"{new.name} changes"
        yield _remark(after.key.label, f"its service class {named}", after.place)
    elif old is None and new is not None:
        yield _remark(after.key.label, f"its service class is {new.name}, where it had none", after.place)
    elif old is not None and new is None:
        words = f"has no service class any more, and no target: it had {old.name}"
        yield _remark(after.key.label, words, after.place, Objection.HOLD)


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
            yield _remark(old.name, f"{GONE} from the catalog", _file_of(old.place))
        elif new.cost_per_hour != old.cost_per_hour:
            words = f"costs {_price(new.cost_per_hour, head)} instead of {_price(old.cost_per_hour, base)}"
            yield _remark(old.name, words, new.place)
    known = {each.name for each in base.accelerators}
    for new in head.accelerators:
        if new.name not in known:
            yield _remark(new.name, f"is new in the catalog: it costs {_price(new.cost_per_hour, head)}", new.place)


def _price(cost_per_hour: float | None, settings: Settings) -> str:
    return "an unknown price" if cost_per_hour is None else f"{cost_per_hour:g} {settings.currency}/h"


def _profiles(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    before, after = _by_model(base), _by_model(head)
    for (model, accelerator), old in before.items():
        new = after.get((model, accelerator))
        if new is None:
            yield _remark(model, f"its profile on {accelerator} {GONE}", _file_of(old.place))
        elif replace(old, place=new.place, learning=new.learning) != new:
            yield _remark(model, f"its profile on {accelerator} changes", new.place)
    for (model, accelerator), new in after.items():
        if (model, accelerator) not in before:
            yield _remark(model, f"has a profile on {accelerator}, where it had none", new.place)


def _by_model(settings: Settings) -> Mapping[tuple[str, str], PerformanceProfile]:
    return {(model.model_id, each.accelerator): each for model in settings.models for each in model.profiles}


def _pools(old: ClusterSettings, new: ClusterSettings) -> Iterator[SettingRemark]:
    before, after = ({pool.name: pool for pool in cluster.pools} for cluster in (old, new))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if now is None:
            yield _remark(f"pool {name}", GONE, _file_of(was.place if was is not None else None))
        elif was is None:
            yield _remark(f"pool {name}", f"is new: {_devices(now.devices)}", now.place)
        elif replace(was, place=now.place) != now:
            devices = (_devices(now.devices), _devices(was.devices))
            changed = f"has {devices[0]} instead of {devices[1]}" if devices[0] != devices[1] else "changes"
            yield _remark(f"pool {name}", changed, now.place)


def _devices(devices: int | None) -> str:
    return "as many devices as are measured" if devices is None else f"{devices} devices"


def _rules(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    """A rule that is gone or asks for something else needs a person: it may be what would have stopped the change."""
    now = {rule.name: rule for rule in head.rules}
    for rule in base.rules:
        new = now.get(rule.name)
        if new is None or (new.asks, new.scope) != (rule.asks, rule.scope):
            words = GONE if new is None else "asks for something else"
            place = _file_of(rule.place) if new is None or not new.place.path else new.place
            words = f"{words}; this change is judged by the base's rules all the same"
            yield _remark(f"rule {rule.name}", words, place, Objection.HOLD)
    known = {rule.name for rule in base.rules}
    for rule in head.rules:
        if rule.name not in known:
            merges = isinstance(rule.asks, AutoMergeRule)
            words = "lets changes merge by themselves" if merges else "holds"
            objection = Objection.HOLD if merges else Objection.NONE
            yield _remark(f"rule {rule.name}", f"is new: it {words} once this is merged", rule.place, objection)
    if head.pull_requests.auto_merge and not base.pull_requests.auto_merge:
        words = "lets everything that rules allow merge by itself, once this is merged"
        yield _remark("pullRequests.autoMerge", words, Place(path=CONFIGURATION_FILE, line=1), Objection.HOLD)


def _file_of(place: Place | None) -> Place | None:
    """The file of what is gone, whose line means nothing any more."""
    return None if place is None else Place(path=place.path)


def _shown(value: object) -> str:
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _remark(subject: str, words: str, place: Place | None, objection: Objection = Objection.NONE) -> SettingRemark:
    return SettingRemark(
        subject=subject,
        words=words,
        objection=objection,
        path=place.path if place else "",
        line=place.line if place else 0,
    )


def connections_changed(names: Iterable[str]) -> tuple[SettingRemark, ...]:
    """That a head changes what a review never takes from it."""
    place = Place(path="reconciler.yaml")
    return tuple(_remark(name, f"changes; {NOT_TRIED}", place, Objection.HOLD) for name in names)
