"""Trust: a secret goes only to origins that the operator named, so merging a change cannot send one elsewhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from reconciler.config.connections import SecretSection
from reconciler.config.environment import Environment, Flags, find_refusal, join_origins
from reconciler.config.layers import PlacedValue
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.settings import GaugeSettings, PrometheusSettings, Pushgateway, SecretRef, Settings
from reconciler.http.addresses import origin_of

_SCP_LIKE = re.compile(r"[A-Za-z0-9._-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!//).+")
_SSH = re.compile(r"ssh://(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?/.*")
_API_HOSTS = {"github.com": "api.github.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedUrl:
    """A server's URL with its author."""

    server: str
    url: str
    place: Place
    by_operator: bool


def urls_of(root: PlacedValue) -> tuple[NamedUrl, ...]:
    """Every URL of a merged, valid tree: `cluster NAME` for each Prometheus, `forge`, and `gauges`."""
    named = [(f"cluster {item.key}", item.at("prometheus", "url")) for item in root.at("clusters").items]
    return tuple(
        NamedUrl(server=server, url=entry.value, place=entry.place, by_operator=entry.by_operator)
        for server, entry in [
            *named,
            ("forge", root.at("forge", "url")),
            ("gauges", root.at("gauges", "pushgateway", "url")),
        ]
        if isinstance(entry.value, str)
    )


def trusted_origins(urls: tuple[NamedUrl, ...], flags: Flags, environment: Environment) -> frozenset[str]:
    """The origins that the operator named: repository, its forge, `--prometheus`, own files, the environment."""
    named = {origin_of(url.url) for url in urls if url.by_operator}
    if flags.prometheus:
        named.add(origin_of(flags.prometheus))
    return (
        frozenset(named)
        | frozenset(environment.trusted_origins)
        | origins_of_remote(flags.repo)
        | origins_of_remote(flags.remote)
    )


def find_untrusted(
    settings: Settings,
    gauges: GaugeSettings | None,
    urls: tuple[NamedUrl, ...],
    trusted: frozenset[str],
    environment: Environment,
) -> Iterator[Finding]:
    """A finding for every server that the repository alone names and that a secret would be sent to.

    `settings` are the effective ones: whose secret it is makes no difference, since a file of the repository can
    give the URL of a cluster whose token the operator gave.
    """
    senders = {
        f"cluster {cluster.name}": cluster.prometheus.url
        for cluster in settings.clusters
        if cluster.prometheus is not None and sends_secret(cluster.prometheus)
    }
    if settings.forge.token is not None and settings.forge.kind != "local":
        senders["forge"] = settings.forge.url
    if gauges is not None and gauges.pushgateway is not None and sends_secret(gauges.pushgateway):
        senders["gauges"] = gauges.pushgateway.url
    for named in urls:
        origin = origin_of(named.url)
        if not named.by_operator and senders.get(named.server) == named.url and origin not in trusted:
            line = join_origins((*environment.trusted_origins, origin))
            message = f"{named.server}: a secret would go to {origin}, which only the repository names: set {line}"
            yield Finding(place=named.place, severity=Severity.ERROR, message=message)


def sends_secret(server: PrometheusSettings | Pushgateway) -> bool:
    """Whether a request carries or proves a secret: token, password, client key, or a header from a reference."""
    references = (server.bearer_token, server.basic_auth, server.tls.key, *server.headers.values())
    return any(reference is not None and not isinstance(reference, str) for reference in references)


def find_misplaced_references(section: BaseModel, entry: PlacedValue, secrets_directory: str) -> Iterator[Finding]:
    """A finding for every reference that a file of the repository may not make."""
    for secret, written in _references(section, entry):
        reference = SecretRef(file=secret.file or "", env=secret.env or "")
        refusal = "" if written.by_operator else find_refusal(reference, secrets_directory)
        if refusal:
            yield Finding(place=written.place, severity=Severity.ERROR, message=refusal)


def _references(value: object, entry: PlacedValue) -> Iterator[tuple[SecretSection, PlacedValue]]:
    """Every reference in a validated section, found by its type, so that a new field cannot be forgotten."""
    if isinstance(value, SecretSection):
        yield value, entry
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _references(getattr(value, name), entry.at(field.alias or name))
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _references(child, entry.at(key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _references(child, entry.at(index))


def origins_of_remote(remote: str) -> frozenset[str]:
    """The origins that naming a Git remote names: its own, and its forge's API; none for a directory.

    A remote reached by ssh names the https origin of its host.
    """
    ssh = _SCP_LIKE.fullmatch(remote) or _SSH.fullmatch(remote)
    try:
        origin = origin_of(f"https://{ssh['host']}" if ssh else remote)
    except ValueError:
        return frozenset()
    scheme, _, authority = origin.partition("://")
    return frozenset({origin, f"{scheme}://{_API_HOSTS.get(authority, authority)}"})
