"""A day of two replicas that obey a law, in a real Prometheus: the law is learned, kept, and planned with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.servers.daily_load import LAW, DailyLoad, replica_under
from tests.servers.fleet import SETTINGS, Outcome, make_template, run_here
from tests.servers.git_workshop import Workshop
from tests.servers.prometheus import ABSENT, History, prometheus_over

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
GIVEN = "    profiles: [{accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}]\n"
FILE = ".reconciler/profiles.yaml"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the day is served."""
    history = History(end_s=END_S, step_s=30.0)
    for number, pod in enumerate(("llama-5d4c8b7f9-bcdfg", "llama-5d4c8b7f9-hjklm")):
        labels = {"namespace": "chat", "pod": pod, "model_name": "llama"}
        replica_under(history, labels, DailyLoad(phase=0.1 * number))
    with prometheus_over(history, tmp_path_factory.mktemp("prometheus")) as base:
        yield base


class Clock:
    """Stands for module `time` in a command: the end of the day."""

    @staticmethod
    def time() -> float:
        """Unix seconds."""
        return END_S - 600.0


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A fleet whose chat model nobody gave a profile."""
    for module in ("fit", "plan"):
        monkeypatch.setattr(f"reconciler.cli.{module}.time", Clock)
    workshop = make_template(tmp_path)
    workshop.write("reconciler.yaml", SETTINGS.replace(GIVEN, "").encode())
    workshop.commit("Give no profile")
    return workshop


def run(workshop: Workshop, url: str, command: str, *arguments: str) -> Outcome:
    return run_here([command, *arguments, "--repo", str(workshop.clone), "--prometheus", url])


def test_a_law_is_learned_from_a_day_within_five_percent(workshop: Workshop, url: str) -> None:
    outcome = run(workshop, url, "fit", MODEL, "--since", "24h", "--output", "json")
    assert outcome.code == 0, outcome.err
    (model,) = json.loads(outcome.out)["models"]
    profile = model["profile"]
    for name in ("alpha_s", "beta_s", "gamma_s", "delta_s"):
        assert profile[name] == pytest.approx(getattr(LAW, name), rel=0.05), name
    assert model["is_full_batch_seen"]
    assert profile["max_batch_size"] == LAW.full_batch
    assert profile["learned"]["input_tokens"] == pytest.approx([LAW.input_tokens] * 2)


def test_a_model_that_reports_nothing_is_said_so_beside_the_one_that_does(workshop: Workshop, url: str) -> None:
    text = run(workshop, url, "fit", "--since", "24h").out
    assert "1 profile learned, 2 not." in text
    assert "ibm/granite-13b on A100" in text


def test_what_was_learned_is_kept_and_sizes_its_model_by_queueing(workshop: Workshop, url: str) -> None:
    before = json.loads(run(workshop, url, "plan", "--output", "json").out)
    assert engine_of(before) == "saturation"
    written = run(workshop, url, "fit", "--since", "24h", "--write", FILE)
    assert f"Wrote {FILE}" in written.out
    content = (workshop.clone / FILE).read_bytes()
    assert [model["id"] for model in yaml.safe_load(content)["models"]] == [MODEL]

    extending = SETTINGS.replace(GIVEN, "").replace("clusters:", f"extends: [{FILE}]\nclusters:")
    workshop.write("reconciler.yaml", extending.encode())
    workshop.write(FILE, content)
    workshop.commit("Learn")
    after = json.loads(run(workshop, url, "plan", "--output", "json").out)
    assert engine_of(after) == "queueing"
    assert f"learned at {FILE}" in run(workshop, url, "explain", "chat/llama").out

    again = run(workshop, url, "fit", "--since", "24h", "--write", FILE)
    assert f"{FILE} stays as it is." in again.out
    assert (workshop.clone / FILE).read_bytes() == content


def engine_of(plan: dict[str, Any]) -> object:
    """By which engine the chat model is sized."""
    decisions = [each for group in plan["groups"] for each in group["decisions"]]
    return next(each["engine"] for each in decisions if each["model"]["id"] == MODEL)
