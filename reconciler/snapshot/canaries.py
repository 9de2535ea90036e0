"""Canaries in a snapshot: which variants are any, what they measured, and the variant that a new one would be."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

import numpy as np

from reconciler.domain.answers import Answer, Query
from reconciler.domain.canaries import ENOUGH_HOURS, Copy, CopyPlace, Measured
from reconciler.domain.history import Grid
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, ModelKey, Place, ResourceKey, Severity, Source, Sourced, SourceKind
from reconciler.domain.inventory import ACCELERATOR_LABEL, PRODUCT_KEYS, Accelerator, Allocation, Catalog
from reconciler.domain.observed import Trace
from reconciler.domain.priors import Lengths, Prior
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.records import replace
from reconciler.domain.settings import ClusterSettings, ModelSettings, Settings
from reconciler.domain.snapshot import Form, StatusShape, Variant
from reconciler.domain.variant_settings import CANARY, GROUP, MEASURED, SERVICE_CLASS, VariantSettings
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef
from reconciler.metrics.history import read_histories, trace
from reconciler.metrics.quantities import OWNERSHIP, POD_LABEL_OF_VARIANT, Name
from reconciler.metrics.queries import exported_label, history_queries, names_in
from reconciler.metrics.readings import attribution_of, read
from reconciler.resources.llmaz.models import recognise_flavor
from reconciler.resources.variants import FlavorChoice
from reconciler.sizing.prior.estimate import estimate
from reconciler.sizing.prior.posterior import update
from reconciler.snapshot.accelerators import find_or_name
from reconciler.snapshot.effective_settings import default_group
from reconciler.snapshot.priors import hardware_of, known_profiles, shape_of, usual_lengths

SPAN_S, STEP_S = 7 * 86_400.0, 600.0
"""How far back canaries are measured, and how finely."""
TRIED = "tried_"
"""Before a quantity's name: no other history has this span and step."""
QUANTITIES = (Name.ITL, Name.RUNNING, Name.INPUT_TOKENS, Name.OUTPUT_TOKENS)
LONGEST_NAME = 52
"""Of a Deployment: its pods get eleven characters more, and none may have more than 63."""


def is_canary(variant: Variant) -> bool:
    """Whether it tries an accelerator that its model has no profile on; then its model is one of its own."""
    return bool(variant.model.role) and bool(variant.settings[CANARY].value)


def is_own_label(name: str) -> bool:
    """Whether pods of a canary have another value of a label than those of the original, or none."""
    return name == ACCELERATOR_LABEL or exported_label(name) == POD_LABEL_OF_VARIANT


_NUMBER, _MOST_S, _MOST = r"[0-9.e+-]{1,20}", 3600.0, 1e9
_MOST_HOURS = round(SPAN_S / 3600.0) + 1
"""Of the clock, that are seen at once."""
_MEASURED = re.compile(
    rf"(?P<on>\d{{4}}-\d\d-\d\d), (?P<hours>\d{{1,4}}) hours, (?P<samples>\d{{1,7}}) samples: "
    rf"alpha (?P<alpha>{_NUMBER}) ms, beta (?P<beta>{_NUMBER}) ms, "
    rf"batches (?P<batch>{_NUMBER} to {_NUMBER}) of (?P<most>\d{{1,6}}), sure to (?P<reach>\d{{1,6}}), "
    rf"tokens (?P<input>{_NUMBER} to {_NUMBER}) in (?P<output>{_NUMBER} to {_NUMBER}) out, "
    rf"error (?P<error>{_NUMBER}) %",
    re.ASCII,
)
"""How an annotation says what a canary measured."""


def write_measured(measured: Measured) -> str:
    """The text of a canary's annotation: the profile that its replicas are sized by, and what it is from."""
    profile, learning = measured.profile, measured.profile.learning
    if learning is None:
        return ""
    batch, inputs, outputs = (
        f"{least:.4g} to {most:.4g}" for least, most in (learning.batch, learning.input_tokens, learning.output_tokens)
    )
    return (
        f"{learning.on}, {measured.hours} hours, {learning.samples} samples: alpha {profile.alpha_s * 1e3:.5g} ms, "
        f"beta {profile.beta_s * 1e3:.5g} ms, batches {batch} of {profile.max_batch_size}, sure to {learning.reach}, "
        f"tokens {inputs} in {outputs} out, error {learning.error * 100:.3g} %"
    )


