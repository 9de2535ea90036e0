"""From files, flags and environment to the effective settings of a run, with secrets bound to trusted origins."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from pathlib import Path
from typing import TypeVar

from reconciler.config.environment import (
    FORGE_TOKEN,
    GITHUB_APP_ID,
    PAUSED,
    PROMETHEUS_TOKEN,
    TRUSTED_ORIGINS,
    Environment,
    Flags,
    join_origins,
)
from reconciler.config.files import (
    EMPTY,
    HEADER,
    MAX_FILE_BYTES,
    REPOSITORY_FILE,
    RepositoryFolder,
    RepositoryReader,
    load_policies,
    no_files,
    read_layers,
)
from reconciler.config.layers import PlacedValue, merge
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import (
    FILL_IN,
    Assumption,
    ClusterSettings,
    Configuration,
    ForgeSettings,
    GaugeSettings,
    PrometheusSettings,
    Pushgateway,
    Settings,
)
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import host_and_path
from reconciler.forge.registry import FORGES, kind_of
from reconciler.http.redaction import origin_of
from reconciler.manifests.wording import describe, join_words

Value = TypeVar("Value")
DEFAULT_CLUSTER = "default"
_SCP_LIKE = re.compile(r"[A-Za-z0-9._-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!//).+")
_SSH = re.compile(r"ssh://(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?/.*")


# Trust: a secret goes only to origins that the operator named, so merging a change cannot send one elsewhere.


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
    has_credential = settings.forge.token is not None or environment.github_app is not None
    if has_credential and settings.forge.kind != "local":
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
    prefixes = (kind.api_prefix for kind in FORGES.values() if kind.api_prefix and re.fullmatch(kind.hosts, authority))
    return frozenset({origin, *(f"{scheme}://{prefix}{authority}" for prefix in prefixes)})


# The whole: files, flags and environment in order.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings that are safe to act on.

    `findings` are warnings, and errors of rules, which hold what they are for. Secrets may be sent to `trusted_origins`
    and nowhere else. `paused` says what stops all writing, `RECONCILER_PAUSED` or `reconciler.yaml:7`; else empty.
    `gauges` is where our own go after a run.
    """

    settings: Settings
    findings: tuple[Finding, ...] = ()
    trusted_origins: frozenset[str] = frozenset()
    paused: str = ""
    gauges: GaugeSettings | None = None


def load_settings(
    *,
    repository_file: bytes | None,
    read_repository_file: RepositoryReader,
    list_repository_folder: RepositoryFolder = no_files,
    operator_files: Sequence[Path] = (),
    flags: Flags,
    environment: Environment,
    decides: bool = True,
) -> LoadedSettings:
    """The effective settings; `repository_file` holds the bytes of `reconciler.yaml` in the base commit.

    Without `decides`, the default preset is not read where the configuration names no rules: a tenth of a start.
    Raises ConfigurationError that lists everything that is wrong, one finding a line.
    """
    sources = Sources(repository_file, read_repository_file, list_repository_folder, operator_files)
    loaded, findings = load(sources, flags, environment, decides=decides)
    if loaded is None:
        raise ConfigurationError("\n".join(str(each) for each in findings if each.severity is Severity.ERROR))
    return loaded


