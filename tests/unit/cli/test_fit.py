"""`fit` as people run it: a work tree, a Prometheus over HTTP, an exit code."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import yaml

from tests.servers.desk import Desk
from tests.servers.fleet import SETTINGS, Outcome

NOW_S = 1_790_000_000.0
DAY = "2026-09-21"
FILE = ".reconciler/profiles.yaml"
LLAMA, QWEN, GRANITE = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "ibm/granite-13b"
PODS = (
    {"namespace": "chat", "pod": "llama-5d4c8b7f9-bcdfg", "model_name": "llama"},
    {"namespace": "code", "pod": "granite-5d4c8b7f9-bcdfg", "model_name": GRANITE},
)
ALPHA_S, BETA_S, GAMMA_S, DELTA_S = 0.008, 0.0001, 0.02, 5e-7
TOKEN = "tok-canary-12345"

Command = Callable[..., Outcome]


def batch_at(index: int) -> float:
    return float(1 + 7 * index % 48)


VALUES: dict[str, Callable[[float], float]] = {
    "vllm:num_requests_running": lambda batch: batch,
    "vllm:num_requests_waiting": lambda _batch: 0.0,
    "vllm:inter_token_latency_seconds": lambda batch: ALPHA_S + BETA_S * batch,
    "vllm:time_to_first_token_seconds": lambda batch: GAMMA_S + DELTA_S * 512 * (batch + 1),
    "vllm:request_queue_time_seconds": lambda _batch: 0.0,
    "vllm:request_prompt_tokens": lambda _batch: 512.0,
    "vllm:request_generation_tokens": lambda _batch: 180.0,
}
"""What a metric says of a moment with that batch."""


@dataclass(slots=True)
class Prometheus:
    """Answers what it is asked of a day in which two models were busy; `failures` maps a text to a status."""

    url: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    clusters: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    def answer(self, form: dict[str, str]) -> tuple[int, bytes]:
        """Status and body."""
        self.asked.append(form["query"])
        status = next((code for text, code in self.failures.items() if text in form["query"]), 200)
        if status != 200:
            return status, json.dumps({"status": "error", "error": f"no, {TOKEN}"}).encode()
        kind, result = ("matrix", self.matrix(form)) if "step" in form else ("vector", self.vector(form))
        return 200, json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()

    def matrix(self, form: dict[str, str]) -> list[dict[str, object]]:
        """The series of a range query."""
        value = next((value for metric, value in VALUES.items() if metric in form["query"]), None)
        if value is None:
            return []
        start_s, end_s, step_s = (float(form[name]) for name in ("start", "end", "step"))
        times_s = [start_s + index * step_s for index in range(int((end_s - start_s) / step_s) + 1)]
        points = [[at_s, repr(value(batch_at(int(at_s // step_s))))] for at_s in times_s]
        return [{"metric": labels, "values": points} for labels in PODS]

    def vector(self, form: dict[str, str]) -> list[dict[str, object]]:
        """The series of an instant query."""
        if 'cluster!=""' not in form["query"]:
            return []
        return [{"metric": {"cluster": name}, "value": [NOW_S, "1"]} for name in self.clusters]


@pytest.fixture
def make_prometheus() -> Iterator[Callable[[], Prometheus]]:
    """Serves as many as a test needs, each on a port of its own."""
    running: list[ThreadingHTTPServer] = []

    def make() -> Prometheus:
        prometheus = Prometheus()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answer a query."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
                status, content = prometheus.answer(form)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append(server)
        prometheus.url = f"http://127.0.0.1:{server.server_port}"
        return prometheus

    yield make
    for server in running:
        server.shutdown()
        server.server_close()


class Clock:
    """Stands for module `time` in the command."""

    @staticmethod
    def time() -> float:
        """Unix seconds."""
        return NOW_S


@pytest.fixture(autouse=True)
def at_noon_without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same moment each time, and nothing between us and this machine."""
    monkeypatch.setattr("reconciler.cli.fit.time", Clock)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def prometheus(make_prometheus: Callable[[], Prometheus]) -> Prometheus:
    """The only one."""
    return make_prometheus()


@pytest.fixture
def tree(desk: Desk) -> Path:
    """A person's work tree."""
    return desk.workshop.clone


@pytest.fixture
def fit(command: Command, tree: Path, prometheus: Prometheus) -> Command:
    """Runs `fit` on the work tree."""
    return lambda *arguments: command("fit", "--repo", tree, "--prometheus", prometheus.url, *arguments)


