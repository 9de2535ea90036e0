"""What one replica of every candidate carries inside its SLO, and profiles that contradict measurements."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from reconciler.decision.variant_states import compared_s
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.observed import Load, Performance
from reconciler.domain.profiles import (
    DECODE_ONLY,
    PREFILL_DECODE,
    SERIAL_PREFILL,
    PerformanceProfile,
    ServiceClass,
    SloTarget,
)
from reconciler.domain.records import dataclass, field_names, replace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.sizing.arrays import Floats
from reconciler.sizing.profile_checks import (
    Contradiction,
    Forecast,
    Measure,
    Stretch,
    correct,
    find_contradiction,
    loads_beside,
    stretches_of,
)
from reconciler.sizing.queueing_chain import analyze, expect_percentiles
from reconciler.sizing.queueing_laws import (
    SPREAD,
    TOKEN_BUDGET,
    Binding,
    LawTargets,
    ServiceCurves,
    Targets,
    decode_only,
    mean_limit_s,
    prefill_decode,
    serial_prefill,
    targets_under,
)
from reconciler.sizing.queueing_rates import RateLimits, largest_rate, largest_throughput

_BINDING_WORDS = {
    Binding.CAPACITY: "the full batch binds",
    Binding.ITL: "ITL binds",
    Binding.WAIT: "wait binds",
    Binding.TTFT: "TTFT binds",
    Binding.THROUGHPUT: "throughput binds",
}


_BINDINGS = tuple(Binding)
_COLDER = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingRow:
    """A candidate to size: a profile under a load for a service class.

    `correction` is what a replica really carries over what its profile says, 1 where nothing is known better.
    `hit_rate` is the share of prompts that the prefix cache holds now, None where it is not measured.
    """

    key: CandidateKey
    profile: PerformanceProfile
    load: Load
    service_class: ServiceClass
    correction: float = 1.0
    hit_rate: float | None = None

    @property
    def cached(self) -> float:
        """The share of prompts that the prefix cache holds: what was learned, or what is measured where that is colder.

        Colder is where a prompt has a quarter more tokens to compute than was learned: the rest is chance.
        """
        learned = 0.0 if self.profile.learning is None else self.profile.learning.cached
        is_colder = self.hit_rate is not None and 1 - self.hit_rate > _COLDER * (1 - learned)
        return self.hit_rate if is_colder and self.hit_rate is not None else learned


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCapacity:
    """The largest arrival rate of one replica inside its SLO (0: unattainable), and what it was sized from."""

    rate_per_s: float
    max_batch_size: int
    binding: Binding
    row: SizingRow
    targets: LawTargets
    is_bound_by_reach: bool = False
    """Whether it ends where a learned profile is not sure any more."""

    @property
    def words(self) -> str:
        """What stops the rate from being larger."""
        if self.rate_per_s <= 0:
            return _unattainable(self)
        reach = f"no larger batch than {self.row.profile.reach} is sure" if self.is_bound_by_reach else ""
        return f"{reach or _BINDING_WORDS[self.binding]}, {_lengths(self.row)}{_cold(self.row)}"


class Capacities:
    """The sized candidates: a capacity each, and the expected performance at any rate."""

    def __init__(self, rows: Sequence[SizingRow]) -> None:
        laws = sorted({row.profile.law for row in rows})
        self._groups = [_LawGroup(law, [row for row in rows if row.profile.law == law]) for law in laws]
        self._places = {
            row.key: (number, position)
            for number, group in enumerate(self._groups)
            for position, row in enumerate(group.rows)
        }
        self.of: Mapping[CandidateKey, ReplicaCapacity] = {
            capacity.row.key: capacity for group in self._groups for capacity in group.capacities()
        }

    def expect(self, wanted: Iterable[tuple[CandidateKey, float]]) -> dict[CandidateKey, Performance]:
        """The expected performance of each candidate at its arrival rate (req/s of one replica).

        Beyond the full batch's rate the wait is infinite: the law's queue ends, a real one grows as long as it lasts.
        """
        asked: list[tuple[list[CandidateKey], list[int], list[float]]] = [([], [], []) for _ in self._groups]
        for key, rate in wanted:
            place = self._places.get(key)
            if place is not None:
                number, position = place
                keys, positions, rates = asked[number]
                keys.append(key)
                positions.append(position)
                rates.append(rate)
        return {
            key: performance
            for group, (keys, positions, rates) in zip(self._groups, asked, strict=True)
            if keys
            for key, performance in zip(keys, group.expect(positions, rates), strict=True)
        }


def forecast(rows: Sequence[SizingRow], rates_per_s: Floats) -> Forecast:
    """What the laws of `rows` expect, each at its own arrival rate; waits are infinite beyond the full batch's rate."""
    columns = np.full((4, len(rows)), np.nan)
    for law in sorted({row.profile.law for row in rows}):
        index = np.array([number for number, row in enumerate(rows) if row.profile.law == law])
        curves = _CURVES[law]([rows[number] for number in index])
        corrections = np.array([rows[number].correction for number in index])
        rates, most = rates_per_s[index] / corrections, curves.service_rate_per_s(curves.max_batch)
        state = analyze(curves, rates)
        wait_s, ttft_s = (np.where(rates >= most, np.inf, each) for each in (state.wait_s, state.ttft_s))
        known_s = np.full_like(ttft_s, np.nan) if law == DECODE_ONLY else ttft_s
        columns[:, index] = state.itl_s, known_s, wait_s, most * corrections
    itl_s, ttft_s, wait_s, most_per_s = columns
    return Forecast(itl_s=itl_s, ttft_s=ttft_s, wait_s=wait_s, most_per_s=most_per_s)


