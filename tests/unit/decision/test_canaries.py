"""Which canaries a plan starts: alone, within rules and pools, and never where somebody has said no."""

import math
import re
from itertools import pairwise
from typing import Any

import pytest

from reconciler.decision.decide import decide, ordered
from reconciler.decision.engines.trials import size_trials
from reconciler.domain.answers import Absence
from reconciler.domain.canaries import CanaryStep, CopyPlace, Measured
from reconciler.domain.observed import Observation, Performance
from reconciler.domain.plan import Decision, Outcome, Plan, VerdictKind
from reconciler.domain.priors import Prior
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.proposals import Part, ProposalState, ProposedChange
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.records import replace
from reconciler.domain.snapshot import Form
from reconciler.domain.workloads import PodPlace
from reconciler.policy.files import read_policy
from reconciler.rendering.renderer import Renderer
from reconciler.report.plan_page import plan_page
from reconciler.report.text import plan_text
from reconciler.snapshot.canaries import canary_name
from tests.unit.decision.conftest import CLUSTER, GPU, key

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
A100 = PerformanceProfile(accelerator="A100", alpha_s=0.0135, beta_s=0.00012, max_batch_size=128)
CANARY = "llama-canary-h100"
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"


def pods(**node_selector: str) -> PodPlace:
    return PodPlace(path=("spec", "template", "spec"), node_selector=node_selector)


BESIDE = {"copies_at": CopyPlace(directory="apps/llm"), "devices": {GPU: 1}}


@pytest.fixture
def busy(fleet: Any, make: Any) -> Any:
    """Six replicas on A100 that have their load, and an H100 that costs less."""
    fleet.set(service_classes=(make.service_class(itl_s=0.06),))
    fleet.price(A100=4.0, H100=3.0)
    fleet.add(replicas=6, runs_on="A100", model_id=LLAMA, profiles=(A100,), workload=BESIDE, form=Form.TARGET)
    fleet.offer(125.0, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)
    return fleet


def planned(fleet: Any) -> Plan:
    snapshot = fleet.snapshot()
    return decide(ordered(snapshot, decide(snapshot)))


def started(fleet: Any) -> Decision | None:
    return next((each for each in planned(fleet).decisions if each.canary is not None), None)


def rule(fleet: Any, text: str) -> None:
    fleet.set(rules=read_policy("p.yaml", f"{HEADER}  - {text}\n".encode()).rules)


def changed(fleet: Any, state: ProposalState, **other: Any) -> None:
    """A pull request of ours about the canary."""
    resource = f"{CLUSTER}/llm/Deployment/{CANARY}"
    change = ProposedChange(
        resource=resource, replicas_before=0, replicas_after=1, accelerator_before="H100", accelerator_after="H100"
    )
    fleet.propose(change, part=Part.CANARY, state=state, **other)


def test_one_replica_is_started_in_a_pull_request_of_its_own(busy: Any) -> None:
    without, plan = decide(busy.snapshot()), planned(busy)
    (group,) = (each for each in plan.groups if each.part is Part.CANARY)
    (change,) = group.changes
    assert (change.variant.name, change.desired.replicas, change.desired.accelerator) == (CANARY, 1, "H100")
    assert change.canary is not None
    assert change.canary.step is CanaryStep.START
    assert (change.demand, change.capacity_after, change.cost_after_per_hour) == (None, None, 3.0)
    before = {each.variant: each.desired for each in without.decisions}
    assert {each.variant: each.desired for each in plan.decisions if each.canary is None} == before
    assert plan.trials == ()
    for text in (plan_text(plan), Renderer().render("html/page.html.j2", plan_page(plan))):
        assert "one replica on H100 beside the" in text
        assert "Nothing of it is proven. It costs 3.00 USD/h, 288 USD in the 4 days that it has." in text


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({"app": "llama"}, ""),
        ({"app": "llama", "llm-d.ai/variant": "llama"}, "llm-d.ai/variant"),
        (
            {"llm-d.ai/variant": "llama", "inference.optimization/acceleratorName": "A100"},
            "inference.optimization/acceleratorName or llm-d.ai/variant",
        ),
    ],
)
def test_what_selects_by_a_label_that_it_does_not_have_is_told(busy: Any, labels: dict[str, str], named: str) -> None:
    """Nothing would be sent to it, and after four days it would be taken back for that."""
    busy.workloads[0] = replace(busy.workloads[0], template_labels=labels)
    change = started(busy)
    assert change is not None
    assert change.canary is not None
    told = [each for each in change.canary.words if "sends it no request" in each]
    assert told == [
        f"A Service or InferencePool that selects by {each} sends it no request, and then nothing is measured: before "
        "you merge, let it select by labels that all pods of the model have."
        for each in filter(None, [named])
    ]


