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

    @property
    def is_saturation(self) -> bool:
        """Whether it judges replicas by how full they are."""
        return self in (Engine.SATURATION, Engine.WVA_V1, Engine.WVA_V2)

    @property
    def is_tracking(self) -> bool:
        """Whether it follows metric targets."""
        return self in (Engine.TRACKING, Engine.KTHENA_V0, Engine.KTHENA_V1)


AUTO = "auto"
"""The value of `sizing.engine` that leaves the choice to what is known of a model."""
