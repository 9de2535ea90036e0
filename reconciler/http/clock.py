"""The time that a door goes by."""

import time


class Clock:
    """Time as it passes on this machine; a test passes one of its own."""

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def now_s(self) -> float:
        """Unix seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
