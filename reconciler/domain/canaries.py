"""Canaries: one replica on an accelerator that a model never ran on, what it measured, and what is decided of it."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.identity import ResourceKey
from reconciler.domain.priors import Prior
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.written import DocumentRef

CANARY_LABEL = "reconciler.io/canary"
"""Of a canary's pods and selector, with its name; as an annotation of the canary, with its accelerator."""
COPIED_KINDS = ("Deployment", "Playground")
"""Of which a canary may be a copy: other kinds have state, groups or objects of their own."""
ENOUGH_HOURS = 24
"""With load, in which it was measured: a whole day and night."""
LATEST_S = 4 * 86_400.0
"""After its merge a canary ends in any case."""
UNPLACED_S = 6 * 3600.0
"""So long a canary may wait for a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlace:
    """Where a copy of an object can be written beside it: a file of its own in `directory`, which must be listed.

    `kustomization` is the file that lists it, empty where all files of the directory are applied; `listed` are its
    resources. `flavors` are those of llmaz that a copy may claim, by accelerator. `reason` says why none can be
    written, and then all else is empty. `caution` is for who merges it.
    """

    directory: str = ""
    kustomization: str = ""
    kustomization_document: int = 0
    listed: tuple[str, ...] = ()
    flavors: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    caution: str = ""

    @property
    def prefix(self) -> str:
        """What the path of a file in the directory begins with."""
        return f"{self.directory}/" if self.directory else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """An object that is not in Git yet: what it is a copy of, where it goes, and what it has of its own.

    A Deployment is placed by a `node_selector`, a Playground by the `flavor` that it claims, at `flavors_field`.
    `annotations` are settings that the original has from elsewhere, without our prefix.
    """

    source: DocumentRef
    original: ResourceKey
    place: CopyPlace
    node_selector: Mapping[str, str] = field(default_factory=dict)
    flavor: str = ""
    flavors_field: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a model's replicas on a canary's accelerator measured, and what is believed of it since.

    `posterior` is the prior corrected by it; `hours` are those with load, `batch` the least and most requests that ran
    at once, `shift` how many times slower (above 1) or faster steps were than the prior said. `prompt_share` is what
    one more request at once adds to a gap for its prompt, in seconds. `seen_s` is when a replica last reported anything
    (Unix seconds), with load or without.
    """

    prior: Prior
    posterior: Prior
    hours: int = 0
    batch: tuple[float, float] = (0.0, 0.0)
    shift: float = 1.0
    prompt_share: float = 0.0
    last_hour_itl_s: float | None = None
    seen_s: float | None = None

    @property
    def profile(self) -> PerformanceProfile:
        """What replicas are sized by: the slow edge, with what prompts take in the gaps between tokens.

        What a first token takes besides its prompt is not known of a prior, so no law says it.
        """
        slow = self.posterior.spread.high
        profile = self.posterior.slower(slow)
        beta_s = profile.beta_s + self.prompt_share * slow
        return replace(profile, beta_s=beta_s, prompt_s=None, accelerators_per_replica=1)

    @property
    def is_enough(self) -> bool:
        """Whether it was measured for long enough to go by it."""
        return self.hours >= ENOUGH_HOURS and not self.is_unsettled

    @property
    def is_outside(self) -> bool:
        """Whether the prior's band did not hold what was measured."""
        band = self.prior.spread
        return self.hours > 0 and not band.low <= self.shift <= band.high

    @property
    def is_unsettled(self) -> bool:
        """Whether its hours contradict the prior and each other: they differ by more than the prior could be wrong."""
        return self.is_outside and self.posterior.deviation > self.prior.deviation


class CanaryStep(StrEnum):
    """What is done with a canary."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryOrder:
    """That a canary is started, or taken back, and what people are told of it, a sentence each.

    `is_repair`: it does harm.
    """

    step: CanaryStep
    accelerator: str
    words: tuple[str, ...]
    is_repair: bool = False

    @property
    def replicas(self) -> int:
        """How many it gets."""
        return 1 if self.step is CanaryStep.START else 0
