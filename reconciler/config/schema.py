"""The keys and values of a configuration file: the one definition for files, editors and documentation."""

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Annotated, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from reconciler.config.layers import API_VERSION, KIND, PlacedValue
from reconciler.config.values import (
    Bandwidth,
    Branch,
    BranchPrefix,
    ClusterName,
    ConfigSection,
    Count,
    Currency,
    Day,
    Days,
    DeviceCount,
    Email,
    Factor,
    Flops,
    Grouping,
    HeaderName,
    HiddenText,
    Interval,
    LabelKey,
    LabelName,
    Latency,
    LatencyOrNone,
    MemorySize,
    Money,
    Name,
    NotYet,
    Percentage,
    Percentile,
    PersonName,
    PositiveCount,
    Priority,
    QuantityName,
    Query,
    Range,
    RelativePath,
    ResourceName,
    Text,
    TextfilePath,
    TitleTemplate,
    Url,
    VariantSection,
    WorkloadSection,
    refuse_not_yet,
    word,
)
from reconciler.domain.identity import Finding, Severity
from reconciler.domain.priors import GENERATIONS, Weights
from reconciler.domain.profiles import ATTAINMENT
from reconciler.domain.settings import (
    DELIVER,
    ON_DEMAND,
    RUN_INTERVAL_S,
    GitSettings,
    PullRequestSettings,
    Settings,
    Worth,
)
from reconciler.forge.registry import FORGES
from reconciler.manifests.wording import describe, join_words
from reconciler.resources.validation import describe_unknown, described_fields

# The text below each field describes its value in a few words: it is the editor's help and the end of the sentence
# "expected ..." in an error, and "=" is the default. A field of type `NotYet` is documented and not built: giving it is
# an error that says so. Nothing is converted. A field with `repr=False` is never shown in an error: it may be a secret.
# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

_GIT = GitSettings()
_PULL_REQUESTS = PullRequestSettings()
WORTH = Worth()
_SETTINGS = Settings()
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|credential|api-?key", re.IGNORECASE)
# With one of these a shared front door would hand the request, and the operator's token in it, to somebody else.
_ROUTING_HEADER = re.compile(
    r"host|connection|upgrade|te|trailer|expect|content-.*|transfer-.*|proxy-.*|forwarded|x-forwarded-.*|x-host"
    r"|x-original-.*|x-rewrite-.*",
    re.IGNORECASE,
)