def test_it_never_merges_by_itself(busy: Any) -> None:
    busy.set(pull_requests=replace(busy.settings.pull_requests, auto_merge=True))
    rule(busy, "{name: all, autoMerge: {}}")
    (group,) = (each for each in planned(busy).groups if each.part is Part.CANARY)
    assert group.merges is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{name: weekend, freeze: {from: "2027-01-15", until: "2027-01-16"}}', VerdictKind.HOLD),
        ("{name: cap, budget: {amount: 25, per: hour}}", VerdictKind.HOLD),
        ("{name: ours, accelerators: {allowed: [A100]}}", VerdictKind.REFUSE),
    ],
)
def test_rules_apply_to_it_as_to_any_change(busy: Any, text: str, kind: VerdictKind) -> None:
    rule(busy, text)
    (canary,) = (each for each in planned(busy).decisions if each.variant.name == CANARY)
    assert (canary.desired.replicas, canary.outcome is Outcome.CHANGE) == (0, False)
    assert canary.verdict.kind is kind


def test_it_takes_nobodys_devices(busy: Any) -> None:
    busy.stock(A100=6, H100=1)
    assert started(busy) is not None
    busy.stock(A100=6, H100=1, others=1)
    assert started(busy) is None


def test_a_group_tries_one_at_a_time(busy: Any) -> None:
    other = "Qwen/Qwen2.5-7B-Instruct"
    busy.add("qwen", replicas=6, runs_on="A100", model_id=other, profiles=(A100,), workload=BESIDE, form=Form.TARGET)
    busy.offer(125.0, model_id=other, input_tokens=1000.0, output_tokens=200.0)
    plan = planned(busy)
    assert sum(each.canary is not None for each in plan.decisions) == 1
    assert len(plan.trials) == 1


def add_other(fleet: Any, directory: str) -> None:
    """Another model under the same name in another namespace, where groups are namespaces."""
    other = "Qwen/Qwen2.5-7B-Instruct"
    fleet.set(pull_requests=replace(fleet.settings.pull_requests, group_by=("namespace",)))
    workload = {**BESIDE, "copies_at": CopyPlace(directory=directory)}
    fleet.add(
        replicas=6,
        runs_on="A100",
        namespace="two",
        model_id=other,
        profiles=(A100,),
        workload=workload,
        form=Form.TARGET,
    )
    fleet.offer(125.0, namespace="two", model_id=other, input_tokens=1000.0, output_tokens=200.0)


@pytest.mark.parametrize(("directory", "count"), [("apps/two", 2), ("apps/llm", 1)])
def test_no_two_are_written_to_one_file(busy: Any, directory: str, count: int) -> None:
    add_other(busy, directory)
    assert sum(each.canary is not None for each in planned(busy).decisions) == count


@pytest.mark.parametrize("left", [1, 2])
def test_two_groups_do_not_take_the_same_device(busy: Any, left: int) -> None:
    add_other(busy, "apps/two")
    busy.stock(A100=12, H100=left)
    assert sum(each.canary is not None for each in planned(busy).decisions) == left


ODD = ("llama", "Llama", "llama.v1", "llama-v1", "x" * 41, "x" * 42, "x" * 63, f"{'x' * 30}----------y", "0", "-", "大")


