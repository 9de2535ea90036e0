"""From the pieces of single files to all that Kthena declares, and what only shows when all of it is seen together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from reconciler.domain.declared.kthena import (
    BindingResource,
    KthenaResources,
    ModelResource,
    PolicyResource,
    ServingResource,
)
from reconciler.domain.declared.tracking import Rate, Select
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.manifests.wording import join_words
from reconciler.resources.duplicates import report_duplicate, split_duplicates
from reconciler.resources.kthena.policy_specs import describe_stuck
from reconciler.resources.kthena.tracked_targets import Followed, Following, Unfollowed, follow

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedKthena:
    """What is declared, what cannot be used, and what is wrong between resources."""

    declared: KthenaResources
    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]


def fold_kthena(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> FoldedKthena:
    """Fold the pieces of all files; `broken` are the resources that cannot be used already."""
    policies, broken_policies = split_duplicates(_pick(pieces, PolicyResource))
    bindings, broken_bindings = split_duplicates(_pick(pieces, BindingResource))
    models, broken_models = split_duplicates(_pick(pieces, ModelResource))
    servings, broken_servings = split_duplicates(_pick(pieces, ServingResource))
    doubled = (*broken_policies, *broken_bindings, *broken_models, *broken_servings)
    declared = KthenaResources(
        policies=tuple(policies), bindings=tuple(bindings), models=tuple(models), servings=tuple(servings)
    )
    found = find_contradictions(declared, (each.key for each in (*broken, *doubled)))
    return FoldedKthena(
        declared=declared,
        broken=(*doubled, *found.broken),
        findings=(*map(report_duplicate, doubled), *found.findings),
    )


def _pick(pieces: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [piece for piece in pieces if isinstance(piece, kind)]


_POLICY_KINDS = ("AutoscalingPolicy", "AutoscalingPolicyBinding")


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The resources that cannot be used because of others, and what is wrong between them."""

    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]


def find_contradictions(resources: KthenaResources, broken: Iterable[ResourceKey]) -> Contradictions:
    """Everything that is wrong between the resources of a commit; `broken` are those it has but nobody can use."""
    every = tuple(follow(resources, frozenset(broken)))
    followed = [each for each in every if isinstance(each, Followed)]
    findings = (*_report_unfollowed(every), *_report_missing(followed), *_report_rivals(followed))
    return Contradictions(
        broken=(
            *(
                BrokenResource(key=each.key, place=each.place, reason=each.reason)
                for each in every
                if isinstance(each, Unfollowed)
            ),
            *_without_targets(followed),
        ),
        findings=(*findings, *_report_stalls(followed)),
    )


def _report_unfollowed(every: Iterable[Following]) -> Iterator[Finding]:
    for each in every:
        if isinstance(each, Unfollowed) and not each.is_known:
            severity = Severity.ERROR if each.is_mistake else Severity.WARNING
            yield Finding(place=each.at, severity=severity, message=each.reason)


def _report_missing(followed: Iterable[Followed]) -> Iterator[Finding]:
    for each in followed:
        for missing in each.missing:
            severity = Severity.ERROR if missing.is_mistake else Severity.WARNING
            yield Finding(place=_named(each.place), severity=severity, message=_without_target(missing.words))


def _without_target(words: str) -> str:
    return words if words.endswith("?") else f"{words}: nothing to write to"


def _without_targets(followed: Iterable[Followed]) -> Iterator[BrokenResource]:
    """What has nothing to scale would be seen nowhere in a plan."""
    for each in followed:
        if each.missing and len(each.missing) == len(each.target.backends):
            yield BrokenResource(key=each.target.key, place=each.place, reason=each.missing[0].words)


def _report_rivals(followed: Iterable[Followed]) -> Iterator[Finding]:
    """Upstream lets two policies scale one workload, and both undo each other."""
    claims: dict[ResourceKey, list[Followed]] = {}
    for each in followed:
        for key in dict.fromkeys(backend.scale_target for backend in each.target.backends):
            claims.setdefault(key, []).append(each)
    for key, rivals in claims.items():
        for each in rivals if len(rivals) > 1 else ():
            others = join_words([_name(other) for other in rivals if other is not each], "and")
            message = f"{key.kind} {key.label} is scaled by {others} too: leave one of them"
            yield Finding(place=_named(each.place), severity=Severity.ERROR, message=message)


def _name(followed: Followed) -> str:
    key = followed.target.key
    owner = "" if key.kind in _POLICY_KINDS else "the policy of "
    return f"{owner}{key.kind} {key.label} ({followed.place})"


def _named(place: Place) -> Place:
    return place if place.field else replace(place, field="spec")


def _report_stalls(followed: Iterable[Followed]) -> Iterator[Finding]:
    """An `And` of a small percentage moves nothing while that percentage is less than one replica."""
    for each in followed:
        backends = [backend.backend for backend in each.target.backends]
        lowest, highest = sum(each.min_replicas for each in backends), sum(each.max_replicas for each in backends)
        behavior = each.spec.policy.behavior
        for rate, place in ((behavior.down, each.spec.down_place), (behavior.up, each.spec.up_place)):
            first = _first_moving(rate)
            if first > max(lowest, 1) and lowest < highest:
                whole = "so it never moves" if highest < first else "so it stops there"
                message = (
                    f"And takes the tighter limit, and {rate.percent} % of fewer than {first} replicas round to none: "
                    f"{each.target.key.kind} {each.target.key.label} has {lowest} to {highest}, {whole}"
                )
                yield Finding(place=place, severity=Severity.WARNING, message=message)


def _first_moving(rate: Rate) -> int:
    """The smallest count of which the percentage is one replica; 0 where the percentage does not limit."""
    if rate.select is not Select.AND or rate.period_s <= 0 or describe_stuck(rate):
        return 0
    return ceil(100 / rate.percent)
