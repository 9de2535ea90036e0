from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import LoadedSettings, check_settings
from reconciler.domain.identity import Place
from reconciler.domain.profiles import Learning, SloTarget
from reconciler.domain.settings import (
    BasicAuth,
    ClusterSettings,
    ForgeSettings,
    GitSettings,
    Identity,
    PrometheusSettings,
    PullRequestSettings,
    SecretRef,
)
from reconciler.domain.units import seconds_from_ms
from reconciler.errors import ConfigurationError

Load = Callable[..., LoadedSettings]
Check = Callable[..., list[str]]


TRUSTING = {
    "RECONCILER_TRUSTED_ORIGINS": "https://thanos.example.com,https://mimir.example.eu,https://github.example.com"
}


def prometheus_of(cluster: ClusterSettings) -> PrometheusSettings:
    assert cluster.prometheus is not None
    return cluster.prometheus


def test_how_often_a_run_is_started_is_stated_or_ten_minutes(load: Load) -> None:
    assert load("runInterval: 1h").settings.run_interval_s == 3600.0
    event = "{name: a, from: 2026-12-01T08:00, until: 2026-12-01T20:00, timeZone: Europe/Berlin, factor: 3}"
    (found,) = load(f"events: [{event}]").settings.events
    assert (found.from_s, found.until_s, found.factor, found.model) == (1796108400.0, 1796151600.0, 3.0, "*")
    assert load("currency: USD").settings.run_interval_s == 600.0


def test_without_a_file_all_paths_are_one_cluster_and_that_is_said(load: Load) -> None:
    loaded = load(flags=Flags(prometheus="http://prometheus:9090"))
    (cluster,) = loaded.settings.clusters
    assert cluster == ClusterSettings(name="default", prometheus=PrometheusSettings(url="http://prometheus:9090"))
    assert cluster.include == ("**",)
    assert loaded.settings.assumed == ("one cluster",)
    assert loaded.settings.currency == "USD"
    assert loaded.findings == ()


def test_the_smallest_useful_file_says_what_the_design_says(load: Load, testdata: Path) -> None:
    settings = load((testdata / "smallest.yaml").read_text()).settings
    assert settings.assumed == ()
    assert settings.clusters[0].name == "prod"
    assert prometheus_of(settings.clusters[0]).url == "https://prometheus.example.com"
    assert [(a.name, a.device, a.devices, a.cost_per_hour) for a in settings.accelerators] == [
        ("H100", "H100", 1, 6.88),
        ("A100", "A100", 1, 3.97),
    ]
    (standard,) = settings.service_classes
    assert standard.ttft == SloTarget(limit_s=0.5, percentile=95.0)
    assert standard.itl == SloTarget(limit_s=0.024, percentile=None)
    assert settings.defaults["serviceClass"].value == "standard"
    assert str(settings.defaults["serviceClass"].place) == "reconciler.yaml:11"


