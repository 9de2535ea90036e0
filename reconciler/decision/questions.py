"""What must be asked, so that every model's engine and every rule has what it looks at, and nothing more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from reconciler.decision.engines.port import EngineQuestion
from reconciler.decision.engines.registry import ENGINES, choose_engines
from reconciler.decision.variant_states import EngineChoice
from reconciler.domain.canaries import LATEST_S
from reconciler.domain.identity import ModelKey
from reconciler.domain.metric_targets import TrackedTarget
from reconciler.domain.records import dataclass, replace
from reconciler.domain.rules import BudgetRule
from reconciler.domain.settings import DEFAULT_RETENTION_S, SaturationRules, Settings, ZeroRules
from reconciler.domain.snapshot import Variant, priority_of
from reconciler.domain.variant_settings import PAYBACK_S, SYNC_DELAY_S
from reconciler.metrics.history import watched_target
from reconciler.metrics.queries import QueryNeeds
from reconciler.policy.judging import RuleBook
from reconciler.policy.port import Subject
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.build import followed_targets, saturation_rules, zero_rules
from reconciler.snapshot.canaries import is_canary


@dataclass(slots=True, kw_only=True)
class Asking:
    """What one cluster is asked about: namespaces with the replicas expected there, and metric targets.

    `loads` are of models that a queue or saturation sizes, `saturation` and `traced` as in `QueryNeeds`. `past` counts
    the models that a queue sizes, `usual` the replicas of all that follow the rule of `payback`: the past is asked for
    over the longest `payback_s` of them. `watched` are
    scale targets whose live replicas are held against Git, over the longest of their sync delays.
    """

    loads: dict[str, int] = field(default_factory=dict)
    saturation: dict[str, int] = field(default_factory=dict)
    traced: dict[str, int] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)
    usual: dict[str, int] = field(default_factory=dict)
    payback_s: float = 0.0
    retention_s: float = DEFAULT_RETENTION_S
    targets: list[TrackedTarget] = field(default_factory=list)
    watched: dict[str, int] = field(default_factory=dict)
    sync_delay_s: float = 0.0

    @property
    def needs(self) -> QueryNeeds:
        """What is asked beyond loads."""
        return QueryNeeds(
            saturation=self.saturation,
            traced=self.traced,
            retention_s=self.retention_s,
            past=self.past,
            usual=self.usual,
            payback_s=self.payback_s,
        )


def ask_by_cluster(variants: Sequence[Variant], declaration: Declaration) -> dict[str, Asking]:
    """What each cluster with variants is asked."""
    choices = choose_engines(variants, {})
    zero, rules = zero_rules(declaration, choices), saturation_rules(declaration, choices)
    asked: dict[str, Asking] = {}
    for model, members in _by_model(variants).items():
        asking = asked.setdefault(model.cluster, Asking())
        _ask(asking, members, choices[model], rules.get(model, SaturationRules()))
        asking.retention_s = max(asking.retention_s, zero.get(model, ZeroRules()).retention_s)
    for variant in variants:
        _watch(asked[variant.key.cluster], variant)
    for target in followed_targets(variants, declaration):
        asked[target.key.cluster].targets.append(target)
    return asked


def variants_with_past(
    settings: Settings, variants: Iterable[Variant], now_s: float
) -> tuple[tuple[Variant, float], ...]:
    """The variants of which something depends on what Git said before, and how far back it does (Unix seconds).

    It is asked for by rules, and by canaries, which end some days after they began.
    """
    variants = tuple(variants)
    since_s = dict.fromkeys((each.key for each in variants if is_canary(each)), now_s - LATEST_S)
    for variant, asked_s in _asked_by_rules(settings, variants, now_s):
        since_s[variant.key] = min(asked_s, since_s.get(variant.key, asked_s))
    return tuple((each, since_s[each.key]) for each in variants if each.key in since_s)


def _asked_by_rules(settings: Settings, variants: Iterable[Variant], now_s: float) -> tuple[tuple[Variant, float], ...]:
    rules = RuleBook(settings.rules)
    if not rules.looks_back:
        return ()
    subjects = (Subject(now_s=now_s, variant=variant, priority=priority_of(variant)) for variant in variants)
    asked = ((subject.variant, rules.past_since(subject)) for subject in subjects)
    return tuple((variant, since_s) for variant, since_s in asked if since_s is not None)


def variants_with_spending(
    settings: Settings, variants: Iterable[Variant], now_s: float
) -> tuple[tuple[Variant, float], ...]:
    """The variants whose spending a budget counts, and since when (Unix seconds)."""
    budgets = tuple(each for each in settings.rules if isinstance(each.asks, BudgetRule))
    return _asked_by_rules(replace(settings, rules=budgets), variants, now_s)


def _ask(asking: Asking, members: list[Variant], choice: EngineChoice, rules: SaturationRules) -> None:
    asked = ENGINES[choice.engine].questions(members, rules)
    if EngineQuestion.LOAD in asked:
        _count(asking.loads, members)
    if EngineQuestion.REPLICAS in asked:
        _count(asking.saturation, members)
    if EngineQuestion.PAST in asked:
        namespace = members[0].model.namespace
        asking.past[namespace] = asking.past.get(namespace, 0) + 1
    if EngineQuestion.USUAL in asked:
        _count(asking.usual, members)
        asking.payback_s = max(asking.payback_s, *(member.settings[PAYBACK_S].value for member in members))
    if EngineQuestion.TRACES in asked:
        _count(asking.traced, members)


def _watch(asking: Asking, variant: Variant) -> None:
    target = watched_target(variant)
    if target is not None:
        asking.watched[target[0]] = asking.watched.get(target[0], 0) + 1
        asking.sync_delay_s = max(asking.sync_delay_s, variant.settings[SYNC_DELAY_S].value)


def _count(namespaces: dict[str, int], members: list[Variant]) -> None:
    namespace = members[0].model.namespace
    namespaces[namespace] = namespaces.get(namespace, 0) + sum(member.current.replicas for member in members)


def _by_model(variants: Iterable[Variant]) -> Mapping[ModelKey, list[Variant]]:
    models: dict[ModelKey, list[Variant]] = {}
    for variant in variants:
        models.setdefault(variant.model, []).append(variant)
    return models
