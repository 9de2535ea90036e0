"""A day of two replicas that obey a law, in a real Prometheus: the law is learned, kept, and planned with."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.servers.fleet import SETTINGS, Outcome, make_template, run_here
from tests.servers.git_workshop import Workshop
from tests.servers.prometheus import ABSENT, History, prometheus_over

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
DAY_S, SCRAPE_S = 86400.0, 30.0
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
GIVEN = "    profiles: [{accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}]\n"
FILE = ".reconciler/profiles.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How fast one replica runs; requests are all alike."""

    alpha_s: float = 0.0082
    beta_s: float = 0.00011
    gamma_s: float = 0.021
    delta_s: float = 5.5e-7
    full_batch: int = 64
    input_tokens: float = 512.0
    output_tokens: float = 180.0

    def itl_s(self, batch: float) -> float:
        """An iteration of that batch."""
        return self.alpha_s + self.beta_s * batch

    def prefill_s(self, batch: float) -> float:
        """What a request waits for its first token that finds `batch` others running."""
        return self.gamma_s + self.delta_s * self.input_tokens * min(batch + 1, self.full_batch)


LAW = Law()


@dataclass(slots=True)
class Counters:
    """What a replica has counted so far."""

    requests: float = 0.0
    tokens: float = 0.0
    itl_s: float = 0.0
    wait_s: float = 0.0
    ttft_s: float = 0.0

    def run(self, law: Law, batch: float, wait_s: float) -> None:
        """Let one scrape interval pass with that batch."""
        tokens = SCRAPE_S * batch / law.itl_s(batch)
        requests = tokens / law.output_tokens
        self.tokens += tokens
        self.requests += requests
        self.itl_s += tokens * law.itl_s(batch)
        self.wait_s += requests * wait_s
        self.ttft_s += requests * (wait_s + law.prefill_s(batch))


def offered(at_s: float, phase: float) -> float:
    """Requests that are there: a few at night, more than fit into the batch at the busiest hours."""
    return 38.0 - 36.0 * math.cos(2 * math.pi * (at_s / (DAY_S / 3) + phase))


def replica(history: History, pod: str, phase: float) -> None:
    """One pod's day: the batch follows what is there, up to the full one; the rest waits."""
    labels = {"namespace": "chat", "pod": pod, "model_name": "llama"}
    counted = Counters()
    points: dict[str, list[tuple[float, float]]] = {}
    for index in range(int(DAY_S / SCRAPE_S) + 1):
        at_s = END_S - DAY_S + index * SCRAPE_S
        there = offered(at_s, phase)
        batch, waiting = min(there, LAW.full_batch), max(there - LAW.full_batch, 0.0)
        values = {
            "num_requests_running": batch,
            "num_requests_waiting": waiting,
            "request_success_total": counted.requests,
            "request_generation_tokens_sum": counted.requests * LAW.output_tokens,
            "request_generation_tokens_count": counted.requests,
            "request_prompt_tokens_sum": counted.requests * LAW.input_tokens,
            "request_prompt_tokens_count": counted.requests,
            "request_queue_time_seconds_sum": counted.wait_s,
            "request_queue_time_seconds_count": counted.requests,
            "time_to_first_token_seconds_sum": counted.ttft_s,
            "time_to_first_token_seconds_count": counted.requests,
            "inter_token_latency_seconds_sum": counted.itl_s,
            "inter_token_latency_seconds_count": counted.tokens,
        }
        for name, value in values.items():
            points.setdefault(name, []).append((at_s, value))
        counted.run(LAW, batch, wait_s=waiting * LAW.itl_s(batch))
    for name, series in points.items():
        metric, _, suffix = name.rpartition("_")
        if suffix in ("sum", "count"):
            history.series("histogram", f"vllm:{metric}", labels, series, f"_{suffix}")
        elif suffix == "total":
            history.series("counter", f"vllm:{metric}", {**labels, "finished_reason": "stop"}, series, "_total")
        else:
            history.series("gauge", f"vllm:{name}", labels, series, "")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the day is served."""
    history = History(end_s=END_S)
    for number, pod in enumerate(("llama-5d4c8b7f9-bcdfg", "llama-5d4c8b7f9-hjklm")):
        replica(history, pod, phase=0.1 * number)
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
