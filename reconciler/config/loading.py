"""From files, flags and environment to the effective settings of a run, with secrets bound to trusted origins."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from pathlib import Path
from typing import TypedDict, TypeVar

from pydantic import BaseModel

from reconciler.config import schema
from reconciler.config.environment import (
    FORGE_TOKEN,
    GITHUB_APP_ID,
    PAUSED,
    PROMETHEUS_TOKEN,
    TRUSTED_ORIGINS,
    Environment,
    Flags,
    find_refusal,
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
from reconciler.config.schema import ConfigurationFile, SecretSection, find_unknown_devices
from reconciler.config.values import ConfigSection, VariantSection, stated_in
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.inventory import PRODUCTS, Accelerator
from reconciler.domain.priors import Datasheet, Weights
from reconciler.domain.profiles import Learning, PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import (
    DELIVER,
    DELIVER_CONDITIONS,
    FILL_IN,
    Assumption,
    BasicAuth,
    ClusterSettings,
    Event,
    ForgeSettings,
    GaugeSettings,
    GitSettings,
    Identity,
    ModelSettings,
    Override,
    PoolSettings,
    PrometheusSettings,
    PullRequestSettings,
    Pushgateway,
    SecretRef,
    Setting,
    Settings,
    Signing,
    Tls,
    Worth,
)
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import host_and_path
from reconciler.forge.registry import FORGES, kind_of
from reconciler.http.redaction import origin_of
from reconciler.manifests.wording import describe, join_words
from reconciler.resources.validation import validate

Value = TypeVar("Value")
DEFAULT_CLUSTER = "default"
_SCP_LIKE = re.compile(r"[A-Za-z0-9._-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!//).+")
_SSH = re.compile(r"ssh://(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?/.*")


def convert(configuration: schema.ConfigurationFile, root: PlacedValue) -> Settings:
    """The settings that a configuration amounts to; `root` is the merged tree that it was validated from."""
    git, status = configuration.git, configuration.status
    if not isinstance(status, str):
        status = DELIVER_CONDITIONS if status.deliver.conditions else DELIVER
    author = None if git.author is None else _same(Identity, git.author)
    signing = git.signing and Signing(method=git.signing.method, key=_secret(git.signing.key))
    return Settings(
        currency=configuration.currency,
        run_interval_s=configuration.run_interval,
        run_interval_source="runInterval" if "run_interval" in configuration.model_fields_set else "",
        clusters=tuple(map(_cluster, configuration.clusters, root.at("clusters").items)),
        accelerators=tuple(map(_accelerator, configuration.accelerators, root.at("accelerators").items)),
        service_classes=tuple(map(_service_class, configuration.service_classes, root.at("serviceClasses").items)),
        models=tuple(map(_model, configuration.models, root.at("models").items)),
        defaults=_settings(configuration.defaults, root.at("defaults")),
        overrides=tuple(map(_override, configuration.overrides, root.at("overrides").items)),
        workloads=tuple(map(_override, configuration.workloads, root.at("workloads").items)),
        events=tuple(map(_event, configuration.events)),
        git=_same(GitSettings, git, base_branch=git.base_branch or "", author=author, signing=signing),
        forge=ForgeSettings(
            kind=configuration.forge.kind or "",
            url=configuration.forge.url or "",
            token=_secret(configuration.forge.auth.token),
            place=root.at("forge").place if root.at("forge").members else None,
        ),
        pull_requests=_same(
            PullRequestSettings,
            configuration.pull_requests,
            reopen_after_s=configuration.pull_requests.reopen_after,
            merge_method=configuration.pull_requests.merge_method or "",
            milestone="" if configuration.pull_requests.milestone == "none" else configuration.pull_requests.milestone,
            open_at_once=configuration.pull_requests.limits.open,
            created_per_hour=configuration.pull_requests.limits.created_per_hour,
            pushes_per_hour=configuration.pull_requests.limits.pushes_per_hour,
            merges_per_hour=configuration.pull_requests.limits.merges_per_hour,
            worth=None
            if configuration.pull_requests.worth is None
            else _same(Worth, configuration.pull_requests.worth),
        ),
        status=status,
    )


def _cluster(cluster: schema.ClusterEntry, entry: PlacedValue) -> ClusterSettings:
    prometheus = cluster.prometheus
    return ClusterSettings(
        name=cluster.name,
        include=tuple(cluster.paths.include),
        exclude=tuple(cluster.paths.exclude),
        prometheus=None if prometheus is None else _prometheus(prometheus, entry.at("prometheus")),
        pools=tuple(
            _same(PoolSettings, pool, place=placed.place)
            for pool, placed in zip(cluster.pools, entry.at("pools").items, strict=True)
        ),
        place=entry.place,
    )


def _event(event: schema.EventEntry) -> Event:
    return _same(Event, event, from_s=event.moment(event.begins), until_s=event.moment(event.until))


def _same(kind: type[Value], section: ConfigSection, **other: object) -> Value:
    """A domain value of the fields that a section calls the same, lists as tuples, and of others that are given."""
    names = {each.name for each in fields(kind)} - other.keys()  # type: ignore[arg-type]  # every domain type is a dataclass
    found = {name: value for name, value in section if name in names}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}, **other)


def _prometheus(prometheus: schema.PrometheusSection, entry: PlacedValue) -> PrometheusSettings:
    headers = {
        name: value if isinstance(value, str) else _reference(value) for name, value in prometheus.headers.items()
    }
    return PrometheusSettings(
        url=prometheus.url,
        external_url=prometheus.external_url or "",
        match_labels=prometheus.match_labels,
        label_names=prometheus.label_names.model_dump(exclude_none=True),
        **_credentials(prometheus),
        headers=headers,
        queries=prometheus.queries,
        autoscaler_metrics=prometheus.autoscaler_metrics,
        place=entry.place,
    )


def convert_gauges(gauges: schema.GaugesSection | None) -> GaugeSettings | None:
    """Where our own gauges go; None: nowhere."""
    if gauges is None:
        return None
    pushed = gauges.pushgateway
    return GaugeSettings(
        pushgateway=None if pushed is None else Pushgateway(url=pushed.url, **_credentials(pushed)),
        textfile=gauges.textfile or "",
    )


class _Credentials(TypedDict):
    bearer_token: SecretRef | None
    basic_auth: BasicAuth | None
    tls: Tls


def _credentials(section: schema.PrometheusSection | schema.PushgatewaySection) -> _Credentials:
    basic = section.basic_auth
    return _Credentials(
        bearer_token=_secret(section.bearer_token),
        basic_auth=None if basic is None else BasicAuth(username=basic.username, password=_reference(basic.password)),
        tls=Tls(ca=_secret(section.tls.ca), cert=_secret(section.tls.cert), key=_secret(section.tls.key)),
    )


def _secret(secret: schema.SecretSection | None) -> SecretRef | None:
    return None if secret is None else _reference(secret)


def _reference(secret: schema.SecretSection) -> SecretRef:
    return SecretRef(file=secret.file or "", env=secret.env or "")


def _accelerator(accelerator: schema.AcceleratorEntry, entry: PlacedValue) -> Accelerator:
    cost = entry.at("costPerHour").place
    return _same(
        Accelerator,
        accelerator,
        device=accelerator.device or accelerator.name,
        label_value=accelerator.label_value or accelerator.name,
        datasheet=_datasheet(accelerator),
        place=entry.place,
        cost_place=cost if accelerator.cost_per_hour is not None and cost.path != entry.place.path else None,
    )


def _datasheet(accelerator: schema.AcceleratorEntry) -> Datasheet | None:
    sheet = accelerator.datasheet
    if sheet is None:
        return None
    return Datasheet(
        device=accelerator.device or accelerator.name,
        vendor="nvidia",
        generation=sheet.generation,
        memory_bytes=sheet.memory,
        bandwidth_bytes_per_s=sheet.bandwidth,
        bf16_flops=sheet.bf16,
        fp8_flops=sheet.fp8,
        fp4_flops=sheet.fp4,
        link_bytes_per_s=sheet.link,
        source="accelerators[].datasheet",
    )


def _service_class(service_class: schema.ServiceClassEntry, entry: PlacedValue) -> ServiceClass:
    unserved = service_class.unserved_cost_per_1000_requests
    return _same(
        ServiceClass,
        service_class,
        ttft=_target(service_class.ttft, service_class.ttft_percentile),
        itl=_target(service_class.itl, service_class.itl_percentile),
        unserved_cost_per_request=None if unserved is None else unserved / 1000,
        place=entry.place,
    )


def _target(limit_s: float | None, percentile: float | None) -> SloTarget | None:
    return None if limit_s is None else SloTarget(limit_s=limit_s, percentile=percentile)


def _model(model: schema.ModelEntry, entry: PlacedValue) -> ModelSettings:
    return ModelSettings(
        model_id=model.id,
        served_names=tuple(model.served_names),
        profiles=tuple(map(_profile, model.profiles, entry.at("profiles").items)),
        shape_config=model.shape.config or "",
        weights=None if model.shape.weights is None else Weights(model.shape.weights),
        settings=_settings(model, entry),
        place=entry.place,
    )


def _profile(profile: schema.ProfileEntry, entry: PlacedValue) -> PerformanceProfile:
    return PerformanceProfile(
        accelerator=profile.accelerator,
        alpha_s=profile.alpha,
        beta_s=profile.beta,
        max_batch_size=profile.max_batch_size,
        gamma_s=profile.gamma,
        delta_s=profile.delta,
        prompt_s=profile.prefill_per_token,
        token_budget=profile.max_batched_tokens,
        overlap=profile.overlap,
        tokens_per_step=profile.tokens_per_step,
        step_tokens=max(profile.computed_per_step, profile.tokens_per_step),
        place=entry.place,
        learning=None if profile.learned is None else _same(Learning, profile.learned, on=profile.learned.date),
    )


def _override(override: schema.OverrideEntry | schema.WorkloadsEntry, entry: PlacedValue) -> Override:
    return Override(
        match=override.match.model_dump(exclude_none=True, exclude={"labels"}),
        labels=override.match.labels,
        settings=_settings(override, entry),
        place=entry.place,
    )


def _settings(section: VariantSection, entry: PlacedValue) -> Mapping[str, Setting]:
    """What one layer gives, by the names of the settings; what it leaves out is not there."""
    return {each.name: Setting(value=value, place=entry.at(*each.path).place) for each, value in stated_in(section)}


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
        *find_unknown_devices(
            root.at("clusters"),
            frozenset({*(accelerator.device for accelerator in settings.accelerators), *PRODUCTS.values()}),
        ),
        *find_misplaced_references(validated.value, root, environment.secrets_directory),
        *_find_misused_flags(settings, flags, environment),
        *_find_unfilled(settings, flags),
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
    paused = str(root.at("paused").place) if validated.value.paused else ""
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
