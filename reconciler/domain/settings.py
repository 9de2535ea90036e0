"""The effective settings of a run as domain values, with what upstream's ConfigMaps say about saturation."""

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.identity import Finding, Place, Source, path_matches
from reconciler.domain.inventory import Accelerator
from reconciler.domain.priors import ModelShape, Weights
from reconciler.domain.profiles import PerformanceProfile, ServiceClass
from reconciler.domain.records import dataclass
from reconciler.domain.rules import Rule
from reconciler.domain.shards import Shard

DEFAULT_RETENTION_S = 600.0
RUN_INTERVAL_S = 600.0
"""How often a run is started, unless the configuration says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLayer:
    """What one source says of the thresholds; None leaves a threshold to the layers below. See `Thresholds`."""

    source: Source
    kv_cache_usage: float | None = None
    num_waiting: float | None = None
    kv_spare: float | None = None
    waiting_spare: float | None = None
    scale_up: float | None = None
    scale_down: float | None = None
    priority: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """One of the analyzers that vote; None leaves a threshold (0-1) to the entry that lists it."""

    name: str
    is_enabled: bool = True
    score: float = 1.0
    scale_up: float | None = None
    scale_down: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterSettings:
    """A limiter of devices: `kind` is `gpu-inventory` or `quota`, `scope` is `cluster`, `namespace` or empty.

    `quotas` are devices by accelerator, `namespace_quotas` the same by namespace (`default`: each that is not named);
    -1 is unlimited, 0 is none. `excluded` namespaces are not limited.
    """

    name: str
    kind: str
    scope: str = ""
    quotas: Mapping[str, int] = field(default_factory=dict)
    namespace_quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationRules:
    """What upstream's ConfigMaps say for one model of one namespace, all entries together.

    `layers` are the thresholds, highest first. `analyzer` is `percent` or `tokens`, empty when nothing selects one;
    upstream lets the global ConfigMap alone select it and the limiters. `scales_to_zero` None is not written.
    """

    layers: tuple[ThresholdLayer, ...] = ()
    analyzer: str = ""
    analyzers: tuple[AnalyzerSettings, ...] = ()
    is_limited: bool = False
    rescales: bool = False
    scales_to_zero: bool | None = None
    limiters: tuple[LimiterSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroRules:
    """Whether a model goes to zero `retention_s` after its last request; `is_enabled` None: nothing says."""

    is_enabled: bool | None = None
    retention_s: float = DEFAULT_RETENTION_S
    place: Place | None = None
    """The entry that says so."""


# The effective settings of a run as domain values: what configuration files, flags and environment add up to. Secrets
# are references only, so a recording can hold all of it.

ON_DEMAND = "on-demand"
"""The tier of a pool that says none: a word for policies."""

SPOT = "spot"
"""The tier of devices that can be taken away at any time, which rules about spot accelerators count."""

DELIVER = "deliver"
"""Of `status`: it is written in Git, and brought into the cluster too."""

DELIVER_CONDITIONS = "deliver conditions"
"""Of `status`: conditions that flip are brought even where nothing changes, once a day a group."""

SettingScalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """Where a secret is read from on each use: a file or an environment variable, never its text."""

    file: str = ""
    env: str = ""

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.env}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth:
    """User name and the reference to the password."""

    username: str
    password: SecretRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files: a CA bundle instead of the system's, and a client certificate with its key."""

    ca: SecretRef | None = None
    cert: SecretRef | None = None
    key: SecretRef | None = None


