"""What a whole step takes with a number of requests beside it, prompts in one chunk: the model of WVA (wva.md 7.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reconciler.sizing.queueing.arrays import Floats, align
from reconciler.sizing.queueing.chunks import Chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of an iteration of others, of a prefill beside them and of a decode step beside them."""

    iteration_s: Floats
    prefill_s: Floats
    decode_s: Floats


def step_times(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    gamma_s: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    alongside: ArrayLike,
) -> StepTimes:
    """Return T(n), prefill and decode beside n requests; arguments broadcast, and outputs of 0 tokens are allowed.

    T(n) = alpha + n * (beta * (I + O) / (O + 1) + gamma * (I + O / 2)). Prefill is that of the law `token_work` with
    n + 1 in service; decode is gamma / 2 shorter, because the published model moves O / 2 tokens where whole steps
    move (O + 1) / 2.
    """
    alpha, beta, gamma, prompt, output, others = align(alpha_s, beta_s, gamma_s, input_tokens, output_tokens, alongside)
    whole = np.ones_like(prompt)
    unlimited = np.full_like(prompt, np.inf)
    chunks = Chunks(
        computed_s=beta,
        moved_s=gamma,
        input_tokens=prompt,
        output_tokens=output,
        token_budget=unlimited,
        lone=whole,
        full=whole,
    )
    iteration_s = alpha + others * chunks.iteration_share_s(whole)
    return StepTimes(
        iteration_s=iteration_s,
        prefill_s=iteration_s + chunks.prefill_work_s(whole),
        decode_s=iteration_s + beta + gamma * (prompt + output / 2),
    )
