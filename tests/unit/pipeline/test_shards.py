"""Shards of a fleet: together they decide what one run would, none of them twice, and none undoes another's work."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from reconciler.domain.plan import Plan
from reconciler.domain.proposals import branches_of, collected_groups
from reconciler.domain.shards import Shard
from reconciler.errors import ConfigurationError
from reconciler.metrics.quantities import Name
from reconciler.pipeline.gauges import outcome_of
from reconciler.pipeline.prepare import Prepared, prepare
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.recording import read_recording
from tests.servers.desk import RENDERER, Desk
from tests.servers.drawn_fleet import UNLIMITED, DrawnFleet, DrawnVariant, draw_fleet

WRITTEN = (Operation.CREATED, Operation.UPDATED, Operation.CLOSED)


def shards(count: int) -> tuple[Shard, ...]:
    return tuple(Shard(index=index, count=count) for index in range(count))


def decided(plan: Plan) -> dict[str, tuple[object, ...]]:
    return {str(each.variant): (each.desired, each.outcome, each.verdict, each.hold) for each in plan.decisions}


def proposed(plan: Plan) -> dict[str, str]:
    """What each head branch is to say."""
    return {each.head_branch: each.fingerprint for each in plan.groups if each.fingerprint}


def planned(desk: Desk, fleet: DrawnFleet, shard: Shard | None, record: Path | None = None) -> Prepared:
    desk.shard = shard
    return desk.plan(fleet.ask(), record=record)


def run(desk: Desk, fleet: DrawnFleet, shard: Shard | None) -> dict[str, Operation]:
    """What a run of one shard did to each head branch, as far as it wrote anything."""
    desk.shard = shard
    published = desk.run(fleet.ask(), desk.dated_forge).published
    assert not [each for each in published if each.operation is Operation.FAILED]
    return {each.head_branch: each.operation for each in published if each.operation in WRITTEN}


def run_all(desk: Desk, fleet: DrawnFleet, count: int) -> dict[str, Operation]:
    """The same of all shards, none of which writes to what another wrote to."""
    found = [run(desk, fleet, each) for each in shards(count)]
    together = {branch: operation for each in found for branch, operation in each.items()}
    assert len(together) == sum(map(len, found))
    return together


def busy_fleet(*places: str, limits: str = UNLIMITED, rules: str = "") -> DrawnFleet:
    """Models that lack replicas, each of a namespace and group of its own: CLUSTER/NAMESPACE/ACCELERATOR."""
    fleet = DrawnFleet(limits=limits, rules=rules)
    for cluster, namespace, accelerator in (each.split("/") for each in places):
        fleet.pools[cluster] = {}
        fleet.variants.append(
            DrawnVariant(
                cluster=cluster,
                namespace=namespace,
                name=f"{namespace}-m",
                group=f"{cluster}/{namespace}",
                accelerator=accelerator,
                replicas=1,
                per_s=60.0,
            )
        )
    return fleet


APART = ("c0/a/L4", "c0/b/H100", "c0/c/A100", "c1/d/L4", "c1/e/H100", "c2/f/L4", "c2/g/L4")
"""Six parts that share nothing: c0 and c1 are divided, c2 is not."""


@pytest.mark.parametrize("seed", range(10))
def test_shards_together_decide_what_one_run_decides(desk: Desk, seed: int) -> None:
    fleet = draw_fleet(seed)
    fleet.write(desk)
    whole = planned(desk, fleet, None)
    assert proposed(whole.plan)
    parts = [planned(desk, fleet, each) for each in shards(4)]
    seen = Counter(str(each.variant) for part in parts for each in part.plan.decisions)
    assert set(seen.values()) == {1}
    assert {name: each for part in parts for name, each in decided(part.plan).items()} == decided(whole.plan)
    assert {name: each for part in parts for name, each in proposed(part.plan).items()} == proposed(whole.plan)
    homes = defaultdict[object, set[int]](set)
    for index, part in enumerate(parts):
        for each in part.snapshot.variants:
            shared = (
                ("namespace", each.key.namespace),
                ("devices", each.key.cluster, each.current.accelerator),
                ("group", _group_of(part.plan, each.key.name)),
            )
            for what in shared:
                homes[what].add(index)
    assert {len(found) for found in homes.values()} == {1}


def _group_of(plan: Plan, name: str) -> str:
    return next(each.group for each in plan.decisions if each.variant.name == name)


def test_shards_write_what_one_run_writes_and_nothing_again(desk: Desk) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    written = run_all(desk, fleet, 3)
    assert set(written.values()) == {Operation.CREATED}
    assert len(written) == len(APART)
    assert len({index for index, each in enumerate(shards(3)) if planned(desk, fleet, each).plan.decisions}) > 1
    before = desk.state()
    assert run_all(desk, fleet, 3) == {}
    assert run_all(desk, fleet, 4) == {}  # another number of shards finds the same groups
    assert run(desk, fleet, None) == {}
    assert run_all(desk, fleet, 7) == {}
    assert desk.state() == before


def test_what_is_gone_from_git_is_withdrawn_by_one_shard(desk: Desk) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    run_all(desk, fleet, 3)
    gone = fleet.variants.pop(4)
    fleet.write(desk)
    (closed,) = set(branches_of("reconciler/", gone.group)) & set(run_all(desk, fleet, 3))
    assert [each.head_branch for each in desk.pull_requests() if not each.is_open] == [closed]
    assert run_all(desk, fleet, 3) == {}


def test_limits_are_divided_and_say_whose_they_are(desk: Desk) -> None:
    places = [f"c{index}/n{index}-{number}/L4" for index in range(6) for number in range(3)]
    fleet = busy_fleet(*places, limits="{open: 7, createdPerHour: 0}")
    for each in fleet.variants:  # nothing is repaired, for repairs are never put back
        each.replicas, each.per_s = 3, 1.0
    fleet.write(desk)
    for _ in range(3):
        run_all(desk, fleet, 2)
        assert 0 < sum(each.is_open for each in desk.pull_requests()) <= 7
    desk.shard = Shard(index=0, count=2)
    words = [each.put_back for each in desk.plan(fleet.ask()).plan.groups if each.put_back]
    assert any("pullRequests.limits.open of shard 0/2 is 3" in each for each in words)
    desk.shard = Shard(index=0, count=9)
    with pytest.raises(ConfigurationError, match=r"limits\.open is 7.* among 9 shards: set it to 9 or more"):
        desk.plan(fleet.ask())


def test_a_cluster_in_several_shards_has_no_pull_request_of_several_groups(desk: Desk) -> None:
    """What one run had collected is withdrawn by one shard, and proposed by each group's own."""
    fleet = busy_fleet(*APART, limits="{open: 0, createdPerHour: 1, mergesPerHour: 20}")
    fleet.write(desk)
    run(desk, fleet, None)
    lanes = {branch for name in collected_groups("c0") for branch in branches_of("reconciler/", name)}
    (lane,) = (each.head_branch for each in desk.pull_requests() if each.head_branch in lanes)
    fleet.limits = UNLIMITED
    fleet.write(desk)
    written = run_all(desk, fleet, 3)
    assert written[lane] is Operation.CLOSED
    for group in ("c0/a", "c0/b", "c0/c"):
        assert set(branches_of("reconciler/", group)) & {
            each.head_branch for each in desk.pull_requests() if each.is_open
        }
    assert run_all(desk, fleet, 3) == {}


