"""What keeps a merge from being applied at once: a suspended Flux object, or the sync windows of an Argo CD project."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.placement.origins import SourceField

PROJECT: Final = "AppProject"
_DEFAULT_PROJECT: Final = "default"


def find_sync_holds(fleet: Fleet, built: BuiltObject) -> Iterator[str]:
    """Sentences for who is about to merge a change of this object, each with the place that says so."""
    deployer = fleet.deployer_of(built)
    if deployer is None:
        return
    if deployer.is_flux:
        suspended = deployer.spec.get("suspend")
        if suspended is not None and suspended.value is True:
            yield f"{deployer} is suspended ({suspended.place}): a merge waits until it is resumed"
        return
    windows = list(_windows(fleet, built.key.cluster, deployer))
    if windows:
        yield f"a merge waits for the sync windows of {deployer}: {', '.join(windows)}"


def _windows(fleet: Fleet, cluster: str, deployer: Deployer) -> Iterator[str]:
    project = _text(deployer.spec, "project") or _DEFAULT_PROJECT
    for each in fleet.of_kinds(cluster, (PROJECT,)):
        spec = each.source.get("spec")
        if each.key.name == project and spec is not None:
            yield from (_told(window) for window in spec.items("syncWindows") if _is_for(window, deployer))


def _is_for(window: SourceField, deployer: Deployer) -> bool:
    """Whether a window is for an Application: by any of its lists, or with `andOperator` by all that it has."""
    destination = deployer.spec.get("destination")
    names = {
        "applications": (deployer.identity.name,),
        "namespaces": (_text(destination, "namespace"),),
        "clusters": (_text(destination, "name"), _text(destination, "server")),
    }
    fits = [
        any(fnmatchcase(name, pattern) for pattern in patterns for name in own if name)
        for key, own in names.items()
        if (patterns := _texts(window, key))
    ]
    both = window.get("andOperator")
    return bool(fits) and (all(fits) if both is not None and both.value is True else any(fits))


def _told(window: SourceField) -> str:
    kind, schedule, duration = (_text(window, key) for key in ("kind", "schedule", "duration"))
    zone = _text(window, "timeZone") or "UTC"
    return f"{kind or 'allow'} {quote(schedule)} {zone} for {duration or '?'} ({window.place})"


def _texts(source: SourceField, key: str) -> list[str]:
    value = source.value.get(key) if isinstance(source.value, dict) else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _text(source: SourceField | None, key: str) -> str:
    try:
        return "" if source is None else source.text(key)
    except InputError:
        return ""
