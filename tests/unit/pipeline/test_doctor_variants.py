"""What doctor says of variants."""

from datetime import date
from typing import Any

import pytest

from reconciler.pipeline.doctor_metrics import ExaminedPlan, check_variants
from reconciler.policy.files import read_policy
from tests.unit.decision.conftest import fleet

__all__ = ["fleet"]

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
TO_ZERO = "scope: {direction: [toZero]}, bounds: {minReplicas: 1}"


@pytest.mark.parametrize(
    ("least", "rule", "is_kept"),
    [
        (0, TO_ZERO, True),
        (0, "bounds: {minReplicas: 2}", True),
        (0, "scope: {direction: [up]}, bounds: {minReplicas: 1}", False),
        (0, "scope: {name: other}, bounds: {minReplicas: 1}", False),
        (0, "scope: {direction: [toZero]}, approval: {}", False),
        (1, TO_ZERO, False),
        (None, TO_ZERO, False),
    ],
)
def test_a_rule_that_keeps_a_declared_zero_away_is_named(
    fleet: Any,
    least: int | None,
    rule: str,
    is_kept: bool,
) -> None:
    rules = read_policy("policies/own.yaml", f"{HEADER}- {{name: kept, {rule}}}".encode()).rules
    fleet.set(rules=rules)
    fleet.add(min_replicas=least)
    fleet.offer(20.0)
    examined = ExaminedPlan(snapshot=fleet.snapshot(), plan=fleet.plan(), surveys={}, today=date(2027, 1, 15))
    checks = [check for check in check_variants(examined) if check.rule == "zero-kept"]
    assert len(checks) == is_kept
    for check in checks:
        assert "has no effect: rule kept keeps its last replica" in check.words
        assert check.place is not None
        assert check.place.path == "policies/own.yaml"
