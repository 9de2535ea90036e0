"""What Prometheus holds of the example repositories: `chat` is full, `code` has more replicas than it needs."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.servers.prometheus import History, vllm_replica

EXAMPLES = Path(__file__).parents[1] / "testdata" / "examples"
FAMILIES = tuple(sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
SINCE_S = 3 * 3600.0
BLOCKS = {"num_gpu_blocks": "8000", "block_size": "16"}
SPELLING = "bcdfghjklmnpqrstvwxz2456789"


def example_files(family: str) -> dict[str, bytes]:
    """Path -> content of an example repository."""
    folder = EXAMPLES / family
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def history_of_example(family: str, end_s: float) -> History:
    """Three hours of the pods of a family, named as its controllers name them."""
    history = History(end_s=end_s, step_s=15.0)
    for cluster in ({"cluster": "prod"}, {"cluster": "staging"}) if family == "flux" else ({},):
        is_full = cluster.get("cluster") != "staging"
        models = ("chat-8b",) if family == "flux" else ("chat-8b", "code-7b")
        for model in models:
            name = model.partition("-")[0]
            count = (2 if is_full else 1) if name == "chat" else 4
            for pod in _pods(family, name, count):
                labels = {"namespace": "llm", "pod": pod, **cluster}
                served = name if family == "llmaz" else f"acme/{model}"
                _write_pod(history, labels, served, is_busy=name == "chat" and is_full)
                if family == "kthena":
                    _write_owner(history, labels, name)
    return history


def _write_pod(history: History, labels: Mapping[str, str], model: str, *, is_busy: bool) -> None:
    running, waiting = (180.0, 15.0) if is_busy else (2.0, 0.0)
    named = {**labels, "model_name": model}
    vllm_replica(
        history, named, per_s=6.0 if is_busy else 0.3, running=running, waiting=waiting, since_s=SINCE_S, ttft_s=0.4
    )
    history.gauge("vllm:kv_cache_usage_perc", named, 0.93 if is_busy else 0.03, since_s=SINCE_S)
    history.gauge("vllm:cache_config_info", {**labels, **BLOCKS}, 1.0, since_s=SINCE_S)


def _write_owner(history: History, labels: Mapping[str, str], name: str) -> None:
    history.gauge("kube_pod_status_ready", {**labels, "condition": "true"}, 1.0, since_s=SINCE_S)
    shown = {"label_modelserving_volcano_sh_name": name, "label_modelserving_volcano_sh_entry": "true"}
    history.gauge("kube_pod_labels", {**labels, **shown}, 1.0, since_s=SINCE_S)


def _pods(family: str, name: str, count: int) -> Iterator[str]:
    """The pods of a workload, as the controllers of its family name them."""
    for number in range(count):
        if family == "kthena":
            yield f"{name}-{number}-server-0-0"
        elif family == "llmaz":
            yield f"{name}-{number}"
        else:
            infix = {"chat": "-predictor", "code": "-kserve"}[name] if family == "kserve" else ""
            yield f"{name}{infix}-6c9f7d8b5f-{_letters(f'{name}{number}')}"


def _letters(text: str) -> str:
    """A generated-looking ending that is always the same."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(SPELLING[each % len(SPELLING)] for each in digest[:5])
