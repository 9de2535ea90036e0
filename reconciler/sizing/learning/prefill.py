"""How prompts are computed, learned from times to first token: side by side, or one after the other.

Two laws are held against the same windows. Side by side (`prefill_decode`) a prefill takes gamma + delta * input tokens
* batch. One after the other (`serial_prefill`) each prompt token adds `prompt_s` to the iteration it is computed in: a
prompt of p tokens takes as many iterations as the token budget cuts it into, and prompt_s * p. Then the inter-token
latency holds the prompts of the others too, n * input / output tokens of them with every iteration of n who decode;
what is left of it is the line of those. An engine with a token budget works so: that is believed unless prefills side
by side explain what was measured far better.

Windows count in which waiting was known, or absent, and at most half of the time to first token: the rest of a long
wait says more about the wait.
"""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats
from reconciler.sizing.learning.lines import FittedLine, fit_line
from reconciler.sizing.learning.samples import Samples

FEWEST_SAMPLES = 30
# Below, a replica idles: what it measured were a few requests somewhere in the window.
BUSY = 0.5
# Fewer requests waiting, on average over a window, are nobody.
_NOBODY = 0.05
_DEVIATION_OF_MEDIAN, _ERROR_OF_MEDIAN = 1.4826, 1.2533
_LARGEST_ERROR, _LARGEST_UNCERTAINTY = 0.25, 0.10
# An engine that is known to cut prompts into chunks is believed to, unless its times say otherwise.
_LEAST_GAIN, _GOOD_ENOUGH = 4.0, 0.09
# The third of the windows in which least ran: there prompts share the fewest iterations with those of others.
_QUIET = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialPrefill:
    """Prompts one after the other: the line of those who decode, and what a prompt token adds to an iteration.

    `error` is the median of |observed / fitted - 1| of the time to first token without waiting.
    """

    decode: FittedLine
    prompt_s: float
    token_budget: int
    error: float


def fit_serial(kept: Samples, token_budget: int) -> SerialPrefill | str:
    """Return the law of prompts one after the other, or why the samples do not tell it."""
    first_s, calm = calm_prefill(kept)
    calm &= np.isfinite(kept.itl_s)
    busy = (kept.num_running >= BUSY) & np.isfinite(kept.itl_s * kept.input_tokens * kept.output_tokens)
    if (enough := int(np.count_nonzero(calm))) < FEWEST_SAMPLES or np.count_nonzero(busy) < FEWEST_SAMPLES:
        return f"{enough} samples show prefill beside inter-token latency, at least {FEWEST_SAMPLES} are needed"
    chunks = np.ceil(kept.input_tokens / token_budget)
    quiet = calm & (kept.num_running <= np.quantile(kept.num_running[calm], _QUIET))
    each_s = ((first_s - chunks * kept.itl_s) / kept.input_tokens)[quiet]
    prompt_s = max(float(np.median(each_s)), 0.0)
    deviation_s = _DEVIATION_OF_MEDIAN * float(np.median(np.abs(each_s - prompt_s)))
    if not prompt_s > 0:
        return "prompts take no longer than an iteration without them"
    if _ERROR_OF_MEDIAN * deviation_s / np.sqrt(each_s.size) > _LARGEST_UNCERTAINTY * prompt_s:
        return "the time of a prompt token is too noisy for so few samples"
    steps = np.maximum(kept.output_tokens - 1, 1.0)
    decode_s = steps * kept.itl_s
    prefill_s = np.where(calm, first_s, chunks * kept.itl_s + prompt_s * kept.input_tokens)
    decoding = kept.num_running * decode_s / (decode_s + prefill_s)
    # Those that queue behind him when he begins are left to the line: few noisy windows tell them from its slope.
    rest_s = kept.itl_s - prompt_s * decoding * kept.input_tokens / steps
    told = busy & (rest_s > 0)
    if np.count_nonzero(told) < FEWEST_SAMPLES:
        return "prompts explain more than the whole inter-token latency"
    decode = fit_line(decoding[told], rest_s[told])
    iteration_s = decode.base + decoding * (decode.slope + prompt_s * kept.input_tokens / steps)
    fitted_s = chunks * iteration_s + prompt_s * kept.input_tokens
    error = float(np.nanmedian(np.abs(first_s / fitted_s - 1)[calm]))
    if error > _LARGEST_ERROR:
        return f"the median sample is off by {error:.0%}"
    return SerialPrefill(decode=decode, prompt_s=prompt_s, token_budget=token_budget, error=error)


def is_serial_better(serial: SerialPrefill, beside: FittedLine | None, *, is_budget_known: bool) -> bool:
    """Return whether prompts one after the other explain what was measured well enough.

    Of an engine that nobody knows to have a token budget, that is believed where they explain more than side by side.
    """
    if not is_budget_known:
        return beside is not None and serial.error < beside.error
    return beside is None or serial.error <= max(beside.error * _LEAST_GAIN, _GOOD_ENOUGH)


def calm_prefill(kept: Samples) -> tuple[Floats, Bools]:
    """Return the time to first token without waiting, and in which samples that says something of prefill."""
    wait_s = np.where(np.isnan(kept.wait_s) & (kept.num_waiting <= _NOBODY), 0.0, kept.wait_s)
    calm = (kept.num_running >= BUSY) & np.isfinite(kept.input_tokens) & (wait_s <= kept.ttft_s / 2)
    return kept.ttft_s - wait_s, calm
