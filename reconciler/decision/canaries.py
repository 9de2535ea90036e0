"""Which canaries are started and which are taken back; nothing else of a plan rests on a prior.

The rules are in rules/prior.md#canary.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.decision.devices import Devices
from reconciler.decision.engines.trials import SizedTrial, find_trials
from reconciler.domain.canaries import (
    COPIED_KINDS,
    ENOUGH_HOURS,
    LATEST_S,
    UNPLACED_S,
    CanaryOrder,
    CanaryStep,
    Measured,
)
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import Load
from reconciler.domain.plan import Decision
from reconciler.domain.priors import Trial
from reconciler.domain.proposals import ProposalState, ProposedChange
from reconciler.domain.records import replace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import GROUP
from reconciler.manifests.wording import join_words
from reconciler.snapshot.accelerators import find_or_name, why_kept
from reconciler.snapshot.canaries import is_canary, is_own_label, new_canary

PAID_BACK_HOURS = 30 * 24
"""In which an experiment that succeeds at the slow edge earns what it costs at most."""
BEYOND_TARGET = 1.1
"""Times its target: a mean so far above it is no noise."""
FEWEST_REQUESTS = 30.0
"""In the window of a mean that says anything."""
HOUR_S = 3600.0


def with_orders(snapshot: Snapshot, sized: Sequence[SizedTrial], decisions: Sequence[Decision]) -> Snapshot:
    """The snapshot with canaries that are started and taken back now; the same one where there are none.

    `decisions` are those of a plan without. A group starts one at a time, for a model that has none.
    """
    orders = dict(_ends(snapshot, sized))
    started = list(_starts(snapshot, sized, decisions))
    if not orders and not started:
        return snapshot
    orders |= {variant.key: order for variant, order in started}
    variants = sorted((*snapshot.variants, *(variant for variant, _ in started)), key=lambda each: each.key)
    return replace(snapshot, variants=tuple(variants), canaries=orders)


def _starts(
    snapshot: Snapshot, sized: Sequence[SizedTrial], decisions: Iterable[Decision]
) -> Iterator[tuple[Variant, CanaryOrder]]:
    settings = snapshot.settings
    if not sized:
        return
    changes: dict[ProposalState, list[ProposedChange]] = {each: [] for each in ProposalState}
    for proposal in snapshot.proposals:
        changes[proposal.state] += proposal.changes
    trials = list(_lasting(snapshot, sized, changes[ProposalState.OPEN]))
    proposed, merged = (
        {each.resource for each in changes[state]} for state in (ProposalState.OPEN, ProposalState.MERGED)
    )
    busy = {_whole(each) for each in snapshot.variants if is_canary(each) and each.current.replicas}
    groups = {each.settings[GROUP].value for each in snapshot.variants if _whole(each) in busy and is_canary(each)}
    room, known = _Room(snapshot, decisions), {each.key for each in snapshot.variants}
    written: set[str] = set()
    found: list[tuple[Variant, Variant, Trial]] = []
    for trial in trials:
        if trial.model.whole in busy:
            continue
        original, canary = _written(snapshot, trial)
        if original is None or not isinstance(canary, Variant):
            continue
        # What a person removed after its merge is not asked for again while the forge shows that.
        if str(canary.key) not in merged:
            found.append((canary, original, trial))
    for canary, original, trial in sorted(found, key=lambda each: str(each[0].key) not in proposed):
        group, path, model = canary.settings[GROUP].value, canary.document.path, trial.model.whole
        # Two originals can lead to one name, or to one file in namespaces that share a directory.
        is_another = canary.key not in known and path not in written
        if is_another and group not in groups and model not in busy and room.take(canary):
            groups.add(group)
            busy.add(model)
            known.add(canary.key)
            written.add(path)
            yield canary, _start(canary, original, trial, settings.currency)


def _whole(variant: Variant) -> ModelKey:
    return variant.model.whole


def _lasting(
    snapshot: Snapshot, sized: Sequence[SizedTrial], open_changes: Iterable[ProposedChange]
) -> Iterator[Trial]:
    """What is worth a trial, and what was when its pull request was opened and would still save anything."""
    worth = [each for each in find_trials(sized, snapshot) if _is_paid_back(each)]
    yield from worth
    proposed = {
        (each.accelerator_after, each.resource.rpartition("/")[0]) for each in open_changes if not each.replicas_before
    }
    for one in sized:
        each, shares = one.trial, one.shares_saved_per_hour
        if each is None or each in worth or shares is None or shares[1] <= 0:
            continue
        places = (f"{each.model.cluster}/{each.model.namespace}/{kind}" for kind in COPIED_KINDS)
        if any((each.accelerator, place) in proposed for place in places):
            yield each


def _is_paid_back(trial: Trial) -> bool:
    return trial.saves_per_hour[0] * PAID_BACK_HOURS > trial.replica_cost_per_hour * LATEST_S / HOUR_S


def why_not_tried(snapshot: Snapshot, trial: Trial) -> str:
    """Why no canary of a trial can be written; empty where one can."""
    original, canary = _written(snapshot, trial)
    if original is None:
        return "no variant of it is a Deployment or a Playground in Git"
    return canary if isinstance(canary, str) else ""


def _written(snapshot: Snapshot, trial: Trial) -> tuple[Variant | None, Variant | str]:
    """The variant that a canary would be a copy of, the largest first, and the canary or why there can be none."""
    mine = [each for each in snapshot.variants if each.model == trial.model and not each.is_autoscaled]
    catalog = snapshot.catalogs[trial.model.cluster]
    accelerator = find_or_name(catalog, trial.accelerator)
    group_by = snapshot.settings.pull_requests.group_by
    first: Variant | None = None
    reason = ""
    for each in sorted(mine, key=lambda each: (-each.current.replicas, each.key)):
        workload = each.workload
        if workload is None or workload.copies_at is None:
            continue
        first, found = first or each, new_canary(each, accelerator, workload.copies_at, group_by)
        kept = why_kept(workload, find_or_name(catalog, each.current.accelerator), accelerator)
        if isinstance(found, Variant) and not kept:
            return each, found
        reason = reason or (kept if isinstance(found, Variant) else found)
    return first, reason


class _Room:
    """What pools have left beside all that runs and is planned: a canary takes nobody's devices."""

    def __init__(self, snapshot: Snapshot, decisions: Iterable[Decision]) -> None:
        self._devices = Devices.of(snapshot)
        self._left = {pool.name: pool.devices for pool in self._devices.pools}
        variants = {each.key: each for each in snapshot.variants}
        for decision in decisions:
            variant = variants.get(decision.variant)
            if variant is None:
                continue
            # What runs goes only when what is planned serves; on one accelerator the larger number holds both.
            both = sorted((decision.current, decision.desired), key=lambda each: each.replicas)
            for allocation in {each.accelerator: each for each in both}.values():
                taken = self._devices.taken(replace(variant, current=allocation))
                self._take({name: each * allocation.replicas for name, each in taken.items()})

    def take(self, canary: Variant) -> bool:
        """Whether one replica of it fits, which then has its devices."""
        needed = self._devices.taken(canary)
        fits = all(count <= self._left.get(name, 0) for name, count in needed.items())
        if fits:
            self._take(needed)
        return fits

    def _take(self, taken: Mapping[str, int]) -> None:
        left = Counter(self._left)
        left.subtract(taken)
        self._left = dict(left)


