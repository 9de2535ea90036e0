from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from reconciler.config.layers import REPLACED_WHOLE
from reconciler.config.schema import ConfigurationFile
from reconciler.config.values import Days, Latency
from reconciler.domain.variant_settings import ENGINE

Check = Callable[..., list[str]]


def pools(text: str) -> str:
    return f"clusters: [{{name: a, pools: [{text}]}}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serviceClasses: [{name: a, ttft: 500}]", "serviceClasses[0].ttft: expected a duration like 500ms, got 500"),
        (
            "pullRequests: {title: fixed}",
            "title: expected {{ title }} or {{ change }} in it, else all pull requests are",
        ),
        (
            "pullRequests: {title: '{{ titel }}'}",
            '{{ titel }} is unknown, did you mean "title"?: expected {{ title }}, {{',
        ),
        (
            "git: {commitMessage: 7}",
            'commitMessage: expected text on one line like "chore(reconciler): {{ change }}", got 7',
        ),
        ("serviceClasses: [{name: a, ttft: 0s}]", "expected a duration above zero"),
        ("serviceClasses: [{name: a, ttft: 1h30m}]", "expected a duration like 500ms"),
        ("serviceClasses: [{name: a, ttft: -1s}]", "expected a duration like 500ms"),
        ("serviceClasses: [{name: a, ttft: 1s, ttftPercentile: 100}]", "a number between 0 and 100, or mean, got 100"),
        ("serviceClasses: [{name: a, ttft: 1s, ttftPercentile: p95}]", "a number between 0 and 100, or mean"),
        ("serviceClasses: [{name: a, ttftPercentile: 95}]", "expected ttft beside ttftPercentile"),
        ("serviceClasses: [{name: a, priority: high}]", 'a whole number; higher goes first, got "high"'),
        ("serviceClasses: [{ttft: 1s}]", "serviceClasses[0].name: expected a name, found nothing"),
        ("defaults: {sizing: {headroom: 0.2}}", "sizing.headroom: expected a percentage like 20%, got 0.2"),
        (
            "defaults: {minReplicas: 3, maxReplicas: 2}",
            "defaults: expected minReplicas of at most maxReplicas, got 3 and 2",
        ),
        ("defaults: {actuationDelay: {sync: 3}}", "actuationDelay.sync: expected a duration like 3m, got 3"),
        ("defaults: {actuationDelay: {sync: 0s}}", "actuationDelay.sync: expected a duration above zero"),
        (
            "serviceClasses: [{name: a, unservedCostPer1000Requests: -1}]",
            "serviceClasses[0].unservedCostPer1000Requests: ",
        ),
        ("defaults: {payback: 1}", "payback: expected a duration like 3m, got 1"),
        ("defaults: {payback: 0s}", "payback: expected a duration above zero"),
        ("defaults: {actuationDelay: {start: 30h}}", "start: expected a duration of at most 1d, got 1.25d"),
        ("defaults: {actuationDelay: {sync: 30h}}", "sync: expected a duration of at most 1d, got 1.25d"),
        ("defaults: {minReplicas: 1.5}", "defaults.minReplicas: expected a whole number"),
        ("defaults: {minReplicas: -1}", "defaults.minReplicas: expected at least 0, got -1"),
        ("defaults: {maxReplicas: 0}", "defaults.maxReplicas: expected at least 1, got 0"),
        ("defaults: {ignore: 1}", "defaults.ignore: expected true or false"),
        ("accelerators: [{name: ''}]", 'accelerators[0].name: expected a name without blanks, got ""'),
        ("accelerators: [{name: a, costPerHour: '5'}]", "accelerators[0].costPerHour: expected a plain number"),
        ("accelerators: [{name: a, costPerHour: -5}]", "accelerators[0].costPerHour: expected at least 0, got -5"),
        ("accelerators: [{name: a, costPerHour: .inf}]", "accelerators[0].costPerHour: expected"),
        ("accelerators: [{name: a, costPerHour: true}]", "accelerators[0].costPerHour: expected a plain number"),
        (
            "accelerators: [{name: a, aliases: [x]}, {name: b, aliases: [X]}]",
            'alias "X" on one accelerator: a has it too',
        ),
        ("defaults: keep", "defaults: expected a mapping with keys like serviceClass, accelerator, minReplicas or"),
        ('defaults: {group: "a\\u202eb"}', 'defaults.group: expected text on one line, got "a\\u202eb"'),
        ('"a\\eb": 1', '["a\\x1bb"]: unknown field'),
        ("currency: dollars", 'currency: expected a currency code like USD, got "dollars"'),
        (
            "models: [{id: m, profiles: [{accelerator: a, alpha: 1ms, beta: 1ms, maxBatchSize: 0}]}]",
            "at least 1, got 0",
        ),
        (
            "models: [{id: m, profiles: [{accelerator: a, alpha: 1ms, beta: 1ms, gamma: 1ms, maxBatchSize: 1}]}]",
            "models[0].profiles[0]: expected both gamma and delta, or neither",
        ),
        (
            "models: [{id: m, profiles: [{accelerator: a, alpha: 0ms, beta: 0ms, maxBatchSize: 1}]}]",
            "models[0].profiles[0]: expected alpha or beta above 0, got 0 for both",
        ),
        ("defaults: {sizing: {engine: wva-v3}}", "expected auto, queueing, saturation, tracking, wva-v1, wva-v2"),
        ("defaults: {sizing: {engine: Auto}}", 'kthena-v0 or kthena-v1, got "Auto"'),
        ("overrides: [{match: {}, ignore: true}]", "overrides[0].match: expected at least one key"),
        ("overrides: [{ignore: true}]", "overrides[0].match: expected"),
        ("git: {branchPrefix: '../x'}", "git.branchPrefix: expected the beginning of a branch name like reconciler/"),
        ("git: {branchPrefix: ''}", "git.branchPrefix: expected the beginning of a branch name"),
        ("git: {branchPrefix: '-x'}", "git.branchPrefix: expected the beginning of a branch name"),
        ("git: {author: {name: 'A <b>', email: a@b}}", "git.author.name: expected a name without < and >"),
        ("clusters: [{name: a/b}]", "clusters[0].name: expected a name of letters"),
        ("clusters: [{name: a, paths: {include: []}}]", "clusters[0].paths.include: expected at least one item"),
        ("clusters: [{name: a, paths: {include: [/etc/**]}}]", "expected a path from the repository's root"),
        ("clusters: [{name: a, prometheus: {matchLabels: {}}}]", "clusters[0].prometheus.url: expected a URL"),
        (
            "clusters: [{name: a, prometheus: {url: 'http://a', matchLabels: {a-b: c}}}]",
            'prometheus.matchLabels.a-b: expected a Prometheus label name like model_name, got "a-b"',
        ),
        (
            "clusters: [{name: a, prometheus: {url: 'http://a', labelNames: {node: c}}}]",
            "prometheus.labelNames.node: unknown field",
        ),
        (
            "clusters: [{name: a, prometheus: {url: 'http://a', queries: {arivalRate: up}}}]",
            "prometheus.queries.arivalRate: expected arrivalRate, changes, completions, ",
        ),
        (
            "clusters: [{name: a, prometheus: {url: 'http://a', tls: {cert: {file: /var/run/secrets/reconciler/c}}}}]",
            "prometheus.tls: expected both cert and key, or neither",
        ),
        (
            pools("{name: p, device: H100, devices: some}"),
            'pools[0].devices: expected a whole number of devices, or measured, got "some"',
        ),
        (
            pools("{name: p, device: H100, devices: -1}"),
            "pools[0].devices: expected a whole number of devices, or measured, got -1",
        ),
        (pools("{name: p, device: H100, devices: true}"), "or measured, got true"),
        (pools("{name: p, device: H100}"), "pools[0].devices: expected a whole number of"),
        (
            pools("{name: p, device: H100, devices: 4, reserve: 5}"),
            "clusters[0].pools[0]: expected reserve of at most devices, got 5 and 4",
        ),
        (
            pools("{name: p, device: H10, devices: 4}"),
            'clusters[0].pools[0].device: unknown device type, did you mean "H100"?',
        ),
        (
            pools("{name: p, device: 2xH100, devices: 4}")
            + "\naccelerators: [{name: 2xH100, device: H100, devices: 2}]",
            'clusters[0].pools[0].device: unknown device type, did you mean "H100"?',
        ),
        (
            pools("{name: A100, device: H100, devices: 4}"),
            'clusters[0].pools[0].name: expected a name that is no other device type, got "A100"',
        ),
        (
            pools("{name: p, device: abacus, devices: 4}"),
            'clusters[0].pools[0].device: unknown device type "abacus": list it under accelerators',
        ),
        (
            pools("{name: p, device: L4, devices: 4}, {name: p, device: L4, devices: 2}"),
            'clusters[0].pools[1]: "p" is already at line 3: names must be unique',
        ),
        (
            pools("{name: p, device: L4, devices: 4}, {name: q, device: L4, devices: measured}"),
            'got both for "L4": what is measured is all of it (p, q)',
        ),
        (
            pools(
                "{name: p, device: L4, devices: 4, costPerHour: 1}, {name: q, device: L4, devices: 2, costPerHour: 2}"
            ),
            'expected one costPerHour for "L4", got 1 in p and 2 in q',
        ),
        ("pullRequests: {groupBy: [team]}", "expected cluster, namespace, model, path or label:KEY"),
        ("pullRequests: {reopenAfter: 7}", "pullRequests.reopenAfter: expected a duration like 7d, got 7"),
        ("status: both", 'status: expected file, off or deliver, got "both"'),
        ("status: true", "status: expected file, off or deliver, got true"),
        ("status: {deliver: {}, file: true}", "status.file: unknown field"),
        ("status: {}", "status.deliver: "),
        ("status: {deliver: true}", "status.deliver: expected a mapping with keys like conditions"),
        (
            "status: {deliver: {conditions: daily}}",
            "status.deliver.conditions: expected true or false; true brings conditions",
        ),
        ("status: {deliver: {condition: true}}", 'status.deliver.condition: unknown field, did you mean "conditions"?'),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(check: Check, text: str, message: str) -> None:
    findings = check(text)
    assert len(findings) == 1
    assert findings[0].startswith("reconciler.yaml:3: error: ")
    assert message in findings[0]


