"""Which part of a fleet each of several shards decides: whatever decides about two variants together is in one.

A fleet is divided by namespace of a cluster, never within one: metrics are attributed there, quotas count there, and
one Prometheus query asks for it. Namespaces are one component where their variants share

- a model, its load or a target that a policy scales;
- a group of pull requests;
- a type of devices in a cluster that any of them runs on or may be moved to, a canary's included: whether a pool binds
  is only known from Prometheus, and who decides must not depend on that;
- a budget, or a limit on changes (`RuleBook.shared` says whose);
- a service class, and autoscalers that are tuned: those that behave alike get one setting;
- a rule that looks at the whole fleet: a spot share of all models, an expression about `fleet`. Then all are one;
- the inventory that the limiters of upstream's autoscaler grant from: all models that it sizes are one.

Everything here is from Git alone, so all shards of a commit agree. What is learned from many variants without deciding
about them together, such as how long starts take in a cluster, each shard learns from its own.
"""

import hashlib
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Catalog
from reconciler.domain.proposals import branches_of, collected_groups
from reconciler.domain.records import replace
from reconciler.domain.rules import AutoMergeRule, ExpressionRule, Rule, SpotRule
from reconciler.domain.settings import SPOT, ModelSettings, Settings
from reconciler.domain.shards import MOST_SHARDS, Shard, Share, shard_of
from reconciler.domain.snapshot import Variant, priority_of
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, ENGINE, GRANTED_TOGETHER, GROUP
from reconciler.errors import ConfigurationError
from reconciler.policy.judging import RuleBook
from reconciler.policy.port import Subject
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.snapshot.accelerators import find_or_name
from reconciler.snapshot.effective_settings import group_of_broken
from reconciler.snapshot.inventory import accelerators_of
from reconciler.snapshot.priors import shape_of, with_hub_shapes
from reconciler.snapshot.variants import build_catalogs


class _Namespace(NamedTuple):
    """A namespace of a cluster: the smallest part of a fleet."""

    cluster: str
    name: str


class _Group(NamedTuple):
    """A group of pull requests."""

    name: str


class _Shared(NamedTuple):
    """Anything else that joins namespaces."""

    what: str
    which: Hashable


def share_of(settings: Settings, declaration: Declaration, variants: Iterable[Variant]) -> Share | None:
    """What the shard of the settings decides of the declared `variants`; None where there is no other shard.

    ConfigurationError where a limit is too small to be divided.
    """
    shard = settings.shard
    if shard is None:
        return None
    if not 0 <= shard.index < shard.count <= MOST_SHARDS:
        raise ConfigurationError(f"shard {shard}: expected an index from 0 below a count of at most {MOST_SHARDS}")
    settings = with_hub_shapes(divided(settings), declaration.llmaz.models)
    variants = tuple(variants)
    components = _Components()
    for variant in variants:
        here = _here(variant.key)
        for shared in _shared_by(variant):
            components.join(here, shared)
    for key in (each.key for each in broken_variants(declaration)):
        components.join(_here(key), _Group(group_of_broken(key, settings)))
    for here, device in _devices(settings, build_catalogs(settings, declaration), variants):
        components.join(here, _Shared("devices", (here.cluster, device)))
    for name, members in _ruled_together(settings, variants):
        for variant in members:
            components.join(_here(variant.key), _Shared("rule", name))
    return _assigned(settings, shard, components, variants)


def broken_variants(declaration: Declaration) -> tuple[BrokenResource, ...]:
    """The resources that would declare variants and cannot be read."""
    kinds = {name for name, kind in KINDS.items() if kind.declares_variants}
    return tuple(each for each in declaration.broken if each.key.kind in kinds)


def divided(settings: Settings) -> Settings:
    """The settings of a shard with its portion of each limit that all pull requests share; 0 is still no limit."""
    shard = settings.shard
    if shard is None:
        return settings
    limits = settings.pull_requests
    limits = replace(
        limits,
        open_at_once=_portion(shard, "pullRequests.limits.open", limits.open_at_once),
        created_per_hour=_portion(shard, "pullRequests.limits.createdPerHour", limits.created_per_hour),
        merges_per_hour=_portion(shard, "pullRequests.limits.mergesPerHour", limits.merges_per_hour),
    )
    return replace(settings, pull_requests=limits, rules=tuple(_divided(shard, rule) for rule in settings.rules))


def _divided(shard: Shard, rule: Rule) -> Rule:
    if not isinstance(rule.asks, AutoMergeRule) or not rule.asks.per_hour:
        return rule
    return replace(rule, asks=replace(rule.asks, per_hour=_portion(shard, f"rule {rule}", rule.asks.per_hour)))


def _portion(shard: Shard, what: str, limit: int) -> int:
    if 0 < limit < shard.count:
        raise ConfigurationError(
            f"--shard {shard}: {what} is {limit}, which cannot be divided among {shard.count} shards: "
            f"set it to {shard.count} or more, or use at most {limit} shards"
        )
    return shard.portion(limit)


