"""How much of a model, or of all, may run on spot accelerators: within the plan, and whatever of it is merged."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.guarding import spot_accelerators
from reconciler.domain.inventory import Accelerator
from reconciler.domain.plan import VerdictKind
from reconciler.domain.settings import ClusterSettings, PoolSettings, Settings
from reconciler.policy.files import read_policy

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
WORDS = "at most 50 % of the replicas of its model on spot accelerators"


@pytest.fixture
def ruled(fleet: Any) -> Any:
    """A fleet whose L4 are spot, and a way to give it a rule."""
    fleet.price(H100=6.0, L4=1.0)

    def rule(text: str) -> Any:
        (cluster,) = fleet.settings.clusters
        pools = (PoolSettings(name="l4-spot", device="L4", devices=None, tier="spot"),)
        rules = read_policy("p.yaml", (HEADER + f"  - {{name: a, {text}}}").encode()).rules
        fleet.set(rules=rules, clusters=(replace(cluster, pools=pools),))
        return fleet

    return rule


def test_a_pool_of_the_tier_makes_every_accelerator_of_its_devices_spot() -> None:
    pools = (
        PoolSettings(name="a", device="L4", devices=1, tier="spot"),
        PoolSettings(name="b", device="L4", devices=1, tier="reserved"),
        PoolSettings(name="c", device="H100", devices=1),
    )
    names = (Accelerator(name="2xL4", device="L4", devices=2), Accelerator(name="H100", device="H100"))
    settings = Settings(
        accelerators=names, clusters=(ClusterSettings(name="x", pools=pools), ClusterSettings(name="y"))
    )
    assert spot_accelerators(settings) == {"x": frozenset({"L4", "2xL4"}), "y": frozenset()}


@pytest.mark.parametrize(
    ("share", "on_spot", "beside", "expected"),
    [
        # A replica carries 9.99 requests a second.
        ("50%", 2, 3, "3 x L4"),
        ("75%", 2, 3, "6 x L4"),
        ("100%", 2, 1, "6 x L4"),
        ("50%", 4, 1, "4 x L4"),
        ("0%", 2, 1, "2 x L4"),
    ],
)
def test_spot_grows_as_far_as_the_others_admit_and_what_runs_there_stays(
    ruled: Any, make: Any, share: str, on_spot: int, beside: int, expected: str
) -> None:
    fleet = ruled(f"spot: {{maxShare: {share}}}")
    fleet.add("cheap", replicas=on_spot, runs_on="L4", profiles=(make.profile("L4", 10),))
    fleet.add("safe", replicas=beside, max_replicas=beside, min_replicas=beside)
    fleet.offer(10.0 * beside + 55.0)
    assert fleet.desired()["cheap"] == expected


def test_what_is_safe_goes_only_as_far_as_spot_admits(ruled: Any, make: Any) -> None:
    fleet = ruled("spot: {maxShare: 50%}")
    fleet.add("cheap", replicas=2, min_replicas=2, runs_on="L4", profiles=(make.profile("L4", 10),))
    fleet.add("safe", replicas=6, min_replicas=0)
    fleet.offer(15.0)
    assert fleet.desired()["safe"] == "2 x H100"
    assert WORDS in str(fleet.decision("safe").verdict)


def test_a_move_to_spot_needs_room_in_the_share(ruled: Any, make: Any) -> None:
    def added(share: str) -> dict[str, str]:
        fleet = ruled(f"spot: {{maxShare: {share}}}")
        fleet.resources.clear()
        fleet.add(replicas=3, profiles=(make.profile("H100", 10), make.profile("L4", 10)))
        fleet.offer(25.0)
        desired: dict[str, str] = fleet.desired()
        return desired

    assert added("100%") == {"llama": "3 x L4"}
    assert added("50%") == {"llama": "3 x H100"}


def test_of_the_fleet_all_models_count_together(ruled: Any, make: Any) -> None:
    for text, expected in (("maxShare: 50%", "3 x L4"), ("maxShare: 50%, of: fleet", "6 x L4")):
        fleet = ruled(f"spot: {{{text}}}")
        if not fleet.resources:
            fleet.add("cheap", replicas=3, runs_on="L4", profiles=(make.profile("L4", 10),))
            fleet.add("other", model_id="qwen", replicas=6)
            fleet.offer(55.0)
            fleet.offer(50.0, "qwen")
        assert fleet.desired()["cheap"] == expected
    assert fleet.decision("cheap").verdict.kind is VerdictKind.ALLOW


def test_what_each_model_may_do_alone_all_together_may_not(ruled: Any, make: Any) -> None:
    """Each grows on spot within the share beside what runs now; both would go beyond it, so one waits its turn."""
    fleet = ruled("spot: {maxShare: 50%, of: fleet}")
    for name, model in (("one", "a"), ("two", "b")):
        fleet.add(name, model_id=model, replicas=1, runs_on="L4", profiles=(make.profile("L4", 10),))
        fleet.offer(25.0, model)
    fleet.add("safe", model_id="c", replicas=4)
    fleet.offer(35.0, "c")
    assert fleet.desired() == {"one": "3 x L4", "two": "[1 x L4]", "safe": "4 x H100"}
    assert fleet.decision("two").verdict.kind is VerdictKind.HOLD
    fleet.prioritise("two", 10)
    assert fleet.desired() == {"one": "[1 x L4]", "two": "3 x L4", "safe": "4 x H100"}