def test_each_pair_of_names_leads_to_a_label_of_its_own() -> None:
    accelerators = ("H100", "A100 80GB", "A100-80GB", "大", "小", "NVIDIA-H100-80GB-HBM3", "y" * 70, "y" * 71, "-", ".")
    names = [canary_name(name, accelerator) for name in ODD for accelerator in accelerators]
    assert len(set(names)) == len(names)
    assert all(len(each) <= 52 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", each) for each in names)
    assert canary_name("llama", "H100") == CANARY
    assert canary_name("x" * 60, "H100").startswith("x" * 31 + "-canary-h100-")
    assert canary_name("大", "大") == "canary-ee8a1875"


@pytest.mark.parametrize("state", [ProposalState.MERGED])
def test_what_a_person_removed_does_not_come_back(busy: Any, state: ProposalState) -> None:
    changed(busy, state, closed_at_s=busy.now_s - 86_400.0)
    assert started(busy) is None


def test_what_was_tried_is_not_tried_again(busy: Any) -> None:
    add_canary(busy, replicas=0)
    assert started(busy) is None
    assert planned(busy).trials == ()
    assert busy.decision(CANARY).desired.replicas == 0


def test_a_saving_that_shrinks_closes_nothing_that_is_open(busy: Any) -> None:
    """Neither noise nor a quiet hour, in which one replica of anything is enough."""
    changed(busy, ProposalState.OPEN)
    busy.offer(2.0, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)
    busy.price(A100=4.0, H100=4.2)
    assert started(busy) is not None
    busy.proposals.clear()
    assert started(busy) is None


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"copies_at": CopyPlace(reason="it stands in a List")}, "it stands in a List"),
        ({"copies_at": CopyPlace(), "devices": {GPU: 2}}, "another number of devices"),
        ({}, "no variant of it is a Deployment or a Playground in Git"),
        ({**BESIDE, "pods": (pods(**{"kubernetes.io/hostname": "a"}),)}, "keeps it on machines of one kind"),
        ({**BESIDE, "pods": (pods(kind="A100"),)}, "nodeSelector kind of A100 would stay: give H100 one"),
    ],
)
def test_where_none_can_be_written_the_plan_says_why(
    fleet: Any, make: Any, workload: dict[str, Any], words: str
) -> None:
    fleet.set(service_classes=(make.service_class(itl_s=0.06),))
    fleet.price(A100=4.0, H100=3.0)
    first, second = fleet.settings.accelerators
    labelled = replace(first, node_selector={**first.node_selector, "kind": "A100"})
    fleet.set(accelerators=(labelled if "pods" in workload else first, second))
    fleet.add(replicas=6, runs_on="A100", model_id=LLAMA, profiles=(A100,), workload=workload, form=Form.TARGET)
    fleet.offer(125.0, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)
    plan = planned(fleet)
    assert [each.canary for each in plan.decisions] == [None]
    assert words in plan.trials[0].obstacle
    assert "and none can be written here" in " ".join(plan_text(plan).split())


def add_canary(fleet: Any, replicas: int, hours: float = 1.0) -> None:
    """One that is in Git for so many hours."""
    counts = ((fleet.now_s - hours * 3600, replicas),)
    fleet.written[key(CANARY, "Deployment")] = WrittenCounts(
        variant=key(CANARY, "Deployment"), counts=counts, is_whole=True
    )
    fleet.add(
        CANARY,
        replicas=replicas,
        runs_on="H100",
        model_id=LLAMA,
        form=Form.ADOPTED,
        key=key(CANARY, "Deployment"),
        target=key(CANARY, "Deployment"),
        annotations={"canary": "H100", "minReplicas": 0},
        workload=BESIDE,
    )
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())


def test_it_counts_for_nobody_while_it_runs(busy: Any) -> None:
    before = busy.decision().desired
    add_canary(busy, replicas=1)
    assert busy.decision().desired == before
    assert (busy.decision(CANARY).desired.replicas, busy.decision(CANARY).engine) == (1, "canary")


@pytest.mark.parametrize(("itl_s", "outcome", "is_more"), [(0.02, Outcome.HELD, False), (0.09, Outcome.CHANGE, True)])
def test_more_replicas_of_it_hold_its_model_but_while_a_target_is_missed(
    busy: Any, itl_s: float, outcome: Outcome, is_more: bool
) -> None:
    add_canary(busy, replicas=2, hours=400)
    busy.offer(500.0, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)
    busy.observations[key("llama")] = Observation(performance=Performance(itl_s=itl_s), replicas_reporting=6)
    found = busy.decision()
    assert (found.outcome, found.desired.replicas > 6) == (outcome, is_more)


