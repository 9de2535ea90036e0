"""What is known of a variant before anything is decided: whether it may change, and what it costs."""

from dataclasses import dataclass

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.observed import Load
from reconciler.domain.proposals import BrokenPromise
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, IN_ORDER, KEEP, Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """A model's engine, and in words why; `conflict` says why there is none."""

    engine: Engine
    reason: str
    conflict: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantState:
    """A variant with its model's load and engine.

    `holds` say why it must stay as it is, the most telling first; `gap` why what its replicas carry is unknown; without
    any it is decided. `partial` says that some replicas did not report the load that they carry, `kept` that what its
    model needs is not sure for another reason: then nothing of the model is scaled down. `contradiction` says that a
    profile of the model expects other than was measured: then saturation may add replicas, and none goes. `unproven`
    says why nothing of the model is scaled up. `promise` is what a merge of ours promised of it and did not keep.
    `replicas_reporting` is None where nobody counted them, `replicas_live` where nobody says what the cluster asks for.
    """

    variant: Variant
    choice: EngineChoice
    load: Load | None
    holds: tuple[Hold, ...] = ()
    gap: Hold | None = None
    partial: Hold | None = None
    contradiction: Hold | None = None
    unproven: Hold | None = None
    kept: Hold | None = None
    promise: BrokenPromise | None = None
    replicas_reporting: int | None = None
    replicas_live: int | None = None

    @property
    def engine(self) -> Engine:
        """What sizes its model."""
        return self.choice.engine

    @property
    def hold(self) -> Hold | None:
        """The most telling reason why it stays as it is; None when the variant is decided."""
        return self.holds[0] if self.holds else self.gap

    @property
    def is_free(self) -> bool:
        """Whether the optimizer may choose for it."""
        return self.hold is None

    @property
    def surplus_replicas(self) -> int:
        """Replicas that run beyond what Git says, as far as anybody knows."""
        running = max(self.replicas_reporting or 0, self.replicas_live or 0)
        return max(running - self.variant.current.replicas, 0)


def beside_unknown(unknown: Variant, words: str) -> Hold:
    """Why a model's variants cannot be sized beside one whose capacity is unknown."""
    words = f"shares its model's load with {unknown.key.label}, whose capacity is unknown: {words}"
    return Hold(kind=HoldKind.CAPACITY_UNKNOWN, words=words, place=unknown.place)


def load_partial(words: str) -> Hold:
    """Why nothing of a model is scaled down: a part of its load was not seen."""
    return Hold(kind=HoldKind.LOAD_PARTIAL, words=words)


def lacks_profile(variant: Variant) -> Hold | None:
    """The only accelerator allowed cannot be sized, while the current one perhaps can."""
    allowed = variant.settings[ACCELERATOR]
    if allowed.value in (KEEP, CHOOSE, IN_ORDER, variant.current.accelerator):
        return None
    others = [option for option in variant.options if option.accelerator != variant.current.accelerator]
    if others or any(option.unwritable is None for option in variant.options):
        return None
    words = f"accelerator {allowed.value} ({allowed.source}) has no profile"
    return Hold(kind=HoldKind.PROFILE_MISSING, words=words, place=allowed.source.place)


def ago(age_s: float) -> str:
    """`25m ago`, `just now`."""
    minutes = round(age_s / 60)
    return "just now" if minutes < 1 else f"{span(minutes * 60.0)} ago"


def span(span_s: float) -> str:
    """`25m`, `1h`, `1h 30m`."""
    hours, minutes = divmod(round(span_s / 60), 60)
    return f"{hours}h" if hours and not minutes else f"{hours}h {minutes}m" if hours else f"{minutes}m"