class _Components:
    """Namespaces and what they share, joined; the root of each is found in nearly no steps."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def join(self, one: Hashable, other: Hashable) -> None:
        self._above[self.root(one)] = self.root(other)

    def root(self, node: Hashable) -> Hashable:
        above, found = self._above, node
        while (higher := above.setdefault(found, found)) != found:
            found = higher
        while above[node] != found:
            above[node], node = found, above[node]
        return found

    def nodes(self) -> Iterator[tuple[Hashable, Hashable]]:
        """Each node with its root."""
        yield from ((node, self.root(node)) for node in list(self._above))


def _shared_by(variant: Variant) -> Iterator[Hashable]:
    cluster, model, workload = variant.key.cluster, variant.model, variant.workload
    yield _Namespace(model.cluster, model.namespace)
    if workload is not None:
        yield _Namespace(cluster, workload.key.namespace)
    if variant.tracked_by is not None:
        yield _Shared("target", variant.tracked_by)
    yield _Group(variant.settings[GROUP].value)
    if variant.settings[ENGINE].value in GRANTED_TOGETHER:
        yield _Shared("limiters", "")
    if variant.tuned is not None and variant.tuned.metric is not None:
        yield _Shared("tuning", "" if variant.service_class is None else variant.service_class.value.name)


def _devices(
    settings: Settings, catalogs: Mapping[str, Catalog], variants: Iterable[Variant]
) -> Iterator[tuple[_Namespace, str]]:
    """The device types that variants have or may get, where a cluster may say how many there are."""
    limited = {each.name for each in settings.clusters if each.prometheus is not None or each.pools}
    stated = {each.model_id: each for each in settings.models}
    has_shape: dict[str, bool] = {}
    seen: set[tuple[_Namespace, str]] = set()
    for variant in variants:
        cluster, model_id = variant.key.cluster, variant.model.model_id
        if cluster not in limited:
            continue
        if model_id not in has_shape:
            has_shape[model_id] = shape_of(stated.get(model_id, ModelSettings(model_id=model_id))) is not None
        catalog = catalogs[cluster]
        names = set(accelerators_of(variant))
        if has_shape[model_id] and _may_be_tried(variant):
            names.update(name for name, each in catalog.accelerators.items() if each.cost_per_hour)
        here = _here(variant.key)
        seen.update((here, name) for name in names if name)
    yield from ((here, find_or_name(catalogs[here.cluster], name).device) for here, name in sorted(seen))


def _here(key: ResourceKey) -> _Namespace:
    return _Namespace(key.cluster, key.namespace)


def _may_be_tried(variant: Variant) -> bool:
    """Whether a canary of it may be started on another accelerator."""
    is_free = variant.settings[ACCELERATOR].value == CHOOSE and not variant.is_autoscaled
    return is_free and variant.service_class is not None


def _ruled_together(settings: Settings, variants: tuple[Variant, ...]) -> Iterator[tuple[str, Iterable[Variant]]]:
    """What rules judge together, with a name for each."""
    has_spot = any(pool.tier == SPOT for cluster in settings.clusters for pool in cluster.pools)
    if any(_is_of_fleet(rule, has_spot=has_spot) for rule in settings.rules):
        yield "fleet", variants
        return
    book = RuleBook(settings.rules)
    if not book.shares_limits:
        return
    # Neither the time nor what was measured says whose a limit is.
    subjects = {each.key: Subject(now_s=0.0, variant=each, priority=priority_of(each)) for each in variants}
    for limit in book.shared(subjects):
        yield f"{limit.rule}\0{limit.bucket}", (subjects[key].variant for key in limit.members)


def _is_of_fleet(rule: Rule, *, has_spot: bool) -> bool:
    asks = rule.asks
    if isinstance(asks, SpotRule):
        return asks.of_fleet and has_spot
    return isinstance(asks, ExpressionRule) and "fleet." in f"{asks.when} {asks.to}"


def _assigned(settings: Settings, shard: Shard, components: _Components, variants: tuple[Variant, ...]) -> Share:
    """Each component by the hash of a name that hardly changes as the fleet does."""
    members: defaultdict[Hashable, set[_Namespace]] = defaultdict(set)
    groups: dict[str, Hashable] = {}
    for node, root in components.nodes():
        if isinstance(node, _Namespace):
            members[root].add(node)
        elif isinstance(node, _Group):
            groups[node.name] = root
    clusters: defaultdict[str, set[Hashable]] = defaultdict(set)
    for root, found in members.items():
        for here in found:
            clusters[here.cluster].add(root)
    whole = frozenset(cluster for cluster, roots in clusters.items() if len(roots) == 1)
    shards = {root: shard_of(_identity(found, whole), shard.count) for root, found in members.items()}
    prefix = settings.git.branch_prefix
    branches: dict[str, int] = {}
    for cluster in sorted(whole):
        for name in collected_groups(cluster):
            branches |= dict.fromkeys(branches_of(prefix, name), shards[next(iter(clusters[cluster]))])
    for group, root in sorted(groups.items()):
        branches |= dict.fromkeys(branches_of(prefix, group), shards[root])
    namespaces = {(here.cluster, here.name): shards[root] for root, found in members.items() for here in found}
    own = sum(namespaces[each.key.cluster, each.key.namespace] == shard.index for each in variants)
    parts = sum(index == shard.index for index in shards.values())
    return Share(
        shard=shard,
        namespaces=namespaces,
        branches=branches,
        split=frozenset(clusters) - whole,
        words=f"Shard {shard} decides {own} of {len(variants)} variants, in {parts} of {len(shards)} parts that share "
        "nothing.",
    )


def _identity(namespaces: Iterable[_Namespace], whole: Container[str]) -> str:
    """The name with the smallest hash among those of its whole clusters and its namespaces of others.

    Another member changes it seldom, the less the more there are.
    """
    names = {each.cluster if each.cluster in whole else f"{each.cluster}/{each.name}" for each in namespaces}
    return min(names, key=lambda each: hashlib.sha256(each.encode()).digest())
