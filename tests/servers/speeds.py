"""How fast replicas of the tests' fleets run: what they report of a load follows from it, as it would of a real one."""

from dataclasses import dataclass

OUTPUT_TOKENS = 180.0
FIRST_TOKEN_S = 0.15
SHORT_WAIT_S, LONG_WAIT_S = 0.05, 60.0
"""Before a replica that keeps up, and before one that more requests come to than it serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """An iteration takes alpha + beta times the batch, of `max_batch` requests at most."""

    alpha_s: float
    beta_s: float
    max_batch: int

    def served_per_s(self, per_s: float) -> float:
        """What is completed of so many requests a second: never more than by the full batch."""
        return min(per_s, self.max_batch / (OUTPUT_TOKENS * self._iteration_s(self.max_batch)))

    def itl_s(self, per_s: float) -> float:
        """The gap between tokens at this rate."""
        return self.alpha_s / (1 - self.served_per_s(per_s) * OUTPUT_TOKENS * self.beta_s)

    def running(self, per_s: float) -> float:
        """Requests in the batch, by Little's law."""
        return self.served_per_s(per_s) * OUTPUT_TOKENS * self.itl_s(per_s)

    def wait_s(self, per_s: float) -> float:
        """How long requests wait for a place in the batch."""
        return LONG_WAIT_S if self.served_per_s(per_s) < per_s else SHORT_WAIT_S

    def _iteration_s(self, batch: int) -> float:
        return self.alpha_s + self.beta_s * batch


LLAMA_H100 = Speed(alpha_s=0.006958, beta_s=0.000042, max_batch=64)
GRANITE_A100 = Speed(alpha_s=0.02058, beta_s=0.00041, max_batch=32)
QWEN_L4 = Speed(alpha_s=0.02, beta_s=0.0005, max_batch=32)
NEMO_H100 = Speed(alpha_s=0.011, beta_s=0.0001, max_batch=32)
