"""What upstream's second cycle is told of a model beside what saturation is."""

from dataclasses import dataclass

from reconciler.domain.declared.saturation_settings import AnalyzerSettings
from reconciler.sizing.saturation import ModelReadings
from reconciler.sizing.wva.throughput import ThroughputReadings


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReadings(ModelReadings):
    """A model's readings with the analyzers that vote, and what the one called `throughput` is told."""

    analyzers: tuple[AnalyzerSettings, ...] = ()
    throughput: ThroughputReadings | None = None