def test_the_supported_part_of_the_full_example_reaches_the_domain(load: Load, testdata: Path) -> None:
    settings = load(
        (testdata / "supported.yaml").read_text(), files={".reconciler/profiles.yaml": ""}, variables=TRUSTING
    ).settings
    east, west = settings.clusters
    assert (east.include, east.exclude) == (("clusters/us-east/**",), ("**/charts/**",))
    assert prometheus_of(east).match_labels == {"cluster": "us-east"}
    assert prometheus_of(east).label_names == {"namespace": "exported_namespace"}
    assert prometheus_of(east).bearer_token == SecretRef(file="/var/run/secrets/reconciler/thanos")
    assert prometheus_of(east).tls.ca == SecretRef(file="/var/run/secrets/reconciler/ca.pem")
    assert prometheus_of(east).headers == {"X-Scope-OrgID": "llm"}
    assert "litellm" in prometheus_of(east).queries["arrivalRate"]
    assert prometheus_of(west).basic_auth == BasicAuth(
        username="reconciler", password=SecretRef(env="RECONCILER_EU_PASSWORD")
    )
    assert prometheus_of(west).headers == {"X-Scope-OrgID": SecretRef(env="RECONCILER_EU_TENANT")}
    assert [(pool.name, pool.device, pool.devices, pool.reserve, pool.tier) for pool in east.pools] == [
        ("h100", "H100", 64, 4, "reserved"),
        ("a100", "A100", 96, 0, "on-demand"),
        ("l4", "L4", None, 0, "on-demand"),
    ]
    (spot,) = west.pools
    assert (spot.cost_per_hour, spot.tier) == (2.69, "spot")
    assert spot.place is not None
    assert spot.place.field == "clusters[1].pools[0]"

    first, double, *_ = settings.accelerators
    assert first.node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert first.aliases == ("p5.48xlarge",)
    assert (double.device, double.devices, double.label_value) == ("H100", 2, "2xH100")

    (model,) = settings.models
    assert model.served_names == ("llama-8b",)
    assert model.settings["serviceClass"].value == "premium"
    full, decode_only = model.profiles
    assert (full.alpha_s, full.beta_s, full.gamma_s, full.delta_s) == tuple(
        map(seconds_from_ms, (6.958, 0.042, 15.4, 0.00034))
    )
    assert (full.law, decode_only.law) == ("prefill_decode", "decode_only")

    assert {name: setting.value for name, setting in settings.defaults.items()} == {
        "minReplicas": 1,
        "sizing.engine": "auto",
        "sizing.headroom": 0.2,
    }
    assert [override.match for override in settings.overrides] == [
        {"cluster": "eu-west"},
        {"path": "clusters/*/dev/**"},
        {"model": "*70b*"},
    ]
    assert settings.overrides[0].settings["actuationDelay.sync"].value == 120.0
    assert settings.overrides[2].settings["sizing.headroom"].value == 0.4
    assert "sizing.engine" not in settings.overrides[2].settings
    assert settings.git == GitSettings(
        base_branch="main", author=Identity(name="Reconciler", email="reconciler@example.com"), sign_off=True
    )
    assert settings.forge.token == SecretRef(env="RECONCILER_GITHUB_ENTERPRISE_TOKEN")
    assert settings.pull_requests == PullRequestSettings(
        labels=("reconciler",),
        reviewers=("alice", "team:inference"),
        assignees=("bob",),
        milestone="2026-Q2",
        auto_merge=False,
        merge_method="squash",
        open_at_once=7,
        created_per_hour=3,
        pushes_per_hour=0,
        merges_per_hour=4,
    )


def test_what_is_left_out_has_the_documented_default(load: Load) -> None:
    settings = load("accelerators: [{name: H100}]\nserviceClasses: [{name: a, itl: 1s}]").settings
    (accelerator,) = settings.accelerators
    assert (accelerator.resource, accelerator.label_value, accelerator.cost_per_hour) == (
        "nvidia.com/gpu",
        "H100",
        None,
    )
    assert settings.service_classes[0].priority == 0
    assert settings.defaults == {}
    assert settings.git == GitSettings()
    assert settings.forge == ForgeSettings()
    assert settings.pull_requests == PullRequestSettings()
    assert settings.status == "file"


@pytest.mark.parametrize(
    ("text", "variable", "who"),
    [
        ("currency: USD", "", ""),
        ("currency: USD\npaused: true", "", "reconciler.yaml:4"),
        ("paused: false", "", ""),
        ("paused: false", "true", "RECONCILER_PAUSED"),
        ("paused: false", "please", "RECONCILER_PAUSED"),
        ("paused: false", " False ", ""),
        ("paused: true", "0", "reconciler.yaml:3"),
    ],
)
def test_who_pauses_is_known(load: Load, text: str, variable: str, who: str) -> None:
    assert load(text, variables={"RECONCILER_PAUSED": variable}).paused == who


def test_status_off_is_understood_although_yaml_reads_it_as_false(load: Load) -> None:
    assert load("status: off").settings.status == "off"
    assert load('status: "off"').settings.status == "off"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("deliver", "deliver"),
        ("{deliver: {}}", "deliver"),
        ("{deliver: {conditions: false}}", "deliver"),
        ("{deliver: {conditions: true}}", "deliver conditions"),
    ],
)
def test_conditions_are_delivered_by_themselves_only_where_that_is_said(load: Load, text: str, mode: str) -> None:
    settings = load(f"status: {text}").settings
    assert settings.status == mode
    assert settings.delivers_status


