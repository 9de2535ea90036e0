"""Claims: which models a Playground or Service serves, and in which flavors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.llmaz import ModelClaim, ModelRef, ModelRole
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.manifests.wording import quote
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import Shape

CLAIM, CLAIMS = ("spec", "modelClaim"), ("spec", "modelClaims")
NOTES = dict.fromkeys(
    ("multiModelsClaim", "multiModelsClaims"),
    "llmaz has renamed it and drops it now: write modelClaims with a list of models",
)


class SingleClaim(Shape):
    """`modelClaim`: one model."""

    model_name: str
    inference_flavors: list[str] | None = None


class _ClaimedModelFields(Shape):
    name: str
    role: Literal["main", "draft"] = "main"


class SeveralClaims(Shape):
    """`modelClaims`: models with their roles."""

    models: Annotated[list[_ClaimedModelFields], Field(min_length=1)]
    inference_flavors: list[str] | None = None


def as_claim(source: KubernetesObject, claim: SingleClaim) -> ModelClaim:
    """A claim of one model, which is the main one."""
    return ModelClaim(
        models=(ModelRef(name=claim.model_name, place=source.locate((*CLAIM, "modelName"))),),
        flavor_names=tuple(claim.inference_flavors or ()),
        field=CLAIM,
        place=source.locate(CLAIM),
        flavors_place=_locate_flavors(source, CLAIM, claim.inference_flavors),
    )


def as_claims(source: KubernetesObject, claims: SeveralClaims) -> ModelClaim:
    """A claim of several models."""
    return ModelClaim(
        models=tuple(
            ModelRef(name=model.name, role=ModelRole(model.role), place=source.locate((*CLAIMS, "models", index)))
            for index, model in enumerate(claims.models)
        ),
        flavor_names=tuple(claims.inference_flavors or ()),
        field=CLAIMS,
        place=source.locate(CLAIMS),
        flavors_place=_locate_flavors(source, CLAIMS, claims.inference_flavors),
    )


def _locate_flavors(source: KubernetesObject, path: tuple[str, ...], names: Sequence[str] | None) -> Place | None:
    return source.locate((*path, "inferenceFlavors")) if names is not None else None


def check_roles(source: KubernetesObject, claims: SeveralClaims, *, is_strict: bool) -> Iterator[Finding]:
    """A draft goes with exactly one other model, the main one; `is_strict` as the webhook of a Service is.

    That of a Playground lets pass two drafts, and both let pass two main models; nobody can run them.
    """
    path = (*CLAIMS, "models")
    roles: Counter[str] = Counter(model.role for model in claims.models)
    num_models, num_main = len(claims.models), roles["main"]
    if is_strict and num_models > 2:
        yield source.complain(path, f"expected at most 2 models, got {num_models}")
    elif roles["draft"] and num_models != 2:
        yield source.complain(path, f"expected a draft beside one main model, got {_count(roles)}")
    elif roles["draft"] and num_main != 1:
        severity = Severity.ERROR if is_strict else Severity.WARNING
        yield source.complain(path, f"expected one main model, got {_count(roles)}", severity)
    elif num_main > 1:
        message = f"expected one main model, got {num_main}: {quote(claims.models[0].name)}, the first, is served"
        yield source.complain(path, message, Severity.WARNING)
    yield from check_flavor_names(source, CLAIMS, claims.inference_flavors)


def check_flavor_names(
    source: KubernetesObject, path: tuple[str, ...], names: Sequence[str] | None
) -> Iterator[Finding]:
    """A flavor that is named twice cannot have two ranks."""
    seen: set[str] = set()
    for index, name in enumerate(names or ()):
        if name in seen:
            message = f"{quote(name)} is already listed above"
            yield source.complain((*path, "inferenceFlavors", index), message, Severity.WARNING)
        seen.add(name)


def _count(roles: Counter[str]) -> str:
    return " and ".join(f"{roles[role]} {role}" for role in ("main", "draft") if roles[role])