class SecretSection(ConfigSection):
    """Where a secret is read from on each use: {file: PATH} or {env: NAME}, never the secret itself."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})
    expected = "{file: PATH} or {env: NAME}, never the secret itself"

    file: Annotated[HiddenText | None, Field(repr=False)] = None
    """the absolute path of a file"""
    env: Annotated[HiddenText | None, Field(repr=False)] = None
    """the name of an environment variable"""

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        if (self.file is None) == (self.env is None):
            raise ValueError(f"expected {self.expected}")
        if self.file is not None and not self.file.startswith("/"):
            raise ValueError("expected the absolute path of a file")
        if self.env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.env):
            raise ValueError("expected the name of an environment variable, of letters, digits and `_`")
        return self


SecretReference = Annotated[SecretSection, Field(repr=False)]
MaybeSecret = Annotated[SecretSection | None, Field(repr=False)]


class BasicAuthSection(ConfigSection):
    """User name and password of HTTP basic authentication."""

    username: Text
    """a user name"""
    password: SecretReference
    """{file: PATH} or {env: NAME}, never the password itself"""


class TlsSection(ConfigSection):
    """PEM files of a connection."""

    ca: MaybeSecret = None
    """{file: PATH} or {env: NAME} of a CA bundle (= the system's)"""
    cert: MaybeSecret = None
    """{file: PATH} or {env: NAME} of a client certificate"""
    key: MaybeSecret = None
    """{file: PATH} or {env: NAME} of the client certificate's key"""

    @model_validator(mode="after")
    def _pairs_certificate_and_key(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        return self


class LabelNamesSection(ConfigSection):
    """How the server spells the labels that we group by."""

    namespace: LabelName | None = None
    """the label of the namespace (= namespace)"""
    pod: LabelName | None = None
    """the label of the pod (= pod)"""
    model: LabelName | None = None
    """the label of the model (= model_name)"""


class PushgatewaySection(ConfigSection):
    """A Prometheus Pushgateway: where it is, and how to speak to it."""

    url: Annotated[Url, Field(repr=False)]
    """a URL like https://pushgateway.example.com"""
    bearer_token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= none)"""
    basic_auth: Annotated[BasicAuthSection | None, Field(repr=False)] = None
    """{username: NAME, password: {file: PATH}} (= none)"""
    tls: TlsSection = Field(default_factory=TlsSection)
    """{ca, cert, key}, each {file: PATH} or {env: NAME}"""

    @model_validator(mode="after")
    def _sends_no_secret_twice(self) -> Self:
        if self.bearer_token is not None and self.basic_auth is not None:
            raise ValueError("expected one of bearerToken and basicAuth")
        return self


class GaugesSection(ConfigSection):
    """Where our own gauges go after each run."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    pushgateway: PushgatewaySection | None = None
    """a Pushgateway, {url: URL} (= none)"""
    textfile: TextfilePath | None = None
    """the absolute path of a file for the node exporter, which ends in .prom (= none)"""

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Self:
        if self.pushgateway is None and self.textfile is None:
            raise ValueError("expected pushgateway or textfile")
        return self


def _tell_header(value: object) -> str:
    return "text" if isinstance(value, str) else "secret"


HeaderValue = Annotated[
    Annotated[HiddenText, Tag("text")] | Annotated[SecretSection, Tag("secret")], Discriminator(_tell_header)
]


class PrometheusSection(ConfigSection):
    """One Prometheus server: where it is, how to speak to it, and how its labels are spelled."""

    url: Annotated[Url, Field(repr=False)]
    """a URL like https://prometheus.example.com"""
    external_url: Annotated[Url | None, Field(repr=False)] = None
    """the URL where people open it, for links in pull requests (= none)"""
    match_labels: dict[LabelName, Text] = {}
    """labels that are added to every query, for a server with several clusters (= none)"""
    label_names: LabelNamesSection = Field(default_factory=LabelNamesSection)
    """the server's names for our labels: a mapping of namespace, pod, model"""
    bearer_token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= none)"""
    basic_auth: Annotated[BasicAuthSection | None, Field(repr=False)] = None
    """{username: NAME, password: {file: PATH}} (= none)"""
    tls: TlsSection = Field(default_factory=TlsSection)
    """{ca, cert, key}, each {file: PATH} or {env: NAME}"""
    headers: Annotated[dict[HeaderName, HeaderValue], Field(repr=False)] = {}
    """HTTP headers by name; text, or a secret as {file: PATH} or {env: NAME} (= none)"""
    queries: dict[QuantityName, Query] = {}
    """PromQL by quantity (arrivalRate, completions, ...), tried before the built-in candidates (= none)"""
    autoscaler_metrics: dict[Text, Query] = {}
    """PromQL by name of a metric that autoscalers go by (= by the rules of prometheus-adapter in Git)"""

    @model_validator(mode="after")
    def _sends_no_secret_twice_or_inline(self) -> Self:
        if self.bearer_token is not None and self.basic_auth is not None:
            raise ValueError("expected one of bearerToken and basicAuth")
        for name, value in self.headers.items():
            if _ROUTING_HEADER.fullmatch(name):
                raise ValueError(f"expected no header {name}: it says where a request goes, which only url may")
            if isinstance(value, str) and _SECRET_HEADER.search(name):
                raise ValueError(
                    f"expected header {name} as {{file: PATH}} or {{env: NAME}}: a secret never stands here"
                )
            if name.lower() == "authorization" and (self.bearer_token or self.basic_auth):
                raise ValueError("expected one of bearerToken, basicAuth and header Authorization")
        return self


class PoolEntry(ConfigSection):
    """Devices of one type in a cluster; several pools of a type count together."""

    name: Name
    """a name"""
    device: Name
    """the name of a device type"""
    devices: DeviceCount
    """a whole number of devices, or measured: what the nodes offer, by Prometheus"""
    reserve: Count = 0
    """a whole number of devices that are never planned (= 0)"""
    tier: Name = ON_DEMAND
    """a word like reserved or spot (= on-demand)"""
    cost_per_hour: Money | None = None
    """a plain number, the price of an hour of one device here (= the accelerator's)"""

    @model_validator(mode="after")
    def _has_what_it_reserves(self) -> Self:
        if self.devices is not None and self.reserve > self.devices:
            raise ValueError(f"expected reserve of at most devices, got {self.reserve} and {self.devices}")
        return self


def refuse_contradicting_pools(pools: list[PoolEntry]) -> list[PoolEntry]:
    """Of one device type: a measurement covers all of it, and which device a replica gets is not known."""
    first: dict[str, PoolEntry] = {}
    prices: dict[str, tuple[str, float]] = {}
    for pool in pools:
        other = first.setdefault(pool.device, pool)
        if other is not pool and (pool.devices is None or other.devices is None):
            raise ValueError(
                f"expected numbers of devices, or measured in one pool alone, got both for {describe(pool.device)}: "
                f"what is measured is all of it ({other.name}, {pool.name})"
            )
        if pool.cost_per_hour is None:
            continue
        name, price = prices.setdefault(pool.device, (pool.name, pool.cost_per_hour))
        if price != pool.cost_per_hour:
            raise ValueError(
                f"expected one costPerHour for {describe(pool.device)}, got {price:g} in {name} and "
                f"{pool.cost_per_hour:g} in {pool.name}: pools of one device type count together"
            )
    return pools


def find_unknown_devices(clusters: PlacedValue, known: Collection[str]) -> Iterator[Finding]:
    """Pools of an unknown device type, and pools named like another device type, at their lines."""
    for cluster in clusters.items:
        for pool in cluster.at("pools").items:
            name, device = pool.at("name"), pool.at("device")
            if name.plain in known and name.plain != device.plain:
                message = f"expected a name that is no other device type, got {describe(name.plain)}"
                yield Finding(place=name.place, severity=Severity.ERROR, message=message)
            if device.plain in known:
                continue
            advice = f" {describe(device.plain)}: list it under accelerators"
            message = describe_unknown(str(device.plain), sorted(known), "device type", advice=advice)
            yield Finding(place=device.place, severity=Severity.ERROR, message=message)


class PathsSection(ConfigSection):
    """Which files of the repository describe a cluster."""

    include: Annotated[list[RelativePath], Field(min_length=1)] = ["**"]
    """a list of globs from the repository's root (= all files)"""
    exclude: list[RelativePath] = []
    """a list of globs of files to leave out (= none)"""


class ClusterEntry(ConfigSection):
    """A cluster: the files that describe it and its Prometheus."""

    name: ClusterName
    """a name; groups and head branches carry it"""
    paths: PathsSection = Field(default_factory=PathsSection)
    """{include: [GLOB], exclude: [GLOB]}"""
    prometheus: PrometheusSection | None = None
    """{url: URL} and how to connect to it (= none: nothing can be measured)"""
    pools: Annotated[list[PoolEntry], AfterValidator(refuse_contradicting_pools)] = []
    """a list of pools of devices (= one per device type, as measured; else unlimited)"""


class DatasheetSection(ConfigSection):
    """What a vendor promises of one device, where the shipped table does not have it."""

    generation: Annotated[str, word(*GENERATIONS)]
    """the generation whose measured points it is like: ampere, hopper or blackwell"""
    memory: MemorySize
    """memory like 80GB, in powers of ten"""
    bandwidth: Bandwidth
    """bandwidth of that memory like 3350GB/s"""
    bf16: Flops
    """dense rate in 16 bits like 989TFLOPS, without sparsity"""
    fp8: Flops | None = None
    """dense rate in 8 bits like 1979TFLOPS (= none: computed in 16)"""
    fp4: Flops | None = None
    """dense rate in 4 bits like 9000TFLOPS (= none: computed in 8)"""
    link: Bandwidth
    """what it sends to the other devices of a replica, in one direction, like 450GB/s"""


class AcceleratorEntry(ConfigSection):
    """A device type with its count, and its price."""

    name: Name
    """a name like H100 or 2xH100"""
    device: Name | None = None
    """the name of the device type (= name)"""
    devices: PositiveCount = 1
    """a whole number of devices (= 1)"""
    resource: ResourceName = "nvidia.com/gpu"
    """the resource that containers ask for (= nvidia.com/gpu)"""
    node_selector: dict[LabelKey, Text] = {}
    """node labels that it is recognised by, and that are written when the choice changes (= none)"""
    label_value: Name | None = None
    """the value of label inference.optimization/acceleratorName (= name)"""
    aliases: list[Name] = []
    """a list of other names: ConfigMap keys, flavors, instance types (= none beside the built-in)"""
    cost_per_hour: Money | None = None
    """a plain number, the price of an hour of all its devices (= unknown)"""
    datasheet: DatasheetSection | None = None
    """{generation, memory, bandwidth, bf16, link} of one device, for `reconciler prior` (= shipped table)"""


class ServiceClassEntry(ConfigSection):
    """What a class of requests was promised."""

    name: Name
    """a name"""
    priority: Priority = 0
    """a whole number; higher goes first (= 0)"""
    ttft: Latency | None = None
    """a duration like 500ms, from arrival to the first token (= no target)"""
    ttft_percentile: Percentile = 95.0
    """a number between 0 and 100, or mean (= 95)"""
    itl: Latency | None = None
    """a duration like 24ms, between output tokens (= no target)"""
    itl_percentile: Percentile = None
    """a number between 0 and 100, or mean (= mean)"""
    attainment: Annotated[Percentage, Field(json_schema_extra={"default": "99%"})] = ATTAINMENT
    """a percentage from 50% to 99.9%, of requests that must keep the targets (= 99%)"""
    unserved_cost_per_1000_requests: Annotated[Money | None, Field(alias="unservedCostPer1000Requests")] = None
    """a plain number, what 1000 requests that are not served cost: capacity dearer than that is not planned (= none)"""

    @model_validator(mode="after")
    def _promises_what_can_be_kept(self) -> Self:
        if not 0.5 <= self.attainment <= 0.999:
            raise ValueError(f"expected attainment from 50% to 99.9%, got {self.attainment:.4g}")
        return self

    @model_validator(mode="after")
    def _has_limits_for_percentiles(self) -> Self:
        for name, limit in (("ttft", self.ttft), ("itl", self.itl)):
            if limit is None and f"{name}_percentile" in self.model_fields_set:
                raise ValueError(f"expected {name} beside {name}Percentile")
        return self


class LearnedSection(ConfigSection):
    """How a profile was learned, as `reconciler fit --write` notes it: outside of its ranges it is a guess."""

    date: Day
    """a day like 2026-11-20"""
    samples: Count
    """a whole number of moments that were seen"""
    error: Percentage
    """a percentage like 4.1%, the median error of the iteration time"""
    batch: Range
    """a list of two numbers, the smallest and the largest batch that was seen"""
    input_tokens: Range
    """a list of two numbers, the fewest and the most input tokens of a request"""
    output_tokens: Range
    """a list of two numbers, the fewest and the most output tokens of a request"""
    reach: PositiveCount | None = None
    """a whole number, the largest batch up to which the iteration time is sure (= the largest that was seen)"""
    cached: Percentage = 0.0
    """a percentage like 50%, of prompts that the prefix cache held (= 0%)"""
    margin: Factor = 1.0
    """a number of 1 or more, what a replica carries is divided by it: errors, and bursts of the load (= 1)"""


class ProfileEntry(ConfigSection):
    """How fast one replica runs on an accelerator: iteration alpha + beta * batch; prefill gamma + delta * tokens.

    With prefillPerToken prompts are computed one after the other instead, as engines with chunked prefill do.
    """

    accelerator: Name
    """the name of an accelerator"""
    alpha: LatencyOrNone
    """a duration like 6.958ms, of an iteration apart from its batch"""
    beta: LatencyOrNone
    """a duration like 0.042ms, per request of the batch"""
    gamma: LatencyOrNone | None = None
    """a duration like 15.4ms, of a prefill apart from its tokens (= no prefill law)"""
    delta: LatencyOrNone | None = None
    """a duration like 0.00034ms, per input token and request of the batch (= no prefill law)"""
    prefill_per_token: LatencyOrNone | None = None
    """a duration like 0.045ms, that a prompt token adds to its iteration: prompts come one after the other (= no)"""
    max_batched_tokens: PositiveCount | None = None
    """a whole number of tokens that an iteration computes at most (= 8192)"""
    overlap: Percentage = 0.0
    """a percentage of an iteration without prompts in which computing tokens takes no time of its own (= 0)"""
    tokens_per_step: Factor = 1.0
    """a number of 1 or more, tokens that a step of speculative decoding makes of a request (= 1)"""
    computed_per_step: Factor = 1.0
    """a number of 1 or more, tokens that such a step computes of a request, drafts included (= 1)"""
    max_batch_size: PositiveCount
    """a whole number of requests that run at once"""
    learned: LearnedSection | None = None
    """a mapping of date, samples, error, batch, inputTokens and outputTokens (= somebody gave the profile)"""

    @model_validator(mode="after")
    def _has_a_whole_law(self) -> Self:
        if (self.gamma is None) != (self.delta is None):
            raise ValueError("expected both gamma and delta, or neither")
        if self.prefill_per_token is not None and self.gamma is not None:
            raise ValueError("expected gamma and delta, or prefillPerToken, not both")
        if self.prefill_per_token is None and (self.max_batched_tokens is not None or self.overlap):
            name = "maxBatchedTokens" if self.max_batched_tokens is not None else "overlap"
            raise ValueError(f"expected prefillPerToken together with {name}")
        if self.alpha == 0 and self.beta == 0:
            raise ValueError("expected alpha or beta above 0, got 0 for both")
        return self


def refuse_shared_aliases(accelerators: list[AcceleratorEntry]) -> list[AcceleratorEntry]:
    """Of accelerators: an alias on two of them would mean either."""
    owners = {accelerator.name.lower(): accelerator.name for accelerator in accelerators}
    for accelerator in accelerators:
        for alias in accelerator.aliases:
            owner = owners.setdefault(alias.lower(), accelerator.name)
            if owner != accelerator.name:
                raise ValueError(f"expected alias {describe(alias)} on one accelerator: {owner} has it too")
    return accelerators


class EventEntry(ConfigSection):
    """Load that history cannot know."""

    name: Name
    """a name"""
    begins: Annotated[Text, Field(alias="from")]
    """a time like 2026-12-01T08:00, from when on more arrives"""
    until: Text
    """a time like 2026-12-01T20:00"""
    time_zone: Text = "UTC"
    """a time zone like Europe/Berlin (= UTC)"""
    model: Text = "*"
    """a glob on model ids (= all)"""
    factor: Factor
    """a number of at least 1: so many times as much arrives"""

    @model_validator(mode="after")
    def _lies_between_times(self) -> Self:
        if self.time_zone not in available_timezones():
            raise ValueError(f"expected a time zone like Europe/Berlin, got {describe(self.time_zone)}")
        if self.moment(self.begins) >= self.moment(self.until):
            raise ValueError(f"expected from before until, got {self.begins} and {self.until}")
        return self

    def moment(self, text: str) -> float:
        """A time of the zone, in Unix seconds."""
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is None or found.tzinfo is not None:
            raise ValueError(f"expected a time like 2026-12-01T08:00, got {describe(text)}")
        return found.replace(tzinfo=ZoneInfo(self.time_zone)).timestamp()


class DefaultsSection(VariantSection):
    """Variant settings for everything."""


class ShapeSection(ConfigSection):
    """The sizes of a model: a `config.json` in the repository, and the format of its weights."""

    config: RelativePath | None = None
    """the path of the model's config.json in the repository (= shipped table, by the model's id)"""
    weights: Annotated[str | None, word(*Weights)] = None
    """the format of its weights: bf16, fp8, int8, fp4, int4 or mxfp4 (= as config.json or the model's id says)"""


class ModelEntry(VariantSection):
    """What is known of one model, and variant settings for it."""

    id: Text
    """the modelID of the resources"""
    served_names: list[Text] = []
    """a list of the names that metrics use (= --served-model-name of the scale target, else id)"""
    profiles: list[ProfileEntry] = []
    """a list of performance profiles, one for each accelerator (= those of the resource)"""
    shape: ShapeSection = Field(default_factory=ShapeSection)
    """{config: PATH, weights: FORMAT}: its sizes, for `reconciler prior` (= shipped table, by its id)"""


class MatchSection(ConfigSection):
    """What an override is for: all keys must fit."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    cluster: Text | None = None
    """a glob on the cluster"""
    namespace: Text | None = None
    """a glob on the namespace"""
    name: Text | None = None
    """a glob on the name of the resource"""
    model: Text | None = None
    """a glob on the model's id"""
    path: Text | None = None
    """a glob on the file of the resource"""
    labels: dict[LabelKey, str] = {}
    """labels of the resource and their values"""

    @model_validator(mode="after")
    def _matches_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("expected at least one key; settings for everything stand in defaults")
        return self


class OverrideEntry(VariantSection):
    """Variant settings for the variants that match; a later override wins."""

    match: MatchSection
    """cluster, namespace, name, model, path (globs) or labels; all keys must fit"""


class WorkloadMatchSection(MatchSection):
    """Which serving workloads an entry is for: all keys must fit."""

    kind: Text | None = None
    """a glob on the kind, like Deployment"""


class WorkloadsEntry(WorkloadSection):
    """Serving workloads to manage without a resource of an autoscaler, with their settings; a later entry wins."""

    match: WorkloadMatchSection
    """cluster, namespace, kind, name, model, path (globs) or labels; all keys must fit"""


class AuthorSection(ConfigSection):
    """Who a commit is by."""

    name: PersonName
    """a name"""
    email: Email
    """an e-mail address"""


class SigningSection(ConfigSection):
    """How commits are signed; the key has no passphrase, and its public half is the bot account's on the forge."""

    method: Annotated[str, word("ssh", "gpg", "forge")]
    """ssh, gpg or forge: GitHub or GitLab writes and signs them, without a key of ours"""
    key: MaybeSecret = None
    """{file: PATH} or {env: NAME} of the private key, never the key itself; required for ssh and gpg"""

    @model_validator(mode="after")
    def _has_a_key_of_ours_or_none(self) -> Self:
        if (self.key is None) != (self.method == "forge"):
            raise ValueError("expected key for method ssh or gpg, and none for forge")
        return self


class GitSection(ConfigSection):
    """How commits and branches are made."""

    base_branch: Branch | None = None
    """the name of the branch to read and to merge into (= default branch of the remote)"""
    branch_prefix: BranchPrefix = _GIT.branch_prefix
    """the beginning of the names of head branches (= reconciler/)"""
    author: AuthorSection | None = None
    """{name: NAME, email: ADDRESS} (= the identity behind the forge's credential)"""
    sign_off: bool = _GIT.sign_off
    """true or false; true adds the DCO trailer (= false)"""
    commit_message: TitleTemplate = _GIT.commit_message
    """the first line of commits, as in pullRequests.title (= {{ title }})"""
    signing: SigningSection | None = None
    """{method: METHOD, key: {file: PATH}} (= commits are not signed)"""


class ForgeAuthSection(ConfigSection):
    """The credential for the forge."""

    token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= from the environment)"""
    github_app: NotYet = None


class ForgeSection(ConfigSection):
    """Where pull requests live."""

    kind: Annotated[
        str | None,
        word(*FORGES),
        Field(description=f"{join_words(tuple(FORGES))} (= by the host of the remote)"),
    ] = None
    url: Annotated[Url | None, Field(repr=False)] = None
    """the URL of the API, like https://gitlab.example.com/api/v4 (= by the host of the remote)"""
    auth: Annotated[ForgeAuthSection, Field(repr=False)] = ForgeAuthSection()
    """{token: {file: PATH}} or {token: {env: NAME}}"""


