"""PromQL text from quantities: labels validated, values escaped, candidates coalesced."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import Template

from reconciler.domain.settings import PrometheusSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.metrics.quantities.quantity import ALTERNATIVE, CONFIGURABLE_QUANTITIES, Name, Quantity
from reconciler.metrics.queries.selectors import add_matchers, cut_at_or

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
TRITON_MODEL = "model"
"""The label in which Triton names its own model, which nobody asks for."""
NUMBERED = re.compile(rf'label_replace\((?P<text>.*), "{ALTERNATIVE}", "(?P<number>[0-9]+)", "", ""\)', re.DOTALL)
SPECIAL_IN_RE2 = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNames:
    """How a server spells namespace, pod and model."""

    namespace: str = "namespace"
    pod: str = "pod"
    model: str = "model_name"

    def spell(self, label: str) -> str:
        """The server's word for one of our three, any other label as it is."""
        return {"namespace": self.namespace, "pod": self.pod, "model": self.model}.get(label, label)


def label_names(settings: PrometheusSettings) -> LabelNames:
    """The spelling of `settings`; ConfigurationError for a name of ours that is unknown or a label that is none."""
    unknown = sorted(set(settings.label_names) - {"namespace", "pod", "model"})
    if unknown:
        raise ConfigurationError(f'prometheus.labelNames: expected namespace, pod or model, found "{unknown[0]}"')
    for label in settings.label_names.values():
        _check_label(label, "prometheus.labelNames")
    return LabelNames(**settings.label_names)


def names_in(settings: Settings, cluster: str) -> LabelNames:
    """The spelling of one cluster's server."""
    found = next((each.prometheus for each in settings.clusters if each.name == cluster), None)
    return label_names(found) if found else LabelNames()


def matchers(settings: PrometheusSettings, namespaces: Iterable[str] = ()) -> str:
    """The matchers of every selector: `matchLabels`, then the namespaces if any."""
    parts = [equals(name, value) for name, value in sorted(settings.match_labels.items())]
    wanted = sorted(set(namespaces))
    if wanted:
        parts.append(_one_of(label_names(settings).namespace, wanted))
    return ",".join(parts)


def equals(label: str, value: str) -> str:
    """One matcher; ConfigurationError for a label that is none."""
    _check_label(label, "prometheus.matchLabels")
    return f"{label}={quote(value)}"


def quote(text: str) -> str:
    """A PromQL string literal: nothing in `text` can end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def render(quantity: Quantity, names: LabelNames, where: str, window_s: float | None = None) -> str:
    """One expression for all candidates of a quantity, over its own window unless `window_s` is another."""
    by = [names.spell(label) for label in quantity.by]
    substitutes: Mapping[str, str] = {
        "by": ", ".join(by),
        "unnamed": ", ".join(label for label in by if label != TRITON_MODEL),
        "place": f"{names.namespace}, {names.pod}",
        "served": f"{names.namespace}, {names.model}",
        "namespace": names.namespace,
        "pod": names.pod,
        "model": names.model,
        "where": where,
        "window": duration(window_s or quantity.window_s),
    }
    told = [Template(candidate).substitute(substitutes) for candidate in quantity.candidates]
    if quantity.tells_alternative:
        told = [_numbered(text, number) for number, text in enumerate(told)]
    return _first_of(told, quantity, names)


def stated(quantity: Quantity, own: Mapping[Name, str], names: LabelNames, rendered: str) -> str:
    """What `own` words say of a quantity, then its candidates as `rendered`: a series counts once, by the first."""
    said = own.get(quantity.name, "")
    return _first_of([f"({said})", rendered], quantity, names) if said else rendered


def own_words(settings: PrometheusSettings, where: str) -> Mapping[Name, str]:
    """What `queries` say, by the quantity that they are asked as."""
    asked = ((CONFIGURABLE_QUANTITIES.get(key), text) for key, text in settings.queries.items())
    return {name: add_matchers(text, where) for name, text in asked if name is not None}


def alternatives_in(text: str) -> Iterator[tuple[str, str]]:
    """The candidates of a query after the number that their series carry, empty where they carry none."""
    for part in cut_at_or(text):
        numbered = NUMBERED.fullmatch(part)
        yield (numbered["number"], numbered["text"]) if numbered else ("", part)


def _first_of(texts: list[str], quantity: Quantity, names: LabelNames) -> str:
    """Each series by the first text that has it, however many more labels it carries where it tells which that was."""
    on = f" on ({', '.join(map(names.spell, quantity.by))})" if quantity.tells_alternative else ""
    return f" or{on} ".join(texts)


def _numbered(text: str, number: int) -> str:
    return f'label_replace({text}, "{ALTERNATIVE}", "{number}", "", "")'


def exported_label(key: str) -> str:
    """How kube-state-metrics spells a label of an object on its series."""
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", exported_resource(key)).lower()


def exported_resource(name: str) -> str:
    """How kube-state-metrics spells a resource of nodes and containers (`nvidia.com/gpu`)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def duration(span_s: float) -> str:
    """A PromQL duration of whole seconds, in the largest unit that fits."""
    seconds = max(1, round(span_s))
    return next(f"{seconds // size}{unit}" for unit, size in UNITS if seconds % size == 0)


def _one_of(label: str, values: list[str]) -> str:
    if len(values) == 1:
        return equals(label, values[0])
    escaped = (SPECIAL_IN_RE2.sub(lambda found: "\\" + found[0], value) for value in values)
    return f"{label}=~{quote('|'.join(escaped))}"


def _check_label(label: str, field: str) -> None:
    if not LABEL_NAME.fullmatch(label):
        raise ConfigurationError(f"{field}: expected a label name (letters, digits, underscores), found {label!r}")
