"""A variant as a run finds it: whether it may change, and whether what it carries is known."""

from dataclasses import dataclass

from reconciler.domain.engines import Engine
from reconciler.domain.loads import Load
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, IN_ORDER, KEEP
from reconciler.domain.variants import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """A model's engine, and in words why; `conflict` says why there is none."""

    engine: Engine
    reason: str
    conflict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantState:
    """A variant with its model's load and engine.

    `hold` says why it must stay as it is; `gap` why what its replicas carry is unknown; both empty: it is decided.
    `lacks_metrics` marks a hold that missing data caused, `is_drifted` one of live replicas that stay away from Git:
    both may slow a change, never reverse it, for merging what is open may be what ends them. `partial` says in
    words that some replicas did not report the load they carry: then nothing of the model is scaled down.
    `replicas_reporting` is None where nobody counted them, `replicas_live` where nobody says what the cluster asks for.
    """

    variant: Variant
    choice: EngineChoice
    load: Load | None
    hold: str = ""
    gap: str = ""
    lacks_metrics: bool = False
    is_drifted: bool = False
    partial: str = ""
    replicas_reporting: int | None = None
    replicas_live: int | None = None

    @property
    def engine(self) -> Engine:
        """What sizes its model."""
        return self.choice.engine

    @property
    def reason(self) -> str:
        """The one line for a person; empty when the variant is decided."""
        return self.hold or self.gap

    @property
    def is_free(self) -> bool:
        """Whether the optimizer may choose for it."""
        return not self.reason

    @property
    def surplus_replicas(self) -> int:
        """Replicas that run beyond what Git says, as far as anybody knows."""
        running = max(self.replicas_reporting or 0, self.replicas_live or 0)
        return max(running - self.variant.current.replicas, 0)


def is_counted(variant: Variant) -> bool:
    """Whether Git says how many replicas run; none and unknown are different."""
    return variant.workload is not None and variant.workload.replicas is not None


def beside_unknown(unknown: Variant, words: str) -> str:
    """Why a model's variants cannot be sized beside one whose capacity is unknown."""
    return f"shares its model's load with {unknown.key.label}, whose capacity is unknown: {words}"


def lacks_profile(variant: Variant) -> str:
    """The only accelerator allowed cannot be sized, while the current one perhaps can."""
    allowed = variant.settings[ACCELERATOR]
    if allowed.value in (KEEP, CHOOSE, IN_ORDER, variant.current.accelerator):
        return ""
    others = [option for option in variant.options if option.accelerator != variant.current.accelerator]
    if others or any(not option.unwritable for option in variant.options):
        return ""
    return f"accelerator {allowed.value} ({allowed.source}) has no profile"
