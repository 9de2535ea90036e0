"""Numbers in other units, under other names, at other times: what upgrades, clocks and stores do to series."""

import numpy as np

from tests.incidents.rows import Play
from tests.incidents.scraping import each, rows
from tests.incidents.stage import COUNT, Stage, since


def in_milliseconds(stage: Stage, index: int) -> None:
    """After an upgrade a replica tells its latencies in milliseconds."""
    pod = stage.pods[index]
    for values in (pod.itl_s, pod.ttft_s, pod.wait_s):
        values[since(15)] *= 1000.0


def in_percent(stage: Stage, index: int) -> None:
    """After an upgrade a replica tells how full its KV cache is in percent."""
    stage.pods[index].usage()[since(15)] *= 100.0


def renamed(stage: Stage, index: int) -> None:
    """After an upgrade a replica serves under another name."""
    pod = stage.pods[index]
    pod.gone(3)
    new = stage.pod(index, stage.per_s)
    new.labels["model_name"] = "chat"
    new.born(3)
    stage.pods.append(new)


def unlabelled(stage: Stage, index: int) -> None:
    """A relabelling rule took the pod's name away."""
    labels = stage.pods[index].labels
    labels["instance"] = f"10.0.0.{index}:8000"
    del labels["pod"]


def ahead(minutes: float) -> Play:
    """The clock of what writes the samples is ahead, so that the newest are of the future."""

    def play(stage: Stage) -> None:
        stage.shift_s = minutes * 60.0

    return play


def drops_the_sum(stage: Stage, index: int) -> None:
    """The sum of one histogram begins anew without its count."""
    pod = stage.pods[index]
    told = (pod.finished * pod.output_tokens).cumsum()
    told[COUNT - 6 :] -= told[COUNT - 7]
    pod.raw["vllm:request_generation_tokens_sum"] = told


def backfilled(stage: Stage) -> None:
    """What was lost for ten minutes came in at once: counters jump, everything else was silent."""
    for pod in stage.pods:
        pod.is_scraped[since(12, until=2)] = False


def overtaken(stage: Stage) -> None:
    """Scrapes of two replicas come in the wrong order: their counters step back by one scrape and on again."""
    for pod in stage.pods[:2]:
        told = pod.finished.cumsum()
        told[since(10)] = np.repeat(told[since(10)][::2] - 1.0, 2)[: len(told[since(10)])]
        pod.raw["vllm:request_success_total"] = told


def shadowed(stage: Stage) -> None:
    """A copy of all requests goes to pods of another Deployment under the same name; the gateway counts both."""
    stage.arrivals[since(60)] *= 2.0
    for index in range(stage.replicas):
        pod = stage.pod(index + 40, stage.per_s)
        pod.labels["pod"] = f"chat-shadow-7c9f8d6b5-bcd{'fghjkl'[index]}2"
        stage.pods.append(pod)


def prefetched(stage: Stage) -> None:
    """A load test of three minutes against one replica, past the gateway."""
    pod = stage.pods[0]
    pod.finished[since(3)] *= 1.3
    pod.running[since(3)] = 60.0


def reused(stage: Stage) -> None:
    """Pods of a StatefulSet come again under their names: for minutes the old series and the new are both there."""
    for index, pod in enumerate(list(stage.pods)[:3]):
        pod.labels["instance"] = f"10.0.0.{index}:8000"
        new = stage.pod(index, stage.per_s)
        new.labels["pod"] = pod.labels["pod"]
        new.labels["instance"] = f"10.0.1.{index}:8000"
        new.born(3)
        pod.gone(3)
        stage.pods.append(new)


FIELD = (
    *rows("one in milliseconds", "a replica tells its latencies in milliseconds", each(in_milliseconds, 1)),
    *rows("all in milliseconds", "all replicas tell their latencies in milliseconds", each(in_milliseconds)),
    *rows("all in percent", "all replicas tell their KV cache in percent", each(in_percent)),
    *rows("one renamed", "a replica serves under another name since three minutes", each(renamed, 0)),
    *rows("all renamed", "all replicas serve under another name since three minutes", each(renamed, 0, 1, 2, 3)),
    *rows("pods without a name", "a relabelling rule took the pods' names away", each(unlabelled)),
    *rows("two pods without a name", "a relabelling rule took the pods' names away", each(unlabelled, 0, 1)),
    *rows("a sum begins anew", "sums of lengths begin anew without their counts", each(drops_the_sum)),
    *rows("late samples", "ten minutes of samples were lost", backfilled, has_gateway=True),
    *rows("samples out of order", "scrapes come in the wrong order", overtaken),
    *rows("shadow traffic", "a copy of all requests goes elsewhere", shadowed, has_gateway=True),
    *rows("a load test", "somebody tests one replica past the gateway", prefetched),
    *rows("names come again", "pods come again under their names", reused, has_gateway=True),
    *rows("a clock ahead", "samples are of two minutes in the future", ahead(2)),
    *rows("a clock behind", "samples are of four minutes ago", ahead(-4)),
)