def check_settings(
    *,
    repository_file: bytes | None,
    read_repository_file: RepositoryReader,
    list_repository_folder: RepositoryFolder = no_files,
    operator_files: Sequence[Path] = (),
    flags: Flags,
    environment: Environment,
) -> tuple[Finding, ...]:
    """Everything that `load_settings` would complain about, for `validate`; never raises for it."""
    sources = Sources(repository_file, read_repository_file, list_repository_folder, operator_files)
    return load(sources, flags, environment, decides=False)[1]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where files are read from: `repository_file` holds the bytes of `reconciler.yaml`, the others those it names."""

    repository_file: bytes | None
    read: RepositoryReader
    list_folder: RepositoryFolder
    operator_files: Sequence[Path]


def load(
    sources: Sources, flags: Flags, environment: Environment, *, decides: bool = True
) -> tuple[LoadedSettings | None, tuple[Finding, ...]]:
    """The effective settings (None: they are wrong) and everything there is to say of them; never raises for it."""
    layers, findings = read_layers(sources.repository_file, sources.read, sources.operator_files)
    root = reduce(merge, layers, EMPTY)
    configuration: Configuration | None = Configuration()
    wrong: tuple[Finding, ...] = ()
    if layers:
        from reconciler.config.conversion import read_configuration  # its schema is a tenth of a start

        configuration, wrong = read_configuration(root, environment.secrets_directory)
    findings = _once((*findings, *wrong, *_find_flag_errors(flags, environment)))
    if configuration is None or _has_errors(findings):
        return None, findings
    settings = _fill_gaps(configuration.settings, flags, environment)
    findings += (
        *configuration.findings,
        *_find_misused_flags(settings, flags, environment),
        *_find_unfilled(settings, flags),
    )
    rules, misnamed, broken = load_policies(
        root.at("policies"), sources.read, sources.list_folder, with_default=decides
    )
    findings += misnamed
    if _has_errors(findings):
        return None, findings
    settings = replace(_select(settings, flags, environment), rules=rules)
    urls, gauges = urls_of(root), configuration.gauges
    trusted = trusted_origins(urls, flags, environment)
    findings += tuple(find_untrusted(settings, gauges, urls, trusted, environment))
    if _has_errors(findings):
        return None, findings
    findings += broken
    paused = str(root.at("paused").place) if configuration.is_paused else ""
    paused = PAUSED if environment.is_paused else paused
    loaded = LoadedSettings(
        settings=settings,
        findings=findings,
        trusted_origins=trusted,
        paused=paused,
        gauges=gauges,
    )
    return loaded, findings


def _once(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """One finding a place, by file and line: what a file says of itself comes before what the merged tree says."""
    first: dict[Place, Finding] = {}
    for finding in findings:
        first.setdefault(finding.place, finding)
    return tuple(sorted(first.values()))


def _has_errors(findings: tuple[Finding, ...]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def _find_flag_errors(flags: Flags, environment: Environment) -> Iterator[Finding]:
    """What is wrong with the command line and the environment by themselves."""
    try:
        origin_of(flags.prometheus or "http://prometheus")
    except ValueError as error:
        yield _wrong("--prometheus", str(error))
    for variable, read in (
        (PROMETHEUS_TOKEN, lambda: environment.prometheus_token),
        (FORGE_TOKEN, lambda: environment.own_forge_token),
        (GITHUB_APP_ID, lambda: environment.github_app),
        (TRUSTED_ORIGINS, lambda: environment.trusted_origins),
    ):
        try:
            read()
        except ConfigurationError as error:
            yield _wrong(variable, str(error).removeprefix(f"{variable}: "))


def _find_unfilled(settings: Settings, flags: Flags) -> Iterator[Finding]:
    """Addresses that `init` left to a person, of the clusters that are asked; a flag gives another for now."""
    asked = () if flags.prometheus else _selected(settings, flags)
    for cluster in asked:
        if cluster.prometheus is not None and cluster.prometheus.url == FILL_IN:
            place = cluster.prometheus.place or cluster.place or Place(path=REPOSITORY_FILE)
            message = f"expected the address that a job reaches it by, got {FILL_IN}: fill it in (--prometheus for now)"
            yield Finding(place=place, severity=Severity.ERROR, message=message)


def _find_misused_flags(settings: Settings, flags: Flags, environment: Environment) -> Iterator[Finding]:
    """Options that do not fit the configuration."""
    names = [cluster.name for cluster in settings.clusters]
    for name in dict.fromkeys(flags.clusters):
        if name not in names:
            yield _wrong("--cluster", f"no cluster {describe(name)}: expected {join_words(names)}")
    if flags.prometheus and len(_selected(settings, flags)) > 1:
        message = f"it is for one cluster: choose {join_words(names)} with --cluster, or set clusters[].prometheus.url"
        yield _wrong("--prometheus", message)
    is_named = any(
        cluster.prometheus is not None and cluster.prometheus.bearer_token == environment.prometheus_token
        for cluster in settings.clusters
    )
    if environment.prometheus_token is not None and not flags.prometheus and not is_named:
        yield _wrong(PROMETHEUS_TOKEN, "no effect without --prometheus", Severity.WARNING)


def _wrong(source: str, message: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(place=Place(path=source), severity=severity, message=message)


def _fill_gaps(settings: Settings, flags: Flags, environment: Environment) -> Settings:
    """What is not configured: one cluster of all files, and the environment's token for the forge."""
    settings = replace(settings, forge=_fill_forge(settings.forge, flags.remote or flags.repo, environment))
    if settings.clusters:
        return settings
    return replace(settings, clusters=(ClusterSettings(name=DEFAULT_CLUSTER),), assumed=(Assumption.ONE_CLUSTER,))


def _fill_forge(forge: ForgeSettings, remote: str, environment: Environment) -> ForgeSettings:
    """What the environment says of the forge of `remote`; a directory without a remote says nothing."""
    by_host = kind_of(remote)
    kind, url = environment.forge_of_job(host_and_path(remote)[0])
    if kind and not forge.kind and not forge.url:
        forge, by_host = replace(forge, kind=kind, url=url), kind
    if forge.token is not None or forge.kind == "local":
        return forge
    return replace(forge, token=environment.forge_token(forge.kind if by_host in ("", "local") else by_host))


