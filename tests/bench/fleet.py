"""A fleet to measure with: as many variants as asked for, one pod each, the same for every run.

A share of the variants has a load that one replica cannot carry; the others keep the replica they have. Numbers are
spread evenly instead of drawn: multiples of an irrational, as in `sizing`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

NOW_S = 1_790_000_000.0
CLUSTER = "prod"
VARIANTS_PER_NAMESPACE = 50
RESTLESS, CALM = 1 / 3, 1 / 20
"""The share of variants that outgrow their replica: all of a morning at once, and some minutes of any day."""
FORMS = ("target", "profile", "name")
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes spells generated names with."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator with the parameters that every model has on it."""

    name: str
    product: str
    cost_per_hour: float
    alpha_ms: float
    beta_ms: float
    max_batch_size: int

    def full_rate_per_s(self, output_tokens: float) -> float:
        """Requests a second that a full batch finishes."""
        return self.max_batch_size / (output_tokens * (self.alpha_ms + self.beta_ms * self.max_batch_size) / 1000)


GPUS = (
    Gpu("L4", "NVIDIA-L4", cost_per_hour=0.7, alpha_ms=31.2, beta_ms=0.42, max_batch_size=32),
    Gpu("L40S", "NVIDIA-L40S", cost_per_hour=1.86, alpha_ms=22.6, beta_ms=0.18, max_batch_size=64),
    Gpu("A100", "NVIDIA-A100-SXM4-80GB", cost_per_hour=3.97, alpha_ms=7.9, beta_ms=0.07, max_batch_size=256),
    Gpu("H100", "NVIDIA-H100-80GB-HBM3", cost_per_hour=5.49, alpha_ms=7.0, beta_ms=0.04, max_batch_size=512),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One variant: its resource, its Deployment, its one pod and the load of that pod."""

    number: int
    namespace: str
    name: str
    model_id: str
    form: str
    gpu: Gpu
    has_status: bool
    arrival_rate_per_s: float
    output_tokens: float

    @property
    def replicaset(self) -> str:
        """The ReplicaSet's name."""
        return f"{self.name}-{_spell(self.number * 7 + 1, 9)}"

    @property
    def pod(self) -> str:
        """The pod's name, spelled as Kubernetes does."""
        return f"{self.replicaset}-{_spell(self.number * 13 + 5, 5)}"

    @property
    def has_pod_label(self) -> bool:
        """Whether the pod is labelled with its variant; the others are known by their owner."""
        return self.number % 2 == 0


@dataclass(frozen=True)
class Fleet:
    """`size` variants with everything around them, `growing` of them (a fraction) too small for their load."""

    size: int
    growing: float = RESTLESS

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Every variant in the order of their numbers."""
        return tuple(_member(number, self.size, self.growing) for number in range(self.size))

    @cached_property
    def model_ids(self) -> tuple[str, ...]:
        """The models, sorted; several namespaces serve each."""
        return tuple(sorted({member.model_id for member in self.members}))

    def files_of(self) -> Iterator[tuple[str, tuple[Member, ...]]]:
        """Three files for ten variants: path and members."""
        for first in range(0, self.size, 10):
            ten = self.members[first : first + 10]
            for part, (start, end) in enumerate(((0, 3), (3, 6), (6, 10))):
                if ten[start:end]:
                    folder = f"clusters/{CLUSTER}/{ten[0].namespace}"
                    yield f"{folder}/models-{first % VARIANTS_PER_NAMESPACE // 10}{part}.yaml", ten[start:end]


def spread(number: int, axis: int) -> float:
    """A number of [0, 1), filling it evenly over consecutive `number`s."""
    return (number + 1) * math.sqrt((2, 3, 5, 7)[axis]) % 1.0


def _member(number: int, size: int, growing: float) -> Member:
    position = number % VARIANTS_PER_NAMESPACE
    slot = position - (position % 5 == 1)  # of five variants the first two serve one model
    models = max(40, size // 25)
    gpu, output_tokens = GPUS[1 + number % 3], float(128 + math.floor(256 * spread(number, 2)))
    grows = spread(number, 0) < growing
    load = 1.2 + 3 * spread(number, 1) if grows else 0.01 + 0.1 * spread(number, 1)
    model = (number // VARIANTS_PER_NAMESPACE * VARIANTS_PER_NAMESPACE + slot) % models
    return Member(
        number=number,
        namespace=f"team-{number // VARIANTS_PER_NAMESPACE:03d}",
        name=f"model-{position:02d}-{'bulk' if number % 4 else 'chat'}",
        model_id=f"example-org/Model-{model:04d}-Instruct",
        form=FORMS[number % 3],
        gpu=gpu,
        has_status=number % 4 == 0,
        arrival_rate_per_s=load * gpu.full_rate_per_s(output_tokens),
        output_tokens=output_tokens,
    )


def _spell(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number = (number * 48_271 + 11) % 2_147_483_647
        letters.append(LETTERS[number % len(LETTERS)])
    return "".join(letters)