def test_several_pools_of_one_device_type_are_fine(check: Check) -> None:
    text = "{name: p, device: L4, devices: 4, costPerHour: 1}, {name: q, device: L4, devices: 0, tier: spot}"
    assert check(pools(text)) == []


def test_a_device_type_that_accelerators_name_is_known(check: Check) -> None:
    text = pools("{name: p, device: abacus, devices: measured}")
    assert check(f"{text}\naccelerators: [{{name: abacus}}]") == []


def test_a_misspelled_key_is_an_error_with_the_nearest_name(check: Check) -> None:
    text = "models:\n- id: m\n  profiles:\n  - {alpha: 1ms, beta: 1ms, maxBatchSize: 1,\n     acelerator: H100}\n"
    assert check(text)[-1] == (
        'reconciler.yaml:7: error: models[0].profiles[0].acelerator: unknown field, did you mean "accelerator"?'
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("accelerators: none", 'accelerators: "none" is '),
        ("forge: {auth: {githubApp: {appId: 1}}}", "forge.auth.githubApp: "),
        ("templates: .reconciler/templates/", "templates: "),
    ],
)
def test_what_is_documented_and_not_built_says_so(check: Check, text: str, field: str) -> None:
    assert check(text) == [f"reconciler.yaml:3: error: {field}not supported yet: leave it out"]


