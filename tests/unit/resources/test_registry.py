"""What is known of kinds is consistent, whatever families there are."""

import re
from collections import Counter

from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import FAMILIES, KINDS


def test_no_two_families_claim_one_kind_or_config_map() -> None:
    for names in (
        [name for each in FAMILIES for name in each.kinds],
        [n for each in FAMILIES for n in each.config_maps],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_a_kind_has_versions_of_its_own_and_names_its_pods_by_a_pattern() -> None:
    for kind in KINDS.values():
        assert kind.versions
        assert not set(kind.versions) & set(kind.retired)
        assert re.compile(kind.pod_names.replace(ROLE, "role")).groups <= 1


def test_what_a_variant_may_scale_can_be_found_by_the_names_of_its_pods() -> None:
    assert [name for name, kind in KINDS.items() if kind.is_scale_target and not kind.pod_names] == []
