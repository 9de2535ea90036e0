"""A policy file becomes rules; what cannot be read is told at its line, and holds what it is for."""

from pathlib import Path

import pytest

from reconciler.config.codec import dump_settings, load_settings_json
from reconciler.domain.rules import (
    AcceleratorsRule,
    Amount,
    ApprovalRule,
    AvailabilityRule,
    BoundsRule,
    BrokenRule,
    BudgetRule,
    ChangeLimitRule,
    CooldownRule,
    DeadbandRule,
    Direction,
    FreezeRule,
    MetricsRule,
    Period,
    ScheduleRule,
    Scope,
    StepRule,
    Window,
)
from reconciler.domain.settings import Settings
from reconciler.policy.files import ReadPolicy, join_policies, read_policy
from reconciler.policy.judging import KINDS
from reconciler.resources.validation import described_fields

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
SHIPPED = Path(__file__).parents[3] / "policies"


def read(*rules: str) -> ReadPolicy:
    return read_policy("p.yaml", (HEADER + "\n".join(f"  - {each}" for each in rules)).encode())


def wrong(rule: str) -> str:
    (finding,) = read(rule).findings
    return str(finding).removeprefix("p.yaml:4: error: ")


def test_a_rule_has_a_name_a_place_a_scope_and_what_it_asks() -> None:
    (rule,) = read("{name: slow, scope: {namespace: llm, direction: [down]}, step: {down: 2, per: hour}}").rules
    assert (rule.name, str(rule.place)) == ("slow", "p.yaml:4")
    assert rule.scope == Scope(namespace="llm", directions=(Direction.DOWN,))
    assert rule.asks == StepRule(down=Amount(replicas=2), per_s=3600.0)


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        ("bounds: {minReplicas: 1, maxReplicas: 4}", BoundsRule(least=1, most=4)),
        ("bounds: {maxDevices: 8, maxPoolShare: 50%}", BoundsRule(devices=8, pool_share=0.5)),
        ("step: {up: 100%}", StepRule(up=Amount(fraction=1.0))),
        ("approval: {}", ApprovalRule()),
        ("budget: {amount: 9, per: day, each: namespace}", BudgetRule(amount=9.0, per=Period.DAY, each="namespace")),
        ("changeLimit: {changes: 3, per: group}", ChangeLimitRule(changes=3, by_group=True)),
        ("cooldown: {after: 30m}", CooldownRule(after_s=1800.0)),
        ("deadband: {within: 10%}", DeadbandRule(width=Amount(fraction=0.1))),
        ("accelerators: {allowed: [H*], denied: [H200]}", AcceleratorsRule(allowed=("H*",), denied=("H200",))),
        ("availability: {minReady: 2, variantsAtOnce: 1}", AvailabilityRule(ready=2, at_once=Amount(replicas=1))),
        ("metrics: {minReporting: 80%}", MetricsRule(reporting=0.8)),
        (
            "metrics: {maxAge: 1m, minSamples: 100, minCoverage: 90%, maxDisagreement: 30%}",
            MetricsRule(age_s=60.0, requests=100, coverage=0.9, disagreement=0.3),
        ),
        (
            "freeze: {cron: '0 18 * * 5', for: 62h, timeZone: Europe/Berlin}",
            FreezeRule(window=Window(cron="0 18 * * 5", lasts_s=62 * 3600.0, time_zone="Europe/Berlin")),
        ),
        (
            "schedule: {from: '2026-12-20', until: '2026-12-21', minReplicas: 2}",
            ScheduleRule(window=Window(from_s=1797724800.0, until_s=1797811200.0), least=2),
        ),
        ("approval: {learnedWithin: 7d}", ApprovalRule(learned_within_s=7 * 86400.0)),
    ],
)
def test_each_kind_is_read(rule: str, asks: object) -> None:
    (found,) = read(f"{{name: a, {rule}}}").rules
    assert found.asks == asks


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{name: a, stepp: {down: 1}}", 'rules[0].stepp: unknown field, did you mean "step"?'),
        ("{name: a}", "rules[0]: expected exactly one of "),
        ("{name: a, step: {down: 1}, bounds: {maxReplicas: 1}}", "rules[0]: expected exactly one of "),
        ("{name: a, step: {down: 50}, scope: {namespce: x}}", "rules[0].scope.namespce: unknown field, did you mean"),
        ("{name: a, step: {down: 1.5}}", "rules[0].step.down: expected a number of replicas, or a percentage like 50%"),
        ("{name: a, step: {down: 5s}}", 'rules[0].step.down: expected a percentage like 20%, got "5s"'),
        ("{name: a, step: {}}", "rules[0].step: expected up or down, or both"),
        ("{name: a, bounds: {}}", "rules[0].bounds: expected minReplicas, maxReplicas, maxDevices or maxPoolShare"),
        ("{name: a, bounds: {minReplicas: 3, maxReplicas: 2}}", "rules[0].bounds: expected minReplicas of at most"),
        ("{name: a, approval: {learnedWithin: 7}}", "rules[0].approval.learnedWithin: expected a duration like 30m"),
        ("{name: A b, approval: {}}", 'rules[0].name: expected a name like step-down, got "A b"'),
        ("{approval: {}}", "rules[0].name: expected a name like step-down, found nothing"),
        ("{name: a, approval: {}, scope: {direction: [off]}}", 'rules[0].scope.direction[0]: expected "up", "down"'),
        ("7", "rules[0]: expected a mapping"),
        (
            "{name: a, freeze: {cron: '0 0 30 2 *', for: 1h}}",
            'rules[0].freeze.cron: expected a cron expression like 0 18 * * 5, got "0 0 30 2 *": ',
        ),
        ("{name: a, freeze: {cron: '0 0 * * *'}}", "rules[0].freeze: expected cron and for, or from and until"),
        ("{name: a, freeze: {cron: '0 0 * * *', for: 32d}}", "rules[0].freeze: expected for of at most 31d"),
        ("{name: a, freeze: {from: '2026-01-02', until: '2026-01-01'}}", "rules[0].freeze: expected from before until"),
        ("{name: a, freeze: {from: '2026-1-2', until: '2026-01-03'}}", "rules[0].freeze.from: expected a day like"),
        (
            "{name: a, freeze: {cron: '0 0 * * *', for: 1h, timeZone: Berlin}}",
            'rules[0].freeze.timeZone: expected a time zone like Europe/Berlin, got "Berlin"',
        ),
        ("{name: a, schedule: {cron: '0 0 * * *', for: 1h}}", "rules[0].schedule: expected minReplicas or maxReplicas"),
        ("{name: a, accelerators: {}}", "rules[0].accelerators: expected allowed or denied"),
        ("{name: a, availability: {}}", "rules[0].availability: expected minReady or variantsAtOnce"),
        ("{name: a, budget: {amount: 9}}", "rules[0].budget.per: expected hour, day or month, by UTC, found nothing"),
        ("{name: a, budget: {amount: 9, per: day, each: team}}", "rules[0].budget.each: expected cluster, namespace"),
        ("{name: a, cooldown: {after: 30}}", "rules[0].cooldown.after: expected a duration like 30m, got 30"),
        ("{name: a, metrics: {minReporting: 0.8}}", "rules[0].metrics.minReporting: expected a percentage like 20%"),
        ("{name: a, deadband: {}}", "rules[0].deadband.within: expected replicas that are not worth a change"),
    ],
)
def test_what_is_wrong_is_told_at_its_line(rule: str, message: str) -> None:
    assert wrong(rule).startswith(message)


