"""The files that run the job: a workflow, a pipeline, or a CronJob that Argo CD or Flux keeps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from reconciler import __version__
from reconciler.domain.reported.pages import HOME
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import parse_remote
from reconciler.http.addresses import origin_of
from reconciler.pipeline.init.generated import GeneratedFile
from reconciler.pipeline.init.looking import FoundFiles
from reconciler.rendering.renderer import Renderer, shipped_manifests

IMAGE = f"ghcr.io/{HOME}"
JOB_FOLDER = "reconciler"
WORKFLOW = ".github/workflows/reconciler.yml"
PIPELINE = ".gitlab/reconciler.yml"
HTTP_PORT, HTTPS_PORT = 80, 443
PROMETHEUS_PORT = 9090


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Which files somebody asked for."""

    github_action: bool = False
    gitlab_ci: bool = False
    cronjob: bool = False
    argocd: bool = False
    flux: bool = False

    def check(self) -> None:
        """Raise ConfigurationError for wishes that do not go together."""
        if self.argocd and self.flux:
            raise ConfigurationError("--argocd, --flux: expected one of them: who shall keep the job?")
        if (self.argocd or self.flux) and not self.cronjob:
            raise ConfigurationError("--argocd, --flux: they say who keeps the job of --cronjob: give it too")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What the templates of jobs print.

    `repository` is the https address of the repository, `source` what Flux calls it; `prometheus_ports` are those that
    the network policy must open beside 443 and 9090, and `origins` those that a token for Prometheus may go to.
    """

    repository: str
    branch: str
    path: str = JOB_FOLDER
    home: str = HOME
    image: str = IMAGE
    version: str = __version__
    home_namespace: str = ""
    project: str = "default"
    source: str = "flux-system"
    prometheus_ports: tuple[int, ...] = ()
    origins: str = ""


def job_files(
    wishes: Wishes, renderer: Renderer, found: FoundFiles, *, remote: str, branch: str, urls: tuple[str, ...]
) -> Iterator[GeneratedFile]:
    """The files that were asked for; ConfigurationError where a job could not reach the repository."""
    wishes.check()
    view = JobView(
        repository=remote,
        branch=branch,
        prometheus_ports=tuple(sorted(set(_ports(urls)))),
        origins=",".join(dict.fromkeys(map(origin_of, urls))),
    )
    if wishes.github_action:
        yield GeneratedFile(path=WORKFLOW, text=renderer.render("init/github-action.yml.j2", view))
    if wishes.gitlab_ci:
        yield GeneratedFile(path=PIPELINE, text=renderer.render("init/gitlab-ci.yml.j2", view))
    if wishes.cronjob:
        yield from _cron_job(wishes, renderer, found, view)


def _cron_job(wishes: Wishes, renderer: Renderer, found: FoundFiles, view: JobView) -> Iterator[GeneratedFile]:
    view = replace(view, repository=_https_address(view.repository))
    for name, text in shipped_manifests("deploy/base").items():
        yield GeneratedFile(path=f"{JOB_FOLDER}/base/{name}", text=text)
    yield _overlay(renderer, "kustomization.yaml", "kustomization", view)
    if wishes.argocd:
        namespace = next((each.namespace for each in found.applications if each.namespace), "argocd")
        yield _overlay(renderer, "argocd/reconciler.yaml", "argocd", replace(view, home_namespace=namespace))
    if wishes.flux:
        known = next((each for each in found.flux if each.source_name), None)
        view = replace(view, source=view.source if known is None else known.source_name)
        namespace = known.namespace if known is not None and known.namespace else "flux-system"
        yield _overlay(renderer, "flux/reconciler.yaml", "flux", replace(view, home_namespace=namespace))


def _overlay(renderer: Renderer, path: str, template: str, view: JobView) -> GeneratedFile:
    text = renderer.render(f"deploy/overlays/{template}.yaml.j2", view)
    return GeneratedFile(path=f"{JOB_FOLDER}/{path}", text=text)


def _https_address(remote: str) -> str:
    """The address that a job with a token reaches the repository by."""
    if remote.startswith(("https://", "http://")):
        return remote
    address = parse_remote(remote)
    if address is None:
        raise ConfigurationError("--cronjob: expected a remote `origin` that a job can reach by https: add it first")
    return f"https://{address.host}/{address.full_name}.git"


def _ports(urls: tuple[str, ...]) -> Iterator[int]:
    """What the network policy of the base does not open yet."""
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)
        if port not in (HTTPS_PORT, PROMETHEUS_PORT):
            yield port