def learned_in(text: str | bytes) -> dict[str, tuple[str, float]]:
    """Model -> the day and alpha in milliseconds of its one profile."""
    profiles = {model["id"]: model["profiles"] for model in yaml.safe_load(text)["models"]}
    return {
        model: (str(one["learned"]["date"]), float(one["alpha"].removesuffix("ms")))
        for model, (one,) in profiles.items()
    }


def test_every_model_is_learned_or_has_a_reason(fit: Command) -> None:
    outcome = fit("--output", "json")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    found = {each["model"]: each["profile"] for each in document["models"]}
    assert found[QWEN] is None
    for model in (LLAMA, GRANITE):
        assert found[model]["alpha_s"] == pytest.approx(ALPHA_S, rel=0.01)
        # vLLM computes prompts one after the other, inside the iterations of those who decode.
        assert found[model]["delta_s"] is None
        assert 0 < found[model]["prompt_s"] * 512 < GAMMA_S + DELTA_S * 512
        assert found[model]["learned"]["on"] == DAY
    assert document["since_s"] == 7 * 86400
    assert document["step_s"] == 360
    assert document["written"] is None


def test_text_shows_the_table_the_reasons_and_what_to_do(fit: Command) -> None:
    text = fit("--since", "36h").out
    assert "2 profiles learned, 1 not." in text
    assert "Not learned\n   no series of that time belongs to a replica" in text
    assert "given: alpha 20.58 ms, beta 0.41 ms" in text
    assert text.endswith(f"Keep them with --write {FILE}, and add extends: [{FILE}] to reconciler.yaml.\n")


@pytest.mark.parametrize("asked", [LLAMA, "meta-*"])
def test_only_the_models_asked_for_are_learned_and_asked_about(
    fit: Command, prometheus: Prometheus, asked: str
) -> None:
    document = json.loads(fit(asked, "-o", "json").out)
    assert [each["model"] for each in document["models"]] == [LLAMA]
    assert prometheus.asked
    assert not any("code" in text for text in prometheus.asked)


def test_what_is_written_is_what_yaml_prints_and_the_configuration_reads_it(
    fit: Command, tree: Path, desk: Desk
) -> None:
    printed = fit("--write", FILE, "-o", "yaml")
    assert printed.code == 0
    content = (tree / FILE).read_text()
    assert content == printed.out == fit("-o", "yaml").out
    found = learned_in(content)
    assert {model: day for model, (day, _) in found.items()} == {LLAMA: DAY, GRANITE: DAY}
    assert [alpha_ms for _, alpha_ms in found.values()] == pytest.approx([8.0, 8.0], rel=0.01)

    desk.write("reconciler.yaml", SETTINGS.replace("clusters:", f"extends: [{FILE}]\nclusters:"))
    assert fit("--write", FILE).out.endswith(f"{FILE} stays as it is.\n")


def test_what_is_not_learned_this_time_stays_with_its_day(fit: Command, tree: Path) -> None:
    fit("--write", FILE)
    older = (tree / FILE).read_text().replace(DAY, "2026-01-02").replace(GRANITE, QWEN)
    (tree / FILE).write_text(older)
    assert f"Wrote {FILE}" in fit(LLAMA, "--write", FILE).out
    found = learned_in((tree / FILE).read_bytes())
    assert {model: day for model, (day, _) in found.items()} == {LLAMA: DAY, QWEN: "2026-01-02"}


@pytest.mark.parametrize("path", ["../x.yaml", "/tmp/x.yaml", ".git/x.yaml", "reconciler.yaml"])
def test_a_file_that_cannot_be_ours_is_refused_before_anything_is_asked(
    fit: Command, prometheus: Prometheus, path: str
) -> None:
    outcome = fit("--write", path)
    assert outcome.code == 5
    assert outcome.err.startswith("error: --write: expected a ")
    assert outcome.out == ""
    assert prometheus.asked == []


def test_a_file_that_somebody_wrote_is_left_alone(fit: Command, prometheus: Prometheus, tree: Path) -> None:
    (tree / "mine.yaml").write_text("models: []\n")
    outcome = fit("--write", "mine.yaml")
    assert outcome.code == 5
    assert "somebody's own" in outcome.err
    assert (tree / "mine.yaml").read_text() == "models: []\n"
    assert prometheus.asked == []


def test_a_repository_without_a_work_tree_cannot_be_written_to(
    command: Command, desk: Desk, prometheus: Prometheus
) -> None:
    outcome = command("fit", "--repo", desk.workshop.remote, "--prometheus", prometheus.url, "--write", FILE)
    assert outcome.code == 5
    assert "clone it and give its directory" in outcome.err
    readable = command("fit", "--repo", desk.workshop.remote, "--prometheus", prometheus.url)
    assert readable.code == 0