class _LawGroup:
    """The candidates of one queueing law, as arrays."""

    def __init__(self, law: str, rows: Sequence[SizingRow]) -> None:
        self.rows = rows
        self._law = law
        self._targets = [targets_under(law, row.service_class) for row in rows]
        self._curves = _CURVES[law](rows)
        self._percentiles = (_percentiles(self._targets, "itl"), _percentiles(self._targets, "ttft"))
        self._corrections = np.array([row.correction / _margin(row.profile) for row in rows])
        self._limits = largest_rate(self._curves, _arrays(self._targets, *self._percentiles))

    def capacities(self) -> Iterable[ReplicaCapacity]:
        wanted, most = self._rates(self._limits), self._rates_in_reach()
        rates = (np.minimum(wanted, most) * self._corrections).tolist()
        batches, bindings = self._curves.max_batch.tolist(), self._limits.binding.tolist()
        columns = self.rows, self._targets, rates, batches, bindings, (most < wanted).tolist()
        for row, targets, rate, batch, binding, is_bound_by_reach in zip(*columns, strict=True):
            yield ReplicaCapacity(
                rate_per_s=rate,
                max_batch_size=int(batch),
                binding=_BINDINGS[binding],
                row=row,
                targets=targets,
                is_bound_by_reach=is_bound_by_reach,
            )

    def expect(self, positions: Sequence[int], rates_per_s: Sequence[float]) -> Iterable[Performance]:
        index = np.array(positions)
        rates = np.array(rates_per_s) / self._corrections[index]
        curves = self._curves.take(index)
        state = analyze(curves, rates)
        is_over = rates >= curves.service_rate_per_s(curves.max_batch)
        waits_s = np.where(is_over, np.inf, state.wait_s).tolist()
        has_prefill = self._law != DECODE_ONLY
        ttfts_s = np.where(is_over, np.inf, state.ttft_s).tolist() if has_prefill else [None] * len(waits_s)
        shares = (state.mean_in_service / curves.max_batch).tolist()
        tails = expect_percentiles(curves, rates, *(each[index] for each in self._percentiles))
        columns = state.itl_s.tolist(), waits_s, ttfts_s, shares, _known(tails.itl_s), _known(tails.ttft_s)
        for itl, wait, ttft, share, itl_tail, ttft_tail in zip(*columns, strict=True):
            yield Performance(
                itl_s=itl,
                wait_s=wait,
                ttft_s=ttft,
                utilization=share,
                itl_percentile_s=itl_tail,
                ttft_percentile_s=ttft_tail,
            )

    def _rates_in_reach(self) -> Floats:
        """The rate of the largest batch that a profile is sure of, infinite where that is the full one."""
        reaches = np.array([float(row.profile.reach) for row in self.rows])
        rates = self._curves.service_rate_per_s(np.minimum(reaches, self._curves.max_batch))
        return np.where(reaches < self._curves.max_batch, rates, np.inf)

    def _rates(self, limits: RateLimits) -> Floats:
        """Upstream divides the demand by the rate under one law, by what completes of it under the other."""
        return largest_throughput(self._curves, limits) if self._law == PREFILL_DECODE else limits.rate_per_s


