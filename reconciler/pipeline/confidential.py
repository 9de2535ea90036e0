"""What a recording holds that somebody may not want to share: manifests are kept as they are in Git."""

import re
from collections.abc import Iterable, Iterator

from reconciler.domain.recording import ManifestFile
from reconciler.http.redaction import Redactor
from reconciler.placement.paths import is_kustomization

MOST_NAMED = 5
_SECRET_NAME = rb"[\w.-]{0,60}?(?:password|passwd|passphrase|secret|token|credentials?|(?:api|access|private)[_-]?key)"
_VALUE = rb"(?!(?:true|false|null|~|[0-9.]+|\{\}|\"\"|'')\s*(?:[#,}]|$))[^\s#&*\[{,}][^\n]*"
GENERATOR = re.compile(rb"^\s*[\"']?secretGenerator\b", re.MULTILINE)
EMBEDDED = re.compile(rb"^[ \t]+[\"']?kind[\"']?:[ \t]*[\"']?Secret\b", re.MULTILINE)
FIELD = re.compile(
    rb"(?:^|[\s{,/\"'-])" + _SECRET_NAME + rb"[\"']?[ \t]*[:=][ \t]*" + _VALUE, re.MULTILINE | re.IGNORECASE
)
VARIABLE = re.compile(
    rb"name:[ \t]*[\"']?" + _SECRET_NAME + rb"[\"']?[ \t]*(?:,|\r?\n)[ \t]*value:[ \t]*" + _VALUE, re.IGNORECASE
)


def find_confidential(manifests: Iterable[ManifestFile]) -> Iterator[tuple[str, str]]:
    """Paths of files that may hold a secret, each with what looks like one; a guess, by names and shapes."""
    for manifest in manifests:
        what = _look_into(manifest)
        if what:
            yield manifest.path, what


def warning_of(manifests: Iterable[ManifestFile]) -> str:
    """What to read before the recording is shared; empty when nothing looks like a secret."""
    found = [f"{path} ({what})" for path, what in find_confidential(manifests)]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    named = ", ".join(found[:MOST_NAMED])
    return f"manifests are recorded as they are in Git; look before you share it: {named}{more}" if found else ""


def _look_into(manifest: ManifestFile) -> str:
    body = manifest.body
    if is_kustomization(manifest.path) and GENERATOR.search(body):
        return "secretGenerator"
    if EMBEDDED.search(body):
        return "an embedded Secret"
    if Redactor().hide_bytes(body) != body:
        return "what has the shape of a token"
    return "a field named like a secret" if FIELD.search(body) or VARIABLE.search(body) else ""