LEARNED = {
    "date": "2026-11-20",
    "samples": "1834",
    "error": "4.1%",
    "batch": "[1, 48]",
    "inputTokens": "[120, 2300.5]",
    "outputTokens": "[20, 20]",
}


def learned(**changes: str) -> str:
    fields = ", ".join(f"{key}: {value}" for key, value in {**LEARNED, **changes}.items() if value)
    profile = f"{{accelerator: a, alpha: 1ms, beta: 1ms, maxBatchSize: 1, learned: {{{fields}}}}}"
    return f"models: [{{id: m, profiles: [{profile}]}}]"


def test_a_learned_block_is_accepted(check: Check) -> None:
    assert check(learned()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"date": "20261120"}, "learned.date: expected"),
        ({"date": "'20261120'"}, 'learned.date: expected a day like 2026-11-20, got "20261120"'),
        ({"date": "2026-02-30"}, 'learned.date: expected a day like 2026-11-20, got "2026-02-30"'),
        ({"date": ""}, "learned.date: expected a day like 2026-11-20, found nothing"),
        ({"samples": "-1"}, "learned.samples: expected at least 0, got -1"),
        ({"samples": "'5'"}, "learned.samples: expected a whole number of moments"),
        ({"error": "0.041"}, "learned.error: expected a percentage like 20%, got 0.041"),
        ({"batch": "[48, 1]"}, "learned.batch: expected a list of the smallest and the largest, numbers of at least 0"),
        ({"batch": "[-1, 1]"}, "numbers of at least 0, got [-1, 1]"),
        ({"batch": "[1]"}, "numbers of at least 0, got [1]"),
        ({"batch": "[1, 2, 3]"}, "numbers of at least 0, got [1, 2, 3]"),
        ({"batch": "[1, .nan]"}, "numbers of at least 0, got [1, nan]"),
        ({"batch": "['1', 2]"}, 'numbers of at least 0, got ["1", 2]'),
        ({"batch": "[false, true]"}, "numbers of at least 0, got [false, true]"),
        ({"inputTokens": "5"}, "numbers of at least 0, got 5"),
        ({"outputTokens": "[]"}, "numbers of at least 0, got an empty list"),
        ({"outputToken": "[1, 2]"}, 'learned.outputToken: unknown field, did you mean "outputTokens"?'),
    ],
)
def test_a_learned_block_is_checked_to_the_last_field(check: Check, changes: dict[str, str], message: str) -> None:
    (finding,) = check(learned(**changes))
    assert finding.startswith("reconciler.yaml:3: error: models[0].profiles[0].learned")
    assert message in finding


