"""Prompts cut into chunks, because an iteration computes no more tokens than its budget."""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """How many chunks a prompt takes and the work of a request that follows, arrays of shape (candidates,).

    `computed_s` is the time per token computed, `moved_s` per token moved, `token_budget` the tokens an iteration
    computes at most. The work of a request is that of its prompt and of its output, spread evenly over
    chunks + output tokens iterations. `lone` and `full` are the chunks of a lone request and of the full batch.
    """

    computed_s: Floats
    moved_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    token_budget: Floats
    lone: Floats
    full: Floats

    def count(self, batch: Floats | float) -> Floats:
        """Return the chunks of a prompt in a batch of `batch`."""
        return count_chunks(self.input_tokens, self.output_tokens, self.token_budget, batch)

    def count_near(self, in_service: Floats) -> Floats:
        """Return the chunks at the whole batch next to a mean number in service, at least 1."""
        if (self.lone == self.full).all():
            return self.lone
        return self.count(np.maximum(np.floor(in_service + 0.5), 1.0))

    def prefill_work_s(self, count: Floats) -> Floats:
        """Return the work of a prompt in `count` chunks: each is computed once, and moved again by all that follow."""
        return (self.computed_s + self.moved_s * (count + 1) / 2) * self.input_tokens

    def work_s(self, count: Floats) -> Floats:
        """Return the work of a request whose prompt takes `count` chunks."""
        moved = self.output_tokens * (self.input_tokens + (self.output_tokens + 1) / 2)
        return self.prefill_work_s(count) + self.computed_s * self.output_tokens + self.moved_s * moved

    def iteration_share_s(self, count: Floats) -> Floats:
        """Return what one request adds to an iteration."""
        return self.work_s(count) / (count + self.output_tokens)

    def take(self, index: Integers | Bools) -> "Chunks":
        """Return the chunks of the candidates that `index` selects."""
        return Chunks(**{name: getattr(self, name)[index] for name in Chunks.__slots__})


def cut_prompts(
    *,
    computed_s: Floats,
    moved_s: Floats,
    input_tokens: Floats,
    output_tokens: Floats,
    token_budget: Floats,
    max_batch: Floats,
) -> Chunks:
    """Return the chunks of prompts in batches up to `max_batch`."""
    return Chunks(
        computed_s=computed_s,
        moved_s=moved_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        token_budget=token_budget,
        lone=count_chunks(input_tokens, output_tokens, token_budget, 1.0),
        full=count_chunks(input_tokens, output_tokens, token_budget, max_batch),
    )


def count_chunks(input_tokens: Floats, output_tokens: Floats, token_budget: Floats, batch: Floats | float) -> Floats:
    """Return the fewest chunks with which `batch` requests fit into the budget of every iteration.

    With i chunks floor((i + out) max(0, budget - in / i) / (in + out)) requests fit. Without the floor, which a whole
    batch does not feel, this is a quadratic in i.
    """

    def fits(count: Floats) -> Bools:
        spare = np.maximum(token_budget - input_tokens / count, 0.0)
        return np.asarray(np.floor((count + output_tokens) * spare / tokens) >= batch)

    tokens = input_tokens + output_tokens
    linear = token_budget * output_tokens - input_tokens - batch * tokens
    free = output_tokens * input_tokens
    root = np.sqrt(linear * linear + 4 * token_budget * free)
    # Of both forms of the root the one that adds: the other would cancel.
    denominator = np.where(linear > 0, linear + root, 1.0)
    solution = np.where(linear > 0, 2 * free / denominator, (root - linear) / (2 * token_budget))
    count = np.maximum(np.ceil(solution), 1.0)
    # At an exact fit the root may be rounded to either side.
    fewer = np.maximum(count - 1, 1.0)
    count = np.where(fits(fewer), fewer, count)
    return np.where(fits(count), count, count + 1)
