"""Sizing engines by name, as `sizing.engine` spells them."""

from enum import StrEnum


class Engine(StrEnum):
    """How a model's need is computed; the reproduction modes give upstream's own answers."""

    QUEUEING = "queueing"
    SATURATION = "saturation"
    TRACKING = "tracking"
    WVA_V1 = "wva-v1"
    WVA_V2 = "wva-v2"
    KTHENA_V0 = "kthena-v0"
    KTHENA_V1 = "kthena-v1"


AUTO = "auto"
"""The value of `sizing.engine` that leaves the choice to what is known of a model."""
