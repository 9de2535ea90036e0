"""What waits in front of a model: the numbers of a queue that can be believed, and the tokens that it will ask for."""

from dataclasses import dataclass

from reconciler.domain.replicas import Role, UpstreamQueue
from reconciler.sizing.saturation.capacities import MeanLengths
from reconciler.sizing.saturation.replicas import number_fault

# What one token of a prompt takes in a queue that counts bytes.
_BYTES_PER_TOKEN = 4


def screen_queue(queue: UpstreamQueue) -> UpstreamQueue:
    """Return the same queue without the numbers that are none, with the reason."""
    numbers = {"queued requests": queue.num_waiting, "queued bytes": queue.waiting_bytes}
    said = ((name, number_fault(value)) for name, value in numbers.items() if value is not None)
    faults = tuple(f"{name}: {fault}" for name, fault in said if fault)
    if not faults:
        return queue
    sound = [
        value if value is not None and not number_fault(value) else None
        for value in (queue.num_waiting, queue.waiting_bytes)
    ]
    return UpstreamQueue(num_waiting=sound[0], waiting_bytes=sound[1], reason="; ".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTokens:
    """What an upstream queue will ask for: prompts that are not cached, and outputs."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def for_role(self, role: Role) -> float:
        """The share that a role will hold: prefill no outputs, decode all of it."""
        return self.input_tokens if role is Role.PREFILL else self.input_tokens + self.output_tokens


def queued_tokens(queue: UpstreamQueue | None, lengths: MeanLengths | None) -> QueuedTokens:
    """Return the tokens of a queue: in = max(bytes / 4, size * I) * (1 - h), out = size * O."""
    if queue is None:
        return QueuedTokens()
    sound = screen_queue(queue)
    size = sound.num_waiting or 0.0
    known = lengths or MeanLengths(input_tokens=0.0, output_tokens=0.0, prefix_hit_rate=0.0)
    prompts = max((sound.waiting_bytes or 0.0) / _BYTES_PER_TOKEN, size * known.input_tokens)
    return QueuedTokens(input_tokens=prompts * (1 - known.prefix_hit_rate), output_tokens=size * known.output_tokens)
