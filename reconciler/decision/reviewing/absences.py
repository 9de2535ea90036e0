"""Why a variant of the base is not in a head: it is gone, or it is only not ours or not readable any more."""

from reconciler.domain.identity import Place, Severity
from reconciler.domain.reported.review import HeadView, Objection, SettingRemark
from reconciler.domain.snapshot import Variant

KEPT = "its replicas stay as they are, and nobody sizes them"


def absence_of(variant: Variant, head: HeadView) -> SettingRemark | None:
    """What is said of it instead of that it is gone; None where it is gone."""
    place = variant.place
    paths = {place.path} | ({variant.workload.place.path} if variant.workload is not None else set())
    error = next((each for each in head.findings if each.severity is Severity.ERROR and each.place.path in paths), None)
    broken = head.broken.get(variant.key)
    if broken is not None:
        return _remark(variant, f"cannot be read any more: {broken.reason}", Objection.REFUSE, broken.place)
    if error is not None:
        return _remark(variant, "cannot be read any more", Objection.REFUSE, error.place)
    if unread := sorted(paths & head.unread):
        return _remark(variant, "cannot be read any more", Objection.REFUSE, Place(path=unread[0]))
    cluster = next((each for each in head.settings.clusters if each.name == variant.key.cluster), None)
    if place.path in head.paths and (cluster is None or not cluster.holds(place.path)):
        words = f"is outside of its cluster's paths from then on: {KEPT}"
        return _remark(variant, words, Objection.HOLD, (cluster.place if cluster is not None else None) or place)
    if variant.workload is not None and variant.workload.key in head.workloads:
        return _remark(variant, f"is not declared any more: {KEPT}", Objection.HOLD, variant.workload.place)
    return None


def _remark(variant: Variant, words: str, objection: Objection, place: Place) -> SettingRemark:
    return SettingRemark(subject=variant.key.label, words=words, objection=objection, path=place.path, line=place.line)