def test_the_operator_has_the_last_word_and_things_merge_by_name(load: Load) -> None:
    settings = load(
        "currency: EUR\n"
        "accelerators:\n- {name: H100, costPerHour: 6.88, aliases: [h]}\n- {name: L4}\n"
        "overrides: [{match: {name: a}, ignore: true}]\n"
        "git: {baseBranch: main, signOff: true}\n"
        "pullRequests: {labels: [a, b]}\n",
        operator=[
            "accelerators: [{name: H100, costPerHour: 2.5}, {name: B200}]\noverrides: [{match: {name: b}, group: g}]",
            "git: {baseBranch: trunk}\npullRequests: {labels: [c]}\naccelerators: [{name: H100, devices: 1}]",
        ],
    ).settings
    assert settings.currency == "EUR"
    assert [(a.name, a.cost_per_hour, a.aliases) for a in settings.accelerators] == [
        ("H100", 2.5, ("h",)),
        ("L4", None, ()),
        ("B200", None, ()),
    ]
    assert [override.match for override in settings.overrides] == [{"name": "a"}, {"name": "b"}]
    assert (settings.git.base_branch, settings.git.sign_off) == ("trunk", True)
    assert settings.pull_requests.labels == ("c",)


def test_every_value_knows_its_file_and_line_after_merging(load: Load) -> None:
    settings = load(
        "extends: [base.yaml]\ndefaults:\n  minReplicas: 2\n",
        files={"base.yaml": "models:\n- id: m\n  group: g\n- id: k\ndefaults: {maxReplicas: 9, minReplicas: 1}\n"},
        operator=["models:\n- id: k\n  ignore: true\n"],
    ).settings
    assert str(settings.defaults["minReplicas"].place) == "reconciler.yaml:5"
    assert str(settings.defaults["maxReplicas"].place) == "base.yaml:7"
    assert settings.models[0].settings["group"].place == Place(path="base.yaml", line=5, field="models[0].group")
    assert str(settings.models[0].place) == "base.yaml:4"
    assert str(settings.models[1].settings["ignore"].place).endswith("operator-0.yaml:5")


def test_free_maps_and_secret_references_are_replaced_whole(load: Load) -> None:
    file = (
        "clusters: [{name: a, prometheus: {url: 'https://a', matchLabels: {x: w}, bearerToken: {env: RECONCILER_A}}}]"
    )
    operator = "clusters: [{name: a, prometheus: {matchLabels: {z: w}, bearerToken: {file: /etc/token}}}]"
    variables = {"RECONCILER_TRUSTED_ORIGINS": "https://a"}
    prometheus = prometheus_of(load(file, operator=[operator], variables=variables).settings.clusters[0])
    assert prometheus.match_labels == {"z": "w"}
    assert prometheus.bearer_token == SecretRef(file="/etc/token")


def test_profiles_merge_by_accelerator_and_each_is_replaced_whole(load: Load) -> None:
    learned = (
        "{accelerator: H100, alpha: 9ms, beta: 1ms, gamma: 1ms, delta: 1ms, maxBatchSize: 8, learned: "
        "{date: 2026-11-20, samples: 9, error: 5%, batch: [1, 48], inputTokens: [12, 23], outputTokens: [20, 900.5]}}"
    )
    other = "{accelerator: L4, alpha: 20ms, beta: 1ms, maxBatchSize: 4}"
    second = f"{{id: k, profiles: [{learned}]}}"
    settings = load(
        "extends: [learned.yaml]\n"
        "models: [{id: m, profiles: [{accelerator: H100, alpha: 7ms, beta: 0ms, maxBatchSize: 16}]}]",
        files={"learned.yaml": f"models: [{{id: m, group: g, profiles: [{learned}, {other}]}}, {second}]"},
    ).settings
    given, kept = settings.models[0].profiles
    assert (given.accelerator, given.alpha_s, given.max_batch_size) == ("H100", 0.007, 16)
    assert (given.law, given.learning) == ("decode_only", None), "a given profile has nothing of a learned one"
    assert (kept.accelerator, str(kept.place)) == ("L4", "learned.yaml:3")
    assert settings.models[0].settings["group"].value == "g"
    (untouched,) = settings.models[1].profiles
    assert untouched.learning == Learning(
        on="2026-11-20", samples=9, error=0.05, batch=(1, 48), input_tokens=(12, 23), output_tokens=(20, 900.5)
    )


