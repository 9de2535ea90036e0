"""Our own configuration in what deployers sync to a cluster."""

import pytest

from reconciler.domain.identity import Place, Severity
from reconciler.domain.settings import ClusterSettings
from reconciler.pipeline.references import MARKER, find_synced_configuration, is_ignored
from reconciler.pipeline.references import SYNCED_CONFIGURATION as RULE

URL = "https://github.com/acme/fleet.git"
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: fleet, namespace: argocd}
spec:
  source:
    repoURL: https://github.com/acme/fleet
    path: .
"""
FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: fleet, namespace: flux-system}
spec:
  sourceRef: {kind: GitRepository, name: fleet}
  path: ./
"""
SOURCE = """\
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: flux-system}
spec:
  url: https://github.com/acme/fleet
"""
OWN = {"reconciler.yaml": "kind: Configuration\n"}
LEARNED = {".reconciler/profiles.yaml": "kind: Configuration\n"}
MARKED = {"reconciler.yaml": f"# {MARKER}\nkind: Configuration\n"}


def find(files: dict[str, str], *clusters: ClusterSettings, url: str = URL) -> list[tuple[str, str]]:
    """Place and message of each finding."""
    found = list(find_synced_configuration({path: text.encode() for path, text in files.items()}, clusters, url))
    assert all(finding.severity is Severity.WARNING and finding.rule == RULE for finding in found)
    return [(f"{finding.place}: {finding.place.field}", finding.message) for finding in found]


def is_clean(files: dict[str, str], **fields: str) -> bool:
    return find(files, **fields) == []


def test_an_application_of_the_root_covers_the_configuration() -> None:
    ((place, message),) = find({"apps/fleet.yaml": APPLICATION, **OWN})
    assert place == "apps/fleet.yaml:7: spec.source.path"
    assert message == (
        'covers "reconciler.yaml", which no cluster knows: put the comment "# +argocd:skip-file-rendering" in it'
    )


def test_the_marker_comment_is_the_remedy() -> None:
    assert is_clean({"app.yaml": APPLICATION, **MARKED})


@pytest.mark.parametrize(
    "spec",
    [
        "directory: {exclude: reconciler.yaml}",
        "directory: {exclude: '{README.md,reconciler.*}'}",
        "directory: {include: 'apps/**'}",
        "kustomize: {}\n    plugin: {name: cue}",
    ],
)
def test_an_application_that_leaves_it_out_covers_nothing(spec: str) -> None:
    assert is_clean({"app.yaml": f"{APPLICATION}    {spec}\n", **OWN})


@pytest.mark.parametrize("name", ["kustomization.yaml", "Kustomization", "Chart.yaml"])
def test_a_directory_with_a_kustomization_or_chart_renders_what_that_lists(name: str) -> None:
    assert is_clean({"app.yaml": APPLICATION, name: "name: x\n", **OWN})


def test_an_application_of_another_directory_or_repository_covers_nothing() -> None:
    assert is_clean({"app.yaml": APPLICATION.replace("path: .", "path: app"), "app/x.yaml": "", **OWN})
    assert is_clean({"app.yaml": APPLICATION.replace("acme/fleet", "acme/other"), **OWN})


def test_without_an_address_any_repository_may_be_this_one() -> None:
    files = {"app.yaml": APPLICATION.replace("acme/fleet", "acme/other").encode(), "reconciler.yaml": b""}
    assert len(list(find_synced_configuration(files, ()))) == 1


def test_only_a_recursive_application_reaches_our_directory() -> None:
    assert is_clean({"app.yaml": APPLICATION, **LEARNED})
    ((_, message),) = find({"app.yaml": f"{APPLICATION}    directory: {{recurse: true}}\n", **LEARNED, **OWN})
    assert message.startswith('covers ".reconciler/profiles.yaml" and 1 more, ')
    assert message.endswith("in each")


def test_every_source_of_an_application_counts() -> None:
    sources = APPLICATION.replace("  source:\n    repo", "  sources:\n  - path: apps\n    repo").replace("path: .", "")
    second = f"{sources.rstrip()}\n  - {{path: ., repoURL: '{URL}'}}\n"
    ((place, _),) = find({"app.yaml": second, "apps/x.yaml": "", **OWN})
    assert place == "app.yaml:8: spec.sources[1].path"


