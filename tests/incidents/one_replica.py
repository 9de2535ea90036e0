"""One replica says what no replica can do."""

from tests.incidents.rows import Incident, Play
from tests.incidents.stage import COUNT, OUTPUT_TOKENS, STEP_S, Stage, constant, since

IMPLAUSIBLE = ("metrics-contradictory",)


def finishes(rate_per_s: float, minutes: float = 10.0) -> Play:
    """One replica says that it finishes so many requests a second."""

    def play(stage: Stage) -> None:
        stage.pods[2].finished[since(minutes)] = rate_per_s * STEP_S

    return play


def answers_at_length(factor: float) -> Play:
    """One replica says that its answers are so many times as long."""

    def play(stage: Stage) -> None:
        told = constant(OUTPUT_TOKENS)
        told[since(10)] *= factor
        pod = stage.pods[2]
        counted = (pod.finished * told).cumsum()
        pod.raw["vllm:request_generation_tokens_sum"] = counted

    return play


def prompts_at_length(factor: float) -> Play:
    """One replica says that its prompts are so many times as long."""

    def play(stage: Stage) -> None:
        stage.pods[2].input_tokens[since(10)] *= factor

    return play


def says(metric: str, value: float, minutes: float = 10.0, pod: int = 2) -> Play:
    """One replica says a number and nothing else, of one metric."""

    def play(stage: Stage) -> None:
        told = {f"{name}{suffix}": values for _, name, suffix, _, values in stage.pods[pod].series()}[metric].copy()
        told[since(minutes)] = value
        stage.pods[pod].raw[metric] = told

    return play


def falls_back(stage: Stage) -> None:
    """Every other scrape of a counter meets another process, which counts for itself."""
    pod = stage.pods[1]
    told = pod.finished.cumsum() + 1e6
    told[COUNT - 20 :: 2] -= 5000.0
    pod.raw["vllm:request_success_total"] = told


ONE_REPLICA = (
    *(
        Incident(
            name=f"one replica: {rate:g} req/s{where}",
            happened=f"a replica says that it finishes {rate:g} requests a second",
            play=finishes(rate),
            has_gateway=not where,
            holds=IMPLAUSIBLE,
            told=(f"{rate:.6g} finished req/s", "at most"),
        )
        for rate in (1e3, 1e4, 1e9)
        for where in ("", ", no gateway")
    ),
    *(
        Incident(
            name=f"one replica: {factor:g} times the output tokens{where}",
            happened=f"a replica counts {factor:g} times the tokens that it made",
            play=answers_at_length(factor),
            has_gateway=not where,
            holds=IMPLAUSIBLE,
        )
        for factor in (100.0, 1e6)
        for where in ("", ", no gateway")
    ),
    Incident(
        name="one replica: a million times the output tokens, saturation",
        happened="a replica counts 1e6 times the tokens that it made",
        play=answers_at_length(1e6),
        engine="saturation",
        replicas=4,
    ),
    Incident(
        name="one replica: a million times the prompt tokens, saturation",
        happened="a replica counts 1e6 times the tokens that it read",
        play=prompts_at_length(1e6),
        engine="saturation",
        replicas=4,
    ),
    *(
        Incident(
            name=f"one replica: {waiting:g} waiting, saturation",
            happened=f"a replica says that {waiting:g} requests wait",
            play=says("vllm:num_requests_waiting", waiting),
            engine="saturation",
            replicas=4,
            holds=IMPLAUSIBLE,
            told=(f"{waiting:.6g}",),
        )
        for waiting in (1e5, 1e9)
    ),
    Incident(
        name="one replica: 1e9 waiting, queue",
        happened="a replica says that 1e9 requests wait",
        play=says("vllm:num_requests_waiting", 1e9, minutes=2.5),
        has_gateway=False,
    ),
    Incident(
        name="one replica: a counter of two processes",
        happened="scrapes meet one of two processes that count each for itself",
        play=falls_back,
        holds=IMPLAUSIBLE,
    ),
    Incident(
        name="one replica: a counter of two processes, no gateway",
        happened="scrapes meet one of two processes that count each for itself",
        play=falls_back,
        has_gateway=False,
        holds=IMPLAUSIBLE,
    ),
    Incident(
        name="one replica: KV cache in percent, saturation",
        happened="a replica tells 62 where the others tell 0.62",
        play=says("vllm:kv_cache_usage_perc", 62.0),
        engine="saturation",
        replicas=4,
    ),
    *(
        Incident(
            name=f"one replica: {value} {metric}, {engine}",
            happened=f"a replica tells {value} as {metric}",
            play=says(f"vllm:{metric}", float(value)),
            engine=engine,
            replicas=replicas,
            has_gateway=False,
        )
        for engine, replicas in (("queueing", 6), ("saturation", 4))
        for metric, value in (
            ("num_requests_running", "nan"),
            ("num_requests_waiting", "inf"),
            ("num_requests_waiting", "-5"),
            ("request_success_total", "nan"),
            ("request_generation_tokens_sum", "inf"),
            ("kv_cache_usage_perc", "nan"),
        )
    ),
)
