"""What of a variant is not in a head: it is gone, or it is only not ours or not readable any more."""

from collections.abc import Iterable

from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Place, Severity
from reconciler.domain.reported.review import HeadView, Objection, SettingRemark
from reconciler.domain.snapshot import Variant
from reconciler.domain.workloads import Workload

KEPT = "its replicas stay as they are, and nobody sizes them"
UNREADABLE = "cannot be read any more"


def is_gone(variant: Variant, head: HeadView) -> bool:
    """Whether merging the head takes away what serves a variant of the base."""
    after = head.variants.get(variant.key)
    if after is None:
        return absence_of(variant, head) is None
    is_missing = after.workload is None and after.is_held_by(HoldKind.SCALE_TARGET_MISSING)
    return is_missing and variant.workload is not None and _unreadable_at([variant.workload.place.path], head) is None


def tells_replicas(variant: Variant) -> bool:
    """Whether its replicas can be read: not those of a target that cannot be, or that somebody else fills in."""
    return variant.workload is not None and variant.workload.replicas is not None


def absence_of(variant: Variant, head: HeadView) -> SettingRemark | None:
    """What is said of a variant that the head does not declare; None where it is gone."""
    place, workload = variant.place, variant.workload
    broken = head.broken.get(variant.key)
    if broken is not None:
        return _remark(variant, f"{UNREADABLE}: {broken.reason}", Objection.REFUSE, broken.place)
    paths = [place.path, *([workload.place.path] if workload is not None else [])]
    if (unreadable := _unreadable_at(paths, head)) is not None:
        return _remark(variant, UNREADABLE, Objection.REFUSE, unreadable)
    cluster = next((each for each in head.settings.clusters if each.name == variant.key.cluster), None)
    if place.path in head.paths and (cluster is None or not cluster.holds(place.path)):
        words = f"is outside of its cluster's paths from then on: {KEPT}"
        return _remark(variant, words, Objection.HOLD, (cluster.place if cluster is not None else None) or place)
    if workload is not None and (heir := _claimant_of(workload, head)) is not None:
        return _remark(variant, f"is declared as {heir.key.label} from then on", Objection.NONE, heir.place)
    if workload is not None and workload.key in head.workloads:
        return _remark(variant, f"is not declared any more: {KEPT}", Objection.HOLD, workload.place)
    return None


def unreadable_target(variant: Variant, head: HeadView) -> SettingRemark | None:
    """That the head has the scale target of a variant in a file that nobody can read; None where that is not so."""
    after = head.variants.get(variant.key)
    if after is None or after.workload is not None or variant.workload is None:
        return None
    place = _unreadable_at([variant.workload.place.path], head)
    return None if place is None else _remark(variant, f"its scale target {UNREADABLE}", Objection.REFUSE, place)


def _claimant_of(workload: Workload, head: HeadView) -> Variant | None:
    """Who declares a scale target in the head."""
    found = (each for each in head.variants.values() if each.workload is not None and each.workload.key == workload.key)
    return next(found, None)


def _unreadable_at(paths: Iterable[str], head: HeadView) -> Place | None:
    """Where one of some files is that the head has, and that nobody can read."""
    for path in paths:
        if path in head.unread:
            return Place(path=path)
        for finding in head.findings:
            if finding.place.path == path and finding.severity is Severity.ERROR:
                return finding.place
    return None


def _remark(variant: Variant, words: str, objection: Objection, place: Place) -> SettingRemark:
    return SettingRemark(subject=variant.key.label, words=words, objection=objection, path=place.path, line=place.line)
