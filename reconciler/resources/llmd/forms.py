"""Which form a spec has: told from the fields that are there, refused when they contradict each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.variant_forms import Form, StatusShape
from reconciler.manifests.wording import join_words
from reconciler.resources.llmd.spec import FlatProfileSpec, NameSpec, ParmsProfileSpec, Spec, TargetSpec

_TARGET_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas")
_PROFILE_FIELDS = ("sloClassRef", "modelProfile")
_FLAT_FIELDS = ("alpha", "beta", "atTokens")


@dataclass(frozen=True, slots=True)
class FormOfSpec:
    """A form with the model that validates it and the status its version has."""

    form: Form
    model: type[Spec]
    status_shape: StatusShape


_TARGET = FormOfSpec(Form.TARGET, TargetSpec, StatusShape.TARGET)
_FLAT = FormOfSpec(Form.PROFILE, FlatProfileSpec, StatusShape.FULL)
_PARMS = FormOfSpec(Form.PROFILE, ParmsProfileSpec, StatusShape.TTFT)
_NAME = FormOfSpec(Form.NAME, NameSpec, StatusShape.TTFT)


def tell_form(spec: Mapping[str, object]) -> FormOfSpec:
    """The form that the written fields belong to, however incomplete."""
    if _written(spec, _TARGET_FIELDS):
        return _TARGET
    entries = _entries(spec)
    has_parms = any("perfParms" in entry for entry in entries)
    if "sloClassRef" in spec:
        return _PARMS if has_parms else _FLAT
    if not has_parms and any(_written(entry, _FLAT_FIELDS) for entry in entries):
        return _FLAT
    return _NAME


def find_contradiction(spec: Mapping[str, object]) -> tuple[str, str] | None:
    """A field of the spec that no version has together with another, and what to do about it."""
    target = _written(spec, _TARGET_FIELDS)
    profile = _written(spec, _PROFILE_FIELDS) if target else ()
    if profile:
        return profile[0], _word_contradiction(profile, "the profile form", target, "the target form")
    entries = _entries(spec)
    if any("perfParms" in entry for entry in entries):
        flat = next((found for entry in entries if (found := _written(entry, _FLAT_FIELDS))), ())
    else:
        flat = ()
    if flat:
        message = _word_contradiction(("perfParms",), "the profile of 2025-09", flat, "the one before it")
        return "modelProfile", message
    return None


def _word_contradiction(left: tuple[str, ...], left_form: str, right: tuple[str, ...], right_form: str) -> str:
    left_words, right_words = join_words(left, "and"), join_words(right, "and")
    return f"{left_words} ({left_form}) contradicts {right_words} ({right_form}): remove one of the two"


def _written(fields: Mapping[str, object], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if fields.get(name) is not None)


def _entries(spec: Mapping[str, object]) -> list[Mapping[str, object]]:
    profile = spec.get("modelProfile")
    accelerators = profile.get("accelerators") if isinstance(profile, dict) else None
    return [entry for entry in accelerators if isinstance(entry, dict)] if isinstance(accelerators, list) else []
