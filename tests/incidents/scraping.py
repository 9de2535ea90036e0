"""Pods that are told of twice, pods of others, and pods that come and go."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import BUSY_PER_S, COUNT, Stage, since


def scraped_as(*copies: dict[str, str]) -> Play:
    """Every pod is scraped once more for each of these labels."""

    def play(stage: Stage) -> None:
        stage.copies = list(copies)

    return play


def beside(*clusters: dict[str, str]) -> Play:
    """Each cluster runs the same model under the same names, its pods have the labels of their cluster."""

    def play(stage: Stage) -> None:
        ours, *others = clusters
        pods = list(stage.pods)
        for index, labels in enumerate(others, start=1):
            twin = Stage(f"{stage.seed} {index}", stage.replicas)
            for pod in twin.pods:
                pod.labels |= {"pod": pod.name.replace("5d4c8b7f9", "77f6d8cc94"), **labels}
            pods += twin.pods
        for pod in stage.pods:
            pod.labels.update(ours)
        stage.pods = pods

    return play


def rolled(minutes: float, pace_min: float = 1.0) -> Play:
    """A rolling deployment began so many minutes ago: one new pod a minute takes the load of an old one."""

    def play(stage: Stage) -> None:
        old = list(stage.pods)
        for index, pod in enumerate(old):
            at_min = minutes - index * pace_min
            if at_min <= 0:
                continue
            new = stage.pod(index, BUSY_PER_S)
            new.labels["pod"] = new.name.replace("5d4c8b7f9", "6f9b7c5d84")
            new.born(at_min)
            new.finished[since(at_min)] = pod.finished[since(at_min)]
            pod.gone(at_min)
            stage.pods.append(new)

    return play


def replaced(minutes: float, gap_min: float) -> Play:
    """All pods went at once so many minutes ago, and new ones served after a gap."""

    def play(stage: Stage) -> None:
        for index, pod in enumerate(list(stage.pods)):
            pod.gone(minutes)
            new = stage.pod(index, BUSY_PER_S)
            new.labels["pod"] = new.name.replace("5d4c8b7f9", "6f9b7c5d84")
            new.born(minutes - gap_min)
            stage.pods.append(new)

    return play


def canary(count: int, share: float) -> Play:
    """Pods of another Deployment serve the same model under the same name."""

    def play(stage: Stage) -> None:
        stage.load(np.full(COUNT, stage.per_s * stage.replicas))
        for index in range(count):
            pod = stage.pod(index + 40, BUSY_PER_S * share)
            pod.labels["pod"] = f"chat-canary-7c9f8d6b5-bcd{'fgh'[index]}2"
            stage.pods.append(pod)

    return play


def zombies(count: int, running: float) -> Play:
    """Pods of a drained ReplicaSet still export what they did last."""

    def play(stage: Stage) -> None:
        for index in range(count):
            pod = stage.pod(index + 40, BUSY_PER_S)
            pod.labels["pod"] = f"chat-77f6d8cc94-bcd{'fgh'[index]}2"
            first = since(40).start
            pod.running[first:] = running
            pod.usage()[first:] = 0.9 if running else 0.0
            pod.finished[first:] = 0.0
            stage.pods.append(pod)

    return play


def each(change: Callable[[Stage, int], None], *indexes: int) -> Play:
    """The same for some of the pods."""

    def play(stage: Stage) -> None:
        for index in indexes or range(len(stage.pods)):
            change(stage, index)

    return play


def loops(stage: Stage, index: int) -> None:
    """A pod starts again every three minutes; it is away for one."""
    pod = stage.pods[index]
    for minutes in range(60, 0, -3):
        first = since(minutes).start
        pod.is_scraped[first : first + 2] = False
        pod.restarted.append(first + 2)
        pod.running[first : first + 3] = 0.0


def out_of_memory(stage: Stage, index: int) -> None:
    """A pod was killed and serves again."""
    pod, first = stage.pods[index], since(4 + index).start
    pod.is_scraped[first : first + 3] = False
    pod.restarted.append(first + 3)
    pod.running[first : first + 5] = [0, 0, 0, 10, 30]


def reset(stage: Stage, index: int) -> None:
    """The counters of a pod begin anew."""
    stage.pods[index].restarted.append(since(3 + index / 2).start)


def lossy(stage: Stage, index: int) -> None:
    """Half of the samples got lost."""
    stage.pods[index].is_scraped[index % 2 + 100 :: 2] = False


def unscraped(stage: Stage, index: int) -> None:
    """Nothing was written for three minutes, a while ago."""
    stage.pods[index].is_scraped[since(5, until=2)] = False


def silent(stage: Stage, index: int) -> None:
    """Nothing has been written for four minutes."""
    stage.pods[index].gone(4)


def seldom(stage: Stage, index: int) -> None:
    """Since half an hour a scrape every two minutes instead of two a minute."""
    pod, first = stage.pods[index], since(30).start
    kept = np.zeros(COUNT, dtype=bool)
    kept[first + index % 4 :: 4] = True
    pod.is_scraped[first:] = kept[first:]


def cached(stage: Stage, index: int) -> None:
    """The exporter works its numbers out every three minutes."""
    pod = stage.pods[index]
    for _, metric, suffix, _, values in list(pod.series()):
        steps = (np.arange(COUNT) + index) // 6 * 6 - index
        pod.raw[f"{metric}{suffix}"] = values[np.clip(steps, 0, COUNT - 1)]


def pair(stage: Stage) -> None:
    """Two Prometheus write to one store, and nobody removes what both write; each misses some."""
    stage.copies = [{"prometheus_replica": "a"}, {"prometheus_replica": "b"}]


def relabelled(stage: Stage) -> None:
    """Since four minutes all series have one more label; the old ones have ended."""
    for index, pod in enumerate(list(stage.pods)):
        new = stage.pod(index, BUSY_PER_S)
        new.labels["team"] = "search"
        new.finished[:] = pod.finished
        new.is_scraped[: since(4).start] = False
        pod.gone(4)
        stage.pods.append(new)


TWO_JOBS = scraped_as({}, {"job": "pods", "endpoint": "http"})
TWO_CLUSTERS = beside({"cluster": "us"}, {"cluster": "eu"})


def rows(name: str, happened: str, play: Play, *, has_gateway: bool = False) -> tuple[Incident, ...]:
    """The same for a queue, perhaps beside a gateway as well, and for saturation."""
    queue = Incident(name=f"{name}: queue, no gateway", happened=happened, play=play, has_gateway=False)
    beside = replace(queue, name=f"{name}: queue", has_gateway=True)
    saturated = replace(queue, name=f"{name}: saturation", engine="saturation", replicas=4)
    return (queue, saturated, beside) if has_gateway else (queue, saturated)


SCRAPING = (
    *rows("two jobs", "every pod is scraped by two jobs", TWO_JOBS, has_gateway=True),
    *rows("a pair of Prometheus", "two Prometheus write the same series", pair),
    *rows("two clusters", "two clusters in one Prometheus, no matchLabels", TWO_CLUSTERS, has_gateway=True),
    *rows("three jobs", "every pod is scraped by three jobs", scraped_as({}, {"job": "b"}, {"job": "c", "node": "n"})),
    *rows("rolling, under way", "a rolling deployment began three minutes ago", rolled(3), has_gateway=True),
    *rows("rolling, just over", "a rolling deployment began seven minutes ago", rolled(7)),
    *rows("rolling, all at once", "all pods were replaced two minutes ago", replaced(3, 1)),
    *rows("a canary", "two pods of another Deployment serve the same name", canary(2, 0.3)),
    *rows("zombies", "pods of a drained ReplicaSet still export", zombies(2, 40.0)),
    *rows("a crash loop", "a pod starts again every three minutes", each(loops, 1)),
    *rows("out of memory", "pods were killed and serve again", each(out_of_memory, 0, 1, 2), has_gateway=True),
    *rows("counters begin anew", "all counters begin anew within minutes", each(reset)),
    *rows("lost samples", "half of the samples are lost", each(lossy)),
    *rows(
        "lost minutes",
        "nothing was written of half of the pods for three minutes",
        each(unscraped, 0, 1, 2),
        has_gateway=True,
    ),
    *rows("silence", "nothing has been scraped for four minutes", each(silent), has_gateway=True),
    *rows("scraped seldom", "a scrape every two minutes instead of two a minute", each(seldom)),
    *rows("a cache", "the exporter works its numbers out every three minutes", each(cached)),
    *rows("a new label", "all series have one more label since four minutes", relabelled),
)
