"""The queueing laws: how long a request is served at batch n, and what it sees of that.

Arguments of every law broadcast against each other; service times must come out positive. `decode_only` and
`prefill_decode` are the inferno optimizer of 2025; `serial_prefill` is ours.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from reconciler.sizing.arrays import align
from reconciler.sizing.queueing.curves import DecodeOnly, PrefillDecode, ServiceCurves
from reconciler.sizing.queueing.prompts import PromptQueue

# The published queues: of `decode_only` ten batches with the running one, of `prefill_decode` ten beside it.
_DECODE_ONLY_BATCHES = 10
_PREFILL_DECODE_BATCHES = 11
TOKEN_BUDGET = 8192
"""Tokens of an iteration, prompts included, where nobody says how many: vLLM's own default with chunked prefill."""
# Lengths of prompts vary by about their mean in public traces of conversations; what a histogram tells goes first.
SPREAD = 1.0


def decode_only(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `decode_only`: a request is `output_tokens` steps of alpha + beta * n seconds each.

    The time to first token is the wait. `occupancy_limit` defaults to ten times `max_batch` in all.
    """
    limit = _occupancy(max_batch, occupancy_limit, _DECODE_ONLY_BATCHES)
    alpha, beta, tokens, batch, limit = align(alpha_s, beta_s, output_tokens, max_batch, limit)
    return ServiceCurves(
        base_s=tokens * alpha,
        per_request_s=tokens * beta,
        max_batch=batch,
        occupancy_limit=limit,
        reading=DecodeOnly(output_tokens=tokens),
    )


def prefill_decode(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    gamma_s: ArrayLike,
    delta_s: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `prefill_decode`: a prefill, then a step for every further output token.

    Prefill takes gamma + delta * input tokens * n seconds (nothing without a prompt) and yields the first token; a
    step takes alpha + beta * n. A request that would take no time (one token and no prefill) takes one step.
    `occupancy_limit` defaults to `max_batch` and ten times as many waiting.
    """
    limit = _occupancy(max_batch, occupancy_limit, _PREFILL_DECODE_BATCHES)
    alpha, beta, gamma, delta, prompt, output, batch, limit = align(
        alpha_s, beta_s, gamma_s, delta_s, input_tokens, output_tokens, max_batch, limit
    )
    prefill, prefill_per_request = np.where(prompt > 0, gamma, 0.0), delta * prompt
    steps = np.maximum(output - 1, 0.0)
    timeless = (steps == 0) & (prefill + prefill_per_request == 0)
    steps = np.where(timeless, 1.0, steps)
    per_request = prefill_per_request + beta * steps
    return ServiceCurves(
        base_s=prefill + alpha * steps,
        per_request_s=per_request,
        max_batch=batch,
        occupancy_limit=limit,
        reading=PrefillDecode(
            alpha_s=alpha,
            beta_s=beta,
            prefill_s=prefill,
            prefill_per_request_s=prefill_per_request,
            base_s=np.where(timeless, 0.0, gamma) + alpha * steps,
            per_request_s=per_request,
            max_batch=batch,
        ),
    )


def serial_prefill(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    prompt_s: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    token_budget: ArrayLike = TOKEN_BUDGET,
    spread: ArrayLike = SPREAD,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `serial_prefill`: prompts are computed one after the other, among the tokens.

    An iteration takes alpha + beta * n and `prompt_s` for each prompt token in it, `token_budget` tokens at most. In
    the mean a batch of n brings n * input / output prompt tokens with every iteration, so inter-token latency is a line
    whose slope is beta + prompt_s * input / output; `prompts` is the queue of the prompts themselves. `spread` is the
    variance of prompt lengths over their squared mean. `occupancy_limit` defaults as that of `prefill_decode`.
    """
    limit = _occupancy(max_batch, occupancy_limit, _PREFILL_DECODE_BATCHES)
    alpha, beta, prompt, inputs, output, batch, budget, cv, limit = align(
        alpha_s, beta_s, prompt_s, input_tokens, output_tokens, max_batch, token_budget, spread, limit
    )
    curves = prefill_decode(
        alpha_s=alpha,
        beta_s=beta + prompt * inputs / np.maximum(output, 1.0),
        gamma_s=np.ceil(inputs / budget) * alpha + prompt * inputs,
        delta_s=0.0,
        input_tokens=inputs,
        output_tokens=output,
        max_batch=batch,
        occupancy_limit=limit,
    )
    return replace(
        curves,
        prompts=PromptQueue(
            alpha_s=alpha,
            beta_s=beta,
            prompt_s=prompt,
            input_tokens=inputs,
            output_tokens=output,
            token_budget=budget,
            spread=cv,
        ),
    )


def _occupancy(max_batch: ArrayLike, occupancy_limit: ArrayLike | None, batches: int) -> ArrayLike:
    if occupancy_limit is not None:
        return occupancy_limit
    return batches * np.asarray(max_batch, dtype=np.float64)
