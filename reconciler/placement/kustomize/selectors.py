"""Which objects a patch targets: anchored patterns on names, and label selectors as the API server reads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from reconciler.manifests.wording import quote
from reconciler.placement.objects import ObjectDraft, ObjectIdentity
from reconciler.placement.origins import SourceField

_LONGEST_PATTERN: Final = 256
_MAX_QUANTIFIERS: Final = 3
# A person's pattern runs against every name of a cluster: literals, classes, alternatives and a few quantifiers on
# single characters, so that no hostile one can drive a backtracking matcher.
_TAME: Final = re.compile(r"(?:(?:[A-Za-z0-9_/-]|\\[.-]|\.|\[[A-Za-z0-9._-]+\])[*+?]?|[|^$]|\((?:\?:)?|\)(?![*+?]))*")
_SET_TERM: Final = re.compile(r"\s*([^\s,!=()]+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUALITY_TERM: Final = re.compile(r"\s*([^\s,!=()]+)\s*(==?|!=)\s*([^\s,!=()]*)\s*")
_EXISTS_TERM: Final = re.compile(r"\s*(!?)\s*([^\s,!=()]+)\s*")


class Unclear(Exception):  # noqa: N818 - not an error: whether something is meant cannot be told
    """Raised when a pattern cannot be matched safely, or not be read."""


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    is_tame = len(pattern) <= _LONGEST_PATTERN and _TAME.fullmatch(pattern)
    if not is_tame or sum(map(pattern.count, "*+?")) - pattern.count("(?:") > _MAX_QUANTIFIERS:
        raise Unclear(f"the pattern {quote(pattern)} is not followed")
    try:
        return re.compile(f"^(?:{pattern})$", re.ASCII)
    except re.error as error:
        raise Unclear(f"the pattern {quote(pattern)} cannot be read: {error}") from error


def matches(pattern: str, text: str) -> bool:
    """Whether the whole of a text fits a pattern; an empty one fits all. Raises Unclear."""
    if not pattern or pattern == text:
        return True
    return _compile(pattern).match(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A target: all that is given must fit. Group, version, kind, name and namespace are patterns."""

    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    labels: str = ""
    annotations: str = ""

    @classmethod
    def read(cls, source: SourceField) -> "Selector":
        """The selector that stands at a `target`."""
        return cls(
            group=source.text("group"),
            version=source.text("version"),
            kind=source.text("kind"),
            name=source.text("name"),
            namespace=source.text("namespace"),
            labels=source.text("labelSelector"),
            annotations=source.text("annotationSelector"),
        )

    def selects(self, draft: ObjectDraft) -> bool:
        """Whether an object is meant, by its first or its present name. Raises Unclear."""
        # Asked of every object for every patch: what is not given costs nothing.
        first, now = draft.original, draft.identity
        return (
            (not self.kind or matches(self.kind, now.kind))
            and (not self.name or matches(self.name, first.name) or (now is not first and matches(self.name, now.name)))
            and (not self.group or matches(self.group, now.group))
            and (not self.version or matches(self.version, now.version))
            and (not self.namespace or self._fits_namespace(first, now))
            and (not self.labels or match_labels(self.labels, _labels_of(draft, "labels")))
            and (not self.annotations or match_labels(self.annotations, _labels_of(draft, "annotations")))
        )

    def _fits_namespace(self, first: ObjectIdentity, now: ObjectIdentity) -> bool:
        namespaces = (first.effective.namespace, now.effective.namespace)
        return any(matches(self.namespace, namespace) for namespace in namespaces)


def _labels_of(draft: ObjectDraft, name: str) -> Mapping[str, str]:
    found = draft.value_at("metadata", name)
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def match_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels fit a selector such as `app=x,tier in (a, b),!old`. Raises Unclear when it cannot be read."""
    position = 0
    while position < len(selector):
        fits, position = _match_term(selector, position, labels)
        if not fits:
            return False
        if position < len(selector):
            if selector[position] != ",":
                raise Unclear(f"the selector {quote(selector)} cannot be read")
            position += 1
    return True


def _match_term(selector: str, position: int, labels: Mapping[str, str]) -> tuple[bool, int]:
    if term := _SET_TERM.match(selector, position):
        key, operator, listed = term.groups()
        is_listed = key in labels and labels[key] in {each.strip() for each in listed.split(",")}
        return is_listed is (operator == "in"), term.end()
    if term := _EQUALITY_TERM.match(selector, position):
        key, operator, value = term.groups()
        return (labels.get(key) == value) is (operator != "!="), term.end()
    if term := _EXISTS_TERM.match(selector, position):
        negation, key = term.groups()
        return (key in labels) is not bool(negation), term.end()
    raise Unclear(f"the selector {quote(selector)} cannot be read")
