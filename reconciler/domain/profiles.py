"""Performance profiles: how fast one replica of a model runs on an accelerator."""

from dataclasses import dataclass

from reconciler.domain.identity import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How a profile was learned: the day (ISO), from how many samples, how well it fits them and what they covered.

    `error` is the median of |observed / fitted - 1| of the iteration time. `batch`, `input_tokens` and `output_tokens`
    are the smallest and largest values that were seen: nothing outside of them is known.
    """

    on: str
    samples: int
    error: float
    batch: tuple[float, float]
    input_tokens: tuple[float, float]
    output_tokens: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceProfile:
    """Iteration time alpha + beta * batch; prefill gamma + delta * input tokens * batch, where it is given.

    `max_batch_size` holds at `at_tokens` tokens a request when that is given, else at any length.
    `accelerators_per_replica` None: read it from the scale target's containers. `learning` None: somebody gave it.
    """

    accelerator: str
    alpha_s: float
    beta_s: float
    max_batch_size: int
    gamma_s: float | None = None
    delta_s: float | None = None
    at_tokens: int | None = None
    accelerators_per_replica: int | None = None
    place: Place | None = None
    learning: Learning | None = None

    @property
    def law(self) -> str:
        """The queueing law these parameters belong to."""
        return "decode_only" if self.gamma_s is None and self.delta_s is None else "prefill_decode"
