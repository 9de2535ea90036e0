"""The answer of learning: a profile with what is known of its quality, or why there is none."""

from dataclasses import dataclass

from reconciler.domain.profiles import Learning, PerformanceProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Iteration time alpha + beta * batch, prefill gamma + delta * input tokens * batch (None: not learned).

    With `prompt_s` prompts are computed one after the other, `token_budget` tokens an iteration at most; then alpha and
    beta are those of iterations without prompts. `reach` is the largest batch up to which the iteration time is sure.

    `error` is the median of |observed / fitted - 1| of the inter-token latency, `prefill_error` that of the time to
    first token without waiting. `batch`, `input_tokens` and `output_tokens` are the smallest and largest values seen,
    without one percent at either end; (0, 0) was never seen. `max_batch_size` is the full batch when
    `is_full_batch_seen`, else only the largest that was seen. `notes` say what a reader must know of it.
    """

    alpha_s: float
    beta_s: float
    gamma_s: float | None
    delta_s: float | None
    prompt_s: float | None
    token_budget: int | None
    max_batch_size: int
    reach: int
    is_full_batch_seen: bool
    samples: int
    error: float
    prefill_error: float | None
    batch: tuple[float, float]
    input_tokens: tuple[float, float]
    output_tokens: tuple[float, float]
    notes: tuple[str, ...]

    def profile(self, accelerator: str, on: str) -> PerformanceProfile:
        """Return what was learned as a profile of the accelerator, learned on that day (ISO)."""
        return PerformanceProfile(
            accelerator=accelerator,
            alpha_s=self.alpha_s,
            beta_s=self.beta_s,
            gamma_s=self.gamma_s,
            delta_s=self.delta_s,
            prompt_s=self.prompt_s,
            token_budget=self.token_budget,
            max_batch_size=self.max_batch_size,
            learning=Learning(
                on=on,
                samples=self.samples,
                error=self.error,
                batch=self.batch,
                reach=self.reach,
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Nothing was learned, for the `reason`, from that many usable samples."""

    reason: str
    samples: int
