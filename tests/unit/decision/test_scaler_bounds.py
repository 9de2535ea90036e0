"""Upper bounds of several autoscalers that share a pool, a budget or a quota: what one plan makes of all of them."""

import cProfile
import itertools
from typing import Any

import numpy as np
import pytest

from reconciler.decision import passes, tuning
from reconciler.decision.decide import decide
from reconciler.decision.scaler_settings import declared_setting
from reconciler.domain.history import DemandHistory
from reconciler.domain.observed import ResourceQuota
from reconciler.domain.plan import Plan
from reconciler.domain.proposals import ProposalState
from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    MetricSource,
    ResolvedMetric,
    Scaler,
    ScalerHistory,
    ScalerMetric,
    ScalerSetting,
    Signal,
    TunedScaler,
    TuningEvidence,
)
from reconciler.domain.units import DAY_S
from reconciler.domain.workloads import ReplicaOwner
from reconciler.domain.written import DocumentRef, WrittenField
from reconciler.policy.files import read_policy

METRIC = ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="its own query")
EVIDENCE = TuningEvidence(days=14.0, cost_change=0.1, attainment=(0.9, 0.99))


class Autoscaled:
    """A fleet whose HPAs each want a certain maximum, and get of it what they may have."""

    def __init__(self, fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fleet, self.make = fleet, make
        self.wanted: dict[str, float] = {}
        self.scalers: dict[str, Scaler] = {}
        self.calls = 0
        fleet.default(whenAutoscaled="tune", maxReplicas=100)
        monkeypatch.setattr(tuning, "_chosen", self.chosen)

    def stock(self, devices: int, *, others: int = 0) -> None:
        """A pool of so many devices, by its settings; others hold some."""
        self.fleet.stock(H100=devices, others=others, written=devices)

    def add(self, name: str, most: int | None, wants: float, *, is_tuned: bool = True, least: int = 1) -> None:
        """An HPA with these bounds on a variant of its own, of a class of its own."""
        self.fleet.add(name, model_id=f"org/{name}", replicas=least)
        self.fleet.offer(5.0, f"org/{name}")
        document, place = DocumentRef(path=f"{name}.yaml", document=0), self.make.place(f"{name}.yaml", 9)
        fields = tuple(
            WrittenField(document=document, field=("spec", each), place=place, is_ceiling=each[1] == "a", value=value)
            for each, value in (("minReplicas", least), ("maxReplicas", most))
        )
        metric = ScalerMetric(source=MetricSource.PODS, name="running", target=40.0, text="40", written=fields[0])
        scaler = Scaler(
            key=self.make.key(name, "HorizontalPodAutoscaler"),
            document=document,
            place=place,
            hpa_name=name,
            metrics=(metric,),
            least=least,
            most=most,
        )
        key = self.make.key(name)
        owner = ReplicaOwner(
            cluster=key.cluster,
            namespace=key.namespace,
            owner=f"HorizontalPodAutoscaler {name}",
            target_kind="Deployment",
            target_name=name,
            place=place,
            least=least,
            fields=fields,
            scaler=scaler,
        )
        self.fleet.owners.append(owner)
        if is_tuned:
            self.wanted[name], self.scalers[name] = wants, scaler

    def chosen(self, targets: Any) -> Any:
        """Stands for the choice: a maximum as far as it is wanted and allowed, and then a lower target."""
        self.calls += 1
        return tuple(self._found(each) for each in targets)

    def _found(self, target: Any) -> Any:
        name = target.key.name
        setting = declared_setting(self.scalers[name], METRIC)
        assert setting is not None
        most = max(float(setting.most), min(target.allowed.most, self.wanted[name]))
        if most == setting.most:
            return tuning._Found(words="its setting stays")
        limit = target.allowed.limit if most < self.wanted[name] else ""
        return tuning._Found(setting=replace(setting, most=most), evidence=replace(EVIDENCE, limit=limit))

    def plan(self) -> Plan:
        """What is decided."""
        snapshot, nothing = self.fleet.snapshot(), np.ones(3)
        variants = tuple(
            replace(each, tuned=TunedScaler(scaler=self.scalers[each.key.name], metric=METRIC))
            if each.key.name in self.scalers
            else each
            for each in snapshot.variants
        )
        fine = DemandHistory(
            models=tuple(each.model for each in variants), start_s=0.0, step_s=60.0, per_s=np.ones((len(variants), 3))
        )
        history = ScalerHistory(start_s=0.0, step_s=60.0, total=nothing, desired=nothing, current=nothing)
        scaled = {each.key: history for each in variants if each.tuned is not None}
        observed = replace(snapshot.observed, fine=(fine,))
        return decide(replace(snapshot, variants=variants, scaled=scaled, observed=observed))

    def most(self) -> dict[str, int | None]:
        """The maximum that each has when the plan is merged."""
        found = {}
        for each in self.plan().decisions:
            setting = ScalerSetting.parse(each.desired.scaling)
            if setting is not None:
                found[each.variant.name] = setting.most
        return found

    def limits(self) -> dict[str, str]:
        """What is said of a maximum that is not as wanted."""
        return {each.variant.name: each.tuning.limit for each in self.plan().decisions if each.tuning is not None}

    def merged(self, ago_s: float) -> None:
        """A pull request that gave each its present target so long ago."""
        changes = []
        for name, each in self.scalers.items():
            change = self.make.change(name, f"{each.least} x H100", f"{each.least} x H100")
            before = replace(each.setting, target="30")
            changes.append(replace(change, scaling_before=str(before), scaling_after=str(each.setting)))
        at_s = self.fleet.now_s - ago_s
        self.fleet.propose(*changes, state=ProposalState.MERGED, opened_at_s=at_s - 60.0, closed_at_s=at_s)

    def propose(self, name: str, most: int) -> None:
        """An open pull request that raises a maximum."""
        self.propose_together(**{name: most})

    def propose_together(self, **most: int) -> None:
        """The same of several."""
        changes = []
        for name, number in most.items():
            before = self.scalers[name].setting
            change = self.make.change(name, f"{before.least} x H100", f"{before.least} x H100")
            after = replace(before, most=number)
            changes.append(replace(change, scaling_before=str(before), scaling_after=str(after)))
        self.fleet.propose(*changes)


@pytest.fixture
def scaled(fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> Autoscaled:
    return Autoscaled(fleet, make, monkeypatch)


def test_maxima_that_have_room_together_are_all_as_wanted(scaled: Autoscaled) -> None:
    scaled.stock(24)
    scaled.add("a", 5, 10)
    scaled.add("b", 5, 14)
    assert scaled.most() == {"a": 10, "b": 14}
    assert set(scaled.limits().values()) == {""}


def test_what_is_left_is_shared_by_what_each_wants(scaled: Autoscaled) -> None:
    """Each alone has room for 15; both together get what there is, and no more."""
    scaled.stock(20)
    scaled.add("a", 5, 10)
    scaled.add("b", 5, 20)
    found = scaled.most()
    assert found == {"a": 8, "b": 12}
    told = "pool us-east/H100 has room for {} beside what others may take"
    assert scaled.limits() == {name: told.format(found[name]) for name in found}


@pytest.mark.parametrize(("first", "expected"), [("a", {"a": 10, "b": 10}), ("b", {"a": 5, "b": 15})])
def test_a_higher_priority_comes_first(scaled: Autoscaled, first: str, expected: dict[str, int]) -> None:
    scaled.stock(20)
    scaled.add("a", 5, 10)
    scaled.add("b", 5, 20)
    scaled.fleet.prioritise(first, 5)
    assert scaled.most() == expected


def test_the_same_devices_are_given_once_in_any_fleet(scaled: Autoscaled) -> None:
    """Whatever is wanted, raised maxima and what others may take never pass the pool."""
    generator = np.random.default_rng(5)  # noqa: TID251 - a test
    names = ("a", "b", "c", "d")
    for name in names:
        scaled.add(name, int(generator.integers(2, 6)), 0.0)
    for devices in generator.integers(12, 60, 25).tolist():
        scaled.stock(devices)
        scaled.wanted = {name: float(generator.integers(0, 30)) for name in names}
        for name in names:
            scaled.fleet.prioritise(name, int(generator.integers(0, 3)))
        before = {name: each.most or 0 for name, each in scaled.scalers.items()}
        after = {name: most or 0 for name, most in scaled.most().items()}
        assert sum(after.values()) <= max(devices, sum(before.values()))
        assert all(before[name] <= after[name] <= max(before[name], scaled.wanted[name]) for name in names)
        short = [name for name in names if after[name] < scaled.wanted[name]]
        assert not short or sum(after.values()) >= devices, "nothing is left where somebody wants more"
        assert scaled.most() == after


@pytest.mark.parametrize(
    ("most", "is_tuned", "expected"),
    [(12, False, 8), (12, True, 8), (100, False, 5), (None, False, 5)],
)
def test_others_may_take_their_maximum(scaled: Autoscaled, most: int | None, is_tuned: bool, expected: int) -> None:
    """An autoscaler that nothing is proposed for goes as far as its maximum, tuned or not."""
    scaled.stock(20)
    scaled.add("a", 5, 15)
    scaled.add("other", most, 0, is_tuned=is_tuned)
    assert scaled.most()["a"] == expected


def test_an_open_pull_request_counts_with_the_maximum_that_it_gives(scaled: Autoscaled) -> None:
    scaled.stock(20)
    scaled.add("a", 5, 15)
    scaled.add("b", 5, 0)
    scaled.propose("b", 12)
    assert scaled.most() == {"a": 8, "b": 12}


def test_two_open_pull_requests_that_have_no_room_together_are_not_both_kept(scaled: Autoscaled) -> None:
    """As when a pool was made smaller: who comes first stays, the other gets what is left."""
    scaled.stock(20)
    scaled.add("a", 5, 14)
    scaled.add("b", 5, 14)
    scaled.propose_together(a=14, b=14)
    assert scaled.most() == {"a": 14, "b": 6}
    scaled.fleet.prioritise("b", 5)
    assert scaled.most() == {"a": 6, "b": 14}


def test_a_pool_that_is_full_now_keeps_what_was_proposed(scaled: Autoscaled) -> None:
    """At the peak others hold more; that drops nothing, or it would be closed and opened every day."""
    scaled.add("a", 5, 0)
    scaled.propose("a", 14)
    scaled.stock(20, others=12)
    assert scaled.most() == {"a": 14}
    scaled.fleet.proposals.clear()
    scaled.wanted["a"] = 14
    assert scaled.most() == {"a": 8}, "what is new takes no more than there is now"
    scaled.propose("a", 21)
    assert scaled.most() == {"a": 8}, "what there is not is not kept, whatever a text says"


def test_what_autoscalers_run_beyond_git_is_counted_once(scaled: Autoscaled) -> None:
    """Their pods beyond the lower bound are among those that others hold: they are within the upper one."""
    scaled.add("a", 9, 12)
    scaled.add("b", 9, 12)
    for name in ("a", "b"):
        key = scaled.make.key(name)
        scaled.fleet.observations[key] = replace(scaled.fleet.observations[key], replicas_reporting=9)
    scaled.stock(24, others=16)
    assert scaled.most() == {"a": 12, "b": 12}
    scaled.stock(24, others=18)
    assert scaled.most() == {"a": 11, "b": 11}, "two are held by others indeed"


def test_replicas_that_run_beside_git_do_not_drop_a_pull_request(scaled: Autoscaled) -> None:
    scaled.stock(20)
    scaled.add("a", 5, 14)
    scaled.fleet.add("plain", model_id="org/plain", replicas=6)
    key = scaled.make.key("plain")
    scaled.fleet.observations[key] = replace(scaled.fleet.observations[key], replicas_reporting=10)
    assert scaled.most() == {"a": 10}
    scaled.propose("a", 14)
    assert scaled.most() == {"a": 14}


def test_nodes_that_are_removed_at_night_limit_no_maximum(scaled: Autoscaled) -> None:
    """What nodes offer follows what runs where they are added on demand; an open pull request stays as well."""
    scaled.add("a", 9, 14)
    scaled.add("b", 9, 9)
    found = {}
    for name, offered in (("day", 18), ("night", 2)):
        scaled.fleet.stock(H100=offered)
        found[name] = scaled.most()
    assert found == {key: {"a": 14, "b": 9} for key in found}
    scaled.propose("a", 14)
    scaled.fleet.stock(H100=2)
    scaled.wanted["a"] = 0
    assert scaled.most() == {"a": 14, "b": 9}, "what is open is not closed at night"
    scaled.fleet.stock(H100=2, written=20)
    assert scaled.most() == {"a": 9, "b": 9}, "a number that somebody wrote is what there is"
    scaled.fleet.proposals.clear()
    scaled.wanted["a"] = 14
    assert scaled.most() == {"a": 11, "b": 9}, "whatever nodes offer at night"


def test_that_nodes_offer_less_than_all_may_take_is_told(scaled: Autoscaled) -> None:
    scaled.add("a", 9, 14)
    scaled.add("b", 9, 9)
    told = (
        "pool us-east/H100 has {} devices for managed workloads now, and together these may then ask for more: if no "
        "nodes are added on demand, write how many there are under clusters[].pools, and maxima stay within them"
    )
    for offered, others, shown in ((23, 0, ""), (22, 0, told.format(22)), (30, 8, told.format(22))):
        scaled.fleet.stock(H100=offered, others=others)
        found = {each.variant.name: each for each in scaled.plan().decisions}
        evidence = found["a"].tuning
        assert evidence is not None
        assert evidence.shortage == shown, offered
        assert evidence.limit == ""
        assert found["b"].tuning is None
        (reason,) = [each.reason for each in found["a"].steps if "tuned on its own history" in each.reason]
        assert reason.endswith("maximum 9 -> 14" + (f"; {shown}" if shown else ""))
    scaled.fleet.stock(H100=30, others=8, written=30)
    evidence = {each.variant.name: each.tuning for each in scaled.plan().decisions}["a"]
    assert evidence is not None
    assert (evidence.limit != "", evidence.shortage) == (True, ""), "a number limits, and nothing more is to be said"


def test_a_budget_is_shared_too(scaled: Autoscaled) -> None:
    scaled.add("a", 5, 10)
    scaled.add("b", 5, 20)
    price = scaled.fleet.variant("a").current_cost_per_hour
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
    rule = f"  - {{name: cap, budget: {{amount: {20.5 * price}, per: hour}}}}"
    scaled.fleet.set(rules=read_policy("p.yaml", f"{header}{rule}".encode()).rules)
    assert scaled.most() == {"a": 8, "b": 12}
    assert set(scaled.limits().values()) == {
        f"budget cap has room for {most} beside what others may take" for most in (8, 12)
    }


def test_a_quota_is_shared_too(scaled: Autoscaled) -> None:
    """It leaves 18 beside the 2 that run; an open pull request stays, whatever others take of it just now."""
    scaled.add("a", 5, 10)
    scaled.add("b", 5, 20)
    quota = ResourceQuota(name="gpus", resource="nvidia.com/gpu", left=18.0)
    scaled.fleet.observed = replace(scaled.fleet.observed, quotas={("us-east", "llm"): (quota,)})
    assert scaled.most() == {"a": 8, "b": 12}
    scaled.propose("b", 20)
    assert scaled.most() == {"a": 5, "b": 20}


def test_all_limits_hold_at_once(scaled: Autoscaled) -> None:
    """A quota of one namespace within a pool of all: who meets the quota leaves the pool to the other."""
    scaled.stock(30)
    scaled.add("a", 5, 20)
    scaled.add("b", 5, 20)
    quota = ResourceQuota(name="gpus", resource="nvidia.com/gpu", left=18.0)
    scaled.fleet.observed = replace(scaled.fleet.observed, quotas={("us-east", "llm"): (quota,)})
    found = scaled.most()
    assert sum(most or 0 for most in found.values()) == 20


def test_what_is_shared_does_not_depend_on_the_order_of_files(
    fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wants = {"a": 9.0, "b": 13.0, "c": 7.0}
    found = []
    for order in itertools.permutations(wants):
        for declared in (fleet.resources, fleet.workloads, fleet.owners):
            declared.clear()
        scaled = Autoscaled(fleet, make, monkeypatch)
        scaled.stock(19)
        for name in order:
            scaled.add(name, 3, wants[name])
        found.append(scaled.most())
    assert found == [found[0]] * len(found)


@pytest.mark.parametrize("kind", ["wanted", "proposed", "merged", "endless"])
def test_what_is_done_grows_with_the_autoscalers_and_not_faster(kind: str, fleet: Any, make: Any) -> None:
    """Calls are counted: twice as many autoscalers in one pool need twice as many."""
    calls = []
    for size in (100, 200):
        for declared in (fleet.resources, fleet.workloads, fleet.owners, fleet.proposals):
            declared.clear()
        with pytest.MonkeyPatch.context() as patch:
            scaled = Autoscaled(fleet, make, patch)
            for number in range(size):
                scaled.add(f"v{number}", 5, 9)
                if kind == "endless":
                    scaled.add(f"e{number}", None, 0)
            scaled.stock(6 * size)
            if kind == "proposed":
                scaled.propose_together(**{f"v{number}": 6 for number in range(size)})
            if kind == "merged":
                scaled.merged(2 * DAY_S)
            calls.append(calls_of_tuning(scaled, patch))
    assert calls[0] < calls[1] < 2.2 * calls[0]


def calls_of_tuning(scaled: Autoscaled, patch: pytest.MonkeyPatch) -> int:
    """How many functions are called while the autoscalers of a plan are tuned."""
    profile = cProfile.Profile()

    def counted(situation: Any, staged: Any) -> Any:
        return profile.runcall(tuning.tune_autoscalers, situation, staged)

    found = tuple(counted if each is tuning.tune_autoscalers else each for each in passes.PASSES)
    assert counted in found
    patch.setattr(passes, "PASSES", found)
    scaled.plan()
    return sum(each.callcount for each in profile.getstats())
