"""From files, flags and environment to the effective settings of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from reconciler.config.conversion import convert, convert_gauges
from reconciler.config.environment import FORGE_TOKEN, PAUSED, PROMETHEUS_TOKEN, TRUSTED_ORIGINS, Environment, Flags
from reconciler.config.files import EMPTY, RepositoryReader, read_layers
from reconciler.config.layers import PlacedValue, merge
from reconciler.config.policies import RepositoryFolder, load_policies, no_files
from reconciler.config.pools import find_unknown_devices
from reconciler.config.schema import RUN_INTERVAL_S, ConfigurationFile
from reconciler.config.trust import find_misplaced_references, find_untrusted, trusted_origins, urls_of
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.products import PRODUCTS
from reconciler.domain.settings import (
    Assumption,
    ClusterSettings,
    ForgeSettings,
    GaugeSettings,
    PrometheusSettings,
    Settings,
)
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import host_and_path
from reconciler.forge.registry import kind_of
from reconciler.http.addresses import origin_of
from reconciler.manifests.wording import describe, join_words
from reconciler.resources.validation import validate

DEFAULT_CLUSTER = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings that are safe to act on.

    `findings` are warnings, and errors of rules, which hold what they are for. Secrets may be sent to `trusted_origins`
    and nowhere else. `paused` says who stops all writing, `RECONCILER_PAUSED` or `reconciler.yaml:7`; empty when nobody
    does. `run_interval_s` is how often a run is started, `gauges` where our own go after it.
    """

    settings: Settings
    findings: tuple[Finding, ...] = ()
    trusted_origins: frozenset[str] = frozenset()
    paused: str = ""
    run_interval_s: float = RUN_INTERVAL_S
    gauges: GaugeSettings | None = None


