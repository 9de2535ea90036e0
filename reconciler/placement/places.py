"""The effective place of a number: where an edit changes what the cluster gets, or why there is no such place."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.domain.identity import Place, ResourceKey
from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field, describe, join_words, name_field
from reconciler.placement.fleet import Fleet
from reconciler.placement.markers import MarkerComment
from reconciler.placement.objects import BuiltObject, Obstacle
from reconciler.placement.origins import AS_BUILT, OriginKind, ValueOrigin
from reconciler.resources.validation import is_templated

REPLICAS: Final[Field] = ("spec", "replicas")
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePlace:
    """The scalar that decides a number; `considered` is the whole chain, the effective link first."""

    origin: ValueOrigin
    considered: tuple[ValueOrigin, ...]

    @property
    def place(self) -> Place:
        """File, line and field path, for people."""
        return self.origin.place

    @property
    def value(self) -> Value:
        """What stands there."""
        return self.origin.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """Why a number cannot be written, with what was considered; `is_ignored`: a person said to leave it alone."""

    obstacle: Obstacle
    considered: tuple[ValueOrigin, ...] = ()
    is_ignored: bool = False

    def __str__(self) -> str:
        return str(self.obstacle)


def effective_place(
    fleet: Fleet, key: ResourceKey, path: Field = REPLICAS, *, word: str = "replicas"
) -> EffectivePlace | NoPlace:
    """Where a number of an object is decided; `word` is what a marker comment calls it.

    Marker comment, else the chain of the built object: overlay's `replicas`, patch, component, base. An object that no
    root builds has no place here: see `helm_place`.
    """
    marked = marked_place(fleet, key, word, path)
    if marked is not None:
        return marked
    found = fleet.objects.get(key, ())
    if not found:
        return _no_place(f"no build of {key.cluster} holds {key.kind} {key.label}")
    if len(found) > 1:
        roots = join_words([f"{built.root}" for built in found[:_MOST_NAMED]], "and")
        return _no_place(f"{key.kind} {key.label} is built by {roots}: keep one", found[0].place)
    return place_in(fleet, found[0], path)


def _no_place(reason: str, place: Place | None = None, considered: tuple[ValueOrigin, ...] = ()) -> NoPlace:
    return NoPlace(obstacle=Obstacle(reason=reason, place=place), considered=considered)


def place_in(fleet: Fleet, built: BuiltObject, path: Field) -> EffectivePlace | NoPlace:
    """Where a field of one built object is decided, markers aside."""
    obstacle = built.obstacle_at(path)
    chain = built.origin_of(path)
    if obstacle is not None:
        return NoPlace(obstacle=obstacle, considered=chain)
    if not chain:
        words = f"{built.key.kind} {built.key.label} has no {name_field(path)}: write the live count there"
        return _no_place(words, built.place)
    if built.value_at(*path) is None:
        return _no_place(
            f"{name_field(path)} of {built.key.label} is removed by a {chain[0].kind}", chain[0].place, chain
        )
    deployer = fleet.deployer_of(built)
    own = {built.key} if deployer is None else {built.key, deployer.key_in(built.key.cluster)}
    others = (str(other.key) for other in fleet.readers_of(chain[0], path) if other.key not in own)
    return judge(fleet, built.key, chain, others)


def judge(
    fleet: Fleet, key: ResourceKey, chain: tuple[ValueOrigin, ...], others: Iterable[str]
) -> EffectivePlace | NoPlace:
    """The first link of a chain as the place to edit, unless something is in its way.

    `others` are the objects that an edit there would change as well.
    """
    origin = chain[0]
    reason = _unwritable(origin)
    if not reason and fleet.is_ignored(origin):
        return replace(_no_place("ignored: the comment behind it says so", origin.place, chain), is_ignored=True)
    reason = reason or _reaching(fleet, key, origin, others)
    if reason:
        return _no_place(reason, origin.place, chain)
    return EffectivePlace(origin=origin, considered=chain)


def _unwritable(origin: ValueOrigin) -> str:
    if is_templated(origin.value):
        return f"it is filled in by a template: {describe(origin.value)}"
    if origin.document == AS_BUILT:
        return "who deploys it is itself patched or made of a template: the number has no place of its own"
    value = origin.value
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not is_count and not (isinstance(value, str) and value.isascii() and value.isdigit()):
        return f"expected a whole number, got {describe(value)}"
    return ""


def _is_at(marker: MarkerComment, origin: ValueOrigin) -> bool:
    where = (origin.place.path, origin.document, origin.field)
    return origin.embedding is None and (marker.path, marker.document, marker.field) == where


def _reaching(fleet: Fleet, key: ResourceKey, origin: ValueOrigin, others: Iterable[str]) -> str:
    """An edit must change one object of one cluster."""
    path = origin.place.path
    elsewhere = fleet.roots_elsewhere(path)
    if elsewhere:
        more = f" and {len(elsewhere) - _MOST_NAMED} more" if len(elsewhere) > _MOST_NAMED else ""
        named = join_words(elsewhere[:_MOST_NAMED], "and")
        return f"{path} is built into {named}{more} too, which no cluster's paths hold: a change would reach both"
    if path in fleet.shared_paths:
        names = join_words(sorted(fleet.holders_of(path) | {key.cluster}), "and")
        return f"{path} is reached by {names}: a change would reach all of them"
    found = sorted(set(others))
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        named = join_words(found[:_MOST_NAMED], "and")
        return f"a change here would also change {named}{more}: give each of them a place of its own"
    return ""


def marked_place(fleet: Fleet, key: ResourceKey, word: str, path: Field = REPLICAS) -> EffectivePlace | NoPlace | None:
    """Where a marker comment says that an object's number stands; None when none does."""
    markers = _markers_for(fleet, key, word, path)
    if not markers:
        return None
    considered = tuple(origin_of_marker(marker) for marker in markers)
    if len(markers) > 1:
        places = join_words([str(marker.place) for marker in markers], "and")
        return _no_place(f"{len(markers)} marker comments claim {word} of {key.kind} {key.label}: {places}: keep one")
    rivals = _namesakes(fleet, markers[0], key)
    if rivals:
        words = f"the marker comment means {key.kind} {key.name} in several namespaces: {join_words(rivals, 'and')}"
        return _no_place(words, markers[0].place, considered)
    clusters = fleet.holders_of(markers[0].path)
    if len(clusters) > 1:
        words = (
            f"{markers[0].path} is reached by {join_words(sorted(clusters), 'and')}: a change would reach all of them"
        )
        return _no_place(words, markers[0].place, considered)
    reason = _unwritable(considered[0])
    if reason:
        return _no_place(reason, markers[0].place, considered)
    chains = [built.origin_of(path) for built in fleet.objects.get(key, ())[:1]]
    return EffectivePlace(origin=considered[0], considered=(*considered, *(link for chain in chains for link in chain)))


def _markers_for(fleet: Fleet, key: ResourceKey, word: str, path: Field) -> Sequence[MarkerComment]:
    """The markers of an object; in its own manifest, where it has several numbers, the one behind this number."""
    markers = fleet.markers_for(key, word)
    if len(markers) > 1 and not any(marker.kind for marker in markers):
        origins = [origin for built in fleet.objects.get(key, ()) for origin in built.origin_of(path)[:1]]
        return [marker for marker in markers if any(_is_at(marker, origin) for origin in origins)]
    return markers


def _namesakes(fleet: Fleet, marker: MarkerComment, key: ResourceKey) -> Sequence[str]:
    """Objects that a marker's words fit as well; in their own manifest they fit one."""
    if not marker.kind:
        return ()
    fitting = fleet.named(key.cluster, key.kind, key.name)
    return sorted(each.label for each in fitting) if len(fitting) > 1 else ()


def origin_of_marker(marker: MarkerComment) -> ValueOrigin:
    """The link that a marker amounts to."""
    return ValueOrigin(
        place=marker.place,
        kind=OriginKind.MARKER,
        value=marker.value,
        document=marker.document,
        field=marker.field,
    )
