"""A changed rule is relaxed, tightened, or neither can be said; every field says which way is stricter."""

from dataclasses import fields

import pytest

from reconciler.policy.comparing import Shift, compare_rules
from reconciler.policy.files import read_policy
from reconciler.policy.judging import KINDS

HEAD = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"


def change_of(before: str, after: str) -> tuple[Shift, str] | None:
    old, new = (
        read_policy("p.yaml", f"{HEAD}  - {{name: a, {each}}}".encode()).rules if each else ()
        for each in (before, after)
    )
    found = [(each.shift, each.words) for each in compare_rules(old, new)]
    return found[0] if found else None


RELAXED, TIGHTENED, UNCLEAR, SAME = Shift.RELAXED, Shift.TIGHTENED, Shift.UNCLEAR, Shift.SAME


@pytest.mark.parametrize(
    ("before", "after", "shift", "words"),
    [
        ("step: {up: 2}", "step: {up: 9}", RELAXED, "is relaxed: up 9 instead of 2"),
        ("step: {up: 50%}", "step: {up: 20%}", TIGHTENED, "is tightened: up 20 % instead of 50 %"),
        ("step: {up: 2}", "step: {up: 20%}", UNCLEAR, "changes: up 20 % instead of 2"),
        (
            "step: {up: 2, down: 2}",
            "step: {up: 3, down: 1}",
            UNCLEAR,
            "changes: up 3 instead of 2; down 1 instead of 2",
        ),
        ("step: {up: 2, down: 2}", "step: {up: 2}", RELAXED, "is relaxed: down none instead of 2"),
        ("step: {up: 2}", "step: {up: 2, per: day}", TIGHTENED, "is tightened: per 1d instead of none"),
        ("bounds: {maxReplicas: 4}", "bounds: {maxReplicas: 9}", RELAXED, "is relaxed: maxReplicas 9 instead of 4"),
        ("bounds: {minReplicas: 4}", "bounds: {minReplicas: 9}", TIGHTENED, "is tightened: minReplicas 9 instead of 4"),
        ("bounds: {maxPoolShare: 50%}", "bounds: {maxPoolShare: 60%}", RELAXED, "maxPoolShare 60 % instead of 50 %"),
        ("cooldown: {after: 1h}", "cooldown: {after: 90m}", TIGHTENED, "is tightened: after 90m instead of 1h"),
        ("deadband: {within: 1}", "deadband: {within: 2}", TIGHTENED, "within 2 instead of 1"),
        ("budget: {amount: 9, per: hour}", "budget: {amount: 10.5, per: hour}", RELAXED, "amount 10.5 instead of 9"),
        ("budget: {amount: 9, per: hour}", "budget: {amount: 9, per: day}", UNCLEAR, "per day instead of hour"),
        ("changeLimit: {changes: 5}", "changeLimit: {changes: 4}", TIGHTENED, "changes 4 instead of 5"),
        ("accelerators: {denied: [A]}", "accelerators: {denied: [A, B]}", TIGHTENED, "denied A and B instead of A"),
        ("accelerators: {allowed: [A]}", "accelerators: {allowed: [A, B]}", RELAXED, "allowed A and B instead of A"),
        ("accelerators: {allowed: [A]}", "accelerators: {allowed: [B]}", UNCLEAR, "allowed B instead of A"),
        ("accelerators: {allowed: [A]}", "accelerators: {denied: [B]}", UNCLEAR, "allowed none instead of A"),
        ("spot: {maxShare: 50%}", "spot: {maxShare: 10%}", TIGHTENED, "maxShare 10 % instead of 50 %"),
        ("availability: {minReady: 2}", "availability: {minReady: 1}", RELAXED, "minReady 1 instead of 2"),
        ("metrics: {maxAge: 1m}", "metrics: {maxAge: 5m}", RELAXED, "maxAge 5m instead of 1m"),
        ("metrics: {minReporting: 90%}", "metrics: {minReporting: 95%}", TIGHTENED, "minReporting 95 %"),
        ("approval: {upMoreThan: 2}", "approval: {upMoreThan: 4}", RELAXED, "upMoreThan 4 instead of 2"),
        ("approval: {}", "approval: {upMoreThan: 4}", RELAXED, "upMoreThan 4 instead of none"),
        ("approval: {toZero: true}", "approval: {}", TIGHTENED, "toZero false instead of true"),
        ("approval: {toZero: true}", "approval: {toZero: true, firstChange: true}", TIGHTENED, "firstChange true"),
        ("autoMerge: {}", "autoMerge: {mergesPerHour: 2}", TIGHTENED, "mergesPerHour 2 instead of none"),
        ("scope: {namespace: a}, approval: {}", "approval: {}", TIGHTENED, "is tightened: its scope changes"),
        ("approval: {}", "scope: {namespace: a}, approval: {}", RELAXED, "is relaxed: its scope changes"),
        (
            "scope: {namespace: a}, approval: {}",
            "scope: {name: a}, approval: {}",
            UNCLEAR,
            "changes: its scope changes",
        ),
        ("autoMerge: {}", "scope: {namespace: a}, autoMerge: {}", TIGHTENED, "is tightened: its scope changes"),
        (
            'freeze: {from: "2026-01-01", until: "2026-01-02"}',
            'freeze: {from: "2026-01-01", until: "2026-01-02", repairs: allow}',
            RELAXED,
            "is relaxed: repairs allow instead of ask",
        ),
        ("deny: {when: 'true'}", "deny: {when: 'false'}", UNCLEAR, "changes: when false instead of true"),
        ("step: {up: 2}", "bounds: {maxReplicas: 2}", UNCLEAR, "is of kind bounds instead of step"),
        ("labels: {add: [a]}", "labels: {add: [b]}", SAME, "changes: add b instead of a"),
        ("step: {up: 2}", "", RELAXED, "is gone"),
        ("", "step: {up: 2}", TIGHTENED, "is new"),
        ("autoMerge: {}", "", TIGHTENED, "is gone"),
        ("", "autoMerge: {}", RELAXED, "is new: it lets changes merge by themselves"),
        ("labels: {add: [a]}", "", SAME, "is gone"),
    ],
)
def test_a_change_of_a_rule_says_which_way_it_goes(before: str, after: str, shift: Shift, words: str) -> None:
    found = change_of(before, after)
    assert found is not None
    assert found[0] is shift
    assert words in found[1]


def test_the_same_rule_elsewhere_is_no_change() -> None:
    assert change_of("step: {up: 2}", "step: {up: 2}") is None


@pytest.mark.parametrize("name", KINDS)
def test_every_field_of_a_kind_says_which_way_is_stricter(name: str) -> None:
    kind = KINDS[name]
    assert kind.terms.keys() == {each.name for each in fields(kind.asks)} - {"kind"}
