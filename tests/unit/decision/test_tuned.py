"""When a setting of an autoscaler is proposed, waits, is kept, or goes back; which one, `reconciler.tuning` says."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reconciler.decision import tuning
from reconciler.decision.decide import decide
from reconciler.decision.scaler_bounds import AllowedBounds
from reconciler.decision.scaler_settings import declared_setting
from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.history import DemandHistory
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.observed import Performance
from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.proposals import Promise, PromisedLatency, ProposalState, ProposedChange
from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    BehaviorAnnotations,
    MetricSource,
    ResolvedMetric,
    Scaler,
    ScalerHistory,
    ScalerMetric,
    ScalerSetting,
    Signal,
    TunedScaler,
    TuningEvidence,
    TuningScore,
)
from reconciler.domain.workloads import ReplicaOwner
from reconciler.domain.written import DocumentRef, WrittenField
from reconciler.policy.files import read_policy

DAY_S = 86_400.0
BEFORE, AFTER, THIRTY = (ScalerSetting(target=each, least=1, most=9) for each in ("40", "52", "30"))
EVIDENCE = TuningEvidence(
    days=14.0,
    cost_change=-0.2,
    attainment=(0.99, 0.99),
    starts_per_day=(4.0, 3.0),
    left_out=4,
    left_out_cost_change=-0.2,
    left_out_attainment=(0.99, 0.99),
)


class Tuned:
    """A fleet of one variant, whose HPA has the target 40 and is to have 52."""

    def __init__(self, fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fleet, self.make = fleet, make
        self.key = fleet.add(replicas=3)
        self.bound(1, 9)
        fleet.default(whenAutoscaled="tune")
        fleet.offer(25.0)
        nothing = np.ones(3)
        self.history: Any = ScalerHistory(start_s=0.0, step_s=60.0, total=nothing, desired=nothing, current=nothing)
        self.resolved: Any = {"metric": ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="its own query")}
        self.found: Any = tuning._Found(setting=None, words="its setting stays: little would be saved")
        monkeypatch.setattr(tuning, "_chosen", lambda targets: (self.found,) * len(targets))

    def bound(self, least: int, most: int) -> None:
        """Write these bounds into the manifest."""
        document, place = DocumentRef(path="hpa.yaml", document=0), self.make.place("hpa.yaml", 9)
        fields = tuple(
            WrittenField(document=document, field=("spec", name), place=place, is_ceiling=name[1] == "a", value=value)
            for name, value in (("minReplicas", least), ("maxReplicas", most))
        )
        metric = ScalerMetric(source=MetricSource.PODS, name="running", target=40.0, text="40", written=fields[0])
        self.scaler = Scaler(
            key=replace(self.key, kind="HorizontalPodAutoscaler"),
            document=document,
            place=place,
            hpa_name="llama",
            metrics=(metric,),
            least=least,
            most=most,
        )
        owner = ReplicaOwner(
            cluster=self.key.cluster,
            namespace=self.key.namespace,
            owner="HorizontalPodAutoscaler llama",
            target_kind="Deployment",
            target_name="llama",
            place=place,
            least=least,
            fields=fields,
            scaler=self.scaler,
        )
        self.fleet.owners[:] = [owner]

    def choose(self, target: float = 52.0, **bounds: Any) -> None:
        """What is chosen from now on."""
        setting = declared_setting(self.scaler, ResolvedMetric(promql="", signal=Signal.RUNNING, source=""))
        assert setting is not None
        chosen = replace(setting, metrics=(replace(setting.metrics[0], target=target),), **bounds)
        self.found = tuning._Found(setting=chosen, evidence=EVIDENCE)

    def change(self, before: ScalerSetting = BEFORE, after: ScalerSetting = AFTER) -> ProposedChange:
        """What a pull request of ours does."""
        plain: ProposedChange = self.make.change("llama", f"{before.least or 1} x H100", f"{after.least or 1} x H100")
        return replace(plain, scaling_before=str(before), scaling_after=str(after))

    def merged(self, ago_s: float, before: ScalerSetting = AFTER, after: ScalerSetting = BEFORE, **fields: Any) -> None:
        """A pull request of ours that was merged."""
        at_s = self.fleet.now_s - ago_s
        self.fleet.propose(
            self.change(before, after), state=ProposalState.MERGED, opened_at_s=at_s - 60, closed_at_s=at_s, **fields
        )

    def score(self, score: TuningScore, monkeypatch: pytest.MonkeyPatch) -> None:
        """What its last merge came to."""
        merged = SimpleNamespace(target=SimpleNamespace(key=self.key))
        monkeypatch.setattr(tuning, "_merged", lambda *_: [merged])
        monkeypatch.setattr(tuning, "_scored", lambda _: (score,))

    def rule(self, text: str) -> None:
        """Give the fleet a rule."""
        header = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
        self.fleet.set(rules=read_policy("p.yaml", f"{header}  - {text}".encode()).rules)

    def decision(self) -> Decision:
        """About the variant."""
        snapshot = self.fleet.snapshot()
        variant, *others = snapshot.variants
        fine = DemandHistory(models=(variant.model,), start_s=0.0, step_s=60.0, per_s=np.ones((1, 3)))
        snapshot = replace(
            snapshot,
            variants=(replace(variant, tuned=TunedScaler(scaler=self.scaler, **self.resolved)), *others),
            scaled={} if self.history is None else {self.key: self.history},
            observed=replace(snapshot.observed, fine=(fine,)),
        )
        self.plan = decide(snapshot)
        return next(each for each in self.plan.decisions if each.variant == self.key)


@pytest.fixture
def tuned(fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> Tuned:
    return Tuned(fleet, make, monkeypatch)


def test_a_chosen_setting_is_proposed(tuned: Tuned) -> None:
    tuned.choose()
    decision = tuned.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.CHANGE, 1)
    assert ScalerSetting.parse(decision.desired.scaling) == AFTER
    assert (decision.tuning, decision.is_tuning) == (EVIDENCE, True)
    assert decision.change.proposed == tuned.change()


def test_a_behavior_that_is_written_as_annotations_is_explained(tuned: Tuned) -> None:
    """Who merges reads a factor in the diff, and percent in the table."""
    names = BehaviorAnnotations(window="a/window", factor="a/rate")
    tuned.scaler = replace(tuned.scaler, annotations=names, behavior={"scaleDown": {"stabilizationWindowSeconds": 300}})
    (owner,) = tuned.fleet.owners
    tuned.fleet.owners[:] = [replace(owner, scaler=tuned.scaler)]
    tuned.choose()
    assert tuned.decision().caution == ""
    setting = tuned.found.setting
    down = replace(setting.behavior, down=replace(setting.behavior.down, window_s=900.0))
    tuned.found = replace(tuned.found, setting=replace(setting, behavior=down))
    assert tuned.decision().caution == (
        "llm/llama: its behavior is written as annotations: a/window is the window, a/rate the factor by which "
        "replicas may shrink in a minute"
    )


def test_a_setting_never_merges_by_itself(tuned: Tuned) -> None:
    """Whatever settings say, a person merges what is simulated."""
    tuned.fleet.set(pull_requests=replace(tuned.fleet.settings.pull_requests, auto_merge=True))
    tuned.rule("{name: all, autoMerge: {}}")
    tuned.choose()
    decision = tuned.decision()
    (group,) = (each for each in tuned.plan.groups if each.changes)
    assert (decision.is_tuning, decision.caution, group.merges) == (True, "", None)


def test_a_setting_that_stays_changes_nothing(tuned: Tuned) -> None:
    decision = tuned.decision()
    assert (decision.outcome, decision.current) == (Outcome.UNCHANGED, decision.desired)
    assert decision.steps[-1].reason == "its setting stays: little would be saved"


def test_what_is_not_known_holds(tuned: Tuned) -> None:
    tuned.choose()
    tuned.history = NoAnswer(Absence.MISSING, "its query has no series: was the metric renamed?")
    assert tuned.decision().hold == Hold(kind=HoldKind.METRICS_MISSING, words=tuned.history.reason)
    hold = Hold(kind=HoldKind.AUTOSCALER_METRIC, words="no rule has it")
    tuned.resolved = {"hold": hold}
    assert tuned.decision().hold == hold


def test_what_is_not_reproduced_is_held(tuned: Tuned) -> None:
    hold = Hold(kind=HoldKind.AUTOSCALER_NOT_REPRODUCED, words="not what ran")
    tuned.found = tuning._Found(hold=hold)
    assert tuned.decision().hold == hold


def test_what_this_run_did_not_ask_about_waits_for_another(tuned: Tuned) -> None:
    tuned.choose()
    tuned.history = None
    decision = tuned.decision()
    assert decision.outcome is Outcome.UNCHANGED
    assert decision.steps[-1].reason == "its autoscaler is looked at once a day, in another run"


def test_an_open_pull_request_keeps_what_it_says(tuned: Tuned) -> None:
    tuned.choose(60.0)
    tuned.fleet.propose(tuned.change())
    decision = tuned.decision()
    assert ScalerSetting.parse(decision.desired.scaling) == AFTER
    assert decision.tuning is None  # what is known is of another setting
    tuned.choose()
    assert tuned.decision().tuning == EVIDENCE


@pytest.mark.parametrize(
    ("is_near", "is_open", "held"), [(True, True, False), (False, True, True), (True, False, True)]
)
def test_an_open_pull_request_stays_where_its_autoscaler_is_nearly_reproduced(
    tuned: Tuned, is_near: bool, is_open: bool, held: bool
) -> None:
    """Else a share about the limit would close and open it from run to run."""
    hold = Hold(kind=HoldKind.AUTOSCALER_NOT_REPRODUCED, words="not what ran")
    tuned.found = tuning._Found(hold=hold, is_nearly_reproduced=is_near)
    if is_open:
        tuned.fleet.propose(tuned.change())
    decision = tuned.decision()
    assert decision.hold == (hold if held else None)
    assert ScalerSetting.parse(decision.desired.scaling) == (BEFORE if held else AFTER)


@pytest.mark.parametrize(
    "change",
    [
        {"before": THIRTY},
        {"after": ScalerSetting(target="$(reboot)")},
        {"after": ScalerSetting(target="52", behavior={"scaleDown": {"stabilizationWindowSeconds": 10**9}})},
    ],
)
def test_an_open_one_that_somebody_made_old_or_edited_is_not_kept(tuned: Tuned, change: Any) -> None:
    tuned.choose(60.0)
    tuned.fleet.propose(tuned.change(**change))
    assert ScalerSetting.parse(tuned.decision().desired.scaling) == ScalerSetting(target="60", least=1, most=9)


@pytest.mark.parametrize(("ago_s", "waits"), [(DAY_S, True), (6.9 * DAY_S, True), (7.1 * DAY_S, False)])
def test_an_autoscaler_is_changed_once_a_week(tuned: Tuned, ago_s: float, waits: bool) -> None:
    tuned.choose()
    tuned.merged(ago_s)
    decision = tuned.decision()
    kind = None if decision.waiting is None else decision.waiting.kind
    assert kind == (HoldKind.AUTOSCALER_CHANGED if waits else None)
    assert decision.is_tuning is not waits


PROMISE = Promise(
    resource="",
    unit="req/s",
    latencies=(PromisedLatency(name="itl", statistic="mean", target_s=0.02, measured_s=0.015),),
)


@pytest.mark.parametrize(
    ("itl_s", "kept_before", "before", "taken_back"),
    [
        (0.05, True, THIRTY, True),
        (0.015, True, THIRTY, False),
        (0.05, False, THIRTY, False),
        (0.05, True, ScalerSetting(target="rm -rf"), False),
    ],
)
def test_a_setting_that_broke_a_target_goes_back(
    tuned: Tuned, itl_s: float, kept_before: bool, before: ScalerSetting, taken_back: bool
) -> None:
    latency = replace(PROMISE.latencies[0], measured_s=0.015 if kept_before else 0.03)
    tuned.merged(DAY_S / 2, before=before, promises=(replace(PROMISE, resource=str(tuned.key), latencies=(latency,)),))
    seen = replace(tuned.fleet.observations[tuned.key], performance=Performance(itl_s=itl_s), arrival_rate_per_s=25.0)
    tuned.fleet.observations[tuned.key] = seen
    decision = tuned.decision()
    assert (decision.reverts == 7) is taken_back
    assert (ScalerSetting.parse(decision.desired.scaling) == before) is taken_back


SCORE = TuningScore(number=7, days=2, cost_change=-0.1, attainment=(0.99, 0.99))


@pytest.mark.parametrize(("broken", "taken_back"), [("", False), ("it costs 5% more", True)])
def test_a_score_that_breaks_the_promise_takes_the_setting_back(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch, broken: str, taken_back: bool
) -> None:
    tuned.score(replace(SCORE, broken=broken), monkeypatch)
    before = THIRTY
    tuned.merged(2 * DAY_S, before=before, promises=(replace(PROMISE, resource=str(tuned.key), cost_ratio=0.8),))
    decision = tuned.decision()
    assert decision.scored == replace(SCORE, broken=broken)
    assert (decision.reverts == 7) is taken_back
    assert (ScalerSetting.parse(decision.desired.scaling) == before) is taken_back


def test_what_takes_a_setting_back_stays_open_until_a_score_says_otherwise(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = THIRTY
    tuned.merged(2 * DAY_S, before=before, promises=(replace(PROMISE, resource=str(tuned.key)),))
    tuned.fleet.propose(
        tuned.change(BEFORE, before), number=8, promises=(replace(PROMISE, resource=str(tuned.key), reverts=7),)
    )
    decision = tuned.decision()
    assert (decision.reverts, ScalerSetting.parse(decision.desired.scaling)) == (7, before)
    tuned.score(SCORE, monkeypatch)
    assert tuned.decision().reverts is None


def test_between_looks_an_open_pull_request_shows_what_it_promised(tuned: Tuned) -> None:
    promise = replace(
        PROMISE, resource=str(tuned.key), days=14.0, cost_ratio=0.8, attainment_before=0.9, attainment=0.99
    )
    tuned.fleet.propose(tuned.change(), promises=(promise,))
    tuned.history = None
    evidence = tuned.decision().tuning
    assert evidence is not None
    assert (evidence.days, round(evidence.cost_change, 2), evidence.attainment) == (14.0, -0.2, (0.9, 0.99))


# ---- bounds


def wide(least: int, most: int, target: str = "52") -> ScalerSetting:
    """A setting with these bounds."""
    return ScalerSetting(target=target, least=least, most=most)


def test_bounds_are_proposed_with_what_they_displace(tuned: Tuned) -> None:
    tuned.bound(4, 9)
    tuned.choose(40.0, least=2.0, most=14.0)
    decision = tuned.decision()
    assert (decision.current.replicas, decision.desired.replicas, decision.is_tuning) == (4, 2, True)
    assert [(each.field, each.displaced, each.after) for each in decision.setting_changes] == [
        ("maximum", "9", "14"),
        ("minimum", "4", "2"),
    ]
    assert len(decision.written_at) == 2
    assert "tuned on its own history: maximum 9 -> 14, minimum 4 -> 2" in [each.reason for each in decision.steps]
    tuned.choose(40.0, most=14.0)
    assert (tuned.decision().desired.replicas, len(tuned.decision().written_at)) == (4, 1)


def allowed(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> AllowedBounds:
    """How far its bounds may be moved."""
    found: list[AllowedBounds] = []

    def chosen(targets: Any) -> Any:
        found.extend(each.allowed for each in targets)
        return (tuned.found,) * len(targets)

    monkeypatch.setattr(tuning, "_chosen", chosen)
    monkeypatch.setattr(tuning, "REPRODUCED_S", 1.0)
    tuned.decision()
    return found[0]


def test_bounds_move_no_further_than_settings_say(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    assert allowed(tuned, monkeypatch) == AllowedBounds(least=1, most=np.inf)
    tuned.fleet.default(minReplicas=3, maxReplicas=12)
    limit = "maxReplicas 12 of llm/llama"
    assert allowed(tuned, monkeypatch) == AllowedBounds(least=3, most=12, limit=limit)


def test_an_upper_bound_is_no_more_than_its_pool_has_beside_others(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned.fleet.stock(H100=20, written=20)
    tuned.fleet.add("phi", model_id="org/phi", replicas=6)
    tuned.fleet.default(whenAutoscaled="tune")
    found = allowed(tuned, monkeypatch)
    assert (found.most, found.limit) == (14, "pool us-east/H100 has room for 14 beside what others may take")


def test_an_upper_bound_costs_no_more_than_a_budget_has(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    price = tuned.fleet.variant().current_cost_per_hour
    tuned.rule(f"{{name: cap, budget: {{amount: {11.5 * price}, per: hour}}}}")
    found = allowed(tuned, monkeypatch)
    assert (found.most, found.limit) == (11, "budget cap has room for 11")


def test_a_lower_bound_goes_no_lower_than_a_step_of_the_rules(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned.bound(14, 20)
    tuned.rule("{name: half, step: {down: 50%}}")
    assert allowed(tuned, monkeypatch).least == 7


def test_a_rule_that_leaves_less_than_was_promised_holds_all_of_it(tuned: Tuned) -> None:
    """What speaks for a setting is of its bounds as well: half of it is another setting."""
    tuned.bound(14, 20)
    tuned.choose(52.0, least=2.0)
    tuned.rule("{name: half, step: {down: 50%}}")
    decision = tuned.decision()
    assert decision.hold is not None
    assert (decision.hold.kind, decision.desired) == (HoldKind.RULE, decision.current)


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [
        (wide(2, 14), True),
        (wide(2, 9), True),
        (wide(4, 14), True),
        (wide(1, 14), False),
        (wide(0, 14), False),
        (wide(5, 14), False),
        (wide(4, 8), False),
        (wide(4, 17), False),
    ],
)
def test_an_open_pull_request_keeps_bounds_that_may_be_proposed(
    tuned: Tuned, after: ScalerSetting, is_kept: bool
) -> None:
    """Its text may be edited: a floor goes to two at least, a ceiling up to what is allowed."""
    tuned.bound(4, 9)
    tuned.fleet.default(maxReplicas=16)
    tuned.fleet.propose(tuned.change(wide(4, 9, "40"), after))
    desired = tuned.decision().desired
    assert (ScalerSetting.parse(desired.scaling) == after) is is_kept
    assert desired.replicas == (after.least if is_kept else 4)


@pytest.mark.parametrize(
    ("before", "is_back"),
    [(wide(4, 9, "30"), True), (wide(2, 9, "30"), True), (wide(4, 99, "30"), False), (wide(1, 14, "30"), False)],
)
def test_bounds_are_taken_back_with_the_rest(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch, before: ScalerSetting, is_back: bool
) -> None:
    """No further than to what they are now, whatever a text says."""
    tuned.bound(2, 14)
    tuned.score(replace(SCORE, broken="it costs 5% more"), monkeypatch)
    tuned.merged(
        2 * DAY_S, before, wide(2, 14, "40"), promises=(replace(PROMISE, resource=str(tuned.key), cost_ratio=0.8),)
    )
    decision = tuned.decision()
    assert (decision.reverts == 7) is is_back
    if is_back:
        assert ScalerSetting.parse(decision.desired.scaling) == before
        assert decision.desired.replicas == before.least


def test_bounds_that_somebody_changed_since_are_not_taken_back(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned.bound(3, 14)
    tuned.score(replace(SCORE, broken="it costs 5% more"), monkeypatch)
    tuned.merged(2 * DAY_S, wide(4, 9, "40"), wide(2, 14, "40"))
    assert tuned.decision().reverts is None


# ---- what a person moves back after a merge


@pytest.mark.parametrize(
    ("merges", "now", "ago_s", "least"),
    [
        ([((6, 9), (2, 9))], (4, 9), 10 * DAY_S, 4),
        ([((6, 9), (2, 9))], (6, 9), 29 * DAY_S, 6),
        ([((6, 9), (2, 9))], (4, 9), 31 * DAY_S, 1),
        ([((6, 9), (4, 9))], (4, 9), 10 * DAY_S, 1),
        ([((9, 9), (6, 9))], (4, 9), 10 * DAY_S, 1),
        ([((6, 9), (2, 9)), ((4, 9), (4, 14))], (4, 14), 10 * DAY_S, 4),
        ([((6, 9), (2, 9)), ((4, 9), (4, 14))], (3, 14), 10 * DAY_S, 1),
        ([((6, 9), (2, 9)), ((2, 9), (6, 9))], (6, 9), 10 * DAY_S, 1),
    ],
    ids=["raised", "as-it-was", "forgotten", "stands", "lowered", "and-merged-again", "lowered-since", "taken-back"],
)
def test_a_minimum_that_somebody_raised_after_a_merge_stays(
    tuned: Tuned,
    monkeypatch: pytest.MonkeyPatch,
    merges: list[tuple[tuple[int, int], tuple[int, int]]],
    now: tuple[int, int],
    ago_s: float,
    least: int,
) -> None:
    tuned.bound(*now)
    for number, (before, after) in enumerate(merges):
        tuned.merged(ago_s - number * DAY_S, wide(*before, "40"), wide(*after, "40"), number=7 + number)
    assert allowed(tuned, monkeypatch).least == least


def test_a_minimum_that_stays_says_why(tuned: Tuned) -> None:
    tuned.bound(4, 9)
    tuned.merged(10 * DAY_S, wide(6, 9, "40"), wide(2, 9, "40"))
    tuned.choose()
    told = "its minimum of 4 was set by hand after #7 and stays for 30 days"
    assert told in "; ".join(each.reason for each in tuned.decision().steps)
    tuned.fleet.propose(tuned.change(wide(4, 9, "40"), wide(2, 9)), number=8)
    assert tuned.decision().desired.replicas == 4, "not by an open pull request either"


def test_a_maximum_that_somebody_lowered_after_a_merge_stays(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned.bound(4, 10)
    tuned.merged(10 * DAY_S, wide(4, 9, "40"), wide(4, 14, "40"))
    found = allowed(tuned, monkeypatch)
    assert (found.least, found.most, found.limit) == (1, 10, "its maximum of 10 was set by hand after #7")


@pytest.mark.parametrize(("now", "waits"), [(40, False), (45, True)])
def test_a_setting_that_somebody_changed_since_is_remembered_longer(tuned: Tuned, now: int, waits: bool) -> None:
    """As one that was taken back: for `pullRequests.reopenAfter`."""
    tuned.fleet.set(pull_requests=replace(tuned.fleet.settings.pull_requests, reopen_after_s=20 * DAY_S))
    tuned.merged(10 * DAY_S, wide(1, 9, "30"), wide(1, 9, str(now)))
    tuned.choose()
    waiting = tuned.decision().waiting
    assert (waiting is not None) is waits
    assert not waits or waiting is None or "changed by hand since is remembered" in waiting.words