def _start(canary: Variant, original: Variant, trial: Trial, currency: str) -> CanaryOrder:
    price, whole = trial.replica_cost_per_hour, trial.planned_cost_per_hour
    least, _, most = trial.saves_per_hour
    spent, days = price * LATEST_S / HOUR_S, LATEST_S / 86_400
    copied = canary.copied
    beside = f"{original.current.replicas} of {original.key.label} on {original.current.accelerator}"
    edge = f"with {trial.replicas} replicas at the slow edge"
    told = [
        f"An experiment: one replica on {trial.accelerator} beside the {beside}. Nothing of it is proven.",
        f"It costs {price:.2f} {currency}/h, {spent:.0f} {currency} in the {days:.0f} days that it has.",
        f"It would save {least:.2f} to {most:.2f} of {whole:.2f} {currency}/h (90 %), {edge}.",
        f"This is estimated, not measured (a prior): {trial.evidence}.",
        DECIDES,
        ENDS,
        MEANWHILE,
        OF_THE_MODEL if copied is not None and copied.flavor else LABELS,
    ]
    own = [] if original.workload is None else sorted(filter(is_own_label, original.workload.template_labels))
    if own and not (copied is not None and copied.flavor):
        told.append(
            f"A Service or InferencePool that selects by {join_words(own, 'or')} sends it no request, and then nothing "
            "is measured: before you merge, let it select by labels that all pods of the model have."
        )
    if copied is not None and copied.place.caution:
        told.append(f"{copied.place.caution}.")
    words = tuple(told)
    return CanaryOrder(step=CanaryStep.START, accelerator=trial.accelerator, words=words)


