"""Performance profiles of variants, learned from Prometheus' answers.

A profile belongs to a model and an accelerator: variants of all clusters and namespaces that run this model on as many
of these accelerators have the same replicas. If a Prometheus failed, nothing is learned: the missing half may matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from reconciler.domain.answers import Answer
from reconciler.domain.history import Grid
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Catalog
from reconciler.domain.observed import Trace
from reconciler.domain.profiles import FittedModel, UnusedVariant
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PrometheusSettings
from reconciler.domain.snapshot import Variant
from reconciler.domain.workloads import LaunchSettings
from reconciler.errors import ConfigurationError
from reconciler.metrics.history import read_histories, trace
from reconciler.metrics.quantities import LEARNING_WINDOW_S, OWNERSHIP
from reconciler.metrics.queries import label_names
from reconciler.metrics.readings import attribution_of, read
from reconciler.sizing.learning import Unfit, fit_profile
from reconciler.sizing.learning_lines import EngineLimits, margin_of, samples_of
from reconciler.snapshot.accelerators import accelerators_now

MODELS_NAMED = 10
UNKNOWN_ACCELERATOR = "runs on an unknown accelerator: name it by a node selector, or by the label of its resource"
NOT_SEEN = "no series of that time belongs to a replica: are its pods scraped, and do they serve the model's name?"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitHistory:
    """The answers of each cluster's Prometheus: traces by variant, and its own warnings.

    `failed` and `unasked` say by cluster why answers are missing, or why it was not queried.
    """

    traces: Mapping[ResourceKey, Sequence[Trace]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unasked: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __or__(self, other: "FitHistory") -> "FitHistory":
        """Both histories together; they are of different clusters."""
        return FitHistory(
            traces={**self.traces, **other.traces},
            failed={**self.failed, **other.failed},
            unasked={**self.unasked, **other.unasked},
            warnings=(*self.warnings, *other.warnings),
        )


def choose_variants(variants: Sequence[Variant], asked: Sequence[str]) -> tuple[Variant, ...]:
    """The variants of the models in `asked`, by id or glob; all without any.

    Raises ConfigurationError for a name that fits no model, with the nearest ones.
    """
    known = {variant.model.model_id for variant in variants}
    for pattern in asked:
        if not any(_fits(model_id, pattern) for model_id in known):
            spellings = {model_id.lower(): model_id for model_id in sorted(known)}
            wanted = pattern.lower()
            near = [each for each in spellings if wanted in each] or get_close_matches(wanted, spellings)
            names = [spellings[each] for each in near]
            hint = f"did you mean {_shortened(names)}?" if names else f"known: {_shortened(sorted(known))}"
            raise ConfigurationError(f"{pattern}: no variant serves such a model; {hint}")
    chosen = {model_id for model_id in known if not asked or any(_fits(model_id, pattern) for pattern in asked)}
    return tuple(variant for variant in variants if variant.model.model_id in chosen)


def read_history(
    cluster: str, settings: PrometheusSettings, variants: Sequence[Variant], answers: Sequence[Answer], grid: Grid
) -> FitHistory:
    """One cluster's answers to `history_queries` on `grid`; `variants` must be all of that cluster."""
    names = label_names(settings)
    owners = read([answer for answer in answers if answer.query.quantity in OWNERSHIP], names)
    histories = read_histories(answers, names, grid)
    reasons = [absent.reason for absent in (*histories.failed, *owners.failed.values())]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    warnings = {**histories.warnings, **owners.warnings}
    return FitHistory(
        traces=trace(histories, attribution_of(variants, owners)),
        failed={cluster: reasons[0] + more} if reasons else {},
        warnings=tuple(f"{cluster}: {warning}" for warning in warnings),
    )


