"""What limits a replica."""

from enum import IntEnum


class Binding(IntEnum):
    """What stops the rate from being larger, or what no rate at all can attain."""

    CAPACITY = 0
    ITL = 1
    WAIT = 2
    THROUGHPUT = 3
    TTFT = 4
