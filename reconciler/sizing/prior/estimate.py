"""Priors of accelerators that a model never ran on, and why others are refused.

The numbers here are fitted to measured points by `python -m tests.bench.priors --fit`, without the third of the points
that is kept for the verdict; a test fits them again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from reconciler.domain.priors import Band, Datasheet, Lengths, ModelShape, Prior, Refusal, Weights
from reconciler.domain.profiles import DECODE_ONLY, PerformanceProfile
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Floats
from reconciler.sizing.prior.roofline import (
    Efficiency,
    Replica,
    gap_s,
    largest_batch,
    prompt_s,
    step_s,
    terms,
)

DENSE, EXPERTS = "dense", "mixture of experts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was fitted to the measured points of one kind of model, and how far off it is.

    `alone` and `carried` are standard deviations of the logarithm of an error: of the roofline without an accelerator
    or a model that it was fitted to, and with the ratio of the same model on another accelerator. `points` were used.
    """

    efficiency: Efficiency
    alone: float
    carried: float
    points: int


CALIBRATIONS: Mapping[str, Calibration] = {
    DENSE: Calibration(
        efficiency=Efficiency(0.8069, 0.6424, 0.5179, 2.024e-5, 2.291e-3, 8.716e-6),
        alone=0.160,
        carried=0.143,
        points=634,
    ),
    EXPERTS: Calibration(
        efficiency=Efficiency(0.7906, 0.6, 0.165, 2.965e-5, 1.099e-3, 2.547e-5),
        alone=0.204,
        carried=0.173,
        points=628,
    ),
}

COVERED: Mapping[tuple[str, str], Mapping[Weights, int]] = {
    (DENSE, "ampere"): {Weights.BF16: 4},
    (DENSE, "hopper"): {Weights.BF16: 4, Weights.FP8: 8},
    (DENSE, "blackwell"): {Weights.FP8: 8, Weights.FP4: 8},
    (EXPERTS, "hopper"): {Weights.FP8: 8},
    (EXPERTS, "blackwell"): {Weights.FP8: 8, Weights.FP4: 8},
}
"""By kind of model and generation of accelerator: the formats of weights that were measured, up to so many devices."""

UNMEASURED = frozenset({"A30", "GH200", "GB200", "GB300"})
"""Of covered generations, without points of their own or with points that are far off."""

