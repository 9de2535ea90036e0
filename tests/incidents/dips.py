"""Dips and silence: what moves no replica while nobody knows, or can believe, what the last hour needed."""

from collections.abc import Sequence

import numpy as np

from tests.incidents.answers import CUT, EMPTY, REFUSED, UNAVAILABLE, in_part, warned
from tests.incidents.rows import Incident, Play
from tests.incidents.stage import COUNT, OUTPUT_TOKENS, Stage, since

FORGOTTEN = ("history-missing",)


def load_of(minutes: float, factor: float) -> Play:
    """The load is that many times what it was, for so many minutes."""

    def play(stage: Stage) -> None:
        factors = np.ones(COUNT)
        factors[since(minutes)] = factor
        stage.load(factors * stage.per_s * stage.replicas)

    return play


def begun(minutes: float, factor: float = 0.5) -> Play:
    """Prometheus remembers these minutes alone, all of them in a dip."""

    def play(stage: Stage) -> None:
        load_of(2 * minutes, factor)(stage)
        stage.remembers = slice(since(minutes).start, None)

    return play


def gap(at: float, minutes: float) -> Play:
    """A dip now, and nothing was scraped for so many minutes, so many minutes ago."""

    def play(stage: Stage) -> None:
        load_of(10, 0.5)(stage)
        for pod in stage.pods:
            pod.is_scraped[since(at, at - minutes)] = False

    return play


def lengths(minutes: float, outputs: float = OUTPUT_TOKENS, inputs: float = 0.0) -> Play:
    """Requests have these lengths for so many minutes, and run as long as their outputs take."""

    def play(stage: Stage) -> None:
        for pod in stage.pods:
            now = since(minutes)
            pod.output_tokens[now] = outputs
            pod.running[now] = np.rint(pod.running[now] * outputs / OUTPUT_TOKENS)
            if inputs:
                pod.input_tokens[now] = inputs

    return play


def stuck(value: float, pods: int | None = None) -> Play:
    """What replicas say of their KV caches is the same all the time."""

    def play(stage: Stage) -> None:
        for pod in stage.pods[:pods]:
            pod.kv_cache_usage = np.full(COUNT, value)

    return play


def silent(minutes: float, days_before: Sequence[float] = ()) -> Play:
    """Not one request for so many minutes."""

    def play(stage: Stage) -> None:
        load_of(minutes, 0.0)(stage)
        stage.days_before = tuple(days_before)

    return play


def _dips(engine: str, replicas: int) -> tuple[Incident, ...]:
    """The same half of the load, behind each way of not knowing the hour before."""
    answers = (
        ("503", "range queries are answered with 503", UNAVAILABLE, FORGOTTEN),
        ("422", "range queries read too many samples", REFUSED, FORGOTTEN),
        ("nothing", "range queries are answered with nothing", EMPTY, FORGOTTEN),
        ("cut", "range queries lose the connection", CUT, FORGOTTEN),
        ("thanos", "a partial response of Thanos", warned, ("load-partial",)),
        ("victoria", "a partial answer of VictoriaMetrics", in_part, ("load-partial",)),
    )
    spoiled = (
        Incident(
            name=f"dip: {engine}, {name}",
            happened=f"half of the load for ten minutes, and {happened}",
            play=load_of(10, 0.5),
            engine=engine,
            replicas=replicas,
            answers=spoil,
            holds=holds,
        )
        for name, happened, spoil, holds in answers
    )
    young = (
        Incident(
            name=f"dip: {engine}, young by {minutes}m",
            happened=f"Prometheus began anew {minutes} minutes ago, in a dip",
            play=begun(minutes),
            engine=engine,
            replicas=replicas,
            holds=FORGOTTEN,
        )
        for minutes in (6, 12, 40)
    )
    return (*spoiled, *young)


def failing(minutes: float) -> Play:
    """Answers have had one token for so many minutes, and were as usual half a day ago."""

    def play(stage: Stage) -> None:
        lengths(minutes, 1.0)(stage)
        stage.days_before = (0.5,)

    return play


