"""The manifests that llmaz's users write are read, and what is wrong with them is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.manifests.documents import parse_readable
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmaz.models import OpenModel
from reconciler.resources.llmaz.servings import ServedModel, join_served_models

Load = Callable[[str], Declaration]
SHAPES = Path(__file__).parents[3] / "testdata" / "resources" / "llmaz" / "shapes.yaml"


@pytest.fixture(scope="module")
def shapes(load: Load) -> Declaration:
    return load(SHAPES.read_text())


def model(shapes: Declaration, name: str) -> OpenModel:
    return next(each for each in shapes.llmaz.models if each.key.name == name)


def served(shapes: Declaration, name: str) -> ServedModel:
    return next(
        each
        for each in join_served_models(shapes.llmaz, shapes.workloads, shapes.broken)
        if each.serving.key.name == name
    )


@pytest.mark.parametrize("name", ["integer-limit", "quoted-limit"])
def test_a_limit_is_an_integer_or_a_text(shapes: Declaration, name: str) -> None:
    assert model(shapes, name).flavors[0].devices == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize("name", ["modelscope", "ollama", "object-store", "host-path", "placeholder"])
def test_a_model_may_come_from_anywhere_without_flavors(shapes: Declaration, name: str) -> None:
    assert model(shapes, name).flavors == ()


def test_a_model_of_one_file_runs_without_accelerators(shapes: Declaration) -> None:
    by_cpu = served(shapes, "by-cpu")
    assert (by_cpu.workload.devices, by_cpu.flavors, by_cpu.hold) == ({}, (), None)
    assert [owner.target_name for owner in shapes.owners] == ["by-cpu"]


def test_flavors_may_differ_in_their_devices(shapes: Declaration) -> None:
    counts = [flavor.devices["nvidia.com/gpu"] for flavor in model(shapes, "unequal-flavors").flavors]
    assert counts == [1, 2]


def test_a_playground_needs_nothing_but_a_model(shapes: Declaration) -> None:
    minimal = served(shapes, "minimal")
    assert (minimal.model_name, minimal.workload.replicas) == ("integer-limit", 1)
    assert minimal.workload.devices == {"nvidia.com/gpu": 1}


def test_a_flavor_beats_the_resources_of_a_playground(shapes: Declaration) -> None:
    assert served(shapes, "doubled-resource").workload.devices == {"nvidia.com/gpu": 1}


def test_the_draft_beside_a_model_takes_no_accelerators(shapes: Declaration) -> None:
    speculative = served(shapes, "speculative")
    assert speculative.model_name == "two-flavors"
    assert [flavor.name for flavor in speculative.flavors] == ["t4g", "t4"]
    assert speculative.workload.devices == {"nvidia.com/gpu": 1}


def test_weights_may_be_streamed_by_the_backend(shapes: Declaration) -> None:
    assert served(shapes, "streaming").serving.skips_loader


def test_a_service_of_two_nodes_takes_the_devices_of_both(shapes: Declaration) -> None:
    multi_node = served(shapes, "multi-node")
    assert multi_node.workload.replicas == 2
    assert multi_node.workload.devices == {"nvidia.com/gpu": 16}


def test_what_is_wrong_with_them_is_told_line_by_line(shapes: Declaration) -> None:
    told = [str(finding) for finding in shapes.findings]
    told += [f"broken: {broken.key.label}: {broken.reason}" for broken in shapes.broken]
    assert told == SHAPES.with_suffix(".txt").read_text().splitlines()


def test_a_chart_that_is_no_yaml_is_skipped(load: Load) -> None:
    chart = (
        "{{- if .Values.backendRuntime.install -}}\napiVersion: inference.llmaz.io/v1alpha1\nkind: BackendRuntime\n"
        "metadata:\n  name: vllm\nspec:\n  image: {{ .Values.vllm.image }}\n{{- end }}\n"
    )
    assert load(chart) == load("{}")
    _, errors = parse_readable("a.yaml", chart.encode())
    assert [error.path for error in errors] == ["a.yaml"]


def test_a_chart_that_happens_to_be_yaml_is_read(load: Load) -> None:
    chart = (
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: BackendRuntime\nmetadata: {name: vllm}\n"
        'spec:\n  image: "{{ .Values.vllm.image }}"\n  version: v1\n'
    )
    assert load(chart).llmaz.runtimes[0].spec.image == "{{ .Values.vllm.image }}"
