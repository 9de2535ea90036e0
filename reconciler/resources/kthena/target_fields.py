"""What a policy scales, as each generation writes it: in a binding, and since v1.0 in the policy itself."""

from typing import Annotated

from pydantic import Field, model_validator

from reconciler.resources.kthena.fields import Count, MetricFields, PolicyFields, ReplicaBoundsFields
from reconciler.resources.kubernetes.quantities import Quantity
from reconciler.resources.kubernetes.selectors import LocalReferenceFields, ReferenceFields, SelectorFields
from reconciler.resources.validation import NonEmpty, Shape

Port = Annotated[int, Field(ge=1, le=65535)]


class EndpointFields(Shape):
    """Where pods export their metrics (G0 to G2)."""

    uri: str | None = None
    port: Port | None = None


class EndpointFieldsG3(EndpointFields):
    """Where those pods that a selector picks export their metrics (G3)."""

    label_selector: SelectorFields | None = None


class PodSourceFields(Shape):
    """A metric that pods export; its name is that of the policy unless written."""

    name: str | None = None
    uri: Annotated[str, Field(pattern=r"^(/.*)?$", description='a path that begins with "/"')] | None = None
    port: Port | None = None
    label_selector: SelectorFields | None = None


class PrometheusSourceFields(Shape):
    """A total that a query answers. `auth` is a placeholder that upstream ignores."""

    server_url: Annotated[
        str,
        Field(
            alias="serverURL", pattern=r"^[hH][tT][tT][pP][sS]?://[^\s/]+", description="a URL like http://host:9090"
        ),
    ]
    query: NonEmpty
    auth: dict[str, object] | None = None


class SourceFields(Shape):
    """Where one metric is read."""

    pod: PodSourceFields | None = None
    prometheus: PrometheusSourceFields | None = None

    @model_validator(mode="after")
    def _check_union(self) -> "SourceFields":
        if (self.pod is None) == (self.prometheus is None):
            found = "found neither" if self.pod is None else "got both"
            raise ValueError(f"expected exactly one of pod and prometheus, {found}")
        return self


class TypedSourceFields(SourceFields):
    """Where one metric is read, as bindings wrote it for the few weeks that they had sources: with a type."""

    type: str | None = None


class TargetFieldsBeforeG3(Shape):
    """A workload; G0 wrote `name`, `kind` and `metricFrom` where later ones have a whole reference."""

    target_ref: ReferenceFields | None = None
    name: str | None = None
    kind: str | None = None
    additional_match_labels: dict[str, str] | None = None
    metric_endpoint: EndpointFields | None = None
    metric_from: EndpointFields | None = None


class SubTargetFields(Shape):
    """A role of the workload; one object in spite of its plural key."""

    kind: str | None = None
    name: str | None = None


class TargetFieldsG3(Shape):
    """A workload, or a role of it."""

    target_ref: ReferenceFields
    sub_targets: SubTargetFields | None = None
    metric_endpoint: EndpointFieldsG3 | None = None
    metric_sources: dict[str, TypedSourceFields] | None = None


class TargetFields(Shape):
    """A workload, and where each of its metrics is read."""

    target_ref: ReferenceFields
    metric_sources: dict[str, SourceFields] | None = None


AnyTargetFields = TargetFieldsBeforeG3 | TargetFieldsG3 | TargetFields


class HomogeneousFieldsBeforeG3(ReplicaBoundsFields):
    """`scalingConfiguration`."""

    target: TargetFieldsBeforeG3


class ParamFieldsBeforeG3(HomogeneousFieldsBeforeG3):
    """One workload of a group in `optimizerConfiguration`, with what a replica of it costs."""

    cost: Count | None = None


class HeterogeneousFieldsBeforeG3(Shape):
    """`optimizerConfiguration`."""

    params: Annotated[list[ParamFieldsBeforeG3], Field(min_length=1)]
    cost_expansion_rate_percent: Count | None = None


class HomogeneousFieldsG3(ReplicaBoundsFields):
    """`homogeneousTarget` of a binding."""

    target: TargetFieldsG3


class ParamFieldsG3(HomogeneousFieldsG3):
    """One workload of a group in a binding's `heterogeneousTarget`, with what a replica of it costs."""

    cost: Count | None = None


class HeterogeneousFieldsG3(Shape):
    """`heterogeneousTarget` of a binding."""

    params: Annotated[list[ParamFieldsG3], Field(min_length=1)]
    cost_expansion_rate_percent: Count | None = None


class HomogeneousFields(ReplicaBoundsFields):
    """`homogeneousTarget` of a policy."""

    target: TargetFields


class ParamFields(HomogeneousFields):
    """One workload of a group in a policy's `heterogeneousTarget`, with what a replica of it costs."""

    cost: Count | None = None


class HeterogeneousFields(Shape):
    """`heterogeneousTarget` of a policy."""

    params: Annotated[list[ParamFields], Field(min_length=1)]
    cost_expansion_rate_percent: Count | None = None


AnyHomogeneousFields = HomogeneousFieldsBeforeG3 | HomogeneousFieldsG3 | HomogeneousFields
AnyParamFields = ParamFieldsBeforeG3 | ParamFieldsG3 | ParamFields
AnyHeterogeneousFields = HeterogeneousFieldsBeforeG3 | HeterogeneousFieldsG3 | HeterogeneousFields


class RoleFields(ReplicaBoundsFields):
    """How one role is scaled."""

    metrics: Annotated[list[MetricFields], Field(min_length=1)] | None = None
    metric_sources: dict[str, SourceFields] | None = None


class RatioFields(Shape):
    """Limits of how one role moves to another."""

    numerator_role: NonEmpty
    denominator_role: NonEmpty
    min_ratio: Quantity
    max_ratio: Quantity


class DisaggregatedFields(Shape):
    """`disaggregatedTarget`."""

    target_ref: ReferenceFields
    roles: Annotated[dict[str, RoleFields], Field(min_length=1, max_length=2)]
    ratio_constraint: RatioFields | None = None


class TargetPolicyFields(PolicyFields):
    """AutoscalingPolicySpec since v1.0."""

    metrics: list[MetricFields] | None = None
    homogeneous_target: HomogeneousFields | None = None
    heterogeneous_target: HeterogeneousFields | None = None
    disaggregated_target: DisaggregatedFields | None = None


class BindingFields(Shape):
    """AutoscalingPolicyBindingSpec of all generations that had one."""

    policy_ref: LocalReferenceFields
    scaling_configuration: HomogeneousFieldsBeforeG3 | None = None
    optimizer_configuration: HeterogeneousFieldsBeforeG3 | None = None
    homogeneous_target: HomogeneousFieldsG3 | None = None
    heterogeneous_target: HeterogeneousFieldsG3 | None = None
