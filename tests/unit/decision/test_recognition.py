"""Which accelerator a variant runs on, and what says so."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.settings import PoolSettings
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import ListedCost
from reconciler.snapshot.variants import build_catalogs

PRODUCT = "nvidia.com/gpu.product"
LABEL = "inference.optimization/acceleratorName"


def current(fleet: Any) -> tuple[str, str]:
    variant = fleet.variant()
    return variant.current.accelerator, variant.accelerator_source


def test_a_configured_node_selector_names_it(fleet: Any) -> None:
    fleet.add(runs_on="A100")
    assert current(fleet) == ("A100", "node selector")


def test_the_most_telling_of_two_node_selectors_names_it(fleet: Any, make: Any) -> None:
    spot = make.accelerator("H100-spot", 2.0, device="H100", node_selector={PRODUCT: "H100", "tier": "spot"})
    fleet.set(accelerators=(*fleet.settings.accelerators, spot))
    fleet.add(workload={"node_selector": {PRODUCT: "H100", "tier": "spot"}})
    assert current(fleet) == ("H100-spot", "node selector")
    fleet.workloads.clear()
    fleet.resources.clear()
    fleet.add(workload={"node_selector": {PRODUCT: "H100"}})
    assert current(fleet) == ("H100", "node selector")


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        (PRODUCT, "NVIDIA-H100-80GB-HBM3", "H100"),
        ("amd.com/gpu.product-name", "AMD-MI300X-192GB", "MI300X"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", "L4"),
        (PRODUCT, "NVIDIA-NEW-1TB", "NVIDIA-NEW-1TB"),
    ],
)
def test_a_common_product_label_names_it(fleet: Any, key: str, value: str, name: str) -> None:
    fleet.set(accelerators=())
    fleet.add(workload={"node_selector": {key: value}})
    assert current(fleet) == (name, "node selector")


def test_the_upstream_config_map_says_what_a_product_label_means(fleet: Any, make: Any) -> None:
    fleet.set(accelerators=())
    fleet.listed_costs.append(
        ListedCost(accelerator="G2", cost_per_hour=0.23, device_label="Intel-Gaudi-2-96GB", place=make.place("c.yaml"))
    )
    fleet.add(workload={"node_selector": {"intel.com/gpu.product": "Intel-Gaudi-2-96GB"}})
    assert current(fleet) == ("G2", "node selector")
    assert fleet.variant().current_cost_per_hour == 0.23


def test_a_required_affinity_to_one_product_names_it(fleet: Any) -> None:
    fleet.add(runs_on="", workload={"affinity": {PRODUCT: ("NVIDIA-L4",)}})
    assert current(fleet) == ("L4", "affinity")


def test_an_affinity_to_two_products_says_nothing(fleet: Any) -> None:
    fleet.add(runs_on="", workload={"affinity": {PRODUCT: ("NVIDIA-L4", "NVIDIA-L40S")}}, labels={LABEL: "A100"})
    assert current(fleet) == ("A100", "label inference.optimization/acceleratorName")


def test_the_label_names_it_last(fleet: Any) -> None:
    fleet.add(runs_on="H100", labels={LABEL: "A100"})
    assert current(fleet) == ("H100", "node selector")


def test_a_resource_with_one_profile_runs_on_that(fleet: Any, make: Any) -> None:
    fleet.add(runs_on="", profiles=(make.profile("L4"),))
    assert current(fleet) == ("L4", "the only profile")


def test_nothing_that_says_it_is_unknown(fleet: Any, make: Any) -> None:
    fleet.add(runs_on="", profiles=(make.profile("L4"), make.profile("H100")))
    assert current(fleet) == ("", "")


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize(("devices", "name"), [(2, "2xH100"), (4, "2xH100"), (1, "H100"), (3, "H100")])
def test_a_device_count_makes_two_of_them_one_accelerator(
    fleet: Any, make: Any, devices: int, name: str, is_listed: bool
) -> None:
    pair = make.accelerator("2xH100", 12.9, device="H100", devices=2, node_selector={})
    fleet.set(accelerators=(make.accelerator("H100", 6.0), *([pair] if is_listed else [])))
    profiles = (make.profile("H100"), make.profile("2xH100", 20))
    fleet.add(profiles=profiles, workload={"devices": {"nvidia.com/gpu": devices}})
    assert current(fleet)[0] == name


def test_accelerators_a_replica_are_counted_in_pairs(fleet: Any, make: Any) -> None:
    pair = make.accelerator("2xH100", 12.9, device="H100", devices=2, node_selector={})
    fleet.set(accelerators=(make.accelerator("H100", 6.0), pair))
    fleet.add(profiles=(make.profile("2xH100", 20),), workload={"devices": {"nvidia.com/gpu": 4}})
    (option,) = fleet.variant().options
    assert (option.accelerators_per_replica, option.devices_per_replica, option.cost_per_hour) == (2, 4, 25.8)
    assert fleet.variant().current_cost_per_hour == 25.8


def test_of_two_profiles_for_one_accelerator_the_first_counts(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.profile("H100", 10), make.profile("h100", 1)))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}


def test_a_pair_is_not_meant_where_only_single_devices_are_profiled(fleet: Any, make: Any) -> None:
    pair = make.accelerator("2xH100", 12.9, device="H100", devices=2, node_selector={PRODUCT: "H100"})
    fleet.set(accelerators=(pair, make.accelerator("H100", 6.0)))
    fleet.add(profiles=(make.profile("H100"), make.profile("L4")), workload={"devices": {"nvidia.com/gpu": 4}})
    assert current(fleet)[0] == "H100"
    assert fleet.variant().current_cost_per_hour == 24.0


def test_what_a_pool_costs_goes_before_every_other_price(fleet: Any, make: Any) -> None:
    pool = PoolSettings(
        name="spot", device="H100", devices=16, cost_per_hour=2.5, place=make.place("reconciler.yaml", 9)
    )
    fleet.set(
        accelerators=(make.accelerator("H100", 6.88), make.accelerator("2xH100", 12.9, device="H100", devices=2)),
        clusters=tuple(replace(each, pools=(pool,)) for each in fleet.settings.clusters),
    )
    fleet.add(runs_on="H100")
    (catalog,) = build_catalogs(fleet.settings, Declaration()).values()
    assert {each.name: each.cost_per_hour for each in catalog.accelerators.values()} == {"H100": 2.5, "2xH100": 5.0}
    assert fleet.variant().current_cost_per_hour == 2.5
    assert str(catalog.accelerators["H100"].cost_place) == "reconciler.yaml:9"


def test_a_pool_prices_what_nothing_else_names(fleet: Any) -> None:
    pool = PoolSettings(name="l4", device="L4", devices=None, cost_per_hour=0.7)
    fleet.set(accelerators=(), clusters=tuple(replace(each, pools=(pool,)) for each in fleet.settings.clusters))
    fleet.add(workload={"node_selector": {PRODUCT: "NVIDIA-L4"}})
    assert fleet.variant().current_cost_per_hour == 0.7