def parse_measured(text: str, accelerator: str, place: Place | None = None) -> PerformanceProfile:
    """The profile in such a text; ValueError where it is none, or of fewer hours than are enough."""
    found = _MEASURED.fullmatch(text)
    if found is None:
        raise ValueError("expected what reconciler wrote: remove it to have its accelerator measured anew")
    hours, reach, largest = (int(found[name]) for name in ("hours", "reach", "most"))
    if not ENOUGH_HOURS <= hours <= _MOST_HOURS:
        raise ValueError(f"expected {ENOUGH_HOURS} to {_MOST_HOURS} hours, not {hours}")
    if not 1 <= reach <= largest:
        raise ValueError(f"expected it to be sure to 1 to {largest} requests, the largest batch, not to {reach}")
    alpha_s, beta_s = (_read(found[name]) / 1e3 for name in ("alpha", "beta"))
    if not (0 < alpha_s < _MOST_S and beta_s < _MOST_S):
        raise ValueError(f"expected an alpha above 0, and both times below {_MOST_S:.0f} s")
    learning = Learning(
        on=_day(found["on"]),
        samples=int(found["samples"]),
        error=_read(found["error"]) / 100,
        batch=_span(found["batch"]),
        input_tokens=_span(found["input"]),
        output_tokens=_span(found["output"]),
        reach=reach,
    )
    return PerformanceProfile(
        accelerator=accelerator,
        alpha_s=alpha_s,
        beta_s=beta_s,
        max_batch_size=largest,
        accelerators_per_replica=1,
        place=place,
        learning=learning,
    )


def _read(text: str) -> float:
    """A number from 0 to a billion."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MOST:
        raise ValueError(f"expected a number from 0 to a billion, not {text}")
    return number


def _span(text: str) -> tuple[float, float]:
    least, most = map(_read, text.split(" to "))
    if not 0 < least <= most:
        raise ValueError(f"expected the smaller number first, above 0, not {text}")
    return least, most


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"expected a day of the calendar, not {text}") from None


WRONG_ANNOTATION = "canary-annotation"


def find_wrong_annotations(variants: Iterable[Variant], catalogs: Mapping[str, Catalog]) -> Iterator[Finding]:
    """An error for each variant that is held because of the annotations of canaries."""
    for each in variants:
        hold = hold_of_annotations(each.settings, each.current.accelerator, catalogs[each.key.cluster])
        if hold is not None:
            place = hold.place or each.place
            yield Finding(place=place, severity=Severity.ERROR, message=hold.words, rule=WRONG_ANNOTATION)


def hold_of_annotations(settings: VariantSettings, runs_on: str, catalog: Catalog) -> Hold | None:
    """Why what its annotations say of a canary is not believed; None where it is, or where they say nothing."""
    tries, measured = settings[CANARY], settings[MEASURED]
    words, place = "", measured.source.place
    if not tries.value and measured.value:
        words = (
            f"annotation reconciler.io/{MEASURED.annotation} without reconciler.io/{CANARY.annotation}: only a canary "
            "measures the accelerator that it tries; give a profile in models[].profiles instead"
        )
    elif tries.value and find_or_name(catalog, tries.value).name != runs_on:
        place = tries.source.place
        words = (
            f"annotation reconciler.io/{CANARY.annotation} says that it tries {tries.value}, and it runs on "
            f"{runs_on or 'an unknown accelerator'}: nothing that it measures is believed; put it back on "
            f"{tries.value}, or delete its file"
        )
    elif measured.value:
        try:
            parse_measured(measured.value, runs_on)
        except ValueError as error:
            words = f"annotation reconciler.io/{MEASURED.annotation}: {error}"
    return Hold(kind=HoldKind.SETTINGS_CONFLICT, words=words, place=place) if words else None


def canary_queries(cluster: ClusterSettings, variants: Iterable[Variant], now_s: float) -> tuple[Query, ...]:
    """What is asked of a cluster with canaries; nothing of one without."""
    mine = [each for each in variants if each.key.cluster == cluster.name]
    tried = {each.key.namespace for each in mine if _is_measuring(each) and each.current.replicas}
    counts = {name: sum(each.current.replicas for each in mine if each.key.namespace == name) for name in tried}
    end_s = now_s - now_s % STEP_S  # so that a later run measures the same windows
    asked = history_queries(cluster, counts, end_s - SPAN_S, end_s, STEP_S, QUANTITIES)
    return tuple(replace(each, quantity=f"{TRIED}{each.quantity}") for each in asked)


def _is_measuring(variant: Variant) -> bool:
    is_read = is_canary(variant) and not variant.settings[MEASURED].value
    return is_read and not variant.is_held_by(HoldKind.SETTINGS_CONFLICT)


def read_tried(
    variants: Sequence[Variant],
    answers: Sequence[Answer],
    settings: Settings,
    catalogs: Mapping[str, Catalog],
    now_s: float,
) -> dict[ResourceKey, Measured]:
    """What is believed of each canary's accelerator, where there is a prior at all."""
    found: dict[ResourceKey, Measured] = {}
    stated = {each.model_id: each for each in settings.models}
    for cluster in sorted({each.key.cluster for each in variants if _is_measuring(each)}):
        mine = [each for each in variants if each.key.cluster == cluster]
        traces = _traces(mine, [each for each in answers if each.query.cluster == cluster], settings, cluster)
        for canary in filter(_is_measuring, mine):
            seen = traces.get(canary.key, ())
            of_model = [each for each in mine if each.model.whole == canary.model.whole]
            model = stated.get(canary.model.model_id, ModelSettings(model_id=canary.model.model_id))
            prior = prior_of(canary, of_model, model, catalogs[cluster], _lengths(seen))
            if prior is not None:
                found[canary.key] = update(prior, seen, now_s)
    return found