def _decode_only(rows: Sequence[SizingRow]) -> ServiceCurves:
    return decode_only(
        alpha_s=[row.profile.alpha_s for row in rows],
        beta_s=[row.profile.beta_s for row in rows],
        output_tokens=[_steps(row) for row in rows],
        max_batch=[_batch(row) for row in rows],
    )


def _prefill_decode(rows: Sequence[SizingRow]) -> ServiceCurves:
    return prefill_decode(
        alpha_s=[row.profile.alpha_s for row in rows],
        beta_s=[row.profile.beta_s for row in rows],
        gamma_s=[row.profile.gamma_s or 0.0 for row in rows],
        delta_s=[row.profile.delta_s or 0.0 for row in rows],
        input_tokens=[row.load.input_tokens or 0.0 for row in rows],
        output_tokens=[_steps(row) for row in rows],
        max_batch=[_batch(row) for row in rows],
    )


def _serial_prefill(rows: Sequence[SizingRow]) -> ServiceCurves:
    return serial_prefill(
        alpha_s=[row.profile.alpha_s for row in rows],
        beta_s=[row.profile.beta_s for row in rows],
        prompt_s=[row.profile.prompt_s or 0.0 for row in rows],
        input_tokens=[_computed(row) for row in rows],
        output_tokens=[_steps(row) for row in rows],
        max_batch=[_batch(row) for row in rows],
        token_budget=[row.profile.token_budget or TOKEN_BUDGET for row in rows],
        spread=[_spread(row) for row in rows],
        step_tokens=[row.profile.step_tokens for row in rows],
        overlap=[row.profile.overlap for row in rows],
    )


_CURVES: Mapping[str, Callable[[Sequence[SizingRow]], ServiceCurves]] = {
    DECODE_ONLY: _decode_only,
    PREFILL_DECODE: _prefill_decode,
    SERIAL_PREFILL: _serial_prefill,
}


def _steps(row: SizingRow) -> float:
    """Steps of a request, the first of which computes its prompt."""
    return 1 + (row.load.output_tokens - 1) / row.profile.tokens_per_step


def _computed(row: SizingRow) -> float:
    """Prompt tokens that are computed: the others are in the prefix cache."""
    return (row.load.input_tokens or 0.0) * (1 - row.cached)


def _spread(row: SizingRow) -> float:
    """The spread of what is computed of prompts, where the cache holds all of some and nothing of others."""
    spread = SPREAD if row.load.input_spread is None else row.load.input_spread
    return (1 + spread) / (1 - row.cached) - 1


def _margin(profile: PerformanceProfile) -> float:
    return 1.0 if profile.learning is None else profile.learning.margin


def _batch(row: SizingRow) -> int:
    """A batch measured at a length shrinks with longer requests (inferno: product first, then whole division)."""
    profile = row.profile
    if profile.at_tokens is None:
        return profile.max_batch_size
    return max(math.floor(profile.max_batch_size * profile.at_tokens / row.load.output_tokens), 1)


