"""Moves to another accelerator after which no pod could be scheduled, or an engine would not use what it is given."""

from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.recording import ManifestFile
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants

CASES = Path(__file__).parents[2] / "testdata" / "layouts"
DEPLOYMENT = "llm/llama.yaml"


def words_of(case: str, old: str = "", new: str = "") -> dict[str, str]:
    """Why Git could not be edited to each accelerator, empty where it could; a text of the Deployment is replaced."""
    root = CASES / case
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.yaml")}
    if old:
        assert old.encode() in files[DEPLOYMENT]
        files[DEPLOYMENT] = files[DEPLOYMENT].replace(old.encode(), new.encode())
    settings = load_settings(
        repository_file=files.pop("reconciler.yaml"),
        read_repository_file=lambda _path: None,
        flags=Flags(prometheus="http://127.0.0.1:9"),
        environment=Environment(),
    ).settings
    manifests = [ManifestFile(path=path, body=body) for path, body in sorted(files.items())]
    declaration = read_declaration(manifests, (), settings, files)
    (variant,) = declared_variants(settings, declaration)
    return {each.accelerator: "" if each.unwritable is None else each.unwritable.words for each in variant.options}


def test_required_affinity_on_the_catalogs_own_label_holds_a_move() -> None:
    assert words_of("required-affinity")["A100"] == (
        "required node affinity on example.com/gpu-name keeps it off the nodes of A100: "
        "use a nodeSelector, or list their value there"
    )


def test_affinity_that_lists_the_other_value_too_is_in_nobodys_way() -> None:
    assert words_of("required-affinity", "values: [H100]", "values: [H100, A100]")["A100"] == ""


def test_affinity_on_another_label_is_in_nobodys_way() -> None:
    assert words_of("required-affinity", "example.com/gpu-name", "example.com/zone")["A100"] == ""


@pytest.mark.parametrize("engine", ["vllm", "lmsysorg/sglang"])
def test_an_engine_that_is_started_for_one_device_is_not_given_two(engine: str) -> None:
    command = "command: [python3, -m, sglang.launch_server], " if "sglang" in engine else ""
    assert words_of("two-devices", "image: vllm, ", f"image: {engine}, {command}")["A100"] == (
        "A100 takes 2 devices a replica instead of 1, and its engine is started for 1 (tensor parallel): "
        "change its arguments and its devices together"
    )


def test_an_engine_that_is_started_for_as_many_as_it_gets_may_move() -> None:
    assert words_of("two-devices", "--tensor-parallel-size=1", "--tensor-parallel-size=2")["A100"] == ""


@pytest.mark.parametrize("written", ["", "--enforce-eager", "--pipeline-parallel-size=1", "-tp=1"])
def test_an_engine_that_nobody_told_to_spread_is_started_for_one_device(written: str) -> None:
    assert words_of("two-devices", "--tensor-parallel-size=1", written or '""')["A100"] == (
        "A100 takes 2 devices a replica instead of 1, and its engine is started for 1 (tensor parallel): "
        "change its arguments and its devices together"
    )


def test_a_spread_that_cannot_be_read_holds_a_move() -> None:
    words = words_of("two-devices", "--tensor-parallel-size=1", "--tensor-parallel-size=$(TP)")["A100"]
    assert "started for a number that cannot be read here" in words


@pytest.mark.parametrize("written", ["--pipeline-parallel-size=2", "--data-parallel-size=2", "-pp=2"])
def test_devices_for_stages_or_copies_are_used(written: str) -> None:
    assert words_of("two-devices", "--tensor-parallel-size=1", written)["A100"] == ""


ARGUMENT = "image: vllm, args: [--model=org/llama, --tensor-parallel-size=1]"
STARTED = "and its engine is started for {} (tensor parallel)"


def test_an_engine_that_spreads_by_itself_may_move() -> None:
    image = "ghcr.io/huggingface/text-generation-inference"
    assert words_of("two-devices", ARGUMENT, f"image: {image}")["A100"] == ""


@pytest.mark.parametrize(
    "container",
    [
        "image: acme/serve, args: [--model=org/llama, --tensor-parallel-size=1]",
        'image: acme/serve, command: [sh, -c, "exec serve --tp 1"]',
        'image: acme/serve, env: [{name: TENSOR_PARALLEL_SIZE, value: "1"}]',
        'image: nvcr.io/nvidia/tensorrt-llm, args: [trtllm-serve, llama, --tp_size, "1"]',
        'image: ghcr.io/huggingface/text-generation-inference, args: [--num-shard, "1"]',
        'image: vllm, args: [--tensor-parallel-size=$(TP)], env: [{name: TP, value: "1"}]',
    ],
)
def test_whatever_says_how_far_an_engine_spreads_is_heeded(container: str) -> None:
    assert STARTED.format(1) in words_of("two-devices", ARGUMENT, container)["A100"]
    assert words_of("two-devices", ARGUMENT, container.replace("1", "2"))["A100"] == ""


def test_a_spread_that_is_filled_in_from_elsewhere_holds_a_move() -> None:
    container = "image: acme/serve, args: [--tp=$(TP)]"
    assert "a number that cannot be read here" in words_of("two-devices", ARGUMENT, container)["A100"]


IN_H100 = "[{key: example.com/gpu-name, operator: In, values: [H100]}]"


@pytest.mark.parametrize(
    "requirement",
    [
        "{key: example.com/gpu-name, operator: NotIn, values: [A100]}",
        "{key: example.com/gpu-name, operator: DoesNotExist}",
    ],
)
def test_affinity_that_bars_the_other_accelerator_holds_a_move(requirement: str) -> None:
    words = words_of("required-affinity", IN_H100, f"[{requirement}]")["A100"]
    assert words.startswith("required node affinity on example.com/gpu-name keeps it off the nodes of A100")


@pytest.mark.parametrize(
    "requirement",
    [
        "{key: example.com/gpu-name, operator: NotIn, values: [L4]}",
        "{key: example.com/gpu-name, operator: Exists}",
    ],
)
def test_affinity_that_the_other_accelerator_meets_is_in_nobodys_way(requirement: str) -> None:
    assert words_of("required-affinity", IN_H100, f"[{requirement}]")["A100"] == ""


def test_one_term_that_the_other_accelerator_meets_is_enough() -> None:
    terms = f"{IN_H100}\n              - matchExpressions: {IN_H100.replace('H100', 'A100')}"
    assert words_of("required-affinity", IN_H100, terms)["A100"] == ""


@pytest.mark.parametrize(
    "key", ["node.kubernetes.io/instance-type", "cloud.google.com/gke-nodepool", "nvidia.com/gpu.memory"]
)
def test_a_pod_that_is_kept_on_machines_of_one_kind_is_not_moved(key: str) -> None:
    said = f"{key} keeps it on machines of one kind: remove it by hand"
    affinity = IN_H100.replace("example.com/gpu-name", key)
    assert words_of("required-affinity", IN_H100, affinity)["A100"].startswith(said)
    selector = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"
    assert words_of("two-devices", selector, f"{selector}, {key}: p5")["A100"].startswith(said)