def _ends(snapshot: Snapshot, sized: Sequence[SizedTrial]) -> Iterator[tuple[ResourceKey, CanaryOrder]]:
    """The canaries that are taken back: each has one replica, as it was merged."""
    found = {(each.asked.model, each.prior.accelerator): each for each in sized}
    ending = {
        change.resource
        for each in snapshot.proposals
        if each.state is ProposalState.OPEN
        for change in each.changes
        if not change.replicas_after
    }
    for canary in snapshot.variants:
        if not is_canary(canary) or canary.current.replicas != 1 or canary.holds:
            continue
        measured = snapshot.tried.get(canary.key)
        trial = found.get((canary.model.whole, canary.current.accelerator))
        is_open = str(canary.key) in ending
        harm = _harm(snapshot, canary, measured, 1.0 if is_open else BEYOND_TARGET)
        reason = harm or _why_ended(snapshot, canary, measured, trial, is_open=is_open)
        if reason:
            told = tuple(told_measures(measured))
            yield (
                canary.key,
                CanaryOrder(
                    step=CanaryStep.END,
                    accelerator=canary.current.accelerator,
                    words=(f"The canary is taken back: {reason}.", *told, REMEMBERED),
                    is_repair=bool(harm),
                ),
            )


DECIDES = (
    f"{ENOUGH_HOURS} hours with load decide: what it measured takes the place of the prior, and a pull request of its "
    "own moves replicas to it, or takes it back."
)
ENDS = (
    "It is taken back before if it misses a target that the others keep, finds no node for "
    f"{UNPLACED_S / HOUR_S:.0f} hours, would cost more even at the fast edge, or has measured too little "
    f"{LATEST_S / 86_400:.0f} days after the merge."
)
MEANWHILE = "Meanwhile nothing is scaled down for it: what it serves counts for nobody."
LABELS = (
    "Its pods have the labels of the others, but those that name a variant or an accelerator, and one more: what "
    "selects those selects it, Services and pools as well as network policies."
)
OF_THE_MODEL = (
    "Its pods have the labels that llmaz gives all pods of the model: InferencePools that select by those send it "
    "requests, the Service of the first Playground does not."
)
REMEMBERED = (
    "Its file stays, with no replicas: while it is there the accelerator is not tried again for this model. Delete it "
    "to have it tried again."
)


def told_measures(measured: Measured | None) -> Iterator[str]:
    """What a canary measured, in a sentence."""
    if measured is None or not measured.hours:
        yield "It measured nothing."
        return
    band = measured.prior.spread
    beyond = ", which the band did not hold" if measured.is_outside else ""
    yield (
        f"It measured {measured.hours} hours with load and {measured.batch[0]:.3g} to {measured.batch[1]:.3g} requests "
        f"at once: {measured.shift:.2f} times the expected gap between tokens (90 %: {band.low:.2f} to "
        f"{band.high:.2f}{beyond})."
    )


def _harm(snapshot: Snapshot, canary: Variant, measured: Measured | None, beyond: float) -> str:
    """A target that it misses by so many times while the others of its model keep it; empty without one."""
    others = [each for each in snapshot.variants if each.model == canary.model.whole]
    classes = [each.service_class.value for each in others if each.service_class is not None]
    mine = snapshot.observed.observations.get(canary.key)
    load = next((found for each in others if isinstance(found := snapshot.observed.loads.get(each.model), Load)), None)
    if not classes or load is None or mine is None or mine.absence is not None or mine.arrival_rate_per_s is None:
        return ""
    if mine.arrival_rate_per_s * load.window_s < FEWEST_REQUESTS:
        return ""
    for name, target in (("ttft", classes[0].ttft), ("wait", classes[0].wait), ("itl", classes[0].itl)):
        if target is None:
            continue
        limit_s, measured_s = target.limit_s * beyond, mine.performance.mean_s(name)
        seen = (snapshot.observed.observations.get(each.key) for each in others)
        beside = [each.performance.mean_s(name) for each in seen if each is not None and each.absence is None]
        is_lasting = name != "itl" or (measured is not None and (measured.last_hour_itl_s or 0.0) > target.limit_s)
        if (
            measured_s is not None
            and measured_s > limit_s
            and is_lasting
            and beside
            and all(each is not None and each <= target.limit_s * BEYOND_TARGET for each in beside)
        ):
            value, allowed = (f"{ms_from_seconds(each):.4g} ms" for each in (measured_s, target.limit_s))
            return f"it has a mean {name.upper()} of {value}, the target is {allowed}, and the others keep it"
    return ""


