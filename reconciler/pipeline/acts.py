"""How long each act of a run takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reconciler.http.limits import Clock


@dataclass(frozen=True, slots=True)
class Acts:
    """Seconds by act, in the order they came."""

    seconds: dict[str, float] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    @contextmanager
    def timed(self, act: str) -> Iterator[None]:
        """Note how long what is done inside takes, also when it fails."""
        begun_s = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[act] = self.clock.monotonic() - begun_s