FILL_IN = "http://fill-in.invalid"
"""What `init` writes where it does not know the address of a Prometheus; no server is ever called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """One Prometheus: where, with which credentials, and how its labels are spelled.

    `label_names` maps our names (namespace, pod, model) to the server's; `queries` maps a quantity to PromQL that
    is tried before the built-in candidates. `autoscaler_metrics` maps the name of a metric that autoscalers go by to
    PromQL. `external_url` is where people open it; empty is nowhere.
    """

    url: str
    external_url: str = ""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    label_names: Mapping[str, str] = field(default_factory=dict)
    bearer_token: SecretRef | None = None
    basic_auth: BasicAuth | None = None
    tls: Tls = field(default_factory=Tls)
    headers: Mapping[str, str | SecretRef] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)
    autoscaler_metrics: Mapping[str, str] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushgateway:
    """A Prometheus Pushgateway: where, and with which credentials."""

    url: str
    bearer_token: SecretRef | None = None
    basic_auth: BasicAuth | None = None
    tls: Tls = field(default_factory=Tls)
    headers: Mapping[str, str | SecretRef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeSettings:
    """Where our own gauges go after a run: to a Pushgateway, into a file that the node exporter reads, or both."""

    pushgateway: Pushgateway | None = None
    textfile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Devices of one type: how many there are (None: as measured) and how many of them are never planned.

    `cost_per_hour` is of one device and goes before the catalog's price in its cluster.
    """

    name: str
    device: str
    devices: int | None
    reserve: int = 0
    tier: str = ON_DEMAND
    cost_per_hour: float | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A cluster: the paths that describe it (globs from the repository's root), its Prometheus and its devices."""

    name: str
    include: tuple[str, ...] = ("**",)
    exclude: tuple[str, ...] = ()
    prometheus: PrometheusSettings | None = None
    pools: tuple[PoolSettings, ...] = ()
    place: Place | None = None
    is_part: bool = False
    """Whether a shard decides some of its namespaces alone: no others are asked about."""

    def holds(self, path: str) -> bool:
        """Whether a file of the repository describes this cluster."""
        is_included = any(path_matches(pattern, path) for pattern in self.include)
        return is_included and not any(path_matches(pattern, path) for pattern in self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One variant setting as written in one layer; its name is the key it is stored under (`sizing.headroom`)."""

    value: SettingScalar
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What the configuration says of one model."""

    model_id: str
    served_names: tuple[str, ...] = ()
    profiles: tuple[PerformanceProfile, ...] = ()
    shape_config: str = ""
    """The path of its config.json in the repository; empty for the shipped table."""
    shape: ModelShape | None = None
    """What that file says, once the commit was read; None where nothing can be made of it."""
    weights: Weights | None = None
    """Their format, where somebody wrote it."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Variant settings for all that `match` fits: globs on cluster, namespace, kind, name, model, path; and labels."""

    match: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a commit is by."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """How commits are signed: `method` is ssh or gpg with a private key without a passphrase, or forge, by its API."""

    method: str
    key: SecretRef | None = None

    @property
    def is_by_forge(self) -> bool:
        """Whether the forge writes our commits, and signs them with its own key."""
        return self.method == "forge"


TITLE_VARIABLE = re.compile(r"\{\{ *([A-Za-z_]*) *\}\}")
TITLE_VARIABLES = ("title", "change", "group", "part")
"""In a title of pull requests or commits: ours, the same beginning with a small letter, the group, and its part."""
AS_IS = "{{ title }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSettings:
    """How commits and branches are made; `commit_message` is the first line, with `TITLE_VARIABLES` in it."""

    base_branch: str = ""
    branch_prefix: str = "reconciler/"
    author: Identity | None = None
    sign_off: bool = False
    signing: Signing | None = None
    commit_message: str = AS_IS


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeSettings:
    """Where pull requests live; empty values are found from the remote's host."""

    kind: str = ""
    url: str = ""
    token: SecretRef | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Load that history cannot know: `factor` times as much from one moment until another (Unix seconds).

    It is of the models whose id the glob `model` fits.
    """

    name: str
    from_s: float
    until_s: float
    factor: float
    model: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """More than which fractions of a group's replicas must be missing, or too many, before a pull request is opened.

    And more than so many `replicas`, or twice as many too many, up to a share of a small group.
    """

    short: float = 0.02
    over: float = 0.04
    replicas: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestSettings:
    """How proposals are grouped, presented and merged; `labels` None are ours and what kinds of changes there are.

    `auto_merge`: all that rules allow merges by itself, nothing does, or what a rule says (None). `merge_method` empty
    is the first that the repository allows of merge, squash and rebase. Of ours at most `open_at_once` are open,
    `created_per_hour` are opened in an hour, and `pushes_per_hour` times one of them is pushed; 0 is no limit. `worth`
    None holds, as it is built in, where forecasts decide.
    """

    group_by: tuple[str, ...] = ("cluster", "namespace")
    labels: tuple[str, ...] | None = None
    reviewers: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: str = ""
    draft: bool = False
    reopen_after_s: float = 7 * 86400.0
    auto_merge: bool | None = None
    merge_method: str = ""
    open_at_once: int = 20
    created_per_hour: int = 10
    pushes_per_hour: int = 4
    merges_per_hour: int = 12
    worth: Worth | None = None
    title: str = AS_IS
    """With `TITLE_VARIABLES` in it."""
    dashboard: bool = False
    """Whether one issue lists what is open, waits and is held."""


class Assumption(StrEnum):
    """Assumptions where nothing is configured, in the words that the plan prints above its table."""

    ONE_CLUSTER = "one cluster"
    WITHOUT_FORGE = "open pull requests were not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was configured.

    `assumed` is what was not configured. `other_clusters` were left out of this run: a file that one
    of them reaches is shared, and never edited.
    """

    currency: str = "USD"
    clusters: tuple[ClusterSettings, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    service_classes: tuple[ServiceClass, ...] = ()
    models: tuple[ModelSettings, ...] = ()
    defaults: Mapping[str, Setting] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    workloads: tuple[Override, ...] = ()
    """Which serving workloads are managed without a resource of an autoscaler, with their variant settings."""
    events: tuple[Event, ...] = ()
    git: GitSettings = field(default_factory=GitSettings)
    forge: ForgeSettings = field(default_factory=ForgeSettings)
    pull_requests: PullRequestSettings = field(default_factory=PullRequestSettings)
    status: str = "file"
    objective: str = "cost"
    assumed: tuple[Assumption, ...] = ()
    other_clusters: tuple[ClusterSettings, ...] = ()
    run_interval_s: float = RUN_INTERVAL_S
    """How often a run is started."""
    run_interval_source: str = ""
    """Who says so; empty where it is only assumed."""
    rules: tuple[Rule, ...] = ()
    """The guard rails; without any a person merges every change."""
    shard: Shard | None = None
    """Which part of the fleet this run decides; None: all of it."""

    @property
    def delivers_status(self) -> bool:
        """Whether statuses are brought into the cluster."""
        return self.status in (DELIVER, DELIVER_CONDITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What configuration files say, each valid by itself; `findings` is what does not go together in them."""

    settings: Settings = field(default_factory=Settings)
    gauges: GaugeSettings | None = None
    is_paused: bool = False
    findings: tuple[Finding, ...] = ()
