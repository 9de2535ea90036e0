"""How many devices there are: what is configured, else what is measured, and never fewer because nobody knows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decision.devices import devices_drawn, pools_of
from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place
from reconciler.domain.inventory import Accelerator, Catalog, DevicePool, Holder, Inventory
from reconciler.domain.observed import ClusterNode, DevicesSeen, Holding
from reconciler.domain.requirements import Pool
from reconciler.domain.settings import ClusterSettings, PoolSettings, Settings
from reconciler.resources.variants import ListedCost
from reconciler.snapshot.accelerators import build_catalog
from reconciler.snapshot.inventory import device_names, take_inventory
from tests.servers.variants import make_variant

GPU, CPU, MIG = "nvidia_com_gpu", "cpu", "nvidia_com_mig_1g_10gb"
PRODUCT = "label_nvidia_com_gpu_product"
H100, A100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
NOW_S = 1_790_000_000.0
OWNED = Hold(kind=HoldKind.OWNED_BY_ANOTHER, words="replicas are owned by an HPA")
CATALOG = (Accelerator(name="H100", device="H100", cost_per_hour=6.88),)


def node(name: str, product: str = H100, devices: int | None = 8, **fields: Any) -> ClusterNode:
    labels = {PRODUCT: product} if product else {}
    return ClusterNode(**{"name": name, "offers": {CPU: 64, GPU: devices}, "labels": labels, **fields})


def plain(name: str) -> ClusterNode:
    """A node without devices."""
    return ClusterNode(name=name, offers={CPU: 64})


LLAMA = make_variant("llama").key


def held(node_name: str, devices: int | None, namespace: str = "lab", *, is_ours: bool = False) -> Holding:
    variant = LLAMA if is_ours else None
    return Holding(namespace=namespace, node=node_name, resource=GPU, devices=devices, variant=variant)


def absent(absence: Absence, reason: str) -> NoAnswer:
    return NoAnswer(absence=absence, reason=reason)


def pool_settings(name: str, devices: int | None, device: str = "H100", **fields: Any) -> PoolSettings:
    place = Place(path="reconciler.yaml", line=7)
    return PoolSettings(**{"name": name, "device": device, "devices": devices, "place": place, **fields})


def take(
    nodes: Sequence[ClusterNode] | NoAnswer,
    holdings: Sequence[Holding] | NoAnswer = (),
    *,
    pools: Sequence[PoolSettings] = (),
    accelerators: Sequence[Accelerator] = CATALOG,
    runs_on: str = "H100",
    **fields: Any,
) -> Inventory:
    """The inventory of one cluster in which a variant runs."""
    seen = DevicesSeen(
        nodes=nodes if isinstance(nodes, NoAnswer) else tuple(nodes),
        holdings=holdings if isinstance(holdings, NoAnswer) else tuple(holdings),
    )
    settings = Settings(clusters=(ClusterSettings(name="prod", pools=tuple(pools)),))
    variant = make_variant("llama")
    variant = replace(variant, current=replace(variant.current, accelerator=runs_on), **fields)
    return take_inventory(settings, {"prod": build_catalog(accelerators, ())}, [variant], {"prod": seen}, NOW_S)


def found(inventory: Inventory, device: str = "H100") -> DevicePool:
    pool = inventory.find("prod", device)
    assert pool is not None
    return pool


# What is measured.


def test_what_nodes_of_a_product_offer_adds_up() -> None:
    pool = found(take([node("a"), node("b", devices=4), node("c", A100), plain("d")]))
    assert (pool.name, pool.exists, pool.devices) == ("prod/H100", 12, 12)
    assert pool.measured.reason == "2 nodes"
    assert pool.at_s == NOW_S


@pytest.mark.parametrize(
    "product", ["NVIDIA-H100-80GB-HBM3", "nvidia-h100-80gb-hbm3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL", "H100"]
)
def test_spellings_of_a_product_are_one_type(product: str) -> None:
    assert found(take([node("a", product), node("b")])).exists == 16


@pytest.mark.parametrize(
    ("label", "value", "resource", "device"),
    [
        ("label_cloud_google_com_gke_accelerator", "nvidia-l4", GPU, "L4"),
        ("label_amd_com_gpu_product_name", "AMD-Instinct-MI300X-OAM", "amd_com_gpu", "MI300X"),
        ("label_gpu_intel_com_product", "Intel-Gaudi-2-96GB", "habana_ai_gaudi", "G2"),
        ("label_k8s_amazonaws_com_accelerator", "nvidia-a10g", GPU, "NVIDIA-A10G"),
    ],
)
def test_the_labels_of_every_vendor_are_understood(label: str, value: str, resource: str, device: str) -> None:
    inventory = take([ClusterNode(name="a", offers={resource: 8}, labels={label: value})], accelerators=())
    assert found(inventory, "A10G" if device == "NVIDIA-A10G" else device).exists == 8


def test_an_accelerator_is_recognised_by_its_node_selector_and_its_aliases() -> None:
    own = (
        Accelerator(name="big", device="big", node_selector={"example.com/Tier": "gold"}),
        Accelerator(name="mid", device="mid", aliases=("p4d.24xlarge", "NVIDIA-A100-X")),
    )
    nodes = [
        node("a", labels={PRODUCT: H100, "label_example_com_tier": "gold"}),
        node("b", labels={"label_node_kubernetes_io_instance_type": "p4d.24xlarge"}),
        node("c", "NVIDIA-A100-X"),
    ]
    inventory = take(nodes, accelerators=own, runs_on="big")
    assert {device: pool.exists for (_, device), pool in inventory.pools.items()} == {"big": 8, "mid": 16}


def test_a_config_map_says_what_a_product_means_on_both_sides() -> None:
    listed = ListedCost(
        accelerator="HX", cost_per_hour=5.0, device_label="NVIDIA-H100-80GB-HBM3", place=Place(path="costs.yaml")
    )
    seen = {"prod": DevicesSeen(nodes=(node("a"),), holdings=())}
    settings = Settings(clusters=(ClusterSettings(name="prod"),))
    inventory = take_inventory(settings, {"prod": build_catalog((), [listed])}, [], seen, NOW_S)
    assert found(inventory, "HX").exists == 8


def test_a_product_that_nothing_knows_is_the_type_that_a_manifest_would_name() -> None:
    inventory = take([node("a", "ACME-9000")], accelerators=(), runs_on="ACME-9000")
    assert found(inventory, "ACME-9000").exists == 8


# False zeros.


def test_that_no_node_offers_a_type_is_believed_when_every_node_is_known() -> None:
    pool = found(take([node("a", L4), plain("b")]))
    assert (pool.exists, pool.devices, pool.measured.reason) == (0, 0, "no node offers any")


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([node("a"), node("b", "")], "devices of 1 node have no product label: let kube-state-metrics"),
        ([node("a"), node("b", is_changed=True)], "devices of 1 node have no product label"),
        ([node("a"), ClusterNode(name="b")], "1 node of 2 reported no devices: b"),
        ([node("a"), node("b", devices=None)], "the number of devices on 1 node cannot be read"),
        ([node("a"), node("b", "NVIDIA-H100-96GB")], "nodes offer NVIDIA-H100-96GB, which may be H100: say so in"),
        ([plain("a"), node("b", "ACME-9000")], "nodes offer ACME-9000, which may be H100"),
    ],
)
def test_a_node_that_may_offer_the_type_makes_it_unknown(nodes: Sequence[ClusterNode], reason: str) -> None:
    pool = found(take(nodes))
    assert (pool.exists, pool.devices) == (None, None)
    assert pool.measured.reason.startswith(reason)
    assert pools_of(take(nodes)) == () or all(each.name != "prod/H100" for each in pools_of(take(nodes)))


def test_pods_on_a_node_that_says_nothing_tell_that_nodes_are_missing() -> None:
    pool = found(take([node("a")], [held("gone", 4)]))
    assert pool.exists is None
    assert pool.measured.reason == "pods hold devices on 1 node without series: gone"


@pytest.mark.parametrize("absence", [Absence.MISSING, Absence.STALE, Absence.NAN, Absence.FAILED])
def test_without_an_answer_about_nodes_nothing_is_limited_and_it_says_why(absence: Absence) -> None:
    inventory = take(absent(absence, "the reason"))
    assert found(inventory).devices is None
    assert found(inventory).measured.reason == "the reason"
    assert pools_of(inventory) == ()


def test_a_strange_product_does_not_hide_what_others_are_known_to_offer() -> None:
    inventory = take([node("a"), node("b", "NVIDIA-RTX-A6000")])
    assert found(inventory).exists == 8
    assert found(inventory, "NVIDIA-RTX-A6000").exists == 8


def test_a_type_that_is_told_by_a_label_which_nobody_exports_is_unknown() -> None:
    spot = Accelerator(name="spot", device="spot", node_selector={"nvidia.com/gpu.product": H100, "tier": "spot"})
    inventory = take([node("a")], accelerators=(*CATALOG, spot), runs_on="spot")
    assert found(inventory, "spot").measured.reason == "no node is exported with the label tier that identifies it"
    assert found(inventory).exists == 8
    labelled = node("b", labels={PRODUCT: H100, "label_tier": "reserved"})
    inventory = take([node("a"), labelled], accelerators=(*CATALOG, spot), runs_on="spot")
    assert found(inventory, "spot").exists == 0


# Parts of devices.


@pytest.mark.parametrize("product", ["NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA-H100-80GB-HBM3-SHARED"])
def test_a_product_of_slices_or_shares_is_a_type_of_its_own(product: str) -> None:
    inventory = take([node("a"), node("b", product, 56)])
    assert found(inventory).exists == 8
    assert found(inventory, product).exists == 56


def test_slices_beside_whole_devices_are_a_type_of_their_own() -> None:
    inventory = take([node("a", offers={CPU: 64, GPU: 6, MIG: 14})])
    assert found(inventory).exists == 6
    assert found(inventory, f"H100 as {MIG}").exists == 14


def test_slices_may_be_an_accelerator() -> None:
    product = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    own = Accelerator(name="slice", device="slice", node_selector={"nvidia.com/gpu.product": product})
    inventory = take([node("a", product, 56)], accelerators=(*CATALOG, own), runs_on="slice")
    assert found(inventory, "slice").exists == 56


def test_a_node_whose_devices_are_all_cut_offers_none_of_them_whole() -> None:
    assert found(take([node("a", offers={CPU: 64, GPU: 0, MIG: 56})])).exists == 0


# Who holds them.


def test_what_others_hold_is_taken_and_what_we_hold_is_not() -> None:
    holdings = [held("a", 4, "lab"), held("a", 1, "lab"), held("b", 2, "notebooks"), held("b", 4, "llm", is_ours=True)]
    pool = found(take([node("a"), node("b")], holdings))
    assert (pool.exists, pool.taken, pool.devices) == (16, 7, 9)
    assert pool.measured.holders == (
        Holder(namespace="lab", pods=2, devices=5),
        Holder(namespace="notebooks", pods=1, devices=2),
    )


def test_the_three_largest_holders_are_named() -> None:
    holdings = [held("a", devices, f"team-{devices}") for devices in (1, 2, 3, 4)]
    holders = found(take([node("a", devices=16)], holdings)).measured.holders
    assert [each.namespace for each in holders] == ["team-4", "team-3", "team-2"]


def test_nobody_takes_more_of_a_node_than_it_offers() -> None:
    pool = found(take([node("a", devices=4), node("b")], [held("a", 8)]))
    assert (pool.taken, pool.devices) == (4, 8)


def test_what_is_held_of_another_type_takes_nothing_of_this_one() -> None:
    assert found(take([node("a"), node("b", L4)], [held("b", 8)])).devices == 8


@pytest.mark.parametrize("absence", [Absence.MISSING, Absence.STALE, Absence.NAN, Absence.FAILED])
def test_where_nobody_knows_what_others_hold_all_that_exists_is_the_limit(absence: Absence) -> None:
    pool = found(take([node("a")], absent(absence, "the reason")))
    assert (pool.devices, pool.measured.taken, pool.measured.taken_reason) == (8, None, "the reason")


def test_a_pod_that_asks_for_no_number_is_named_and_counts_as_nothing() -> None:
    pool = found(take([node("a")], [held("a", None), held("a", 2)]))
    assert (pool.devices, pool.measured.taken_reason) == (6, "the number of devices of some pods cannot be read: 1")


@pytest.mark.parametrize("closed", ["cordoned", "not ready"])
def test_a_closed_node_offers_what_our_pods_hold_there(closed: str) -> None:
    holdings = [held("b", 3, "llm", is_ours=True), held("b", 2)]
    pool = found(take([node("a"), node("b", closed=closed)], holdings))
    assert (pool.exists, pool.taken, pool.devices) == (11, 0, 11)
    assert (pool.measured.allocatable, pool.measured.reason) == (16, "2 nodes, 1 of them cordoned or not ready")


def test_a_closed_node_counts_whole_when_nobody_knows_who_is_on_it() -> None:
    pool = found(take([node("b", closed="cordoned")], absent(Absence.FAILED, "the reason")))
    assert pool.exists == 8


def test_a_silent_node_still_counts() -> None:
    pool = found(take([node("a"), node("b", is_silent=True)]))
    assert (pool.exists, pool.measured.reason) == (16, "2 nodes, 1 of them silent for ten minutes")


@pytest.mark.parametrize(
    ("fields", "taken"),
    [({}, 0), ({"holds": (OWNED,)}, 4), ({"is_autoscaled": True}, 4), ({"runs_on": ""}, 6)],
)
def test_what_a_plan_does_not_count_of_ours_is_taken(fields: Any, taken: int) -> None:
    """Git says one replica of two devices; three pods hold two each."""
    workload = make_variant("llama").workload
    assert workload is not None
    workload = replace(workload, devices={"nvidia.com/gpu": 2})
    nodes = [node("a"), node("b")]
    holdings = [held("a", 2, "llm", is_ours=True), held("a", 2, "llm", is_ours=True), held("b", 2, "llm", is_ours=True)]
    pool = found(take(nodes, holdings, workload=workload, pools=[pool_settings("h100", None)], **fields))
    assert (pool.exists, pool.taken) == (16, taken)


def test_what_a_held_variant_has_on_another_type_is_taken_there() -> None:
    inventory = take([node("a", A100)], [held("a", 2, is_ours=True)], holds=(OWNED,))
    assert found(inventory, "A100").devices == 6


# What is configured.


def test_a_configured_number_goes_before_the_measured_one() -> None:
    pool = found(take([node("a")], [held("a", 2)], pools=[pool_settings("h100", 64, reserve=4)]))
    assert (pool.name, pool.exists, pool.measured.devices) == ("prod/h100", 64, 8)
    assert pool.devices == 64 - 4 - 2


def test_pools_of_one_type_count_together() -> None:
    pools = [pool_settings("h100", 64, reserve=4, tier="reserved"), pool_settings("h100-spot", 16, tier="spot")]
    pool = found(take([node("a", L4)], pools=pools))
    assert (pool.name, pool.exists, pool.reserve, pool.tiers) == ("prod/h100+h100-spot", 80, 4, ("reserved", "spot"))
    assert str(pool.places[0]) == "reconciler.yaml:7"


def test_what_others_hold_lies_beyond_the_configured_number_first() -> None:
    nodes = [node("a"), node("b")]
    pools = [pool_settings("ours", 10)]
    assert found(take(nodes, [held("a", 6)], pools=pools)).devices == 10
    assert found(take(nodes, [held("a", 8)], pools=pools)).devices == 8


def test_a_measured_pool_takes_the_measured_number_and_its_reserve() -> None:
    pool = found(take([node("a")], pools=[pool_settings("h100", None, reserve=2)]))
    assert (pool.name, pool.exists, pool.devices) == ("prod/h100", 8, 6)
    assert found(take([node("a", "")], pools=[pool_settings("h100", None, reserve=2)])).devices is None


def test_a_configured_number_needs_no_metrics() -> None:
    pool = found(take(absent(Absence.FAILED, "down"), absent(Absence.FAILED, "down"), pools=[pool_settings("x", 5)]))
    assert (pool.devices, pool.measured.taken) == (5, None)


def test_types_without_a_pool_are_measured_beside_those_with_one() -> None:
    inventory = take([node("a"), node("b", L4)], pools=[pool_settings("h100", 2)])
    assert pools_of(inventory) == (Pool(name="prod/L4", devices=8), Pool(name="prod/h100", devices=2))


def test_more_reserved_or_taken_than_there_is_leaves_nothing() -> None:
    assert found(take([node("a")], [held("a", 8)], pools=[pool_settings("h100", None, reserve=4)])).devices == 0


# What the solver gets.


def test_two_clusters_do_not_share_a_pool() -> None:
    settings = Settings(clusters=(ClusterSettings(name="prod"), ClusterSettings(name="eu")))
    seen = {
        "prod": DevicesSeen(nodes=(node("a"),), holdings=()),
        "eu": DevicesSeen(nodes=(node("a"), node("b")), holdings=(held("b", 3),)),
    }
    catalogs = dict.fromkeys(("prod", "eu"), build_catalog(CATALOG, ()))
    inventory = take_inventory(settings, catalogs, [], seen, NOW_S)
    assert pools_of(inventory) == (Pool(name="eu/H100", devices=13), Pool(name="prod/H100", devices=8))


def test_an_accelerator_of_several_devices_draws_from_the_pool_of_its_type() -> None:
    double = Accelerator(name="2xH100", device="H100", devices=2)
    catalogs = {"prod": build_catalog((*CATALOG, double), ())}
    inventory = take([node("a")], pools=[pool_settings("h100", 64)], accelerators=(*CATALOG, double))
    assert devices_drawn(inventory, catalogs, "prod", "2xH100", 4) == {"prod/h100": 4}
    assert devices_drawn(inventory, catalogs, "prod", "nvidia-h100-pcie", 1) == {"prod/h100": 1}


def test_what_is_not_known_draws_from_nothing() -> None:
    inventory = take(absent(Absence.MISSING, "none"))
    catalogs: Mapping[str, Catalog] = {"prod": build_catalog(CATALOG, ())}
    for cluster, accelerator in (("prod", "H100"), ("prod", "L4"), ("prod", ""), ("eu", "H100")):
        assert devices_drawn(inventory, catalogs, cluster, accelerator, 1) == {}


def test_configured_resources_and_labels_are_asked_for() -> None:
    own = Accelerator(name="npu", device="npu", resource="example.com/npu", node_selector={"example.com/Pool": "x"})
    names = device_names(Settings(accelerators=(own,)))
    assert "example_com_npu" in names.resources
    assert {"example.com/Pool", "nvidia.com/gpu.product"} <= set(names.labels)


NODES = st.lists(
    st.builds(
        lambda index, product, devices, closed, silent: node(
            f"n{index}", product, devices, closed=closed, is_silent=silent
        ),
        st.integers(0, 999),
        st.sampled_from([H100, A100, "", "ACME-9000", f"{H100}-MIG-1g.10gb"]),
        st.none() | st.integers(0, 8),
        st.sampled_from(["", "cordoned"]),
        st.booleans(),
    ),
    max_size=8,
    unique_by=lambda each: each.name,
)
HOLDINGS = st.lists(
    st.builds(
        lambda index, devices, ours: held(f"n{index}", devices, is_ours=ours),
        st.integers(0, 999),
        st.none() | st.integers(0, 8),
        st.booleans(),
    ),
    max_size=8,
)


@given(NODES, HOLDINGS)
def test_an_answer_that_lost_something_never_limits_more(nodes: list[ClusterNode], holdings: list[Holding]) -> None:
    """Labels that are not exported, pods that are not told of and nodes that go silent leave at least as much room."""
    most = found(take(nodes, holdings)).devices
    blurred = [replace(each, labels={}) for each in nodes]
    silent = [replace(each, is_silent=True) for each in nodes]
    has_devices = any(each.offers[GPU] != 0 for each in nodes)
    for seen in (blurred, silent):
        left = found(take(seen, holdings)).devices
        assert left is None or (most is not None and left >= most) or not has_devices
    opened = [replace(each, closed="") for each in nodes]
    for left in (found(take(opened, absent(Absence.FAILED, "down"))).devices, found(take(opened, [])).devices):
        assert left is None or most is None or left >= most