def test_a_model_that_nothing_serves_leads_to_near_names(fit: Command, prometheus: Prometheus) -> None:
    outcome = fit("llama-3.1")
    assert outcome.code == 5
    assert f"did you mean {LLAMA}?" in outcome.err
    assert prometheus.asked == []


@pytest.mark.parametrize("since", ["7", "7w", "-1d", "59m", "401d", "1e3d", ""])
def test_an_age_that_is_none_is_refused(fit: Command, since: str) -> None:
    outcome = fit(f"--since={since}")
    assert outcome.code == 5
    assert "from 1h to 400d" in outcome.err


@pytest.mark.parametrize("failing", ["", "vllm:request_queue_time_seconds", "kube_pod_owner"])
def test_a_prometheus_that_fails_teaches_nothing_and_takes_nothing_away(
    fit: Command, prometheus: Prometheus, tree: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    fit("--write", FILE)
    before = (tree / FILE).read_bytes()
    prometheus.failures = {failing: 401 if not failing else 422}
    monkeypatch.setenv("RECONCILER_PROMETHEUS_TOKEN", TOKEN)
    outcome = fit("--write", FILE)
    assert outcome.code == 4
    assert "0 profiles learned, 3 not." in outcome.out
    assert "the Prometheus of prod failed" in outcome.out
    assert "\nFailed\n   prod: " in outcome.out
    assert TOKEN not in outcome.out + outcome.err
    assert (tree / FILE).read_bytes() == before


def test_of_two_clusters_the_one_that_answers_is_learned_from(
    command: Command, desk: Desk, tree: Path, make_prometheus: Callable[[], Prometheus]
) -> None:
    good, bad = make_prometheus(), make_prometheus()
    bad.failures = {"": 401}
    (tree / "clusters/eu").mkdir()
    desk.workshop.git("mv", "clusters/prod/code", "clusters/eu/code")
    clusters = f"""\
  - {{name: prod, paths: {{include: ["clusters/prod/**"]}}, prometheus: {{url: "{good.url}"}}}}
  - {{name: eu, paths: {{include: ["clusters/eu/**"]}}, prometheus: {{url: "{bad.url}"}}}}
"""
    only = '  - {name: prod, paths: {include: ["clusters/prod/**"]}}\n'
    desk.configure(only, clusters)
    outcome = command("fit", "--repo", tree, "--write", FILE)
    assert outcome.code == 4
    assert set(learned_in((tree / FILE).read_bytes())) == {LLAMA}
    assert "the Prometheus of eu failed\n      ibm/granite-13b on A100" in outcome.out
    assert command("fit", "--repo", tree, "--cluster", "prod").code == 0


def test_a_cluster_without_a_prometheus_is_a_wrong_configuration(command: Command, tree: Path) -> None:
    outcome = command("fit", "--repo", tree)
    assert outcome.code == 5
    assert "cluster prod has no Prometheus: give --prometheus" in outcome.err


def test_a_prometheus_of_several_clusters_is_not_mixed_up(fit: Command, desk: Desk, prometheus: Prometheus) -> None:
    only = 'clusters:\n  - {name: prod, paths: {include: ["clusters/prod/**"]}}\n'
    desk.configure(only, "")
    prometheus.clusters = ("eu", "us")
    outcome = fit()
    assert outcome.code == 5
    assert "several clusters (eu, us)" in outcome.err
    prometheus.clusters = ("eu",)
    assert fit().code == 0


def test_a_resource_that_must_be_fixed_costs_the_others_nothing(fit: Command, desk: Desk) -> None:
    desk.write("clusters/prod/chat/broken.yaml", "apiVersion: llmd.ai/v1alpha1\nkind: VariantAutoscaling\nspec: 7\n")
    outcome = fit()
    assert outcome.code == 3
    assert "2 profiles learned" in outcome.out
    assert "\nTo fix\n   clusters/prod/chat/broken.yaml" in outcome.out


def test_help_shows_an_example(command: Command) -> None:
    text = " ".join(command("fit", "--help").out.split())
    assert 'reconciler fit "meta-llama/*" --write .reconciler/profiles.yaml' in text


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_the_same_history_gives_the_same_bytes(fit: Command, output: str) -> None:
    assert fit("-o", output) == fit("-o", output)


def test_data_goes_to_stdout_and_logs_to_stderr(fit: Command) -> None:
    outcome = fit("-o", "json", "-v")
    json.loads(outcome.out)
    assert "asking Prometheus of prod" in outcome.err
