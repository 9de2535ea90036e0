"""PURE. Charts that serve models, each described by a file of data: where its values hold what.

To add a chart, write its file and add its name to `FILES`. Paths lead through the values, with dots between keys; in a
workload with `each` they lead through one item of that list, and from the top of the values with a slash before them.
A name is a text with paths in braces: `{release}` is the name of the release, `{fullname}` what Helm charts call so.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, TypeAlias

from pydantic import Field

from reconciler.domain.identity import Place
from reconciler.domain.written import FieldPath
from reconciler.manifests.documents import Value, parse_documents
from reconciler.resources.validation import NonEmpty, Shape, validate

FILES = ("llm-d-modelservice", "production-stack")

ValuePath: TypeAlias = Annotated[str, Field(min_length=1)]


class SwitchShape(Shape):
    """A value that says yes or no, and what holds without it."""

    path: ValuePath
    default: bool = False


class ScalerShape(Shape):
    """An autoscaler that the chart makes where its switch is on; `bounds` are the defaults of its kind."""

    switch: ValuePath
    kind: NonEmpty
    name: NonEmpty
    least: ValuePath | None = None
    most: ValuePath | None = None


class DevicesShape(Shape):
    """Devices in values of their own; `by_type` names the resource of each type, if there is a table of them.

    The first path of `types` that has a value counts.
    """

    count: ValuePath | None = None
    types: Sequence[ValuePath] = ()
    default: NonEmpty = "nvidia.com/gpu"
    by_type: Mapping[str, str] = Field(default_factory=dict)


class ParallelShape(Shape):
    """How a replica is spread: over `pods`, or `data` by `data_local`, each of `tensor` by `data_local` devices."""

    tensor: ValuePath | None = None
    data: ValuePath | None = None
    data_local: ValuePath | None = None
    pods: ValuePath | None = None


class ReasonShape(Shape):
    """Why a workload is not sized while a value is on, or above zero."""

    path: ValuePath
    why: NonEmpty
    default: int = 0


class WorkloadShape(Shape):
    """One Deployment that the chart makes, or one for each item of a list; a LeaderWorkerSet where `grouped` is on."""

    name: NonEmpty
    each: ValuePath | None = None
    made: Sequence[SwitchShape] = ()
    grouped: ValuePath | None = None
    replicas: ValuePath
    default: int | None = None
    scaler: ScalerShape | None = None
    annotations: ValuePath | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    model: NonEmpty | None = None
    served: NonEmpty | None = None
    containers: ValuePath | None = None
    image: NonEmpty | None = None
    command: Sequence[str] = ()
    args: ValuePath | None = None
    flags: Mapping[str, str] = Field(default_factory=dict)
    env: ValuePath | None = None
    resources: ValuePath | None = None
    devices: DevicesShape | None = None
    parallel: ParallelShape | None = None
    node_selector: ValuePath | None = None
    node_terms: ValuePath | None = None
    affinity: ValuePath | None = None
    unsized: Sequence[ReasonShape] = ()


class ChartShape(Shape):
    """A chart by its name; `sources` are repositories of Git that hold it, with its directory in them."""

    chart: NonEmpty
    seen: NonEmpty
    tried_on: Sequence[NonEmpty] = ()
    sources: Mapping[str, str] = Field(default_factory=dict)
    workloads: Annotated[Sequence[WorkloadShape], Field(min_length=1)]


@cache
def charts() -> Mapping[str, ChartShape]:
    """Every known chart by its name."""
    found = [_read(name) for name in FILES]
    return {each.chart: each for each in found}


def _read(name: str) -> ChartShape:
    path = f"{name}.yaml"
    (document,) = parse_documents(path, files(__name__).joinpath(path).read_bytes())
    validated = validate(
        ChartShape, document.value, locate=lambda field: Place(path=path, field=".".join(map(str, field)))
    )
    if validated.value is None:
        raise ValueError("; ".join(map(str, validated.findings)))
    return validated.value


def find_chart(name: str, address: str, path: str) -> ChartShape | None:
    """The chart of that name, or the one that a directory of a repository holds."""
    known = charts().get(name)
    if known is not None:
        return known
    repository = address.removesuffix(".git")
    for each in charts().values():
        if any(repository.endswith(f"/{held}") and path == directory for held, directory in each.sources.items()):
            return each
    return None


def path_in(shape: str, item: FieldPath) -> FieldPath:
    """A path of a shape in the whole values, of the item at `item` where it does not begin at the top."""
    parts: FieldPath = tuple(shape.removeprefix("/").split("."))
    return parts if shape.startswith("/") else (*item, *parts)


def value_of(values: Value, path: FieldPath) -> Value:
    """The value at a path; None where there is none."""
    for part in path:
        if isinstance(values, dict):
            values = values.get(str(part))
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        else:
            return None
    return values


def items_of(values: Value, shape: WorkloadShape) -> Iterator[FieldPath]:
    """Where each item stands that the chart makes a workload of; the top of the values without a list."""
    if shape.each is None:
        yield ()
        return
    path: FieldPath = tuple(shape.each.split("."))
    listed = value_of(values, path)
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, dict):
            yield (*path, index)
