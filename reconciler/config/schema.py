"""What may stand in a configuration file, as far as it is built: the one definition that files, editors and docs share.

The text below each field describes its value in a few words; it is both the editor's help and the end of the sentence
"expected ..." in an error, and "=" is the default. A field of type `NotYet` is documented and not built: giving it is
an error that says so. Nothing is converted: text is no number and the other way round.
"""

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from reconciler.config.connections import MaybeSecret, Prometheus, Section
from reconciler.config.pools import Pool, refuse_contradicting_pools
from reconciler.config.values import (
    Branch,
    BranchPrefix,
    ClusterName,
    Count,
    Currency,
    Day,
    Days,
    Delay,
    Email,
    Grouping,
    LabelKey,
    Latency,
    LatencyOrNone,
    Money,
    Name,
    NotYet,
    Percentage,
    Percentile,
    PersonName,
    PositiveCount,
    Priority,
    Range,
    RelativePath,
    ResourceName,
    Text,
    Url,
    refuse_not_yet,
    word,
)
from reconciler.domain.engines import AUTO, Engine
from reconciler.domain.settings import GitSettings, PullRequestSettings, Settings
from reconciler.manifests.wording import describe

API_VERSION = "reconciler.io/v1alpha1"
KIND = "Configuration"

_GIT = GitSettings()
_PULL_REQUESTS = PullRequestSettings()
_SETTINGS = Settings()


class Paths(Section):
    """Which files of the repository describe a cluster."""

    include: Annotated[list[RelativePath], Field(min_length=1)] = ["**"]
    """a list of globs from the repository's root (= all files)"""
    exclude: list[RelativePath] = []
    """a list of globs of files to leave out (= none)"""


class Cluster(Section):
    """A cluster: the files that describe it and its Prometheus."""

    name: ClusterName
    """a name; groups and head branches carry it"""
    paths: Paths = Paths()
    """{include: [GLOB], exclude: [GLOB]}"""
    prometheus: Prometheus | None = None
    """{url: URL} and how to connect to it (= none: nothing can be measured)"""
    pools: Annotated[list[Pool], AfterValidator(refuse_contradicting_pools)] = []
    """a list of pools of devices (= one per device type, as measured; else unlimited)"""


class Accelerator(Section):
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


class ServiceClass(Section):
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
    attainment: NotYet = None
    unserved_cost_per_1000_requests: Annotated[Money | None, Field(alias="unservedCostPer1000Requests")] = None
    """a plain number, what 1000 requests that are not served cost: capacity dearer than that is not planned (= none)"""

    @model_validator(mode="after")
    def _has_limits_for_percentiles(self) -> Self:
        for name, limit in (("ttft", self.ttft), ("itl", self.itl)):
            if limit is None and f"{name}_percentile" in self.model_fields_set:
                raise ValueError(f"expected {name} beside {name}Percentile")
        return self


class Learned(Section):
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


class Profile(Section):
    """How fast one replica runs on an accelerator: iteration alpha + beta * batch; prefill gamma + delta * tokens."""

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
    max_batch_size: PositiveCount
    """a whole number of requests that run at once"""
    learned: Learned | None = None
    """a mapping of date, samples, error, batch, inputTokens and outputTokens (= somebody gave the profile)"""

    @model_validator(mode="after")
    def _has_a_whole_law(self) -> Self:
        if (self.gamma is None) != (self.delta is None):
            raise ValueError("expected both gamma and delta, or neither")
        if self.alpha == 0 and self.beta == 0:
            raise ValueError("expected alpha or beta above 0, got 0 for both")
        return self


class Sizing(Section):
    """How the requirement of a model is found."""

    engine: Annotated[str | None, word(AUTO, *Engine)] = None
    """auto, queueing, saturation, tracking, or upstream's own: wva-v1, wva-v2, kthena-v0, kthena-v1 (= auto)"""
    headroom: Percentage | None = None
    """a percentage like 20%, added to the load (= 20%)"""


