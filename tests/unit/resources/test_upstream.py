"""ConfigMaps of the upstream autoscalers: prices and classes, with the published numbers."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.profiles import SloTarget
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import ListedClass

Declare = Callable[..., Declaration]


def costs_of(entries: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: accelerator-unit-costs, namespace: default}\ndata:\n"
    return head + entries


@pytest.mark.parametrize(
    ("entry", "cost", "device"),
    [
        ('A100: "1.23"', 1.23, ""),
        ('L4: "0.42"', 0.42, ""),
        ('H100: "2.50"', 2.50, ""),
        ("""A100: '{"device": "NVIDIA-A100-PCIE-80GB", "cost": "40.00"}'""", 0.40, "NVIDIA-A100-PCIE-80GB"),
        ("""MI300X: '{"device": "AMD-MI300X-192GB", "cost": "65.00"}'""", 0.65, "AMD-MI300X-192GB"),
        ("""G2: '{"device": "Intel-Gaudi-2-96GB", "cost": "23.00"}'""", 0.23, "Intel-Gaudi-2-96GB"),
        ("""H100: '{"device": "NVIDIA-H100-80GB-HBM3", "cost": 100.0}'""", 1.0, "NVIDIA-H100-80GB-HBM3"),
        ('L40S: |\n    {\n      "device": "NVIDIA-L40S",\n      "cost": "32.00"\n    }', 0.32, "NVIDIA-L40S"),
    ],
)
def test_costs_in_json_are_cents_and_bare_numbers_are_not(
    declare: Declare, entry: str, cost: float, device: str
) -> None:
    declaration = declare(costs_of(f"  {entry}\n"))
    (listed,) = declaration.costs["prod"]
    assert listed.accelerator == entry.partition(":")[0]
    assert listed.cost_per_hour == pytest.approx(cost, rel=1e-12)
    assert listed.device_label == device
    assert listed.place.line == 5
    assert not declaration.findings


def test_one_bad_entry_leaves_the_others(declare: Declare) -> None:
    declaration = declare(costs_of('  A100: "1.23"\n  L4: cheap\n'))
    assert [listed.accelerator for listed in declaration.costs["prod"]] == ["A100"]
    assert [finding.place.line for finding in declaration.findings] == [6]


def test_deep_json_is_a_bad_entry(declare: Declare) -> None:
    assert len(declare(costs_of(f"  A100: '{'[' * 4000}'\n")).findings) == 1


CLASSES = """apiVersion: v1
kind: ConfigMap
metadata: {name: service-classes-config, namespace: default}
data:
  premium.yaml: |
    name: Premium
    priority: 1
    data:
      - model: default
        slo-itl: 24
        slo-ttw: 500
      - model: llama0-70b
        slo-itl: 80
        slo-ttw: 500
  freemium.yaml: |
    name: Freemium
    priority: 10
    data:
      - model: granite-13b
        slo-itl: 200
        slo-ttw: 2000
      - model: llama0-7b
        slo-itl: 150
        slo-ttw: 1500
