"""What may stand in a configuration file, as far as it is built: the one definition that files, editors and docs share.

The text below each field describes its value in a few words; it is both the editor's help and the end of the sentence
"expected ..." in an error, and "=" is the default. A field of type `NotYet` is documented and not built: giving it is
an error that says so. Nothing is converted: text is no number and the other way round.
"""

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from reconciler.config.connections import GaugesSection, MaybeSecret
from reconciler.config.facts import (
    AcceleratorEntry,
    ClusterEntry,
    ProfileEntry,
    ServiceClassEntry,
    refuse_shared_aliases,
)
from reconciler.config.section import ConfigSection, VariantSection
from reconciler.config.values import (
    Branch,
    BranchPrefix,
    Count,
    Currency,
    Days,
    Email,
    Grouping,
    Interval,
    LabelKey,
    Name,
    NotYet,
    PersonName,
    PositiveCount,
    RelativePath,
    Text,
    Url,
    refuse_not_yet,
    word,
)
from reconciler.domain.settings import DELIVER, GitSettings, PullRequestSettings, Settings
from reconciler.policy.reading.files import PolicyFile
from reconciler.resources.validation import described_fields

API_VERSION = "reconciler.io/v1alpha1"
KIND = "Configuration"

_GIT = GitSettings()
_PULL_REQUESTS = PullRequestSettings()
_SETTINGS = Settings()
RUN_INTERVAL_S = 600.0


class DefaultsSection(VariantSection):
    """Variant settings for everything."""


class ModelEntry(VariantSection):
    """What is known of one model, and variant settings for it."""

    id: Text
    """the modelID of the resources"""
    served_names: list[Text] = []
    """a list of the names that metrics use (= --served-model-name of the scale target, else id)"""
    profiles: list[ProfileEntry] = []
    """a list of performance profiles, one for each accelerator (= those of the resource)"""


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
    """Variant settings for whatever fits; a later override wins."""

    match: MatchSection
    """cluster, namespace, name, model, path (globs) or labels; all keys must fit"""


class AuthorSection(ConfigSection):
    """Who a commit is by."""

    name: PersonName
    """a name"""
    email: Email
    """an e-mail address"""


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
    signing: NotYet = None


class ForgeAuthSection(ConfigSection):
    """The credential for the forge."""

    token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= from the environment)"""
    github_app: NotYet = None


class ForgeSection(ConfigSection):
    """Where pull requests live."""

    kind: Annotated[str | None, word("github", "gitlab", "local", later=("gitea", "push"))] = None
    """github, gitlab or local (= by the host of the remote)"""
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


class PullRequestsSection(ConfigSection):
    """How proposals are grouped and presented."""

    group_by: list[Grouping] = list(_PULL_REQUESTS.group_by)
    """a list of cluster, namespace, model, path, label:KEY (= [cluster, namespace]); [] is one group for all"""
    labels: list[Text] | None = None
    """a list of labels (= reconciler, and of scale-up, saving, move what fits)"""
    reviewers: list[Name] = []
    """a list of accounts, or team:NAME (= none)"""
    draft: bool = _PULL_REQUESTS.draft
    """true or false (= false)"""
    auto_merge: bool | None = None
    """true: whatever rules allow merges by itself; false: nothing does (= what rules of the kind autoMerge want to)"""
    merge_method: Annotated[str | None, word("merge", "squash", "rebase")] = None
    """merge, squash or rebase (= the first of these that the repository allows)"""
    reopen_after: Annotated[Days, Field(json_schema_extra={"default": "7d"})] = _PULL_REQUESTS.reopen_after_s
    """a duration like 7d; until then what a person closed stays closed (= 7d)"""
    limits: LimitsSection = LimitsSection()
    """how much of it there is at once"""


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
    defaults: DefaultsSection = DefaultsSection()
    """variant settings for everything"""
    overrides: list[OverrideEntry] = []
    """a list of variant settings with what they match; later ones win (= none)"""
    git: GitSection = GitSection()
    """how commits and branches are made"""
    forge: ForgeSection = ForgeSection()
    """where pull requests live"""
    pull_requests: PullRequestsSection = PullRequestsSection()
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
    schema = PolicyFile.model_json_schema(schema_generator=_EditorSchema)
    return {"$schema": _EditorSchema.schema_dialect, **schema}
