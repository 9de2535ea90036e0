"""`prior` as people run it: a commit, no network, numbers with a band, and reasons."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import Outcome

LLAMA, OWN = "meta-llama/Llama-3.1-8B-Instruct", "acme/chat-8b"
SETTINGS = """
apiVersion: reconciler.io/v1alpha1
kind: Configuration
accelerators:
  - {name: H100, costPerHour: 6.88}
  - {name: H200, costPerHour: 8.20}
  - {name: L40S, costPerHour: 1.80}
  - name: board
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-PCIe}
    datasheet: {generation: hopper, memory: 80GB, bandwidth: 2TB/s, bf16: 756TFLOPS, fp8: 1513TFLOPS, link: 64GB/s}
models:
  - id: meta-llama/Llama-3.1-8B-Instruct
    profiles:
      - {accelerator: H100, alpha: 7ms, beta: 0.05ms, maxBatchSize: 256}
  - id: acme/chat-8b
    shape: {config: models/chat/config.json, weights: fp8}
"""
CONFIG = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip

Command = Callable[..., Outcome]


@pytest.fixture
def folder(desk: Desk) -> Path:
    desk.write("models/chat/config.json", json.dumps(CONFIG))
    desk.write("reconciler.yaml", SETTINGS)
    return desk.workshop.clone


def test_it_says_numbers_bands_and_reasons(folder: Path, command: Command) -> None:
    outcome = command("prior", LLAMA, "--repo", str(folder))
    assert outcome.code == 0, outcome.err
    assert "corrected by the profile on H100" in outcome.out
    assert "L40S: no measured points of dense models on ada accelerators" in outcome.out
    assert "H100: its profile is given (reconciler.yaml:14): nothing needs to be guessed" in outcome.out
    assert "Nothing moves on a prior" in outcome.out


def test_json_has_base_units_and_both_edges(folder: Path, command: Command) -> None:
    outcome = command("prior", OWN, "H200", "board", "-o", "json", "--repo", str(folder))
    assert outcome.code == 0, outcome.err
    said = json.loads(outcome.out)
    assert said["shape"]["weights"] == "fp8"
    assert {each["accelerator"] for each in said["priors"]} == {"H200", "board"}
    for each in said["priors"]:
        assert each["itl_s"]["low"] < each["itl_s"]["median"] < each["itl_s"]["high"] < 1
        assert each["pessimistic_profile"]["alpha_s"] > each["profile"]["alpha_s"]


def test_a_config_json_that_is_not_there_is_an_input_to_fix(desk: Desk, folder: Path, command: Command) -> None:
    desk.workshop.git("rm", "-q", "models/chat/config.json")
    desk.workshop.commit()
    outcome = command("prior", OWN, "--repo", str(folder))
    assert outcome.code == 3
    assert "models/chat/config.json: no such file in the commit" in outcome.out


def test_another_board_of_a_name_is_not_taken_for_its_module(desk: Desk, folder: Path, command: Command) -> None:
    desk.write("reconciler.yaml", SETTINGS.partition("    datasheet")[0])
    outcome = command("prior", LLAMA, "board", "--repo", str(folder))
    assert "board: no data sheet: give accelerators[].datasheet" in outcome.out


def test_a_page_draws_every_band_and_says_the_same_in_words(folder: Path, command: Command) -> None:
    outcome = command("prior", OWN, "H200", "board", "-o", "html", "--repo", str(folder))
    assert outcome.code == 0, outcome.err
    assert outcome.out.count('class="mark ours"') == 3  # the board has no price
    assert "Untried accelerators for acme/chat-8b" in outcome.out
    assert "output tokens a second, with the 90 % band: H200: " in outcome.out


PRICES = """
clusters:
  - name: east
    paths: {include: ["east/**"]}
    pools:
      - {name: h200, device: H200, devices: 8, costPerHour: 5.00}
  - name: west
    paths: {include: ["west/**"]}
"""


def test_each_cluster_answers_at_its_own_price(desk: Desk, folder: Path, command: Command) -> None:
    desk.write("reconciler.yaml", SETTINGS + PRICES)
    outcome = command("prior", LLAMA, "H200", "L40S", "-o", "json", "--repo", str(folder))
    assert outcome.code == 0, outcome.err
    said = json.loads(outcome.out)
    assert [(each["clusters"], each["cost_per_hour"]) for each in said["priors"]] == [(["east"], 5.0), (["west"], 8.2)]
    assert [each["accelerator"] for each in said["refusals"]] == ["L40S"]
    assert "clusters" not in said["refusals"][0]
    assert "H200 in east" in command("prior", LLAMA, "H200", "--repo", str(folder)).out


def test_a_format_that_is_written_does_not_need_the_files(desk: Desk, folder: Path, command: Command) -> None:
    """As the message about an unknown one says."""
    quantized = {**CONFIG, "quantization_config": {"quant_method": "secret"}}
    desk.write("models/chat/config.json", json.dumps(quantized))
    assert command("prior", OWN, "--repo", str(folder)).code == 0
    desk.write("reconciler.yaml", SETTINGS.replace(", weights: fp8", ""))
    assert "give shape.weights" in command("prior", OWN, "--repo", str(folder)).out
