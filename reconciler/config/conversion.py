"""What a configuration amounts to: the merged files against their schema, and as values of the domain.

It brings the schema, a tenth of a start, so it is imported where there is a configuration.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TypedDict, TypeVar

from pydantic import BaseModel

from reconciler.config import schema
from reconciler.config.environment import find_refusal
from reconciler.config.layers import PlacedValue
from reconciler.config.schema import ConfigurationFile, SecretSection, find_unknown_devices
from reconciler.config.values import ConfigSection, VariantSection, stated_in
from reconciler.domain.identity import Finding, Severity
from reconciler.domain.inventory import PRODUCTS, Accelerator
from reconciler.domain.priors import Datasheet, Weights
from reconciler.domain.profiles import Learning, PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.settings import (
    DELIVER,
    DELIVER_CONDITIONS,
    BasicAuth,
    ClusterSettings,
    Configuration,
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
from reconciler.resources.validation import validate

Value = TypeVar("Value")


def read_configuration(root: PlacedValue, secrets_directory: str) -> tuple[Configuration | None, tuple[Finding, ...]]:
    """The configuration of a merged tree, and what is wrong with it; None without a valid one."""
    validated = validate(ConfigurationFile, root.plain, locate=lambda field: root.at(*field).place)
    if validated.value is None:
        return None, validated.findings
    settings = convert(validated.value, root)
    devices = frozenset({*(accelerator.device for accelerator in settings.accelerators), *PRODUCTS.values()})
    configuration = Configuration(
        settings=settings,
        gauges=convert_gauges(validated.value.gauges),
        is_paused=validated.value.paused,
        findings=(
            *find_unknown_devices(root.at("clusters"), devices),
            *find_misplaced_references(validated.value, root, secrets_directory),
        ),
    )
    return configuration, validated.findings


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