class HelmValues(Section):
    """Paths in the values of a chart, as in `decode.replicas` or `pools[0].replicas`."""

    replicas: Name | None = None
    """where the number of replicas stands"""
    min_replicas: Name | None = None
    """where the lower bound of the autoscaler stands that the chart makes"""
    max_replicas: Name | None = None
    """where its upper bound stands"""


class ActuationDelay(Section):
    """How long a number takes from our proposal to replicas that serve."""

    merge: NotYet = None
    sync: Delay | None = None
    """a duration like 3m, from a merge until the cluster has the number (= 3m)"""
    start: Delay | None = None
    """a duration like 5m, from there until a new replica serves (= 5m): paid for, and worth nothing"""


class VariantSection(Section):
    """Variant settings; what is not given here comes from the next layer."""

    service_class: Name | None = None
    """the name of a service class (= none)"""
    accelerator: Name | None = None
    """choose, in-order, keep, or the name of the only accelerator that is allowed (= choose)"""
    min_replicas: Count | None = None
    """a whole number of replicas (= 1)"""
    max_replicas: PositiveCount | None = None
    """a whole number of replicas (= no limit)"""
    group: Text | None = None
    """the name of the group whose pull request holds the change (= by pullRequests.groupBy)"""
    ignore: bool | None = None
    """true or false; true is read and shown, never changed (= false)"""
    sizing: Sizing = Sizing()
    """{engine: auto, headroom: 20%}"""
    when_autoscaled: Annotated[str | None, word("hold", "bounds")] = None
    """hold or bounds: what is proposed where an HPA or ScaledObject owns the replicas (= hold)"""
    helm_values: HelmValues = HelmValues()
    """{replicas: decode.replicas}: where the values of a chart hold the numbers; or minReplicas and maxReplicas"""
    actuation_delay: ActuationDelay = ActuationDelay()
    """{sync: 3m, start: 5m}: how long a number takes to arrive"""
    payback: Delay | None = None
    """a duration like 1h, in which a cheaper plan must earn back what it starts (= 1h)"""

    @model_validator(mode="after")
    def _has_ordered_bounds(self) -> Self:
        lower, upper = self.min_replicas, self.max_replicas
        if lower is not None and upper is not None and lower > upper:
            raise ValueError(f"expected minReplicas of at most maxReplicas, got {lower} and {upper}")
        return self


class Defaults(VariantSection):
    """Variant settings for everything."""


class Model(VariantSection):
    """What is known of one model, and variant settings for it."""

    id: Text
    """the modelID of the resources"""
    served_names: list[Text] = []
    """a list of the names that metrics use (= --served-model-name of the scale target, else id)"""
    profiles: list[Profile] = []
    """a list of performance profiles, one for each accelerator (= those of the resource)"""


class Match(Section):
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


class Override(VariantSection):
    """Variant settings for whatever fits; a later override wins."""

    match: Match
    """cluster, namespace, name, model, path (globs) or labels; all keys must fit"""


class Author(Section):
    """Who a commit is by."""

    name: PersonName
    """a name"""
    email: Email
    """an e-mail address"""


class Git(Section):
    """How commits and branches are made."""

    base_branch: Branch | None = None
    """the name of the branch to read and to merge into (= default branch of the remote)"""
    branch_prefix: BranchPrefix = _GIT.branch_prefix
    """the beginning of the names of head branches (= reconciler/)"""
    author: Author | None = None
    """{name: NAME, email: ADDRESS} (= the identity behind the forge's credential)"""
    sign_off: bool = _GIT.sign_off
    """true or false; true adds the DCO trailer (= false)"""
    signing: NotYet = None