def _traces(
    variants: Sequence[Variant], answers: Iterable[Answer], settings: Settings, cluster: str
) -> Mapping[ResourceKey, Sequence[Trace]]:
    answers, names = list(answers), names_in(settings, cluster)
    asked = [
        replace(each, query=replace(each.query, quantity=each.query.quantity.removeprefix(TRIED)))
        for each in answers
        if each.query.quantity.startswith(TRIED)
    ]
    if not asked:
        return {}
    grid = _grid(asked)
    owners = read([each for each in answers if each.query.quantity in OWNERSHIP], names)
    return trace(read_histories(asked, names, grid), attribution_of(variants, owners))


def _grid(answers: Sequence[Answer]) -> Grid:
    start_s = min(each.query.start_s for each in answers)
    end_s = max(each.query.end_s for each in answers)
    return Grid(start_s=start_s, step_s=STEP_S, count=round((end_s - start_s) / STEP_S) + 1)


def _lengths(traces: Sequence[Trace]) -> Lengths | None:
    """The mean tokens of what a canary answered; None before it answered anything."""
    means = []
    for name in (Name.INPUT_TOKENS, Name.OUTPUT_TOKENS):
        values = np.concatenate([np.empty(0), *(np.asarray(each.series.get(name, ())) for each in traces)])
        known = values[np.isfinite(values) & (values >= 1)]
        means.append(float(np.median(known)) if known.size else 0.0)
    return None if 0.0 in means else Lengths(input_tokens=means[0], output_tokens=means[1])


def prior_of(
    canary: Variant, variants: Iterable[Variant], model: ModelSettings, catalog: Catalog, lengths: Lengths | None
) -> Prior | None:
    """What is believed of a canary's accelerator before it measures; `variants` are all of its model."""
    shape = shape_of(model)
    if shape is None:
        return None
    known = known_profiles(model, (each for each in variants if not is_canary(each)), catalog)
    accelerator = find_or_name(catalog, canary.current.accelerator)
    found = estimate(model.model_id, shape, hardware_of(accelerator), lengths or usual_lengths(known), known)
    return found if isinstance(found, Prior) else None


