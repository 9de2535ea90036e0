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

from dataclasses import dataclass, replace

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
# Of a prompt token's time and the line of those who decode in turn: each hangs a little on the other.
_ROUNDS = 5
# Of those who queue: a window of a minute or two shows as many by the chance of its own arrivals, who meet no more than
# the mean. Over ten minutes all would count; with this part engines sized by either window lie evenly about the truth.
_SHOWN = 0.4
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
    seen = _Windows.of(kept, token_budget)
    if (enough := int(np.count_nonzero(seen.calm))) < FEWEST_SAMPLES or np.count_nonzero(seen.busy) < FEWEST_SAMPLES:
        return f"{enough} samples show prefill beside inter-token latency, at least {FEWEST_SAMPLES} are needed"
    decode, prompt_s = None, 0.0
    for _ in range(_ROUNDS):
        each_s = seen.prompt_token_s(decode)
        prompt_s = float(np.median(each_s))
        if not prompt_s > 0:
            return "prompts take no longer than an iteration without them"
        deviation_s = _DEVIATION_OF_MEDIAN * float(np.median(np.abs(each_s - prompt_s)))
        if _ERROR_OF_MEDIAN * deviation_s / np.sqrt(each_s.size) > _LARGEST_UNCERTAINTY * prompt_s:
            return "the time of a prompt token is too noisy for so few samples"
        decode = seen.decode(prompt_s)
        if decode is None:
            break
    if decode is None:
        return "prompts explain more than the whole inter-token latency"
    error = seen.error(decode, prompt_s)
    if error > _LARGEST_ERROR:
        return f"the median sample is off by {error:.0%}"
    return SerialPrefill(decode=decode, prompt_s=prompt_s, token_budget=token_budget, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """What is held against the law, shape (samples,): who prefills shares the batch with those who decode by time.

    A prompt takes `first_s` from its first iteration on. `calm` windows tell that, `quiet` are those of them in which
    least ran, and `busy` ones tell the time between tokens.
    """

    kept: Samples
    token_budget: int
    first_s: Floats
    calm: Bools
    quiet: Bools
    busy: Bools
    steps: Floats

    @classmethod
    def of(cls, kept: Samples, token_budget: int) -> "_Windows":
        """Sort the windows out."""
        first_s, calm = calm_prefill(kept)
        calm &= np.isfinite(kept.itl_s)
        least = np.quantile(kept.num_running[calm], _QUIET) if calm.any() else 0.0
        return cls(
            kept=kept,
            token_budget=token_budget,
            first_s=first_s,
            calm=calm,
            quiet=calm & (kept.num_running <= least),
            busy=(kept.num_running >= BUSY) & np.isfinite(kept.itl_s * kept.input_tokens * kept.output_tokens),
            steps=np.maximum(kept.output_tokens - 1, 1.0),
        )

    def decoding(self, first_s: Floats) -> Floats:
        """Return how many decode of those who run, where a prompt takes so long."""
        decode_s = self.steps * self.kept.itl_s
        return self.kept.num_running * decode_s / (decode_s + first_s)

    def prompt_token_s(self, decode: FittedLine | None) -> Floats:
        """Return what is left of the time to first token for each token of the quiet windows' prompts.

        Iterations of those who decode come off, and half of what the next prompt fills of the last one. Before their
        line is known, the time between tokens stands for an iteration.
        """
        if decode is None:
            each_s = (self.first_s - self._chunks() * self.kept.itl_s) / self.kept.input_tokens
        else:
            each_s = (self.first_s - self._iterations_s(decode)) / self._computed()
        return each_s[self.quiet]

    def decode(self, prompt_s: float) -> FittedLine | None:
        """Return the line of those who decode beside prompts; None where these explain more than all.

        Who decodes sees the prompts of the others who do, and of those who queued behind him, of whom a part counts.
        What a prompt adds comes off the slope of the whole, not off each window: noise of the batch is in both.
        """
        first_s = np.where(
            self.calm, self.first_s, self._chunks() * self.kept.itl_s + prompt_s * self.kept.input_tokens
        )
        inside = self.kept.num_running + np.nan_to_num(self.kept.num_waiting)
        decoding = self.decoding(first_s)
        seen = decoding + _SHOWN * (inside - decoding)
        each_s = prompt_s * self.kept.input_tokens / self.steps
        usual_s = float(np.median(each_s[self.busy]))
        rest_s = self.kept.itl_s - (each_s - usual_s) * seen
        told = self.busy & (rest_s > 0)
        if np.count_nonzero(told) < FEWEST_SAMPLES:
            return None
        whole = fit_line(seen[told], rest_s[told])
        return replace(whole, slope=max(whole.slope - usual_s, 0.0))

    def error(self, decode: FittedLine, prompt_s: float) -> float:
        """Return the median of |observed / fitted - 1| of the time to first token without waiting."""
        fitted_s = self._iterations_s(decode) + prompt_s * self._computed()
        return float(np.nanmedian(np.abs(self.first_s / fitted_s - 1)[self.calm]))

    def _iterations_s(self, decode: FittedLine) -> Floats:
        return self._chunks() * (decode.base + decode.slope * self.decoding(self.first_s))

    def _computed(self) -> Floats:
        """Return the tokens of prompts that are computed before a first token: his own, and some of the next."""
        load = np.clip(self.kept.num_running - self.decoding(self.first_s), 0.0, 1.0)
        return self.kept.input_tokens + load * np.minimum(self.kept.input_tokens, self.token_budget) / 2

    def _chunks(self) -> Floats:
        return np.ceil(self.kept.input_tokens / self.token_budget)


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