def _selected(settings: Settings, flags: Flags) -> tuple[ClusterSettings, ...]:
    return tuple(cluster for cluster in settings.clusters if not flags.clusters or cluster.name in flags.clusters)


def _select(settings: Settings, flags: Flags, environment: Environment) -> Settings:
    """The clusters of `--cluster`; with `--prometheus` their labels, queries and headers stay as files have them."""
    selected = _selected(settings, flags)
    others = tuple(cluster for cluster in settings.clusters if cluster not in selected)
    if url := flags.prometheus:
        connected = []
        for cluster in selected:
            prometheus = replace(cluster.prometheus or PrometheusSettings(url=url), url=url, place=None)
            if environment.prometheus_token is not None:
                prometheus = replace(prometheus, bearer_token=environment.prometheus_token, basic_auth=None)
            connected.append(replace(cluster, prometheus=prometheus))
        selected = tuple(connected)
    shard = None if flags.shard is None or flags.shard.count == 1 else flags.shard
    return replace(settings, clusters=selected, other_clusters=others, shard=shard)


FIRST_LINE = "# Kept by reconciler fit --write: edits are lost."

_DIGITS = Context(prec=6, rounding=ROUND_HALF_EVEN)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_NO_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def render_learned(models: Mapping[str, Sequence[PerformanceProfile]]) -> str:
    """A whole configuration file with these profiles by model id, equal for equal profiles in any order.

    Numbers have up to six significant digits. Only parameters, batch size and
    learning are written.
    """
    lines = [FIRST_LINE, *(f"{key}: {value}" for key, value in HEADER.items())]
    lines += ["models:" if models else "models: []"]
    for model_id, profiles in sorted(models.items()):
        lines += [f"  - id: {_text(model_id)}", "    profiles:" if profiles else "    profiles: []"]
        for profile in sorted(profiles, key=lambda each: each.accelerator):
            first, *others = _render_profile(profile)
            lines += [f"      - {first}", *(f"        {line}" for line in others)]
    return "\n".join(lines) + "\n"


def read_learned(path: Path) -> Mapping[str, tuple[PerformanceProfile, ...]]:
    """The profiles in the file by model id; none when there is no file.

    Raises ConfigurationError when the file is not one that `render_learned` made: it belongs to a person.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or 'unknown reason'}") from error
    first_line = content.partition(b"\n")[0].rstrip(b"\r")
    if first_line != FIRST_LINE.encode():
        message = f"expected the first line {FIRST_LINE!r}: the file is somebody's own, name another or remove it"
        raise ConfigurationError(f"{path}:1: {message}")
    loaded = load_settings(
        repository_file=None,
        read_repository_file=lambda _: None,
        operator_files=[path],
        flags=Flags(),
        environment=Environment(),
        decides=False,
    )
    return {model.model_id: model.profiles for model in loaded.settings.models}


def _render_profile(profile: PerformanceProfile) -> Iterator[str]:
    yield f"accelerator: {_text(profile.accelerator)}"
    for name, seconds in profile.times_s.items():
        if seconds is not None:
            yield f"{name}: {_number(seconds, 3)}ms"
    if profile.token_budget is not None:
        yield f"maxBatchedTokens: {profile.token_budget}"
    if profile.overlap:
        yield f"overlap: {_number(profile.overlap, 2)}%"
    if profile.tokens_per_step != 1:
        yield f"tokensPerStep: {_number(profile.tokens_per_step)}"
    if profile.step_tokens != profile.tokens_per_step:
        yield f"computedPerStep: {_number(profile.step_tokens)}"
    yield f"maxBatchSize: {profile.max_batch_size}"
    if profile.learning is not None:
        yield "learned:"
        yield from (f"  {line}" for line in _render_learning(profile.learning))


def _render_learning(learning: Learning) -> Iterator[str]:
    yield f"date: {learning.on}"
    yield f"samples: {learning.samples}"
    yield f"error: {_number(learning.error, 2)}%"
    for name, (smallest, largest) in (
        ("batch", learning.batch),
        ("inputTokens", learning.input_tokens),
        ("outputTokens", learning.output_tokens),
    ):
        yield f"{name}: [{_number(smallest)}, {_number(largest)}]"
    if learning.reach is not None:
        yield f"reach: {learning.reach}"
    if learning.cached:
        yield f"cached: {_number(learning.cached, 2)}%"
    if learning.margin != 1:
        yield f"margin: {_number(learning.margin)}"


def _number(value: float, shift: int = 0) -> str:
    """The number times ten to the power of `shift`, without an exponent."""
    rounded = Decimal(repr(float(value))).scaleb(shift).normalize(_DIGITS)
    # Twelve decimals are all that a quantity may have: see `values`.
    return f"{rounded:.12f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """Plain where no reader of YAML could take it for anything but text."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT else json.dumps(text, ensure_ascii=False)