def measured_profiles(
    variants: Iterable[Variant], tried: Mapping[ResourceKey, Measured], catalogs: Mapping[str, Catalog]
) -> dict[ModelKey, tuple[PerformanceProfile, ...]]:
    """The profile of each accelerator that canaries of a model measured for long enough, at the slow edge.

    They are of that model in its namespace alone: others have other engines and other requests. What is tried is
    compared with all else as soon as it has a profile, as one that somebody gave. What Git says that a canary measured
    stays, whatever Prometheus still knows. Of several canaries the slowest counts.
    """
    found: dict[ModelKey, dict[str, PerformanceProfile]] = {}
    for variant in variants:
        measured, written, runs_on = tried.get(variant.key), variant.settings[MEASURED], variant.current.accelerator
        if hold_of_annotations(variant.settings, runs_on, catalogs[variant.key.cluster]) is not None:
            continue
        if written.value:
            profile = parse_measured(written.value, runs_on, written.source.place)
        elif measured is not None and measured.is_enough:
            profile = replace(measured.profile, place=variant.place)
        else:
            continue
        others = found.setdefault(variant.model.whole, {})
        others[runs_on] = _slower(others.get(runs_on, profile), profile)
    return {model: tuple(each.values()) for model, each in found.items()}


def _slower(one: PerformanceProfile, other: PerformanceProfile) -> PerformanceProfile:
    """The profile with the longer steps at the largest batch that both are sure of."""
    batch = min(one.reach, other.reach)
    return max(one, other, key=lambda each: each.alpha_s + each.beta_s * batch)


def place_in_flavors(place: CopyPlace, choice: FlavorChoice, catalog: Catalog, *, is_pooled: bool) -> CopyPlace:
    """Where a second Playground goes, with the flavors that it may claim; or why it would measure nothing.

    llmaz gives each Playground a Service of its own, so only a pool that selects by labels of the model sends requests
    to a second one (`is_pooled`).
    """
    if place.reason:
        return place
    if choice.is_placed is False:
        return CopyPlace(reason="its pods do not use inftyai-scheduler: other schedulers ignore a flavor's nodes")
    if not is_pooled:
        return CopyPlace(
            reason="no InferencePool in Git selects its pods by a label of the model: a second Playground, which has a "
            "Service of its own, would get no requests"
        )
    first = next((each.flavor for each in choice.ranked), None)
    flavors: dict[str, str] = {}
    for flavor in choice.offered:
        accelerator, _ = recognise_flavor(flavor, catalog)
        if accelerator is not None and flavor.node_selector and first is not None and flavor.devices == first.devices:
            flavors.setdefault(accelerator.name, flavor.name)
    unknown = "" if choice.is_placed else UNKNOWN_SCHEDULER
    return replace(place, flavors=flavors, caution="; ".join(filter(None, (place.caution, unknown))))


UNKNOWN_SCHEDULER = (
    "Git does not say that inftyai-scheduler places its pods: another scheduler puts the canary on any node, and what "
    "it measures is then of another accelerator"
)


def new_canary(original: Variant, accelerator: Accelerator, place: CopyPlace, group_by: Sequence[str]) -> Variant | str:
    """The variant that one replica on an accelerator would be, which no cluster runs yet; or why there can be none."""
    workload, is_flavored = original.workload, original.form is Form.FLAVORS
    if workload is None:
        return "no Deployment of it is in Git"
    if place.reason:
        return place.reason
    if is_flavored and accelerator.name not in place.flavors:
        return f"its OpenModel has no flavor of {accelerator.name} with a nodeSelector and as many devices"
    if not is_flavored and not accelerator.node_selector:
        return f"accelerators[] says no nodeSelector of {accelerator.name}"
    if workload.devices.get(accelerator.resource) != accelerator.devices:
        return f"a replica asks for another number of devices than {accelerator.name} has: its arguments may need them"
    for pod in workload.pods:
        wanted = {key: accelerator.node_selector.get(key) for key in PRODUCT_KEYS if key in pod.affinity}
        if pod.unplaceable or any(value not in pod.affinity[key] for key, value in wanted.items()):
            return pod.unplaceable or "its node affinity places it on the accelerator that it has"
    name = canary_name(workload.key.name, accelerator.name)
    key = replace(workload.key, name=name)
    path = f"{place.prefix}{name}.yaml"
    document = DocumentRef(path=path, document=0)
    here = Place(path=path)
    becomes = workload.becomes and replace(workload.becomes, name=name)
    return replace(
        original,
        key=key,
        model=replace(original.model, role=f"{key.kind} {key.label}"),
        form=Form.FLAVORS if is_flavored else Form.ADOPTED,
        status_shape=StatusShape.NONE,
        document=document,
        place=here,
        workload=replace(
            workload,
            key=key,
            becomes=becomes,
            document=document,
            place=here,
            replicas=0,
            replicas_place=None,
            replica_fields=(),
            node_selector=accelerator.node_selector,
            moves={},
            considered=(),
        ),
        current=Allocation(accelerator=accelerator.name, replicas=0),
        accelerator_source="node selector",
        settings=_settings(original.settings, accelerator.name, here),
        options=(),
        relative_cost=None,
        current_cost_per_hour=accelerator.cost_per_hour,
        conditions=(),
        is_shared=False,
        labels_at=None,
        delivery=None,
        flavors_field=(),
        holds=(),
        copied=Copy(
            source=workload.document,
            original=workload.key,
            place=place,
            node_selector=accelerator.node_selector,
            flavor=place.flavors.get(accelerator.name, "") if is_flavored else "",
            flavors_field=original.flavors_field,
            annotations=_annotations(original, workload, path, group_by),
        ),
    )