"""


def listed(declaration: Declaration) -> dict[str, ListedClass]:
    assert not declaration.findings
    return {entry.model_id: entry for entry in declaration.classes["prod"]}


LIMITS = {"default": (0.024, 0.5), "llama0-70b": (0.08, 0.5), "granite-13b": (0.2, 2.0), "llama0-7b": (0.15, 1.5)}


def test_published_classes_are_read_under_their_old_keys(declare: Declare) -> None:
    classes = {model: entry.service_class for model, entry in listed(declare(CLASSES)).items()}
    assert classes.keys() == LIMITS.keys()
    for model, (itl_s, wait_s) in LIMITS.items():
        assert classes[model].itl == SloTarget(limit_s=itl_s)
        assert classes[model].wait == SloTarget(limit_s=wait_s, percentile=95)
        assert (classes[model].ttft, classes[model].listed_ttft_s) == (None, None)


def test_published_classes_are_read_under_their_new_keys(declare: Declare) -> None:
    text = CLASSES.replace("slo-itl", "slo-tpot").replace("slo-ttw", "slo-ttft")
    classes = {model: entry.service_class for model, entry in listed(declare(text)).items()}
    assert classes.keys() == LIMITS.keys()
    for model, (itl_s, ttft_s) in LIMITS.items():
        assert classes[model].itl == SloTarget(limit_s=itl_s)
        assert classes[model].listed_ttft_s == ttft_s
        assert (classes[model].ttft, classes[model].wait) == (None, None), "what it limits depends on the law"


def test_the_smallest_priority_number_goes_first(declare: Declare) -> None:
    classes = listed(declare(CLASSES))
    assert classes["default"].service_class.priority == 9
    assert classes["llama0-7b"].service_class.priority == 0


def test_classes_know_their_key_and_their_lines(declare: Declare) -> None:
    entry = listed(declare(CLASSES))["llama0-70b"]
    assert (entry.namespace, entry.config_map, entry.key) == ("default", "service-classes-config", "premium.yaml")
    assert entry.service_class.place == Place(path="a.yaml", line=12, field='data["premium.yaml"].data[1]')


def test_a_quoted_text_has_no_lines_of_its_own(declare: Declare) -> None:
    text = """apiVersion: v1
kind: ConfigMap
data:
  premium.yaml: "name: P\\ndata:\\n- model: a\\n  slo-itl: 24\\n"
metadata:
  name: premium-slo
"""
    place = listed(declare(text))["a"].service_class.place
    assert place is not None
    assert place.line == 4


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: premium-slo}\ndata:\n"
BODY = "name: P\ndata:\n- model: a\n  slo-itl: 24\n"
QUOTED = '"' + BODY.replace("\n", "\\n") + '"\n'
LITERAL = "".join(f"    {line}\n" for line in BODY.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{HEAD}  a: {QUOTED}", 5),
        (f"{HEAD}  a: {QUOTED}# more\n\n# and more\n\n", 5),
        (f"{HEAD}  a: |\n{LITERAL}", 8),
        (f"{HEAD}  a: |-    # by hand\n{LITERAL}", 8),
        (f"{HEAD}  a: |\n\n{LITERAL}", 9),
        (f"{HEAD}  a:\n    |\n{LITERAL}", 5),
        (f"{HEAD}  a: >\n" + LITERAL.replace("\n", "\n\n"), 5),
        (f"x: 1\n---\n{HEAD}  a: |\n{LITERAL}", 10),
        (f"x: |\n  y\n---\n{HEAD}  a: {QUOTED}", 8),
    ],
)
def test_no_line_of_an_embedded_text_lies_outside_of_it(declare: Declare, text: str, line: int) -> None:
    place = listed(declare(text))["a"].service_class.place
    assert place is not None
    assert place.line == line


def test_zero_is_not_set_and_throughput_is_per_second(declare: Declare) -> None:
    text = CLASSES.replace("slo-itl: 24", "slo-itl: 0\n        slo-tps: 1200.5")
    service_class = listed(declare(text))["default"].service_class
    assert service_class.itl is None
    assert service_class.throughput_tokens_per_s == 1200.5


def test_any_config_map_may_hold_a_class(declare: Declare) -> None:
    text = CLASSES.replace("service-classes-config, namespace: default", "premium-slo, namespace: llm")
    assert {entry.config_map for entry in listed(declare(text)).values()} == {"premium-slo"}


@pytest.mark.parametrize("value", ["slo-rules: [", "groups:\n      - name: slo-burn", "data: slo-itl", "5", "slo-itl"])
def test_what_has_not_the_shape_of_a_class_is_left_alone_elsewhere(declare: Declare, value: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: alerts}}\ndata:\n  rules: |\n    {value}\n"
    declaration = declare(text)
    assert not declaration.classes
    assert not declaration.findings
