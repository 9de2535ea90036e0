"""Priors of a model from what Git says of it: its shape, its profiles, its target, and the accelerators of clusters."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.inventory import PRODUCT_KEYS, Accelerator, Catalog
from reconciler.domain.priors import Datasheet, Lengths, ModelShape, Prior, Priors, Refusal
from reconciler.domain.records import replace
from reconciler.domain.settings import ModelSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.resources.llmaz.models import OpenModel
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
) -> Priors:
    """The priors of a model on the accelerators in `asked`, by name; without any on all that a cluster prices.

    Without prices it is all of the shipped table. Where clusters differ, in a price say, each is answered for itself.
    """
    stated = next((each for each in settings.models if each.model_id == model_id), ModelSettings(model_id=model_id))
    mine = [each for each in variants if each.model.model_id == model_id]
    target_s = min((each for each in map(_itl_target_s, mine) if each is not None), default=None)
    found: list[tuple[Prior | Refusal, list[str]]] = []
    lengths = USUAL
    for cluster, catalog in sorted(catalogs.items()):
        known = known_profiles(stated, mine, catalog)
        lengths = usual_lengths(known)  # of profiles, which are the same everywhere
        for answer in _answers(stated, asked, catalog, known, lengths, target_s):
            same = next((clusters for each, clusters in found if each == answer), None)
            if same is None:
                found.append((answer, [cluster]))
            else:
                same.append(cluster)
    told = [replace(each, clusters=() if len(at) == len(catalogs) else tuple(at)) for each, at in found]
    return Priors(
        model_id=model_id,
        shape=shape_of(stated),
        lengths=lengths,
        itl_target_s=target_s,
        currency=settings.currency,
        priors=tuple(sorted((each for each in told if isinstance(each, Prior)), key=_cost)),
        refusals=tuple(each for each in told if isinstance(each, Refusal)),
    )


def _answers(
    stated: ModelSettings,
    asked: Sequence[str],
    catalog: Catalog,
    known: Sequence[Known],
    lengths: Lengths,
    target_s: float | None,
) -> Iterator[Prior | Refusal]:
    """What is said of each accelerator in one cluster."""
    model_id, shape = stated.model_id, shape_of(stated)
    priced = [name for name, each in catalog.accelerators.items() if each.cost_per_hour is not None]
    for name in dict.fromkeys(asked or priced or DATASHEETS):
        accelerator = find_or_name(catalog, name)
        runs = next((each for each in known if each.hardware.name == accelerator.name), None)
        if runs is not None:
            yield Refusal(model_id=model_id, accelerator=accelerator.name, reason=_has_profile(runs))
        elif shape is None:
            reason = "no shape of the model: give models[].shape.config, the path of its config.json"
            yield Refusal(model_id=model_id, accelerator=accelerator.name, reason=reason)
        else:
            yield estimate(model_id, shape, hardware_of(accelerator), lengths, known, target_s)


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


def shape_of(stated: ModelSettings) -> ModelShape | None:
    """The shape of a model, in the format that somebody wrote: of its `config.json`, else the shipped table's."""
    is_read = bool(stated.shape_config) or stated.shape is not None
    shape = stated.shape if is_read else find_shape(stated.model_id)
    return shape if shape is None or stated.weights is None else replace(shape, weights=stated.weights)


def with_shapes(settings: Settings, read: Callable[[str], bytes | None]) -> tuple[Settings, tuple[Finding, ...]]:
    """The settings with what the `config.json` of each model says, and what is wrong with those that say nothing.

    `read` gives the bytes of a file of the commit, None where there is none; ValueError says why it cannot.
    """
    models: list[ModelSettings] = []
    found: list[Finding] = []
    for each in settings.models:
        models.append(each)
        if not each.shape_config:
            continue
        try:
            shape = read_shape(_mapping(read(each.shape_config)), source=each.shape_config, weights=each.weights)
            models[-1] = replace(each, shape=shape)
        except ValueError as error:
            place = each.place or Place(path=each.shape_config)
            message = f"models[].shape.config: {each.shape_config}: {error}"
            found.append(Finding(place=place, severity=Severity.WARNING, message=message))
    return replace(settings, models=tuple(models)), tuple(found)


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


def with_hub_shapes(settings: Settings, models: Iterable[OpenModel]) -> Settings:
    """The settings with the shapes of llmaz's models, whose names say nothing, by their ids on hubs.

    A name that means several models, in two clusters say, has none.
    """
    hubs: dict[str, set[str]] = {}
    for each in models:
        hubs.setdefault(each.key.name, set()).add(each.hub_id)
    found = {name: find_shape(*ids) for name, ids in hubs.items() if len(ids) == 1}
    named = {each.model_id: each for each in settings.models}
    more: list[ModelSettings] = []
    for name, shape in found.items():
        stated = named.get(name, ModelSettings(model_id=name))
        if shape is not None and shape_of(stated) is None and not stated.shape_config:
            more.append(replace(stated, shape=shape))
    if not more:
        return settings
    named |= {each.model_id: each for each in more}
    return replace(settings, models=tuple(named.values()))


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


def usual_lengths(known: Iterable[Known]) -> Lengths:
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