def test_an_accelerator_twice_in_one_file_is_an_error(check: Check) -> None:
    profile = "{accelerator: H100, alpha: 7ms, beta: 1ms, maxBatchSize: 16}"
    assert check(f"models:\n- id: m\n  profiles:\n  - {profile}\n  - {profile}\n") == [
        'reconciler.yaml:7: error: models[0].profiles[1]: "H100" is already at line 6: accelerators must be unique'
    ]


def test_overrides_may_ask_for_one_accelerator_twice(check: Check) -> None:
    override = "{match: {name: a}, accelerator: keep}"
    assert check(f"overrides: [{override}, {override}]") == []


def test_cluster_selects_and_keeps_the_others_for_shared_files(load: Load) -> None:
    loaded = load("clusters: [{name: a}, {name: b}, {name: c}]", flags=Flags(clusters=("c", "a")))
    assert [cluster.name for cluster in loaded.settings.clusters] == ["a", "c"]
    assert [cluster.name for cluster in loaded.settings.other_clusters] == ["b"]


def test_an_unknown_cluster_is_refused_with_the_known_ones(check: Check) -> None:
    assert check("clusters: [{name: a}, {name: b}]", flags=Flags(clusters=("c",))) == [
        '--cluster: error: no cluster "c": expected a or b'
    ]


def test_prometheus_on_the_command_line_is_for_one_cluster(load: Load, check: Check) -> None:
    text = "clusters: [{name: a, prometheus: {url: 'https://a', matchLabels: {x: w}}}, {name: b}]"
    (message,) = check(text, flags=Flags(prometheus="http://p:9090"))
    assert "choose a or b with --cluster" in message
    (cluster,) = load(text, flags=Flags(prometheus="http://p:9090", clusters=("a",))).settings.clusters
    assert prometheus_of(cluster).url == "http://p:9090"
    assert prometheus_of(cluster).match_labels == {"x": "w"}


def test_the_token_of_the_environment_is_for_prometheus_on_the_command_line_only(load: Load) -> None:
    variables = {"RECONCILER_PROMETHEUS_TOKEN_FILE": "/etc/token"}
    with_flag = load(flags=Flags(prometheus="http://p:9090"), variables=variables)
    assert prometheus_of(with_flag.settings.clusters[0]).bearer_token == SecretRef(file="/etc/token")
    without = load("clusters: [{name: a, prometheus: {url: 'https://a'}}]", variables=variables)
    assert prometheus_of(without.settings.clusters[0]).bearer_token is None
    assert [str(finding) for finding in without.findings] == [
        "RECONCILER_PROMETHEUS_TOKEN: warning: no effect without --prometheus"
    ]


@pytest.mark.parametrize(
    ("variables", "token"),
    [
        ({}, None),
        ({"GITHUB_TOKEN": "x"}, SecretRef(env="GITHUB_TOKEN")),
        ({"GITHUB_TOKEN": ""}, None),
        ({"GITHUB_TOKEN": "x", "RECONCILER_FORGE_TOKEN": "y"}, SecretRef(env="RECONCILER_FORGE_TOKEN")),
        ({"GITHUB_TOKEN": "x", "RECONCILER_FORGE_TOKEN_FILE": "/t"}, SecretRef(file="/t")),
        ({"GITLAB_TOKEN": "x"}, SecretRef(env="GITLAB_TOKEN")),
        ({"GITLAB_TOKEN": "x", "RECONCILER_FORGE_TOKEN": "y"}, SecretRef(env="RECONCILER_FORGE_TOKEN")),
    ],
)
def test_the_forge_token_is_found_in_order(load: Load, variables: dict[str, str], token: SecretRef | None) -> None:
    assert load(variables=variables).settings.forge.token == token