def test_flux_makes_a_kustomization_of_everything_and_knows_no_marker() -> None:
    ((place, message),) = find({"flux.yaml": FLUX, **MARKED, **LEARNED})
    assert place == "flux.yaml:6: spec.path"
    assert message.endswith('put "/.reconciler" and "/reconciler.yaml" into .sourceignore')


@pytest.mark.parametrize("rules", ["reconciler.yaml", "/*\n!/clusters", "# ours\n/reconciler.yaml\r\n"])
def test_flux_leaves_out_what_its_ignore_file_or_its_source_lists(rules: str) -> None:
    assert is_clean({"flux.yaml": FLUX, ".sourceignore": rules, **OWN})
    indented = "\n".join(f"    {line}" for line in rules.splitlines())
    assert is_clean({"flux.yaml": f"{FLUX}---\n{SOURCE}  ignore: |\n{indented}\n", **OWN})


def test_flux_reads_other_repositories_and_directories_with_a_kustomization_as_they_say() -> None:
    assert is_clean({"flux.yaml": FLUX + "---\n" + SOURCE.replace("acme/fleet", "acme/other"), **OWN})
    assert is_clean({"flux.yaml": FLUX, "kustomization.yaml": "resources: []\n", **OWN})
    assert is_clean({"flux.yaml": FLUX, ".reconciler/kustomization.yaml": "resources: []\n", **LEARNED})


@pytest.mark.parametrize("entry", ["reconciler.yaml", "./reconciler.yaml", ".reconciler/profiles.yaml"])
def test_a_kustomization_that_lists_it_fails_whatever_stands_in_it(entry: str) -> None:
    files = {"kustomization.yaml": f"resources:\n- apps\n- {entry}\n", **MARKED, **LEARNED}
    ((place, message),) = find(files)
    assert place == "kustomization.yaml:3: resources[1]"
    assert message.endswith("leave it out")


def test_the_paths_of_a_cluster_that_somebody_chose_are_judged() -> None:
    place = Place(path="reconciler.yaml", line=4, field="clusters[0]")
    chosen = ClusterSettings(name="prod", include=("*.yaml",), place=place)
    ((found, message),) = find(OWN, chosen)
    assert found == "reconciler.yaml:4: clusters[0]"
    assert message.endswith(f'exclude that, or put the comment "# {MARKER}" in it')
    assert find(MARKED, chosen) == []
    assert find(OWN, ClusterSettings(name="prod", include=("**",), exclude=("*.yaml",), place=place)) == []
    assert find(OWN, ClusterSettings(name="prod", place=place)) == [], "nobody said what is synced"


def test_without_files_of_ours_nothing_is_looked_at() -> None:
    assert is_clean({"app.yaml": APPLICATION, "apps/reconciler.yaml": ""})


@pytest.mark.parametrize(
    "text", ["{ argoproj.io", "[argoproj.io]", "argoproj.io", APPLICATION.replace("path: .", "path: 1")]
)
def test_files_that_cannot_be_read_are_left_to_others(text: str) -> None:
    assert is_clean({"broken.yaml": text, "apps/kustomization.yaml": "resources: {reconciler: 1}\n", **OWN})


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        ("reconciler.yaml", "reconciler.yaml", True),
        ("reconciler.yaml", "apps/reconciler.yaml", True),
        ("/reconciler.yaml", "apps/reconciler.yaml", False),
        (".reconciler/", ".reconciler/profiles.yaml", True),
        (".reconciler/", ".reconciler", False),
        ("*.yaml\n!reconciler.yaml", "reconciler.yaml", False),
        ("!reconciler.yaml\n*.yaml", "reconciler.yaml", True),
        ("**/*.yaml", "reconciler.yaml", True),
        ("apps/*.yaml", "x/apps/a.yaml", False),
        ("# reconciler.yaml\n\n", "reconciler.yaml", False),
        ("[r]econciler.yaml", "reconciler.yaml", False),
    ],
)
def test_ignore_rules_are_read_as_git_reads_them(rules: str, path: str, expected: bool) -> None:
    assert is_ignored(rules, path) is expected
