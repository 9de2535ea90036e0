"""Models for series that name none, or a name of the engine's own: TGI and Triton are known by their pods alone."""

from collections.abc import Mapping

from reconciler.domain.identity import ResourceKey
from reconciler.metrics.attribution import Attribution
from reconciler.metrics.readings import PodSeries, Readings, Served, gather_by_model


def name_models(readings: Readings, attribution: Attribution, first_names: Mapping[ResourceKey, Served]) -> None:
    """Count each series without a model for the first served name of the variant whose pod it is."""
    unnamed = {series for values in readings.per_pod.values() for series in values if not series.model}
    names: dict[PodSeries, PodSeries] = {}
    for series in unnamed:
        variant = attribution.variant_of(series)
        if variant is not None:
            names[series] = series._replace(model=first_names[variant].model)
    if not names:
        return
    for name, values in readings.per_pod.items():
        known = {series: value for series, value in values.items() if series not in names}
        # a pod that names its model beside a series that does not has said it already
        readings.per_pod[name] = {names.get(series, series): value for series, value in values.items()} | known
    readings.renamed.update(names.values())
    gather_by_model(readings)