@pytest.mark.parametrize("engine", ENGINE.choices)
@pytest.mark.parametrize("where", ["defaults: {X}", "models: [{id: m, X}]", "overrides: [{match: {name: a}, X}]"])
def test_every_engine_may_stand_wherever_sizing_does(check: Check, where: str, engine: str) -> None:
    assert check(where.replace("X", f"sizing: {{engine: {engine}}}")) == []


def test_every_error_of_the_full_example_is_one_of_not_supported_yet(check: Check, testdata: Path) -> None:
    findings = check((testdata / "everything.yaml").read_text(), files={".reconciler/profiles.yaml": ""})
    assert findings
    assert [finding for finding in findings if "not supported yet: leave it out" not in finding] == []


def test_no_text_of_ours_and_no_plain_number_becomes_something_else(check: Check) -> None:
    assert len(check("accelerators:\n- {name: 100, devices: '2'}\n- {name: b, aliases: h100}\n")) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("0.00034ms", 3.4e-7), ("1.5s", 1.5), ("5m", 300.0), ("2h", 7200.0), ("7d", 604800.0)],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert TypeAdapter(Days).validate_python(text) == pytest.approx(seconds, rel=1e-15)


@given(st.text(max_size=12))
def test_a_duration_is_a_number_with_a_unit_or_an_error(text: str) -> None:
    try:
        seconds = TypeAdapter(Latency).validate_python(text)
    except ValidationError:
        return
    assert seconds > 0.0
    assert text.isascii()
    assert text[0].isdigit()


def test_every_mapping_with_free_keys_is_replaced_whole_when_files_merge() -> None:
    free = {
        name
        for definition in ConfigurationFile.model_json_schema()["$defs"].values()
        for name, field in definition.get("properties", {}).items()
        if "patternProperties" in field
    }
    assert free <= REPLACED_WHOLE