def test_a_broken_rule_holds_its_scope_and_the_others_still_count() -> None:
    found = read("{name: a, scope: {namespace: llm}, stepp: {}}", "{name: b, approval: {}}")
    broken, sound = found.rules
    assert isinstance(broken.asks, BrokenRule)
    assert broken.scope == Scope(namespace="llm")
    assert sound.asks == ApprovalRule()


def test_a_broken_scope_holds_everything() -> None:
    (rule,) = read("{name: a, scope: {namespce: llm}, approval: {}}").rules
    assert isinstance(rule.asks, BrokenRule)
    assert rule.scope == Scope()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rules: []",
        "a: [",
        HEADER + "  {}",
        HEADER.replace("Policy", "Polizei") + "  - {name: a, approval: {}}",
        HEADER + "  - {name: a, approval: {}}\nrule: []",
        "\x00",
    ],
)
def test_a_file_that_cannot_be_read_holds_everything(text: str) -> None:
    found = read_policy("p.yaml", text.encode())
    assert found.findings
    assert found.rules[-1].scope == Scope()
    assert isinstance(found.rules[0].asks, BrokenRule)


def test_two_rules_of_one_name_in_a_file_are_wrong() -> None:
    (finding,) = read("{name: a, approval: {}}", "{name: a, step: {down: 1}}").findings
    assert str(finding) == 'p.yaml:5: error: rules[1]: "a" is already at line 4'


def test_a_later_file_replaces_a_rule_by_its_name_unless_it_is_broken() -> None:
    first, later = read("{name: a, step: {down: 1}}", "{name: b, approval: {}}"), read("{name: a, step: {down: 2}}")
    joined = join_policies([first, later])
    assert [(each.name, each.asks) for each in joined.rules] == [
        ("a", StepRule(down=Amount(replicas=2))),
        ("b", ApprovalRule()),
    ]
    broken = join_policies([first, read("{name: a, step: {}}")])
    assert [type(each.asks) for each in broken.rules] == [StepRule, ApprovalRule, BrokenRule]


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_shipped_can_be_read_and_recorded(path: Path) -> None:
    found = read_policy(path.name, path.read_bytes())
    assert found.rules
    assert not found.findings
    settings = Settings(rules=found.rules)
    assert load_settings_json(dump_settings(settings)) == settings


def test_every_kind_says_what_it_is_called_and_what_its_fields_mean() -> None:
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind.section.__doc__
        assert all(field.description for field in described_fields(kind.section).values()), name


def test_a_file_of_a_newer_format_is_not_guessed_at_and_nothing_is_proposed() -> None:
    newer = HEADER.replace("v1alpha1", "v1beta1") + "  - {name: fast, autoMerge: {}}\n"
    found = read_policy("p.yaml", newer.encode())
    (rule,) = found.rules
    assert isinstance(rule.asks, BrokenRule)
    assert rule.scope == Scope(), "it is for everything"
    assert (
        str(found.findings[0])
        == 'p.yaml:1: error: apiVersion: expected reconciler.io/v1alpha1, got "reconciler.io/v1beta1"'
    )