@pytest.mark.parametrize(("load", "price", "replicas"), [(125.0, 3.0, 1), (125.0, 20.0, 0), (2.0, 4.2, 1)])
def test_one_that_has_become_too_dear_ends_and_a_quiet_hour_ends_none(
    busy: Any, load: float, price: float, replicas: int
) -> None:
    add_canary(busy, replicas=1)
    busy.price(A100=4.0, H100=price)
    busy.offer(load, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)
    plan = planned(busy)
    (canary,) = (each for each in plan.decisions if each.variant.name == CANARY)
    assert canary.desired.replicas == replicas
    assert ("The canary is taken back: even at the fast edge" in plan_text(plan)) is (replicas == 0)


def end_of(fleet: Any, found: Measured | None = None, unschedulable: int = 0) -> str:
    """Why the canary is taken back; empty where it is not."""
    snapshot = fleet.snapshot()
    observed = replace(snapshot.observed, unschedulable={key(CANARY, "Deployment"): unschedulable})
    tried = {} if found is None else {key(CANARY, "Deployment"): found}
    snapshot = replace(snapshot, tried=tried, observed=observed)
    orders = ordered(snapshot, decide(snapshot)).canaries
    return " ".join(words for each in orders.values() if each.step is CanaryStep.END for words in each.words)


def open_end(fleet: Any) -> None:
    """The pull request that takes the canary back."""
    resource = f"{CLUSTER}/llm/Deployment/{CANARY}"
    change = ProposedChange(
        resource=resource, replicas_before=1, replicas_after=0, accelerator_before="H100", accelerator_after="H100"
    )
    fleet.propose(change, part=Part.CANARY, state=ProposalState.OPEN)


def test_one_whose_original_is_gone_ends(busy: Any) -> None:
    add_canary(busy, replicas=1)
    busy.resources = [each for each in busy.resources if each.key.name == CANARY]
    busy.workloads = [each for each in busy.workloads if each.key.name == CANARY]
    told = end_of(busy)
    assert f"no other variant of {LLAMA} is in namespace llm" in told
    assert "remove its annotation reconciler.io/canary" in told


@pytest.mark.parametrize(
    ("written", "merged_hours", "words"),
    [
        (((95, 1),), None, ""),
        (((97, 1),), None, "0 hours with load were measured in 4 days, 24 are needed"),
        (((300, 1), (200, 3), (97, 1)), None, "measured in 12 days"),
        (((300, 1), (200, 0), (95, 1)), 300, ""),  # a person started it again
        (((97, 1),), 10, ""),  # its commit is older than its merge
        ((), 97, "measured in 4 days"),
        ((), 95, ""),
        ((), None, "neither the forge nor Git's history tells when it began"),
    ],
)
def test_its_age_is_known_without_the_pull_request_that_started_it(
    busy: Any, written: tuple[tuple[float, int], ...], merged_hours: float | None, words: str
) -> None:
    add_canary(busy, replicas=1)
    busy.written.clear()
    if written:
        counts = tuple((busy.now_s - hours * 3600, count) for hours, count in written)
        variant = key(CANARY, "Deployment")
        busy.written[variant] = WrittenCounts(variant=variant, counts=counts, is_whole=True)
    if merged_hours is not None:
        changed(busy, ProposalState.MERGED, closed_at_s=busy.now_s - merged_hours * 3600)
    told = end_of(busy)
    assert words in told
    assert bool(told) == bool(words)


def test_where_history_is_cut_it_is_at_least_as_old_as_what_is_left(busy: Any) -> None:
    add_canary(busy, replicas=1)
    variant = key(CANARY, "Deployment")
    busy.written[variant] = WrittenCounts(variant=variant, counts=((busy.now_s - 120 * 3600, 1),))
    assert "measured in 5 days" in end_of(busy)
    changed(busy, ProposalState.MERGED, closed_at_s=busy.now_s - 240 * 3600)
    assert "measured in 10 days" in end_of(busy)


