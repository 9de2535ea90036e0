"""What llmaz's resources declare as variants: whatever serves an OpenModel, on the flavors that it may run on."""

from collections.abc import Iterable, Iterator

from reconciler.domain.declared.declarations import Form, StatusShape, VariantResource
from reconciler.domain.declared.llmaz import FlavorChoice, InferenceService
from reconciler.domain.identity import Place
from reconciler.resources.llmaz.served_models import ServedModel


def llmaz_variants(served: Iterable[ServedModel]) -> Iterator[VariantResource]:
    """A variant for each Playground and Service, whose bounds are those of its elasticConfig."""
    for each in served:
        serving, workload = each.serving, each.workload
        elastic = None if isinstance(serving, InferenceService) else serving.elastic
        places: dict[str, Place] = {}
        if elastic is not None:
            places = {"spec.minReplicas": elastic.place, "spec.maxReplicas": elastic.place}
        yield VariantResource(
            key=workload.key,
            document=workload.document,
            place=workload.place,
            form=Form.FLAVORS,
            status_shape=StatusShape.NONE,
            model_id=each.model_name,
            target_kind=workload.key.kind,
            target_name=workload.key.name,
            min_replicas=elastic.min_replicas if elastic is not None else None,
            max_replicas=elastic.max_replicas if elastic is not None else None,
            labels=workload.labels,
            settings=workload.settings,
            places=places,
            unsupported=each.hold,
            flavors=FlavorChoice(
                ranked=each.flavors,
                field=(*serving.claim.field, "inferenceFlavors"),
                pods=each.pods,
                is_placed=each.is_placed,
            ),
        )