DIPS = (
    *_dips("queueing", 6),
    *_dips("saturation", 4),
    Incident(name="dip: queue", happened="half of the load for ten minutes", play=load_of(10, 0.5)),
    Incident(name="dip: queue, no gateway", happened="the same", play=load_of(10, 0.5), has_gateway=False),
    Incident(
        name="dip: queue, no gateway, a gap",
        happened="half of the load for ten minutes; nothing was scraped for ten, an hour ago",
        play=gap(50, 12),
        has_gateway=False,
        holds=FORGOTTEN,
    ),
    Incident(name="dip: saturation", happened="the same", play=load_of(10, 0.5), engine="saturation", replicas=4),
    Incident(
        name="dip: saturation, outage",
        happened="the gateway sent nothing for twenty minutes",
        play=load_of(20, 0.0),
        engine="saturation",
        replicas=4,
    ),
    Incident(name="dip: queue, outage", happened="the gateway sent nothing for twenty minutes", play=load_of(20, 0.0)),
    Incident(
        name="dip: growth all the same",
        happened="half as much again, no history",
        play=load_of(10, 1.5),
        answers=UNAVAILABLE,
        after=(8, 9),
    ),
    Incident(
        name="lengths: queue, short ones",
        happened="six minutes of 60 output tokens instead of 180",
        play=lengths(6, 60.0),
    ),
    Incident(
        name="lengths: queue, a little shorter",
        happened="eight minutes of 100 output tokens instead of 180",
        play=lengths(8, 100.0),
    ),
    Incident(
        name="lengths: queue, no gateway",
        happened="six minutes of 60 output tokens instead of 180",
        play=lengths(6, 60.0),
        has_gateway=False,
    ),
    Incident(
        name="lengths: saturation, short ones",
        happened="six minutes of 60 output tokens instead of 180",
        play=lengths(6, 60.0),
        engine="saturation",
        replicas=4,
    ),
    *(
        Incident(
            name=f"lengths: {engine}, one token for {minutes}m",
            happened="all requests fail after one token",
            play=lengths(minutes, 1.0),
            engine=engine,
            replicas=replicas,
            holds=("lengths-changed",),
        )
        for engine, replicas in (("queueing", 6), ("saturation", 4))
        for minutes in (8, 70)
    ),
    *(
        Incident(
            name=f"lengths: {engine}, one token for {minutes}m, not so half a day ago",
            happened="all requests fail after one token",
            play=failing(minutes),
            engine=engine,
            replicas=replicas,
            holds=("lengths-changed",),
        )
        for engine, replicas in (("queueing", 6), ("saturation", 4))
        for minutes in (70, 79)
    ),
    Incident(
        name="lengths: saturation, no documents",
        happened="retrieval is down: for 70 minutes prompts have 40 tokens instead of 512",
        play=lengths(70, inputs=40.0),
        engine="saturation",
        replicas=4,
        holds=("lengths-changed",),
    ),
    *(
        Incident(
            name=f"gauges: KV cache stuck at {value:g}{whose}",
            happened="replicas run requests and say that they hold nothing",
            play=stuck(value, pods),
            engine="saturation",
            replicas=4,
            holds=("gauges-contradict",),
        )
        for value, pods, whose in ((0.0, None, ""), (0.0, 3, " in three of four"), (0.0005, None, ""))
    ),
    Incident(
        name="silence: queue",
        happened="not one request for 70 minutes, and yesterday at this hour there were",
        play=silent(70, (1.0,)),
        after=(1,),
        told=("this looks like an outage",),
    ),
    Incident(
        name="silence: saturation",
        happened="not one request for 70 minutes, and a week ago at this hour there were",
        play=silent(70, (7.0,)),
        engine="saturation",
        replicas=4,
        after=(1,),
        told=("this looks like an outage",),
    ),
)