class ForgeAuth(Section):
    """The credential for the forge."""

    token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= from the environment)"""
    github_app: NotYet = None


class Forge(Section):
    """Where pull requests live."""

    kind: Annotated[str | None, word("github", "local", later=("gitlab", "gitea", "push"))] = None
    """github or local (= by the host of the remote)"""
    url: Annotated[Url | None, Field(repr=False)] = None
    """the URL of the API, like https://github.example.com/api/v3 (= by the host of the remote)"""
    auth: Annotated[ForgeAuth, Field(repr=False)] = ForgeAuth()
    """{token: {file: PATH}} or {token: {env: NAME}}"""


def _refuse_true(value: object) -> object:
    return refuse_not_yet("true") if value is True else value


class PullRequests(Section):
    """How proposals are grouped and presented."""

    group_by: list[Grouping] = list(_PULL_REQUESTS.group_by)
    """a list of cluster, namespace, model, path, label:KEY (= [cluster, namespace]); [] is one group for all"""
    labels: list[Text] = []
    """a list of labels (= none)"""
    reviewers: list[Name] = []
    """a list of accounts, or team:NAME (= none)"""
    draft: bool = _PULL_REQUESTS.draft
    """true or false (= false)"""
    auto_merge: Annotated[bool, BeforeValidator(_refuse_true), Field(json_schema_extra={"const": False})] = False
    """false; merging by itself is not built yet (= false)"""
    reopen_after: Annotated[Days, Field(json_schema_extra={"default": "7d"})] = _PULL_REQUESTS.reopen_after_s
    """a duration like 7d; until then what a person closed stays closed (= 7d)"""
    limits: NotYet = None


def _refuse_none(value: object) -> object:
    return refuse_not_yet("none") if value == "none" else value


def _refuse_other_policies(value: object) -> object:
    return refuse_not_yet(value) if isinstance(value, str) and value != "default" else value


def _refuse_shared_aliases(accelerators: list[Accelerator]) -> list[Accelerator]:
    owners = {accelerator.name.lower(): accelerator.name for accelerator in accelerators}
    for accelerator in accelerators:
        for alias in accelerator.aliases:
            owner = owners.setdefault(alias.lower(), accelerator.name)
            if owner != accelerator.name:
                raise ValueError(f"expected alias {describe(alias)} on one accelerator: {owner} has it too")
    return accelerators


class Configuration(Section):
    """Configuration of the Reconciler: facts, variant settings, publishing."""

    api_version: Annotated[str, word(API_VERSION)]
    """reconciler.io/v1alpha1"""
    kind: Annotated[str, word(KIND)]
    """Configuration"""
    extends: list[RelativePath] = []
    """a list of files in the repository that are read first (= none)"""
    currency: Currency = _SETTINGS.currency
    """a currency code like USD, of every cost (= USD)"""
    run_interval: NotYet = None
    clusters: list[Cluster] = []
    """a list of clusters (= all files are one cluster, default)"""
    accelerators: Annotated[
        list[Accelerator], BeforeValidator(_refuse_none), AfterValidator(_refuse_shared_aliases)
    ] = []
    """a list of accelerators (= what ConfigMaps and profiles name)"""
    service_classes: list[ServiceClass] = []
    """a list of service classes (= what ConfigMaps name)"""
    models: list[Model] = []
    """a list of models (= what resources name)"""
    defaults: Defaults = Defaults()
    """variant settings for everything"""
    overrides: list[Override] = []
    """a list of variant settings with what they match; later ones win (= none)"""
    git: Git = Git()
    """how commits and branches are made"""
    forge: Forge = Forge()
    """where pull requests live"""
    pull_requests: PullRequests = PullRequests()
    """how proposals are grouped and presented"""
    status: Annotated[str, word("file", "off", later=("deliver",), false="off")] = _SETTINGS.status
    """file (status is written in Git) or off (= file)"""
    policies: list[Annotated[Literal["default"], BeforeValidator(_refuse_other_policies)]] = ["default"]
    """[default]: the guard rails that are shipped"""
    templates: NotYet = None
    gauges: NotYet = None