UNLIKELY = 4.0
"""A profile so many deviations from its roofline is of another model, format or engine than was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a replica may run on: `devices` of a data sheet under a name, at a price an hour if it is known."""

    name: str
    datasheet: Datasheet | None
    devices: int = 1
    cost_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A profile of the model, given or learned, and where it runs."""

    hardware: Hardware
    profile: PerformanceProfile


def estimate(
    model_id: str,
    shape: ModelShape,
    hardware: Hardware,
    lengths: Lengths,
    known: Sequence[Known] = (),
    itl_target_s: float | None = None,
) -> Prior | Refusal:
    """The prior of one replica of a model, or why nothing is said.

    `known` profiles of the same model on other accelerators correct it: the one that differs least is taken.
    `itl_target_s` bounds the batch at the slow edge of the band: where the gap between tokens hardly grows with the
    batch, the batch that a gap allows is known far less well than the gap.
    """
    reason = find_gap(shape, hardware)
    if reason:
        return Refusal(model_id=model_id, accelerator=hardware.name, reason=reason)
    replica = _replica(shape, hardware)
    most = largest_batch(replica, lengths.input_tokens + lengths.output_tokens)
    if most < 1:
        needed, has = replica.weight_bytes / 1e9, replica.datasheet.memory_bytes * hardware.devices / 1e9
        reason = f"does not fit: {needed:.0f} GB of weights and a request, {has:.0f} GB of memory"
        return Refusal(model_id=model_id, accelerator=hardware.name, reason=reason)
    calibration = CALIBRATIONS[kind_of(shape)]
    carried = _nearest(shape, hardware, known)
    ratio, deviation = 1.0, calibration.alone
    if carried is not None:
        ratio, deviation = _ratio(shape, carried, lengths), calibration.carried
        if abs(math.log(ratio)) > UNLIKELY * calibration.alone:
            reason = (
                f"the profile on {carried.hardware.name} is {ratio:.2g} times its roofline, as no measured one is:"
                f" are the shape and its weights ({shape.weights}) right?"
            )
            return Refusal(model_id=model_id, accelerator=hardware.name, reason=reason)
    every = np.arange(1.0, most + 1)
    steps, prompt, gaps = _curves(replica, every, lengths, calibration.efficiency)
    gaps = gaps * ratio
    slow = gaps * Band(median=1.0, deviation=deviation).high
    batch = most if itl_target_s is None else int(np.count_nonzero(slow <= itl_target_s))
    if not batch:
        reason = f"a lone request might wait {1e3 * slow[0]:.3g} ms for each token, more than the target"
        return Refusal(model_id=model_id, accelerator=hardware.name, reason=reason)
    itl_s = float(gaps[batch - 1])
    batches = np.unique(np.geomspace(1, most, 24).round())
    steps = steps[batches.astype(int) - 1]
    slope, start = np.polyfit(batches, steps, 1, w=1.0 / steps) if most > 1 else (0.0, steps[0])
    profile = PerformanceProfile(
        accelerator=hardware.name,
        alpha_s=max(float(start), 0.0) * ratio,
        beta_s=max(float(slope), 0.0) * ratio,
        prompt_s=prompt * ratio,
        max_batch_size=most,
        at_tokens=round(lengths.input_tokens + lengths.output_tokens),
        accelerators_per_replica=hardware.devices,
    )
    return Prior(
        model_id=model_id,
        accelerator=hardware.name,
        profile=profile,
        batch=batch,
        deviation=deviation,
        itl_s=Band(median=itl_s, deviation=deviation),
        throughput_tokens_per_s=Band(median=batch / itl_s, deviation=deviation),
        cost_per_hour=hardware.cost_per_hour,
        carried_from=None if carried is None else carried.hardware.name,
        evidence=_evidence(shape, carried),
        narrower=_narrower(carried, hardware),
    )


def find_gap(shape: ModelShape, hardware: Hardware) -> str:
    """Why measured points do not cover a model on an accelerator; empty where they do."""
    sheet, kind = hardware.datasheet, kind_of(shape)
    if sheet is None:
        return "no data sheet: give accelerators[].datasheet"
    if sheet.vendor != "nvidia":
        return f"no measured points of {sheet.vendor} accelerators"
    formats = COVERED.get((kind, sheet.generation))
    if formats is None:
        return f"no measured points of {kind} models on {sheet.generation} accelerators ({sheet.device})"
    if sheet.device in UNMEASURED:
        return f"too few measured points of {sheet.device}"
    if shape.weights not in formats:
        return f"no measured points of {kind} models with {shape.weights} weights on {sheet.generation} accelerators"
    if hardware.devices > formats[shape.weights]:
        return f"no measured points of more than {formats[shape.weights]} devices a replica"
    return ""


def kind_of(shape: ModelShape) -> str:
    """Which calibration a model falls under."""
    return EXPERTS if shape.experts else DENSE


def _replica(shape: ModelShape, hardware: Hardware) -> Replica:
    if hardware.datasheet is None:
        raise ValueError(f"{hardware.name} has no data sheet")
    return Replica(shape=shape, datasheet=hardware.datasheet, devices=hardware.devices)


def _curves(
    replica: Replica, batches: Floats, lengths: Lengths, efficiency: Efficiency
) -> tuple[Floats, float, Floats]:
    """Seconds of a step, of a token of a prompt, and between tokens, at each batch."""
    parts = terms(replica, batches, lengths.input_tokens, lengths.output_tokens)
    gaps = gap_s(parts, efficiency, batches, lengths.input_tokens, lengths.output_tokens)
    return step_s(parts, efficiency), float(prompt_s(parts, efficiency)[0]), gaps


def _nearest(shape: ModelShape, hardware: Hardware, known: Iterable[Known]) -> Known | None:
    """Of the profiles that can be carried over, that of the hardware that differs least."""
    fitting = [
        each
        for each in known
        if each.hardware.name != hardware.name
        and not find_gap(shape, each.hardware)
        and each.profile.tokens_per_step == 1.0
        and each.profile.alpha_s > 0
    ]

    def distance(each: Known) -> tuple[float, bool, str]:
        other = each.hardware.datasheet
        is_other = other is None or hardware.datasheet is None or other.generation != hardware.datasheet.generation
        return abs(math.log(each.hardware.devices / hardware.devices)), is_other, each.hardware.name

    return min(fitting, key=distance, default=None)


def _ratio(shape: ModelShape, known: Known, lengths: Lengths) -> float:
    """How many times its roofline a profile's steps take, the geometric mean over the batches that it is sure of."""
    profile, learning = known.profile, known.profile.learning
    seen = lengths
    first = 1.0
    if learning is not None:
        first = max(learning.batch[0], 1.0)
        middle = (math.sqrt(low * high) for low, high in (learning.input_tokens, learning.output_tokens))
        prompt, output = (max(each, 1.0) for each in middle)
        seen = Lengths(input_tokens=prompt, output_tokens=output)
    batches = np.geomspace(first, max(profile.reach, first), 12)
    steps, _, gaps = _curves(_replica(shape, known.hardware), batches, seen, CALIBRATIONS[kind_of(shape)].efficiency)
    expected = gaps if profile.law == DECODE_ONLY else steps
    return float(np.exp(np.mean(np.log((profile.alpha_s + profile.beta_s * batches) / expected))))


def _evidence(shape: ModelShape, carried: Known | None) -> str:
    kind = kind_of(shape)
    calibration = CALIBRATIONS[kind]
    tested = "another accelerator left out" if carried else "a model or an accelerator left out"
    correction = f"corrected by the profile on {carried.hardware.name}" if carried else "a roofline without correction"
    return f"{correction}; band from {calibration.points} measured points of {kind} models, {tested}"


def _narrower(carried: Known | None, hardware: Hardware) -> str:
    if carried is None:
        return "a learned profile of this model on an accelerator that it runs on (reconciler fit)"
    return f"one replica on {hardware.name} for two days (reconciler fit)"
