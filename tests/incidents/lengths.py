"""Lengths of requests that some or all replicas do not report."""

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import MISSED, Stage, constant, since

OUTPUTS = "vllm:request_generation_tokens"
INPUTS = "vllm:request_prompt_tokens"


def without(*metrics: str, pods: int | None = None, minutes: float = 90) -> Play:
    """So many pods (None: all) have not exported these histograms for so many minutes."""

    def play(stage: Stage) -> None:
        for pod in stage.pods[:pods]:
            series = {f"{metric}{suffix}": values for _, metric, suffix, _, values in pod.series()}
            for metric in metrics:
                for suffix in ("_sum", "_count"):
                    pod.raw[metric + suffix] = series[metric + suffix].copy()
                    pod.raw[metric + suffix][since(minutes)] = constant(MISSED)[since(minutes)]

    return play


LENGTHS = tuple(
    Incident(
        name=f"lengths: saturation, {who} without {what} for {minutes} min",
        happened="replicas are loaded as on any other day, and do not report how long requests are",
        play=without(*metrics, pods=pods, minutes=minutes),
        engine="saturation",
        replicas=4,
        has_gateway=has_gateway,
    )
    for who, pods in (("all", None), ("one", 1), ("three", 3))
    for what, metrics in (("outputs", (OUTPUTS,)), ("both lengths", (OUTPUTS, INPUTS)))
    for minutes, has_gateway in ((10, True), (90, False))
)
