"""Priors of a model from what Git says of it: its shape, its profiles, its target, and the accelerators of clusters."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.inventory import PRODUCT_KEYS, Accelerator, Catalog
from reconciler.domain.priors import Datasheet, Lengths, ModelShape, Prior, Priors, Refusal
from reconciler.domain.records import replace
from reconciler.domain.settings import ModelSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.sizing.prior.datasheets import DATASHEETS
from reconciler.sizing.prior.estimate import Hardware, Known, estimate
from reconciler.sizing.prior.shapes import find_shape, read_shape
from reconciler.snapshot.accelerators import find_or_name

USUAL = Lengths(input_tokens=1024.0, output_tokens=256.0)
"""Of a request, where no learned profile says what was seen."""
_OTHER_BOARDS = ("pcie", "nvl")
"""In a product's label: boards with other rates than the module that a name such as H100 means."""


def find_priors(
    model_id: str,
    asked: Sequence[str],
    settings: Settings,
    catalogs: Mapping[str, Catalog],
    variants: Sequence[Variant],
    shape_text: bytes | None = None,
) -> Priors:
    """The priors of a model on the accelerators in `asked`, by name; without any on all that a cluster prices.

    Without prices it is all of the shipped table. `shape_text` is the `config.json` that the model's settings name.
    """
    stated = next((each for each in settings.models if each.model_id == model_id), ModelSettings(model_id=model_id))
    mine = [each for each in variants if each.model.model_id == model_id]
    shape, findings = _shape(stated, shape_text)
    merged = Catalog(
        accelerators={name: each for catalog in catalogs.values() for name, each in catalog.accelerators.items()},
        names={spelling: name for catalog in catalogs.values() for spelling, name in catalog.names.items()},
    )
    known = known_profiles(stated, mine, merged)
    lengths = _lengths(known)
    target_s = min((each for each in map(_itl_target_s, mine) if each is not None), default=None)
    priced = [name for name, each in merged.accelerators.items() if each.cost_per_hour is not None]
    found: list[Prior | Refusal] = []
    for name in dict.fromkeys(asked or priced or DATASHEETS):
        accelerator = find_or_name(merged, name)
        runs = next((each for each in known if each.hardware.name == accelerator.name), None)
        if runs is not None:
            found.append(Refusal(model_id=model_id, accelerator=accelerator.name, reason=_has_profile(runs)))
        elif shape is None:
            reason = "no shape of the model: give models[].shape.config, the path of its config.json"
            found.append(Refusal(model_id=model_id, accelerator=accelerator.name, reason=reason))
        else:
            found.append(estimate(model_id, shape, hardware_of(accelerator), lengths, known, target_s))
    return Priors(
        model_id=model_id,
        shape=shape,
        lengths=lengths,
        itl_target_s=target_s,
        currency=settings.currency,
        priors=tuple(sorted((each for each in found if isinstance(each, Prior)), key=_cost)),
        refusals=tuple(each for each in found if isinstance(each, Refusal)),
        findings=findings,
    )


def hardware_of(accelerator: Accelerator) -> Hardware:
    """What an accelerator is made of: a data sheet that somebody wrote, else the shipped one of its device."""
    return Hardware(
        name=accelerator.name,
        datasheet=accelerator.datasheet or _shipped(accelerator),
        devices=accelerator.devices,
        cost_per_hour=accelerator.cost_per_hour,
    )


def _shipped(accelerator: Accelerator) -> Datasheet | None:
    """None for a product that is another board, or another size of memory, than its device's name means."""
    labels = accelerator.node_selector
    product = next((labels[key] for key in PRODUCT_KEYS if key in labels), "").lower()
    if any(board in product for board in _OTHER_BOARDS):
        return None
    smaller = DATASHEETS.get(f"{accelerator.device}-40GB") if "40gb" in product else None
    return smaller or DATASHEETS.get(accelerator.device)


def shipped_shape(stated: ModelSettings) -> ModelShape | None:
    """The shape that the shipped table has of a model, in the format that somebody wrote."""
    return _in_format(find_shape(stated.model_id), stated)


def _shape(stated: ModelSettings, text: bytes | None) -> tuple[ModelShape | None, tuple[Finding, ...]]:
    if not stated.shape_config:
        return shipped_shape(stated), ()
    try:
        return _in_format(read_shape(_mapping(text), source=stated.shape_config), stated), ()
    except ValueError as error:
        place = stated.place or Place(path=stated.shape_config)
        message = f"models[].shape.config: {stated.shape_config}: {error}"
        return None, (Finding(place=place, severity=Severity.ERROR, message=message),)


def _in_format(shape: ModelShape | None, stated: ModelSettings) -> ModelShape | None:
    return shape if shape is None or stated.weights is None else replace(shape, weights=stated.weights)


def _mapping(text: bytes | None) -> Mapping[str, object]:
    if text is None:
        raise ValueError("no such file in the commit")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("expected JSON") from None
    if not isinstance(found, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - all that is wrong with a file is one kind of error
    return found


def known_profiles(stated: ModelSettings, variants: Iterable[Variant], catalog: Catalog) -> tuple[Known, ...]:
    """The profiles of the model by accelerator: those that it runs on first."""
    options = [option for variant in variants for option in variant.options]
    pairs = [
        *((option.accelerator, option.profile, option.accelerators_per_replica) for option in options),
        *((each.accelerator, each, each.accelerators_per_replica or 1) for each in stated.profiles),
    ]
    found: dict[str, Known] = {}
    for name, profile, each in pairs:
        hardware = hardware_of(find_or_name(catalog, name))
        hardware = replace(hardware, devices=hardware.devices * each)
        found.setdefault(hardware.name, Known(hardware=hardware, profile=profile))
    return tuple(found.values())


def _lengths(known: Iterable[Known]) -> Lengths:
    """The geometric middle of the tokens that a learned profile saw."""
    for each in known:
        learning = each.profile.learning
        if learning is not None and all(low > 0 for low, _ in (learning.input_tokens, learning.output_tokens)):
            middle = [math.sqrt(low * high) for low, high in (learning.input_tokens, learning.output_tokens)]
            return Lengths(input_tokens=middle[0], output_tokens=middle[1])
    return USUAL


def _itl_target_s(variant: Variant) -> float | None:
    target = None if variant.service_class is None else variant.service_class.value.itl
    return None if target is None else target.limit_s


def _has_profile(known: Known) -> str:
    said = "learned" if known.profile.learning is not None else "given"
    place = f" ({known.profile.place})" if known.profile.place is not None else ""
    return f"its profile is {said}{place}: nothing needs to be guessed"


def _cost(prior: Prior) -> tuple[float, float, str]:
    band = prior.cost_per_million_tokens
    return math.inf if band is None else band.median, -prior.throughput_tokens_per_s.median, prior.accelerator