class LimitsSection(ConfigSection):
    """How much of it there is at once."""

    open: Count = _PULL_REQUESTS.open_at_once
    """a whole number: pull requests that are open at once; 0 is no limit (= 20)"""
    created_per_hour: Count = _PULL_REQUESTS.created_per_hour
    """a whole number: pull requests that are opened in an hour; 0 is no limit (= 10)"""
    pushes_per_hour: Count = _PULL_REQUESTS.pushes_per_hour
    """a whole number: pushes to one pull request in an hour, its first with them; 0 is no limit (= 4)"""
    merges_per_hour: PositiveCount = _PULL_REQUESTS.merges_per_hour
    """a whole number: pull requests that merge by themselves in an hour (= 12)"""


class WorthSection(ConfigSection):
    """How much must differ before a pull request is opened; what repairs a target never waits."""

    short: Annotated[Percentage, Field(json_schema_extra={"default": "2%"})] = WORTH.short
    """a percentage of the group's replicas, more than which must be missing (= 2%)"""
    over: Annotated[Percentage, Field(json_schema_extra={"default": "4%"})] = WORTH.over
    """a percentage of the group's replicas, more than which must be too many (= 4%)"""
    replicas: Count = WORTH.replicas
    """more than so many must be missing, or twice as many too many; of a group they count up to 5 and 10 % (= 3)"""


