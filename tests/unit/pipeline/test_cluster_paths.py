"""Where one Prometheus holds several clusters the advice names their paths, as those who deploy them tell."""

import pytest

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.errors import ConfigurationError
from reconciler.metrics.quantities import Name
from reconciler.pipeline.files import read_files
from reconciler.pipeline.observe import refuse_several_clusters
from tests.servers.desk import Desk
from tests.servers.fleet import CHAT_VARIANT, SETTINGS

ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: {name}, namespace: argocd}}
spec:
  source: {{repoURL: "https://git.example.com/acme/fleet", path: {path}, directory: {{recurse: true}}}}
  destination: {{{destination}, namespace: llm}}
"""
FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {name}, namespace: flux-system}}
spec: {{path: ./{path}, sourceRef: {{kind: GitRepository, name: flux-system}}, interval: 10m}}
"""


def advice(desk: Desk, files: dict[str, str]) -> str:
    desk.configure(SETTINGS, "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n")
    for path, text in files.items():
        desk.workshop.write(path, text.encode())
    desk.workshop.commit()
    clone = desk.clone()
    files_read = read_files(clone, desk.settings(clone), "https://git.example.com/acme/fleet")
    series = ",".join(f'{{"metric":{{"cluster":"{name}"}},"value":[1,"1"]}}' for name in ("east", "west"))
    body = f'{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}'
    query = Query(cluster="default", quantity=Name.CLUSTER_LABEL, text="x", start_s=1.0, end_s=1.0)
    answer = Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body.encode()))
    with pytest.raises(ConfigurationError) as raised:
        refuse_several_clusters([answer], files_read.commit.fleet)
    return str(raised.value)


def entry(name: str, paths: str) -> str:
    return (
        f"{{name: {name}, paths: {{include: [{paths}]}}, prometheus: {{url: ..., matchLabels: {{cluster: {name}}}}}}}"
    )


APPS = {f"apps/{where}/variant.yaml": CHAT_VARIANT for where in ("one", "two", "three")}
CASES = {
    "destinations by name": (
        {
            "bootstrap/a.yaml": ARGO.format(name="a", path="apps/one", destination="name: east"),
            "bootstrap/b.yaml": ARGO.format(name="b", path="apps/two", destination="name: west"),
            "bootstrap/c.yaml": ARGO.format(name="c", path="apps/three", destination="name: west"),
        },
        ('"apps/one/**"', '"apps/three/**", "apps/two/**"'),
    ),
    "destinations by server": (
        {
            "bootstrap/a.yaml": ARGO.format(name="a", path="apps/one", destination='server: "https://east.k8s:6443"'),
            "bootstrap/b.yaml": ARGO.format(name="b", path="apps/two", destination='server: "https://west.k8s:6443"'),
        },
        ('"apps/one/**"', '"apps/two/**"'),
    ),
    "paths of Flux": (
        {
            "flux/east/apps.yaml": FLUX.format(name="apps-east", path="apps/one"),
            "flux/west/apps.yaml": FLUX.format(name="apps-west", path="apps/two"),
        },
        ('"apps/one/**", "flux/east/**"', '"apps/two/**", "flux/west/**"'),
    ),
    "names of directories": (
        {"fleet/east/llm/a.yaml": CHAT_VARIANT, "fleet/west/llm/a.yaml": CHAT_VARIANT},
        ('"fleet/east/**"', '"fleet/west/**"'),
    ),
    "nothing": ({}, ("...", "...")),
}


@pytest.mark.parametrize("case", CASES)
def test_the_advice_to_name_clusters_includes_their_paths(desk: Desk, case: str) -> None:
    files, (east, west) = CASES[case]
    told = advice(desk, {**APPS, **files})
    assert told == (
        "this Prometheus holds several clusters (east, west): name them in reconciler.yaml, as in "
        f"clusters: [{entry('east', east)}, {entry('west', west)}]"
    )
