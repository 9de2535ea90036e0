"""The service classes that ConfigMaps list, by what a resource may know them by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from reconciler.domain.declared.declarations import Declaration, ListedClass, SloClassRef
from reconciler.domain.identity import Place, ResourceKey

UPSTREAM_CONFIG_MAP = "service-classes-config"
_CONTROLLER_NAMESPACES = ("inferno-autoscaler-system", "workload-variant-autoscaler-system")
"""Where upstream's installers put its controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClasses:
    """All that is listed: by cluster and model, and where each key of a ConfigMap stands, by cluster and its names.

    `controllers` are the namespaces of each cluster in which upstream's controller keeps its configuration.
    """

    by_model: Mapping[tuple[str, str], Sequence[ListedClass]]
    places: Mapping[tuple[str, str, str, str], Place | None]
    controllers: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, declaration: Declaration) -> "ListedClasses":
        """The index: a fleet's ConfigMap names hundreds, for thousands of variants."""
        by_model: dict[tuple[str, str], list[ListedClass]] = {}
        places: dict[tuple[str, str, str, str], Place | None] = {}
        for cluster, listed in declaration.classes.items():
            for each in listed:
                by_model.setdefault((cluster, each.model_id), []).append(each)
                places.setdefault((cluster, each.namespace, each.config_map, each.key), each.service_class.place)
        clusters = {*declaration.classes, *declaration.costs, *declaration.saturation, *declaration.zero}
        return cls(
            by_model=by_model,
            places=places,
            controllers={cluster: _controllers_in(cluster, declaration) for cluster in clusters},
        )

    def of_model(self, resource: ResourceKey, model_id: str) -> Sequence[ListedClass]:
        """Whatever lists a model in a resource's cluster."""
        return self.by_model.get((resource.cluster, model_id), ())

    def namespaces_for(self, resource: ResourceKey) -> tuple[str, ...]:
        """Where a ConfigMap that a resource names is looked for: in its own namespace, then in the controller's."""
        return tuple(dict.fromkeys((resource.namespace, *self.controllers.get(resource.cluster, ()))))

    def place_of(self, resource: ResourceKey, reference: SloClassRef) -> tuple[bool, Place | None]:
        """Whether Git has the key that a resource names, and where."""
        for namespace in self.namespaces_for(resource):
            key = resource.cluster, namespace, reference.name, reference.key
            if key in self.places:
                return True, self.places[key]
        return False, None


def _controllers_in(cluster: str, declaration: Declaration) -> tuple[str, ...]:
    named = (each.namespace for each in declaration.classes.get(cluster, ()) if each.config_map == UPSTREAM_CONFIG_MAP)
    configured = chain(
        (each.namespace for each in declaration.saturation.get(cluster, ())),
        (each.namespace for each in declaration.zero.get(cluster, ())),
    )
    own = (namespace for namespace in configured if (cluster, namespace) not in declaration.opted_in_namespaces)
    priced = (each.namespace for each in declaration.costs.get(cluster, ()))
    found = sorted({*named, *own, *priced} - {""})
    return (*found, *(each for each in _CONTROLLER_NAMESPACES if each not in found))