class PullRequestsSection(ConfigSection):
    """How proposals are grouped and presented."""

    group_by: list[Grouping] = list(_PULL_REQUESTS.group_by)
    """a list of cluster, namespace, model, path, label:KEY (= [cluster, namespace]); [] is one group for all"""
    title: TitleTemplate = _PULL_REQUESTS.title
    """conventional, or text with {{ title }} or {{ change }}, {{ group }}, {{ part }} (= {{ title }})"""
    labels: list[Text] | None = None
    """a list of labels (= reconciler, and of scale-up, saving, move what fits)"""
    reviewers: list[Name] = []
    """a list of accounts, or team:NAME (= none)"""
    assignees: list[Name] = []
    """a list of accounts (= none)"""
    milestone: Text = "none"
    """the title of an open milestone (= none)"""
    draft: bool = _PULL_REQUESTS.draft
    """true or false (= false)"""
    auto_merge: bool | None = None
    """true: whatever rules allow merges by itself; false: nothing does (= what rules of the kind autoMerge want to)"""
    merge_method: Annotated[str | None, word("merge", "squash", "rebase")] = None
    """merge, squash or rebase (= the first of these that the repository allows)"""
    reopen_after: Annotated[Days, Field(json_schema_extra={"default": "7d"})] = _PULL_REQUESTS.reopen_after_s
    """a duration like 7d; until then what a person closed stays closed (= 7d)"""
    worth: WorthSection | None = None
    """{short: 2%, over: 4%}: how much of a group must differ (= this where forecasts decide, else any change)"""
    limits: LimitsSection = Field(default_factory=LimitsSection)
    """how much of it there is at once"""
    dashboard: bool = _PULL_REQUESTS.dashboard
    """true: one issue lists what is open, waits and is held; false: none (= false)"""