def _why_ended(
    snapshot: Snapshot, canary: Variant, measured: Measured | None, trial: SizedTrial | None, *, is_open: bool
) -> str:
    """Why it has nothing more to find out; empty while it may, and while it is not known what it does.

    It is too dear at the fast edge; once that is proposed (`is_open`), until it would save at the median.
    """
    others = [each for each in snapshot.variants if each.model.whole == canary.model.whole and not is_canary(each)]
    if not others:
        return (
            f"no other variant of {canary.model.model_id} is in namespace {canary.key.namespace}, so nothing "
            "can be compared with it. It may be the last replica that serves this model: to keep it, close this "
            "pull request and remove its annotation reconciler.io/canary"
        )
    loads = (snapshot.observed.loads.get(each.model) for each in others)
    if not any(isinstance(each, Load) for each in loads) or snapshot.observed.incomplete.get(canary.key.cluster):
        # Metrics are gone: that says nothing of the canary, nor against what is proposed.
        return "this was proposed, and it is not known what it does now, as metrics are missing" if is_open else ""
    is_silent = not _is_reporting(snapshot, canary)
    if not is_silent and not any(_is_reporting(snapshot, each) for each in others):
        return ""  # Whatever it costs, it is all that serves the model.
    began_s = _began_s(snapshot, canary)
    if snapshot.observed.unschedulable.get(canary.key, 0) and is_silent:
        seen_s = None if measured is None else measured.seen_s
        waits_s = snapshot.now_s - max((each for each in (began_s, seen_s) if each is not None), default=snapshot.now_s)
        if waits_s >= UNPLACED_S:
            return (
                f"it has found no node for {waits_s / HOUR_S:.0f} hours: {canary.current.accelerator} is not to be "
                "had, or affinity, volumes or taints keep its pod off what there is"
            )
    saves = None if trial is None else trial.shares_saved_per_hour
    edge = 1 if is_open and saves is not None and saves[2] > 0 else 2
    if saves is not None and saves[edge] <= 0:
        told = "at the median estimate" if edge == 1 else "even at the fast edge of the estimate"
        if math.isinf(saves[edge]):
            return f"{told} it would not keep the targets"
        return f"{told} it would cost {-saves[edge]:.2f} an hour more than the plan"
    if began_s is None:
        return (
            "neither the forge nor Git's history tells when it began, so it is not known when it should end: merge "
            "this to end it now, or close this and delete its file once you have seen enough"
        )
    if snapshot.now_s - began_s >= LATEST_S:
        return _told_too_little(measured, snapshot.now_s - began_s)
    return ""


def _is_reporting(snapshot: Snapshot, variant: Variant) -> bool:
    found = snapshot.observed.observations.get(variant.key)
    return found is not None and found.absence is None and bool(found.replicas_reporting)


def _told_too_little(measured: Measured | None, age_s: float) -> str:
    hours, days = 0 if measured is None else measured.hours, age_s / 86_400
    told = f"{hours} hours with load were measured in {days:.0f} days"
    if measured is not None and hours >= ENOUGH_HOURS and measured.is_unsettled:
        factor = measured.posterior.spread.high
        return f"{told}, and they differ too much to be believed: nine in ten lie within a factor of {factor:.1f}"
    return f"{told}, {ENOUGH_HOURS} are needed"


def _began_s(snapshot: Snapshot, canary: Variant) -> float | None:
    """When its replica was written into Git; None where neither Git's history nor the forge shows that.

    The later of both counts: a person may start it again, and a commit may be older than its merge. Where Git's history
    ends before, it is as old at least as that.
    """
    written = snapshot.written.get(canary.key)
    written_s, is_known = (None, False) if written is None else written.running_since_s
    merged_s = [
        each.closed_at_s
        for each in snapshot.proposals
        if each.state is ProposalState.MERGED and each.closed_at_s is not None
        for change in each.changes
        if change.resource == str(canary.key) and change.replicas_after
    ]
    if written_s is None or (merged_s and not is_known):
        return max(merged_s, default=None)
    return max([written_s, *merged_s])