@pytest.mark.parametrize(
    ("text", "remote", "expected"),
    [
        ("", "git@github.com:acme/fleet.git", "GITHUB_TOKEN"),
        ("", "https://gitlab.com/acme/fleet.git", "GITLAB_TOKEN"),
        ("forge: {kind: gitlab}", "https://git.example.com/acme/fleet.git", "GITLAB_TOKEN"),
        ("forge: {kind: gitlab}", "", "GITLAB_TOKEN"),
        ("forge: {kind: gitlab}", "https://github.com/acme/fleet.git", "GITHUB_TOKEN"),
    ],
)
def test_one_forges_token_never_goes_to_another(load: Load, text: str, remote: str, expected: str) -> None:
    variables = {"GITHUB_TOKEN": "x", "GITLAB_TOKEN": "y"}
    settings = load(text, variables=variables, flags=Flags(remote=remote)).settings
    assert settings.forge.token == SecretRef(env=expected)


JOB = {"CI_SERVER_HOST": "git.example.com", "CI_API_V4_URL": "https://git.example.com/lab/api/v4", "GITLAB_TOKEN": "x"}
FOUND = ForgeSettings(kind="gitlab", url="https://git.example.com/lab/api/v4", token=SecretRef(env="GITLAB_TOKEN"))


@pytest.mark.parametrize(
    ("text", "remote", "expected"),
    [
        ("", "https://git.example.com/lab/acme/fleet.git", FOUND),
        ("", "git@git.example.com:acme/fleet.git", FOUND),
        ("", "https://git.example.org/lab/acme/fleet.git", ForgeSettings(token=FOUND.token)),
        ("", "", ForgeSettings(token=FOUND.token)),
    ],
)
def test_a_job_of_gitlab_knows_its_own_forge_and_no_other(
    load: Load, text: str, remote: str, expected: ForgeSettings
) -> None:
    assert load(text, variables=JOB, flags=Flags(remote=remote)).settings.forge == expected


def test_what_is_configured_of_the_forge_beats_the_job(load: Load) -> None:
    forge = load(
        "forge: {kind: github}", variables=JOB, flags=Flags(remote="https://git.example.com/a/b")
    ).settings.forge
    assert (forge.kind, forge.url) == ("github", "")


def test_two_tokens_for_a_forge_that_nobody_knows_are_not_chosen_from(load: Load) -> None:
    with pytest.raises(ConfigurationError, match="GITHUB_TOKEN and GITLAB_TOKEN: which is for this forge"):
        load(variables={"GITHUB_TOKEN": "x", "GITLAB_TOKEN": "y"}, flags=Flags(remote="https://git.example.com/a/b"))


def test_a_configured_forge_token_beats_the_environment_and_local_needs_none(load: Load) -> None:
    configured = load("forge: {auth: {token: {env: RECONCILER_T}}}", variables={"GITHUB_TOKEN": "x"})
    assert configured.settings.forge.token == SecretRef(env="RECONCILER_T")
    assert load("forge: {kind: local}", variables={"GITHUB_TOKEN": "x"}).settings.forge.token is None


def test_all_errors_of_all_files_are_raised_together(load: Load) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(
            "extends: [base.yaml]\ncurency: EUR\nclusters:\n- nam: a\n",
            files={"base.yaml": "models: [{id: 5}]"},
            operator=["defaults: {minReplicas: two}"],
            flags=Flags(prometheus="prometheus:9090"),
        )
    text = str(raised.value)
    assert 'reconciler.yaml:4: error: curency: unknown field, did you mean "currency"?' in text
    assert 'reconciler.yaml:6: error: clusters[0].nam: unknown field, did you mean "name"?' in text
    assert "base.yaml:3: error: models[0].id: expected the modelID of the resources, got 5" in text
    assert "operator-0.yaml:3: error: defaults.minReplicas: expected a whole number of replicas" in text
    assert "--prometheus: error: expected a URL that begins with http:// or https://" in text


def test_a_missing_operator_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    findings = check_settings(
        repository_file=None,
        read_repository_file=lambda _: None,
        operator_files=[tmp_path / "none.yaml"],
        flags=Flags(),
        environment=Environment(),
    )
    assert [finding.message for finding in findings] == ["cannot be read: No such file or directory"]
    assert findings[0].place.path == str(tmp_path / "none.yaml")


def test_a_file_that_says_nothing_is_like_none(load: Load) -> None:
    nothing = load("")
    assert nothing == load()
    assert nothing.settings.assumed == ("one cluster",)
