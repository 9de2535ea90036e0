"""The specs of a VariantAutoscaling, field by field as its versions validate them.

Flat profiles are those of the first API document; later versions dropped `atTokens` (2025-08-12), so it may be
missing. Since 2025-09 the parameters stand in `perfParms`, as maps of text.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from reconciler.manifests.wording import quote
from reconciler.resources.validation import NonEmpty, Shape

# Beyond this, in milliseconds or money, a number is a mistake: 10^9 ms are eleven days.
_LARGEST = 1e9


def _refuse_absurd(text: str) -> str:
    if float(text) > _LARGEST:
        raise ValueError(f"expected a decimal number of at most {_LARGEST:.0f}, got {quote(text)}")
    return text


Decimal = Annotated[
    str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$", description="a decimal number"), AfterValidator(_refuse_absurd)
]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class SloClassRefFields(Shape):
    """A ConfigMap's name and a key in it."""

    name: NonEmpty
    key: NonEmpty


class FlatAccelerator(Shape):
    """An accelerator with alpha and beta in milliseconds."""

    acc: NonEmpty
    acc_count: Count
    alpha: Decimal
    beta: Decimal
    max_batch_size: Count
    at_tokens: Count | None = None


class DecodeParms(Shape):
    """Milliseconds of an iteration, and per request in it."""

    alpha: Decimal
    beta: Decimal


class PrefillParms(Shape):
    """Milliseconds of a prefill, and per input token and request in it."""

    gamma: Decimal
    delta: Decimal


class PerfParms(Shape):
    """Parameters since 2025-09; without a prefill part only decoding is described."""

    decode_parms: DecodeParms
    prefill_parms: PrefillParms | None = None


class ParmsAccelerator(Shape):
    """An accelerator with its parameters in maps."""

    acc: NonEmpty
    acc_count: Count
    max_batch_size: Count
    perf_parms: PerfParms


class FlatProfile(Shape):
    """`modelProfile` of the first version."""

    accelerators: Annotated[list[FlatAccelerator], Field(min_length=1)]


class ParmsProfile(Shape):
    """`modelProfile` since 2025-09."""

    accelerators: Annotated[list[ParmsAccelerator], Field(min_length=1)]


class FlatProfileSpec(Shape):
    """Profile form, first version: all fields are required; v0.0.5 has a cost, too."""

    model_id: NonEmpty = Field(alias="modelID")
    slo_class_ref: SloClassRefFields
    model_profile: FlatProfile
    variant_cost: Decimal | None = None


class ParmsProfileSpec(Shape):
    """Profile form of 2025-09."""

    model_id: NonEmpty = Field(alias="modelID")
    slo_class_ref: SloClassRefFields
    model_profile: ParmsProfile
    variant_cost: Decimal | None = None


class ScaleTargetRefFields(Shape):
    """The object whose replicas are set."""

    kind: NonEmpty
    name: NonEmpty
    api_version: str | None = None


class TargetSpec(Shape):
    """Target form: v0.5, and v0.6 to v0.8 with bounds. What is not written stays None: a CRD default is no wish."""

    scale_target_ref: ScaleTargetRefFields
    model_id: NonEmpty = Field(alias="modelID")
    variant_cost: Decimal | None = None
    min_replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    max_replicas: Count | None = None


class NameSpec(Shape):
    """Name form, v0.4: the target is the Deployment of the resource's name."""

    model_id: NonEmpty = Field(alias="modelID")
    model_profile: ParmsProfile | None = None
    variant_cost: Decimal | None = None


Spec = FlatProfileSpec | ParmsProfileSpec | TargetSpec | NameSpec
