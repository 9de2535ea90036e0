"""prometheus-adapter's configuration: how metrics of the custom and the external metrics API become PromQL.

Read in the `config.yaml` of its ConfigMap and in the values `rules` of its chart (docs/config.md of
kubernetes-sigs/prometheus-adapter at 01919d0e).
"""

from collections.abc import Callable, Iterator, Mapping

from reconciler.domain.identity import Place
from reconciler.domain.scalers import AdapterRule
from reconciler.errors import InputError
from reconciler.resources.kubernetes.fields import parse_embedded
from reconciler.resources.objects import KubernetesObject, Piece

ADAPTER_CHART = "prometheus-adapter"
_LISTS = {"rules": False, "externalRules": True}
_CHART_LISTS = {"custom": False, "external": True}
Locate = Callable[[tuple[str | int, ...]], Place]


def read_adapter_config(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The rules in a ConfigMap that looks like the adapter's; any other says nothing."""
    text = entries.get("config.yaml")
    if not isinstance(text, str) or "seriesQuery" not in text:
        return
    try:
        embedded = parse_embedded(source, "config.yaml", text, "one document")
    except InputError:
        return
    content = embedded.document.value
    if isinstance(content, Mapping):
        yield from _rules(source.cluster, content, _LISTS, embedded.locate)


def rules_in_values(cluster: str, values: Mapping[str, object], place: Place) -> Iterator[AdapterRule]:
    """The rules in the values of the adapter's chart."""
    rules = values.get("rules")
    if isinstance(rules, Mapping):
        yield from _rules(cluster, rules, _CHART_LISTS, lambda _: place)


def _rules(
    cluster: str, content: Mapping[str, object], lists: Mapping[str, bool], locate: Locate
) -> Iterator[AdapterRule]:
    for key, is_external in lists.items():
        listed = content.get(key)
        for index, entry in enumerate(listed if isinstance(listed, list) else ()):
            rule = _rule(cluster, entry, is_external, locate((key, index))) if isinstance(entry, Mapping) else None
            if rule is not None:
                yield rule


def _rule(cluster: str, entry: Mapping[str, object], is_external: bool, place: Place) -> AdapterRule | None:
    series = entry.get("seriesQuery")
    if not isinstance(series, str):
        return None
    name, resources = entry.get("name"), entry.get("resources")
    naming = name if isinstance(name, Mapping) else {}
    named = resources if isinstance(resources, Mapping) else {}
    overrides = named.get("overrides")
    labels = {
        str(each["resource"]).lower(): str(label)
        for label, each in (overrides.items() if isinstance(overrides, Mapping) else ())
        if isinstance(each, Mapping) and "resource" in each
    }
    query, template = entry.get("metricsQuery"), named.get("template")
    given = {"query": query} if isinstance(query, str) and query else {}
    return AdapterRule(
        cluster=cluster,
        is_external=is_external,
        series=series,
        place=place,
        matches=str(naming.get("matches") or ""),
        name_as=str(naming.get("as") or ""),
        labels=labels,
        template=template if isinstance(template, str) else "",
        is_namespaced=named.get("namespaced") is not False,
        **given,
    )