RULED = """apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {{name: together, {}}}
"""


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("budget: {amount: 500, per: hour}", 1),
        ("budget: {amount: 500, per: day, each: cluster}", 3),
        ("scope: {cluster: c0}, changeLimit: {changes: 2}", 4),
        ("changeLimit: {changes: 2, per: group}", 6),
        ('deny: {when: "fleet.changes > 100"}', 1),
        ("spot: {maxShare: 50%, of: fleet}", 6),  # nothing is on spot accelerators
    ],
)
def test_what_a_rule_judges_together_is_one_part(desk: Desk, rule: str, parts: int) -> None:
    fleet = busy_fleet(*APART, rules=RULED.format(rule))
    fleet.write(desk)
    assert f"of {parts} parts that share nothing" in planned(desk, fleet, Shard(index=0, count=2)).plan.notes[0]


SCALED = """apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  scaleTargetRef: {{name: {name}}}
  triggers:
  - type: prometheus
    metadata: {{query: 'sum(vllm:num_requests_running{{namespace="{namespace}"}})', threshold: "40"}}
"""


@pytest.mark.parametrize(("when", "parts"), [("tune", 5), ("bounds", 6)])
def test_autoscalers_that_may_get_one_setting_are_one_part(desk: Desk, when: str, parts: int) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    for each in fleet.variants[1::3]:
        path = f"clusters/{each.cluster}/{each.namespace}/scaler.yaml"
        desk.workshop.write(path, SCALED.format(name=each.name, namespace=each.namespace).encode())
    settings = fleet.files()["reconciler.yaml"].replace(
        "accelerator: keep", f"accelerator: keep, whenAutoscaled: {when}"
    )
    desk.write("reconciler.yaml", settings)
    assert f"of {parts} parts that share nothing" in planned(desk, fleet, Shard(index=0, count=2)).plan.notes[0]


def test_a_shard_asks_about_its_own_namespaces(desk: Desk) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    for shard in shards(3):
        found = planned(desk, fleet, shard)
        own = {each.key.namespace for each in found.snapshot.variants}
        asked = {each.query.cluster for each in found.recording.answers}
        assert asked == {each.key.cluster for each in found.snapshot.variants}
        texts = [each.query.text for each in found.recording.answers if "vllm:" in each.query.text]
        others = {each.namespace for each in fleet.variants if each.cluster in ("c0", "c1")} - own
        assert not [text for text in texts for each in others if f'"{each}"' in text or f"|{each}" in text]


def test_a_queue_without_labels_may_be_of_a_model_of_another_shard(desk: Desk) -> None:
    fleet = busy_fleet("c0/a/L4", "c0/b/H100", "c0/c/A100")
    fleet.write(desk)
    for shard in (None, *shards(3)):
        desk.shard = shard
        found = desk.plan(fleet.ask({Name.FLOW_CONTROL_QUEUE_SIZE: [({}, 40.0)]})).snapshot.observed.queues
        assert not [each for each in found.values() if each.num_waiting is not None]
        assert all("may be that of a/a-m and b/b-m and c/c-m" in each.reason for each in found.values())


def test_a_replay_is_of_the_shard_that_was_recorded(desk: Desk, tmp_path: Path) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    shard = next(each for each in shards(3) if planned(desk, fleet, each).plan.decisions)
    made = planned(desk, fleet, shard, tmp_path / "shard.zip")
    again = prepare(read_recording(tmp_path / "shard.zip"), RENDERER)
    assert again.snapshot.settings.shard == shard
    assert (decided(again.plan), again.plan.recording) == (decided(made.plan), made.plan.recording)


def test_gauges_of_all_shards_count_each_pull_request_once(desk: Desk) -> None:
    fleet = busy_fleet(*APART)
    fleet.write(desk)
    run_all(desk, fleet, 3)
    told = Counter[int]()
    for desk.shard in shards(3):
        found = outcome_of(desk.run(fleet.ask(), desk.dated_forge), 0, desk.now_s)
        told.update(each.number for each in found.pull_requests)
    assert told == Counter(each.number for each in desk.pull_requests())