def load_settings(
    *,
    repository_file: bytes | None,
    read_repository_file: RepositoryReader,
    list_repository_folder: RepositoryFolder = no_files,
    operator_files: Sequence[Path] = (),
    flags: Flags,
    environment: Environment,
) -> LoadedSettings:
    """The effective settings; `repository_file` holds the bytes of `reconciler.yaml` in the base commit.

    Raises ConfigurationError that lists everything that is wrong, one finding a line.
    """
    sources = Sources(repository_file, read_repository_file, list_repository_folder, operator_files)
    loaded, findings = load(sources, flags, environment)
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
    return load(sources, flags, environment)[1]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where files are read from: `repository_file` holds the bytes of `reconciler.yaml`, the others those it names."""

    repository_file: bytes | None
    read: RepositoryReader
    list_folder: RepositoryFolder
    operator_files: Sequence[Path]


def load(sources: Sources, flags: Flags, environment: Environment) -> tuple[LoadedSettings | None, tuple[Finding, ...]]:
    """The effective settings (None: they are wrong) and everything there is to say of them; never raises for it."""
    layers, findings = read_layers(sources.repository_file, sources.read, sources.operator_files)
    root = reduce(merge, layers, EMPTY)
    validated = validate(ConfigurationFile, root.plain, locate=lambda field: root.at(*field).place)
    findings = _once((*findings, *validated.findings, *_find_flag_errors(flags, environment)))
    if validated.value is None or _has_errors(findings):
        return None, findings
    settings = _fill_gaps(convert(validated.value, root), flags, environment)
    findings += (
        *find_unknown_devices(root.at("clusters"), _known_devices(settings)),
        *find_misplaced_references(validated.value, root, environment.secrets_directory),
        *_find_misused_flags(settings, flags, environment),
    )
    policy, misnamed = load_policies(root.at("policies"), sources.read, sources.list_folder)
    findings += misnamed
    if _has_errors(findings):
        return None, findings
    settings = replace(_select(settings, flags, environment), rules=policy.rules)
    urls, gauges = urls_of(root), convert_gauges(validated.value.gauges)
    trusted = trusted_origins(urls, flags, environment)
    findings += tuple(find_untrusted(settings, gauges, urls, trusted, environment))
    if _has_errors(findings):
        return None, findings
    findings += policy.findings
    loaded = LoadedSettings(
        settings=settings,
        findings=findings,
        trusted_origins=trusted,
        paused=_who_pauses(validated.value, root, environment),
        run_interval_s=validated.value.run_interval,
        gauges=gauges,
    )
    return loaded, findings


def _who_pauses(configuration: ConfigurationFile, root: PlacedValue, environment: Environment) -> str:
    if environment.is_paused:
        return PAUSED
    return str(root.at("paused").place) if configuration.paused else ""


def _once(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """One finding a place, by file and line: what a file says of itself comes before what the merged tree says."""
    first: dict[Place, Finding] = {}
    for finding in findings:
        first.setdefault(finding.place, finding)
    return tuple(sorted(first.values()))


def _has_errors(findings: tuple[Finding, ...]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def _known_devices(settings: Settings) -> frozenset[str]:
    return frozenset({*(accelerator.device for accelerator in settings.accelerators), *PRODUCTS.values()})


def _find_flag_errors(flags: Flags, environment: Environment) -> Iterator[Finding]:
    """What is wrong with the command line and the environment by themselves."""
    try:
        origin_of(flags.prometheus or "http://prometheus")
    except ValueError as error:
        yield _wrong("--prometheus", str(error))
    for variable, read in (
        (PROMETHEUS_TOKEN, lambda: environment.prometheus_token),
        (FORGE_TOKEN, lambda: environment.own_forge_token),
        (TRUSTED_ORIGINS, lambda: environment.trusted_origins),
    ):
        try:
            read()
        except ConfigurationError as error:
            yield _wrong(variable, str(error).removeprefix(f"{variable}: "))


def _find_misused_flags(settings: Settings, flags: Flags, environment: Environment) -> Iterator[Finding]:
    """What is wrong with the command line beside the files."""
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
    """What nobody configured: one cluster of all files, and the environment's token for the forge."""
    settings = replace(settings, forge=_fill_forge(settings.forge, flags.remote or flags.repo, environment))
    if not settings.clusters:
        settings = replace(
            settings, clusters=(ClusterSettings(name=DEFAULT_CLUSTER),), assumed=(Assumption.ONE_CLUSTER,)
        )
    return settings


def _fill_forge(forge: ForgeSettings, remote: str, environment: Environment) -> ForgeSettings:
    """What the environment says of the forge of `remote`; a directory without a remote says nothing."""
    by_host = kind_of(remote)
    if not forge.kind and not forge.url and (url := environment.gitlab_api(host_and_path(remote)[0])):
        forge, by_host = replace(forge, kind="gitlab", url=url), "gitlab"
    if forge.token is not None or forge.kind == "local":
        return forge
    return replace(forge, token=environment.forge_token(forge.kind if by_host in ("", "local") else by_host))


def _selected(settings: Settings, flags: Flags) -> tuple[ClusterSettings, ...]:
    return tuple(cluster for cluster in settings.clusters if not flags.clusters or cluster.name in flags.clusters)


def _select(settings: Settings, flags: Flags, environment: Environment) -> Settings:
    selected = _selected(settings, flags)
    others = tuple(cluster for cluster in settings.clusters if cluster not in selected)
    if flags.prometheus:
        selected = tuple(_connect(cluster, flags.prometheus, environment) for cluster in selected)
    return replace(settings, clusters=selected, other_clusters=others)


def _connect(cluster: ClusterSettings, url: str, environment: Environment) -> ClusterSettings:
    """The cluster with the operator's connection; what files say of labels, queries and headers stays."""
    prometheus = replace(cluster.prometheus or PrometheusSettings(url=url), url=url, place=None)
    if environment.prometheus_token is not None:
        prometheus = replace(prometheus, bearer_token=environment.prometheus_token, basic_auth=None)
    return replace(cluster, prometheus=prometheus)