class DeliverSection(ConfigSection):
    """What is brought into the cluster besides the status of what changes."""

    conditions: bool = False
    """true or false; true brings conditions that flip where nothing changes, once a day a group (= false)"""


class StatusSection(ConfigSection):
    """Which statuses are brought into the cluster."""

    deliver: DeliverSection
    """{conditions: true}"""


def _tell_status(value: object) -> str:
    return "section" if isinstance(value, dict | StatusSection) else "word"


StatusValue = Annotated[
    Annotated[str, word("file", "off", DELIVER, false="off"), Tag("word")] | Annotated[StatusSection, Tag("section")],
    Discriminator(_tell_status),
]


def _refuse_none(value: object) -> object:
    return refuse_not_yet("none") if value == "none" else value


class ConfigurationFile(ConfigSection):
    """Configuration of the Reconciler: facts, variant settings, publishing."""

    api_version: Annotated[str, word(API_VERSION)]
    """reconciler.io/v1alpha1"""
    kind: Annotated[str, word(KIND)]
    """Configuration"""
    extends: list[RelativePath] = []
    """a list of files in the repository that are read first (= none)"""
    currency: Currency = _SETTINGS.currency
    """a currency code like USD, of every cost (= USD)"""
    run_interval: Annotated[Interval, Field(json_schema_extra={"default": "10m"})] = RUN_INTERVAL_S
    """a duration like 10m: how often run is started (= 10m)"""
    clusters: list[ClusterEntry] = []
    """a list of clusters (= all files are one cluster, default)"""
    accelerators: Annotated[
        list[AcceleratorEntry], BeforeValidator(_refuse_none), AfterValidator(refuse_shared_aliases)
    ] = []
    """a list of accelerators (= what ConfigMaps and profiles name)"""
    service_classes: list[ServiceClassEntry] = []
    """a list of service classes (= what ConfigMaps name)"""
    models: list[ModelEntry] = []
    """a list of models (= what resources name)"""
    defaults: DefaultsSection = Field(default_factory=DefaultsSection)
    """variant settings for everything"""
    overrides: list[OverrideEntry] = []
    """a list of variant settings with what they match; later ones win (= none)"""
    workloads: list[WorkloadsEntry] = []
    """a list of serving workloads to manage as they are, with variant settings; later ones win (= none)"""
    events: list[EventEntry] = []
    """a list of loads that history cannot know (= none)"""
    git: GitSection = Field(default_factory=GitSection)
    """how commits and branches are made"""
    forge: ForgeSection = Field(default_factory=ForgeSection)
    """where pull requests live"""
    pull_requests: PullRequestsSection = Field(default_factory=PullRequestsSection)
    """how proposals are grouped and presented"""
    status: StatusValue = _SETTINGS.status
    """file (status is written in Git), off, deliver (and to the cluster) or {deliver: {conditions: true}} (= file)"""
    paused: bool = False
    """true or false; true plans and says, and writes nothing (= false)"""
    policies: list[Text] = ["default"]
    """a list of presets (default, conservative, balanced, aggressive), files and folders with rules (= [default])"""
    templates: NotYet = None
    gauges: GaugesSection | None = None
    """where our own gauges go after each run: {pushgateway: {url: URL}} or {textfile: PATH} (= none)"""


