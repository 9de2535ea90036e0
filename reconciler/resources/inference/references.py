"""References and field types that the inference gateway's resources share."""

from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.inference import EXPERIMENTAL_GROUP, POOL_GROUP, PoolRef
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import Shape

POOL_REF = ("spec", "poolRef")
_GROUP = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KIND = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"

Group = Annotated[str, Field(max_length=253, pattern=_GROUP, description="a group like gateway.networking.k8s.io")]
KindName = Annotated[str, Field(min_length=1, max_length=63, pattern=_KIND, description="a kind like InferencePool")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
Weight = Annotated[int, Field(ge=1, le=1_000_000)]


class PoolRefFields(Shape):
    """A pool by its group, kind and name."""

    group: Group = POOL_GROUP
    kind: KindName = "InferencePool"
    name: ObjectName


class ExperimentalPoolRefFields(PoolRefFields):
    """A pool by its name, in the experimental group unless another is written."""

    group: Group = EXPERIMENTAL_GROUP


def group_of(source: KubernetesObject) -> str:
    """The API group an object is written in."""
    return str(source.fields.get("apiVersion")).rpartition("/")[0]


def as_pool_ref(source: KubernetesObject, ref: PoolRefFields) -> PoolRef:
    """The reference with its place."""
    return PoolRef(name=ref.name, group=ref.group, kind=ref.kind, place=source.locate(POOL_REF))