def learn_profiles(
    variants: Iterable[Variant], catalogs: Mapping[str, Catalog], history: FitHistory, on: str
) -> tuple[tuple[FittedModel, ...], tuple[UnusedVariant, ...]]:
    """A profile or a reason for each model and accelerator, learned on that day (ISO), and the variants left out."""
    kinds: dict[tuple[str, str], list[Variant]] = {}
    unused: list[UnusedVariant] = []
    for variant in sorted(variants, key=lambda each: each.key):
        if variant.current.accelerator:
            kinds.setdefault((variant.model.model_id, variant.current.accelerator), []).append(variant)
        else:
            unused.append(UnusedVariant(variant=variant.key, reason=UNKNOWN_ACCELERATOR))
    for members in kinds.values():
        # if none of them has a trace, or a server failed, the model's own reason says so
        if not _unseen(members, history):
            unused += (
                UnusedVariant(variant=member.key, reason=history.unasked.get(member.key.cluster, NOT_SEEN))
                for member in members
                if not history.traces.get(member.key) and member.key.cluster not in history.failed
            )
    fitted = tuple(_learn(members, catalogs, history, on) for _, members in sorted(kinds.items()))
    return fitted, tuple(sorted(unused, key=lambda each: each.variant))


def _fits(model_id: str, pattern: str) -> bool:
    return model_id == pattern or fnmatchcase(model_id, pattern)


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - MODELS_NAMED
    return (", ".join(names[:MODELS_NAMED]) or "none") + (f" and {more} more" if more > 0 else "")


def _learn(members: Sequence[Variant], catalogs: Mapping[str, Catalog], history: FitHistory, on: str) -> FittedModel:
    accelerator = members[0].current.accelerator
    profiles = [each.profile for member in members for each in member.options if each.accelerator == accelerator]
    subject = FittedModel(
        model_id=members[0].model.model_id,
        accelerator=accelerator,
        variants=tuple(member.key for member in members),
        given=next((profile for profile in profiles if profile.learning is None), None),
    )
    failed = sorted({member.key.cluster for member in members} & set(history.failed))
    why = f"the Prometheus of {' and '.join(failed)} failed" if failed else _unseen(members, history)
    counts = {member.key: accelerators_now(member, catalogs[member.key.cluster]) for member in members}
    if len(set(counts.values())) > 1:
        least, most = (pick(counts, key=lambda key: counts[key]) for pick in (min, max))
        why = (
            f"one profile cannot describe replicas on {counts[least]} {accelerator} ({least.label}) and on "
            f"{counts[most]} ({most.label}): add an accelerator {counts[most]}x{accelerator} and label the resource "
            "with it"
        )
    if why:
        return replace(subject, reason=why)
    traces = [trace for member in members for trace in history.traces.get(member.key, ())]
    limits = _limits_of([member.workload.launch if member.workload is not None else None for member in members])
    fit = fit_profile(samples_of(traces), limits)
    if isinstance(fit, Unfit):
        return replace(subject, reason=fit.reason, samples=fit.samples)
    return replace(
        subject,
        profile=fit.profile(accelerator, on, margin_of(traces, LEARNING_WINDOW_S)),
        samples=fit.samples,
        prefill_error=fit.prefill_error,
        is_full_batch_seen=fit.is_full_batch_seen,
        notes=fit.notes,
    )


def _limits_of(launches: Sequence[LaunchSettings | None]) -> EngineLimits:
    """The limits that hold for all engines. Nothing is known unless the arguments of all are."""
    known = [launch for launch in launches if launch is not None]
    if len(known) < len(launches):
        return EngineLimits()
    is_chunked = all(launch.is_chunked for launch in known)
    return EngineLimits(
        max_batch_size=min(launch.max_num_seqs for launch in known),
        token_budget=min(launch.batched_tokens for launch in known) if is_chunked else None,
        step_tokens=max((launch.step_tokens for launch in known if launch.step_tokens is not None), default=None),
    )


def _unseen(members: Sequence[Variant], history: FitHistory) -> str:
    if any(history.traces.get(member.key) for member in members):
        return ""
    return "; ".join(dict.fromkeys(history.unasked.get(member.key.cluster, NOT_SEEN) for member in members))