def _arrays(targets: Sequence[LawTargets], itl_percentile: Floats, ttft_percentile: Floats) -> Targets:
    return Targets(
        itl_s=np.array([each.itl.limit_s if each.itl is not None else np.inf for each in targets]),
        wait_s=np.array([min(map(_mean_limit, each.waits), default=np.inf) for each in targets]),
        tokens_per_s=np.array([each.tokens_per_s for each in targets]),
        ttft_s=np.array([each.ttft.limit_s if each.ttft is not None else np.inf for each in targets]),
        itl_percentile=itl_percentile,
        ttft_percentile=ttft_percentile,
    )


def _mean_limit(target: SloTarget) -> float:
    return mean_limit_s(target.limit_s, target.percentile)


def _percentiles(targets: Sequence[LawTargets], name: str) -> Floats:
    """The percentiles of one target, NaN where a mean is limited, or nothing."""
    known: list[SloTarget | None] = [getattr(each, name) for each in targets]
    return np.array([np.nan if each is None or each.percentile is None else each.percentile for each in known])


def _known(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _unattainable(capacity: ReplicaCapacity) -> str:
    row, targets = capacity.row, capacity.targets
    if capacity.binding is Binding.ITL and targets.itl is not None:
        lone_ms, limit_ms = (
            ms_from_seconds(row.profile.alpha_s + row.profile.beta_s),
            ms_from_seconds(targets.itl.limit_s),
        )
        return f"even a lone request takes ITL {lone_ms:.4g} ms, the target is {limit_ms:.4g} ms"
    if capacity.binding is Binding.TTFT and targets.ttft is not None:
        prompt = row.load.input_tokens or 0.0
        prefill_ms = ms_from_seconds(_lone_prefill_s(row.profile, prompt * (1 - row.cached)))
        limit_ms = ms_from_seconds(targets.ttft.limit_s)
        return f"even a lone prompt of {prompt:.4g} tokens takes {prefill_ms:.4g} ms, the target is {limit_ms:.4g} ms"
    return "even the smallest load waits longer than the target"


def _lone_prefill_s(profile: PerformanceProfile, input_tokens: float) -> float:
    if profile.prompt_s is not None:
        chunks = math.ceil(input_tokens / (profile.token_budget or TOKEN_BUDGET))
        return chunks * profile.alpha_s + profile.prompt_s * input_tokens
    return (profile.gamma_s or 0.0) + (profile.delta_s or 0.0) * input_tokens


def _lengths(row: SizingRow) -> str:
    output = f"{row.load.output_tokens:.4g} output tokens"
    if row.profile.law != DECODE_ONLY and row.load.input_tokens is not None:
        return f"{row.load.input_tokens:.4g} input and {output}"
    return output


def _cold(row: SizingRow) -> str:
    learned = 0.0 if row.profile.learning is None else row.profile.learning.cached
    if row.cached == learned:
        return ""
    return f", the prefix cache holds {row.cached:.0%} of prompts and held {learned:.0%} when the profile was learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """What a replica did in a stretch, and the row that forecasts it."""

    stretch: Stretch
    row: SizingRow


def find_contradictions(snapshot: Snapshot, variants: Iterable[Variant]) -> dict[ResourceKey, Hold]:
    """Why the profile of what a variant runs on is not believed, all compared at once.

    After a change of its accelerator or profiles, replicas may have run on what the variant ran on before: then what
    agrees with another accelerator that it may run on contradicts nothing.
    """
    variants = tuple(variants)
    holds = _holds([each for variant in variants for each in _compared(snapshot, variant)])
    found: dict[ResourceKey, Hold] = {}
    for variant in variants:
        own = {option.accelerator: holds.get(variant.key.on(option.accelerator)) for option in variant.options}
        others = [hold for accelerator, hold in own.items() if accelerator != variant.current.accelerator]
        hold = own.get(variant.current.accelerator)
        if hold is not None and (_is_settled(snapshot, variant) or None not in others):
            found[variant.key] = hold
    return found


def _is_settled(snapshot: Snapshot, variant: Variant) -> bool:
    if snapshot.moved is not None:
        return variant.key not in snapshot.moved
    return snapshot.committed_s is not None and snapshot.now_s - snapshot.committed_s > compared_s(variant)


def _holds(compared: Sequence[_Compared]) -> dict[CandidateKey, Hold]:
    """What is contradicted of all that is compared."""
    if not compared:
        return {}
    rows, rates = [each.row for each in compared], np.array([each.stretch.rate_per_s for each in compared])
    forecasts = [forecast(rows, each) for each in (rates, *loads_beside(rates))]
    members: dict[CandidateKey, list[int]] = {}
    for number, each in enumerate(compared):
        members.setdefault(each.row.key, []).append(number)
    holds = {
        key: _hold_of(
            [compared[number] for number in numbers],
            [
                Forecast(**{name: getattr(each, name)[list(numbers)] for name in field_names(Forecast)})
                for each in forecasts
            ],
        )
        for key, numbers in members.items()
    }
    return {key: hold for key, hold in holds.items() if hold is not None}


def _hold_of(compared: Sequence[_Compared], forecasts: Sequence[Forecast]) -> Hold | None:
    expected, fast, slow = forecasts
    row = compared[0].row
    targets = targets_under(row.profile.law, row.service_class)
    limits_first_token = bool(targets.waits or targets.ttft)
    stretches = [each.stretch for each in compared]
    found = find_contradiction(stretches, expected, fast, slow, limits_first_token=limits_first_token)
    if found is None:
        return None
    words = f"the profile of {row.key.accelerator} contradicts what replicas did: {_words(found)}"
    return Hold(kind=HoldKind.PROFILE_CONTRADICTED, words=words, place=row.profile.place)


def _compared(snapshot: Snapshot, variant: Variant) -> Iterator[_Compared]:
    load, traces = snapshot.observed.loads.get(variant.model), snapshot.observed.traces.get(variant.key, ())
    if variant.service_class is None or not isinstance(load, Load) or not traces:
        return
    known = [(each, beside) for each in stretches_of(traces) if (beside := _load_in(each, load)) is not None]
    for option in variant.options:
        profile, is_current = option.profile, option.accelerator == variant.current.accelerator
        factor = 1.0 if profile.learning is None else correct(traces, profile).factor
        for stretch, beside in known if is_current or not _is_settled(snapshot, variant) else ():
            if profile.law == DECODE_ONLY or beside.input_tokens is not None:
                row = SizingRow(
                    key=variant.key.on(option.accelerator),
                    profile=profile,
                    load=beside,
                    service_class=variant.service_class.value,
                    correction=factor,
                )
                yield _Compared(stretch=stretch, row=row)


def _load_in(stretch: Stretch, load: Load) -> Load | None:
    """The load of a replica in a stretch; lengths that were not measured then are those of now, None without any."""
    output = load.output_tokens if math.isnan(stretch.output_tokens) else stretch.output_tokens
    inputs = load.input_tokens if math.isnan(stretch.input_tokens) else stretch.input_tokens
    if not output > 0:
        return None
    return replace(load, arrival_rate_per_s=stretch.rate_per_s, output_tokens=output, input_tokens=inputs)


def _words(found: Contradiction) -> str:
    if found.measure is Measure.RATE:
        return f"at most {found.expected:.3g} req/s expected of a replica, {found.measured:.3g} measured"
    return f"{found.measure} {_time(found.expected)} expected, {_time(found.measured)} measured"


def _time(time_s: float) -> str:
    if math.isinf(time_s):
        return "without end"
    return f"{time_s:.4g} s" if time_s >= 1 else f"{ms_from_seconds(time_s):.3g} ms"
