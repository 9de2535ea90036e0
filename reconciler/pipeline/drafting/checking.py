"""What a plan would write, read as `validate` reads it: nothing is proposed that our own rules refuse."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.snapshot import Variant
from reconciler.snapshot.declarations import read_declaration

_COUNTED_FREELY = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet"})
"""Kinds that take any number of replicas: reading their files again would cost a tenth of a large plan for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """Finds the errors that new files would bring to the commit of a recording."""

    recording: Recording

    def find_errors(self, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
        """The errors that `validate` would find after these files are written, and not before."""
        errors = self._errors(files)
        known = {_complaint(error) for error in self._errors({})} if errors else set()
        return tuple(error for error in errors if _complaint(error) not in known)

    def _errors(self, files: Mapping[str, bytes]) -> list[Finding]:
        recording = self.recording
        bodies = {manifest.path: manifest.body for manifest in recording.manifests} | dict(files)
        manifests = tuple(ManifestFile(path=path, body=body) for path, body in sorted(bodies.items()))
        paths = {*recording.paths, *files}
        found = read_declaration(
            manifests, recording.withheld, recording.settings, paths, recording.repository
        ).findings
        return [each for each in found if each.severity is Severity.ERROR]


def has_rules(variant: Variant) -> bool:
    """Whether what holds a variant's count may refuse a number."""
    workload = variant.workload
    return workload is not None and (bool(workload.bounds_of) or workload.key.kind not in _COUNTED_FREELY)


def _complaint(finding: Finding) -> tuple[str, str, str]:
    """What is wrong and where; what is inserted above moves its line."""
    return finding.place.path, finding.place.field, finding.message