def _annotations(original: Variant, workload: Workload, path: str, group_by: Sequence[str]) -> Mapping[str, str]:
    """What a copy must be told, as nothing else gives it the group and the service class of the original."""
    group, service_class = original.settings[GROUP].value, original.service_class
    told: dict[str, str] = {}
    if group != default_group(group_by, workload.key, original.model.model_id, path, workload.labels):
        told[GROUP.annotation] = group
    if service_class is not None and service_class.source.kind not in _OF_MODELS:
        told[SERVICE_CLASS.annotation] = service_class.value.name
    return told


_OF_MODELS = (SourceKind.MODEL, SourceKind.DEFAULT, SourceKind.CONFIG_MAP)
"""What a copy has as well, as it serves the same model."""


def find_difference(planned: Variant, written: Variant | None) -> str:
    """What a canary would not be as planned once its file is merged; empty where it is."""
    if written is None or written.current.replicas != 1:
        return "would not be applied"
    if written.hold is not None:
        return f"could not be changed again: {written.hold.words}"
    pairs = (
        ("model", planned.model.model_id, written.model.model_id),
        ("group", planned.settings[GROUP].value, written.settings[GROUP].value),
        ("accelerator", planned.current.accelerator, written.current.accelerator),
        ("service class", _class_of(planned), _class_of(written)),
        ("canary", planned.settings[CANARY].value, written.settings[CANARY].value),
    )
    found = (
        f"would have {name} {now or 'none'} instead of {then or 'none'}" for name, then, now in pairs if then != now
    )
    return next(found, "")


def _class_of(variant: Variant) -> str:
    return "" if variant.service_class is None else variant.service_class.value.name


_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_OTHERS = re.compile(r"[^a-z0-9]+")
_LONGEST_TRIED = 22


def canary_name(name: str, accelerator: str) -> str:
    """`llama-canary-h200`: a DNS label, whatever the two names are.

    Where letters are replaced or cut off, a digest of both names tells it from others that are left with the same.
    """
    whole = f"{name}-canary-{accelerator.lower()}"
    if len(whole) <= LONGEST_NAME and _LABEL.fullmatch(whole):
        return whole
    digest = hashlib.sha256(f"{name}\n{accelerator}".encode()).hexdigest()[:8]
    first, tried = (_OTHERS.sub("-", each.lower()).strip("-") for each in (name, accelerator))
    ending = "-".join(filter(None, ("canary", tried[:_LONGEST_TRIED].rstrip("-"), digest)))
    kept = first[: LONGEST_NAME - len(ending) - 1].rstrip("-")
    return f"{kept}-{ending}" if kept else ending


def _settings(settings: VariantSettings, accelerator: str, place: Place) -> VariantSettings:
    source = Source(kind=SourceKind.ANNOTATION, place=place)
    return replace(settings, values={**settings.values, CANARY.name: Sourced(value=accelerator, source=source)})