class _EditorSchema(GenerateJsonSchema):
    """Leaves out null: a key without a value is an error in a file, although absence is None in the models."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """The value alone."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """A default that is worth reading: of a section, its fields say theirs."""
        shown = super().default_schema(schema)
        if shown.get("default") in (None, []) or isinstance(shown["default"], dict):
            shown.pop("default", None)
        return shown

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Every key with its meaning."""
        shown = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for name, info in described_fields(model).items():
            if info.description:
                shown["properties"][name]["description"] = info.description
        return shown

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Keys that do not match their pattern are refused, not free."""
        shown = super().dict_schema(schema)
        return {**shown, "additionalProperties": False} if "patternProperties" in shown else shown


def configuration_schema() -> dict[str, object]:
    """JSON Schema, draft 2020-12, of `reconciler.yaml`: every key with its meaning; unknown keys are refused."""
    schema = ConfigurationFile.model_json_schema(schema_generator=_EditorSchema)
    return {"$schema": _EditorSchema.schema_dialect, **schema}


def policy_schema() -> dict[str, object]:
    """JSON Schema, draft 2020-12, of a policy file: every rule is of exactly one kind."""
    from reconciler.policy.files import PolicyFile

    schema = PolicyFile.model_json_schema(schema_generator=_EditorSchema)
    return {"$schema": _EditorSchema.schema_dialect, **schema}
