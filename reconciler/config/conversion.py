"""A validated configuration -> domain values, each with its place."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TypedDict, TypeVar

from reconciler.config import connections, facts, schema
from reconciler.config.layers import PlacedValue
from reconciler.config.section import ConfigSection, VariantSection, stated_in
from reconciler.domain.inventory import Accelerator
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.service_classes import ServiceClass, SloTarget
from reconciler.domain.settings import (
    DELIVER,
    DELIVER_CONDITIONS,
    BasicAuth,
    ClusterSettings,
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
    Tls,
)

Value = TypeVar("Value")


def convert(configuration: schema.ConfigurationFile, root: PlacedValue) -> Settings:
    """The settings that a configuration amounts to; `root` is the merged tree that it was validated from."""
    return Settings(
        currency=configuration.currency,
        clusters=tuple(map(_cluster, configuration.clusters, root.at("clusters").items)),
        accelerators=tuple(map(_accelerator, configuration.accelerators, root.at("accelerators").items)),
        service_classes=tuple(map(_service_class, configuration.service_classes, root.at("serviceClasses").items)),
        models=tuple(map(_model, configuration.models, root.at("models").items)),
        defaults=_settings(configuration.defaults, root.at("defaults")),
        overrides=tuple(map(_override, configuration.overrides, root.at("overrides").items)),
        git=_git(configuration.git),
        forge=_forge(configuration.forge, root.at("forge")),
        pull_requests=_same(
            PullRequestSettings,
            configuration.pull_requests,
            reopen_after_s=configuration.pull_requests.reopen_after,
            merge_method=configuration.pull_requests.merge_method or "",
            open_at_once=configuration.pull_requests.limits.open,
            created_per_hour=configuration.pull_requests.limits.created_per_hour,
            pushes_per_hour=configuration.pull_requests.limits.pushes_per_hour,
            merges_per_hour=configuration.pull_requests.limits.merges_per_hour,
        ),
        status=_status(configuration.status),
    )


def _status(status: str | schema.StatusSection) -> str:
    if isinstance(status, str):
        return status
    return DELIVER_CONDITIONS if status.deliver.conditions else DELIVER


def _cluster(cluster: facts.ClusterEntry, entry: PlacedValue) -> ClusterSettings:
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


def _same(kind: type[Value], section: ConfigSection, **other: object) -> Value:
    """A domain value of the fields that a section calls the same, lists as tuples, and of others that are given."""
    names = {each.name for each in fields(kind)} - other.keys()  # type: ignore[arg-type]  # every domain type is a dataclass
    found = {name: value for name, value in section if name in names}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}, **other)


def _prometheus(prometheus: connections.PrometheusSection, entry: PlacedValue) -> PrometheusSettings:
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
        place=entry.place,
    )


def convert_gauges(gauges: connections.GaugesSection | None) -> GaugeSettings | None:
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


def _credentials(section: connections.PrometheusSection | connections.PushgatewaySection) -> _Credentials:
    basic = section.basic_auth
    return _Credentials(
        bearer_token=_secret(section.bearer_token),
        basic_auth=None if basic is None else BasicAuth(username=basic.username, password=_reference(basic.password)),
        tls=Tls(ca=_secret(section.tls.ca), cert=_secret(section.tls.cert), key=_secret(section.tls.key)),
    )


def _secret(secret: connections.SecretSection | None) -> SecretRef | None:
    return None if secret is None else _reference(secret)


def _reference(secret: connections.SecretSection) -> SecretRef:
    return SecretRef(file=secret.file or "", env=secret.env or "")


def _accelerator(accelerator: facts.AcceleratorEntry, entry: PlacedValue) -> Accelerator:
    cost = entry.at("costPerHour").place
    return _same(
        Accelerator,
        accelerator,
        device=accelerator.device or accelerator.name,
        label_value=accelerator.label_value or accelerator.name,
        place=entry.place,
        cost_place=cost if accelerator.cost_per_hour is not None and cost.path != entry.place.path else None,
    )


def _service_class(service_class: facts.ServiceClassEntry, entry: PlacedValue) -> ServiceClass:
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
        settings=_settings(model, entry),
        place=entry.place,
    )


def _profile(profile: facts.ProfileEntry, entry: PlacedValue) -> PerformanceProfile:
    return PerformanceProfile(
        accelerator=profile.accelerator,
        alpha_s=profile.alpha,
        beta_s=profile.beta,
        max_batch_size=profile.max_batch_size,
        gamma_s=profile.gamma,
        delta_s=profile.delta,
        prompt_s=profile.prefill_per_token,
        token_budget=profile.max_batched_tokens,
        place=entry.place,
        learning=None if profile.learned is None else _same(Learning, profile.learned, on=profile.learned.date),
    )


def _override(override: schema.OverrideEntry, entry: PlacedValue) -> Override:
    return Override(
        match=override.match.model_dump(exclude_none=True, exclude={"labels"}),
        labels=override.match.labels,
        settings=_settings(override, entry),
        place=entry.place,
    )


def _settings(section: VariantSection, entry: PlacedValue) -> Mapping[str, Setting]:
    """What one layer gives, by the names of the settings; what it leaves out is not there."""
    return {each.name: Setting(value=value, place=entry.at(*each.path).place) for each, value in stated_in(section)}


def _git(git: schema.GitSection) -> GitSettings:
    author = None if git.author is None else _same(Identity, git.author)
    return _same(GitSettings, git, base_branch=git.base_branch or "", author=author)


def _forge(forge: schema.ForgeSection, entry: PlacedValue) -> ForgeSettings:
    return ForgeSettings(
        kind=forge.kind or "",
        url=forge.url or "",
        token=_secret(forge.auth.token),
        place=entry.place if entry.members else None,
    )