def test_a_short_wait_for_a_node_after_days_of_measuring_ends_nothing(busy: Any) -> None:
    """A rollout or a lost node takes minutes; only a wait that lasts says that there are none."""
    add_canary(busy, replicas=1, hours=72)
    busy.observations.pop(key(CANARY), None)
    busy.observations.pop(key(CANARY, "Deployment"), None)
    prior = prior_of_h100(busy)
    for hours, words in ((0.5, ""), (7, "it has found no node for 7 hours: H100 is not to be had, or affinity")):
        seen_s = busy.now_s - hours * 3600
        told = end_of(busy, replace(measured(prior, 1.0, 20), seen_s=seen_s), unschedulable=1)
        assert words in told
        assert bool(told) == bool(words)
    assert "it has found no node for 72 hours" in end_of(busy, unschedulable=1)


def test_hours_that_differ_too_much_are_no_measurement_however_many(busy: Any) -> None:
    add_canary(busy, replicas=1, hours=97)
    prior = prior_of_h100(busy)
    found = measured(prior, 1.6, 90)
    noisy = replace(found, posterior=replace(found.posterior, deviation=0.8))
    assert not noisy.is_enough
    told = end_of(busy, noisy)
    assert "90 hours with load were measured in 4 days, and they differ too much to be believed" in told


def test_what_was_proposed_stays_while_metrics_are_gone(busy: Any) -> None:
    add_canary(busy, replicas=1, hours=97)
    busy.lack(Absence.MISSING, "no series", model_id=LLAMA)
    assert end_of(busy) == ""
    open_end(busy)
    assert "it is not known what it does now, as metrics are missing" in end_of(busy)


def test_at_the_median_it_is_said_in_plain_words(busy: Any) -> None:
    prior = prior_of_h100(busy)
    add_canary(busy, replicas=1)
    open_end(busy)
    edge = break_even(busy, prior)
    assert "at the median estimate it would cost" in end_of(busy, measured(prior, edge, 12))


def measured(prior: Prior, shift: float, hours: int) -> Measured:
    """What is believed after hours that were all so many times as slow as the prior says."""
    deviation = math.sqrt(1.0 / (1.0 / prior.deviation**2 + hours / 3.0 / 0.03**2) + 0.03**2)
    posterior = replace(prior, profile=prior.slower(shift), deviation=deviation)
    return Measured(prior=prior, posterior=posterior, hours=hours, batch=(1.0, 40.0), shift=shift)


def prior_of_h100(fleet: Any) -> Prior:
    snapshot = fleet.snapshot()
    return size_trials(snapshot, decide(snapshot).decisions)[0].prior


def ordered_end(fleet: Any, found: Measured) -> bool:
    """Whether a plan takes the canary back that measured this."""
    snapshot = replace(fleet.snapshot(), tried={key(CANARY, "Deployment"): found})
    orders = ordered(snapshot, decide(snapshot)).canaries
    return any(each.step is CanaryStep.END for each in orders.values())


def break_even(fleet: Any, prior: Prior) -> float:
    """How many times as slow as the prior a replica is of which all that is believed is just too dear."""
    low, high = 0.2, 5.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if ordered_end(fleet, measured(prior, middle, 12)) else (middle, high)
    return high


@pytest.mark.parametrize("size", [0.003, 0.01, 0.03])
def test_near_break_even_it_is_taken_back_once(busy: Any, size: float) -> None:
    """Thirty runs whose belief goes up and down around the point where it becomes too dear."""
    prior = prior_of_h100(busy)
    add_canary(busy, replicas=1)
    edge = break_even(busy, prior)
    told: list[bool] = []
    for run in range(30):
        noise = size * math.sin(2.4 * run)  # above the edge, below it, and so on
        told.append(ordered_end(busy, measured(prior, edge * math.exp(noise), 12)))
        busy.proposals.clear()
        if told[-1]:
            open_end(busy)
    assert any(told)
    assert sum(one != other for one, other in pairwise(told)) <= 1
    assert not ordered_end(busy, measured(prior, edge * 0.7, 12))
