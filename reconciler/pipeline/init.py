"""Init: looks at a repository, writes the configuration that it infers and the files that run the job."""

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from urllib.parse import urlsplit

from reconciler import __version__
from reconciler.config.environment import Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.layers import API_VERSION, KIND
from reconciler.config.loading import DEFAULT_CLUSTER
from reconciler.domain.identity import fits_ignore_line
from reconciler.domain.plan import HOME
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import FILL_IN, ClusterSettings, Settings
from reconciler.domain.snapshot import Snapshot
from reconciler.errors import ConfigurationError, InputError
from reconciler.forge.pull_requests import parse_remote
from reconciler.git.repository import EntryKind, Repository, open_directory, origin_url
from reconciler.http.redaction import origin_of
from reconciler.manifests.documents import Document, parse_readable, text_at, value_at
from reconciler.metrics.answers import clusters_seen
from reconciler.pipeline.addresses import JobAddress, is_in_cluster, is_loopback, job_address
from reconciler.pipeline.adoption import WorkloadsView, propose_entries, render_entries, with_entries
from reconciler.pipeline.edits import FileEdit, Sheet, is_untouched, stamp, write_edits
from reconciler.pipeline.files import read_files
from reconciler.pipeline.prepare import Prepared
from reconciler.pipeline.references import IGNORED_STATUS, find_comparing
from reconciler.pipeline.run import plan
from reconciler.pipeline.session import Progress, no_progress, open_session
from reconciler.pipeline.work_tree import find_work_tree, read_content, refuse_links, write_content
from reconciler.placement.deployers import APPLICATION_SET, ARGO_GROUP, FLUX_GROUP, Deployer, try_read
from reconciler.placement.kustomize_build import objects_in
from reconciler.placement.objects import ObjectIdentity, SourceField, identify
from reconciler.placement.repository import (
    GENERATOR_GROUP,
    GROUP,
    ManifestRepository,
    directory_of,
    is_kustomization,
    is_yaml,
    name_of,
)
from reconciler.rendering.renderer import Renderer, shipped_manifests
from reconciler.report.formatting import count
from reconciler.report.status import FieldsView, lines_of
from reconciler.snapshot.declarations import Commit, fold, read_declaration

_WORDS = frozenset(group.encode() for group in (ARGO_GROUP, FLUX_GROUP, GROUP, GENERATOR_GROUP))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One directory that somebody deploys: by which object, written in which file, to which cluster (Argo CD)."""

    kind: str
    name: str
    namespace: str
    path: str
    directory: str
    destination: str = ""
    source_name: str = ""
    """What Flux calls this repository."""

    @property
    def is_flux(self) -> bool:
        """Whether it is a Flux Kustomization."""
        return self.kind == "Kustomization"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """What was found in a commit: deployments of its directories, ApplicationSets (by file), kustomizations' places."""

    paths: tuple[str, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    application_sets: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()

    @property
    def applications(self) -> tuple[Deployment, ...]:
        """Those of Argo CD."""
        return tuple(each for each in self.deployments if not each.is_flux)

    @property
    def flux(self) -> tuple[Deployment, ...]:
        """Those of Flux."""
        return tuple(each for each in self.deployments if each.is_flux)


def look(files: Mapping[str, bytes], remote: str = "") -> FoundFiles:
    """Look at all manifests of a commit; `remote` is the repository's address, as far as it is known."""
    parsed = {path: parse_readable(path, body, kinds=_WORDS)[0] for path, body in files.items()}
    repository = ManifestRepository(files=parsed, remote=remote)
    objects = [(path, identity, source) for path in repository.paths for identity, source in _objects(parsed[path])]
    return FoundFiles(
        paths=tuple(repository.paths),
        deployments=tuple(
            each for path, identity, source in objects for each in _deployments(repository, path, identity, source)
        ),
        application_sets=tuple(path for path, identity, _ in objects if identity.kind == APPLICATION_SET),
        overlays=tuple(sorted(directory_of(path) or "." for path in repository.paths if is_kustomization(path))),
    )


def _objects(documents: Iterable[Document]) -> Iterator[tuple[ObjectIdentity, SourceField]]:
    for document in documents:
        try:
            sources = list(objects_in(SourceField(document)))
        except InputError:
            continue
        for source in sources:
            yield identify(source.value if isinstance(source.value, dict) else {}), source


def _deployments(
    repository: ManifestRepository, path: str, identity: ObjectIdentity, source: SourceField
) -> Iterator[Deployment]:
    for deployer in try_read(repository, identity, source)[0]:
        yield Deployment(
            kind=identity.kind,
            name=identity.name,
            namespace=identity.namespace,
            path=path,
            directory=deployer.directory,
            destination=_text(deployer.spec, "destination", "name") or _text(deployer.spec, "destination", "server"),
            source_name=_text(deployer.spec, "sourceRef", "name"),
        )


def _text(source: SourceField, *keys: str) -> str:
    value = source.value
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


FOLDER = "clusters"
MOST_OVERLAYS = 8
"""More overlays that build the same workloads are a collection of examples, not clusters."""
IN_CLUSTER = "https://kubernetes.default.svc"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludedPath:
    """Files that describe a cluster, as a glob, and why."""

    glob: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredCluster:
    """A cluster, why it is one, and which files describe it: without `include` all but what is excluded."""

    name: str
    reason: str
    include: tuple[IncludedPath, ...] = ()
    exclude: tuple[IncludedPath, ...] = ()


def infer_clusters(found: FoundFiles, wanted: str = "") -> tuple[InferredCluster, ...]:
    """The clusters of a repository; `wanted` names the only one."""
    folders = sorted(
        {path.split("/")[1] for path in found.paths if path.startswith(f"{FOLDER}/") and path.count("/") > 1}
    )
    if len(folders) > 1:
        return tuple(_by_folder(found, name) for name in folders)
    destinations: dict[str, list[Deployment]] = defaultdict(list)
    for each in found.applications:
        if each.directory:
            destinations[each.destination].append(each)
    if len(destinations) > 1:
        return tuple(_of_destination(name, own) for name, own in sorted(destinations.items()))
    if wanted:
        return (InferredCluster(name=wanted, reason="as --cluster says"),)
    if folders:
        return (InferredCluster(name=_name(folders[0]), reason=f"the only directory in {FOLDER}/"),)
    named = [name for name in destinations if name not in ("", IN_CLUSTER)]
    if named:
        return (InferredCluster(name=_name(named[0]), reason="where Argo CD deploys to"),)
    return (InferredCluster(name=DEFAULT_CLUSTER, reason="nothing here names a cluster: call it what you call it"),)


def split_overlays(
    alternatives: Iterable[tuple[str, ...]], inferred: tuple[InferredCluster, ...], wanted: str
) -> tuple[InferredCluster, ...]:
    """The clusters, one for each overlay where sibling overlays build the same serving workloads.

    `alternatives` are the directories that build one workload, for each that several do; `wanted` names the only
    cluster.
    """
    roots = sorted({root for each in alternatives for root in each})
    are_siblings = len({directory_of(root) for root in roots}) == 1
    if len(inferred) > 1 or inferred[0].include or not are_siblings or not 1 < len(roots) <= MOST_OVERLAYS:
        return inferred
    clusters = tuple(
        InferredCluster(
            name=_name(name_of(root)),
            reason=f"{root} builds what other overlays build too, and nothing in Git deploys them together",
            exclude=tuple(
                IncludedPath(glob=f"{other}/**", reason=f"cluster {_name(name_of(other))}")
                for other in roots
                if other != root
            ),
        )
        for root in roots
    )
    return tuple(each for each in clusters if each.name == wanted) or clusters


def find_alternatives(commit: Commit, settings: Settings) -> Iterator[tuple[str, ...]]:
    """The directories that build each serving workload which several build and nothing deploys together."""
    for workload in fold(commit, settings).alternatives:
        if workload.is_serving:
            builds = commit.fleet.objects.get(replace(workload.key, part=""), ())
            roots = [directory_of(path) if is_yaml(path) else path for path in (each.root.path for each in builds)]
            if len(set(roots)) == len(roots) and not any(each.root.deployer for each in builds):
                yield tuple(roots)


def _by_folder(found: FoundFiles, folder: str) -> InferredCluster:
    own = f"{FOLDER}/{folder}/"
    include = [IncludedPath(glob=f"{own}**", reason="its own directory")]
    include += _reached(found, own)
    return InferredCluster(name=_name(folder), reason=f"a directory in {FOLDER}/", include=tuple(include))


def _reached(found: FoundFiles, own: str) -> Iterator[IncludedPath]:
    """Directories outside that are deployed by what lies in a cluster's own."""
    seen: set[str] = set()
    for each in found.deployments:
        is_outside = each.directory and not f"{each.directory}/".startswith(own)
        if each.path.startswith(own) and is_outside and each.directory not in seen:
            seen.add(each.directory)
            yield IncludedPath(glob=f"{each.directory}/**", reason=f"{each.kind} {each.name} deploys it ({each.path})")


def _of_destination(destination: str, deployments: list[Deployment]) -> InferredCluster:
    host = "in-cluster" if destination == IN_CLUSTER else destination.partition("://")[2] or destination
    first = {each.directory: each for each in reversed(deployments)}
    return InferredCluster(
        name=_name(host),
        reason="Argo CD deploys to it",
        include=tuple(
            IncludedPath(glob=f"{directory}/**", reason=f"{each.kind} {each.name} deploys it ({each.path})")
            for directory, each in sorted(first.items())
        ),
    )


def _name(text: str) -> str:
    return _NO_NAME.sub("-", text).strip("-._")[:63] or DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster with its Prometheus: empty texts where there is none, or where its series need no label."""

    name: str
    reason: str
    include: tuple[IncludedPath, ...] = ()
    exclude: tuple[IncludedPath, ...] = ()
    url: str = ""
    url_reason: str = ""
    label: str = ""
    has_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorView:
    """An accelerator and what is known of it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    """What the template of `reconciler.yaml` prints."""

    clusters: tuple[ClusterView, ...]
    priced: tuple[AcceleratorView, ...] = ()
    unpriced: tuple[AcceleratorView, ...] = ()
    without_target: str = ""
    default_class: str = ""
    own_groups: str = ""
    shared_groups: str = ""


def draft_view(
    clusters: tuple[InferredCluster, ...], url: str, *, has_token: bool, labels: tuple[str, ...] = ()
) -> ConfigurationView:
    """What is known before anything is asked: clusters, and the one Prometheus that was named for them.

    `labels` are the clusters that its series name: a cluster of that name is selected by it.
    """
    return ConfigurationView(
        clusters=tuple(
            ClusterView(
                name=each.name,
                reason=each.reason,
                include=each.include,
                exclude=each.exclude,
                url=url,
                url_reason="as --prometheus said",
                label=each.name if each.name in labels else "",
                has_token=has_token and bool(url),
            )
            for each in clusters
        )
    )


MOST_OF_OWNERS = 3 * 1024 * 1024
"""GitHub reads no more."""
OWNER_FILES = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", ".gitea/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where forges look for owners, GitHub and GitLab in another order: the first that is there counts here."""


def owners_of(repository: Repository, paths: Iterable[str]) -> dict[str, str]:
    """The owners of files, as CODEOWNERS writes them: the last pattern that fits counts; empty without any."""
    entries = {each.path: each for each in repository.list_files() if each.path in OWNER_FILES}
    found = next((entries[path] for path in OWNER_FILES if path in entries), None)
    if found is None or found.kind is not EntryKind.FILE or found.size_bytes > MOST_OF_OWNERS:
        return {}
    (_, body), *_ = repository.read_files((found.oid,))
    lines = (line.partition("#")[0].split() for line in body.decode("utf-8", "replace").splitlines())
    rules = [(line[0], " ".join(sorted(line[1:]))) for line in lines if line and line[0][0] not in "[^"]
    return {
        path: next((who for pattern, who in reversed(rules) if fits_ignore_line(pattern, path)), "") for path in paths
    }


def choose_groups(snapshot: Snapshot, owners: Mapping[str, str]) -> tuple[str, str]:
    """Why each namespace gets pull requests of its own, else why one a cluster would cost less; both may be empty.

    Where people own different namespaces each gets what it is asked to merge. Where nobody merges one pull request
    a cluster costs least: it is opened once enough replicas of all its namespaces differ.
    """
    found: dict[str, set[str]] = {}
    for variant in snapshot.variants:
        found.setdefault(variant.key.namespace, set()).add(owners.get(variant.place.path, ""))
    if len(found) < 2:
        return "", ""
    named = {name: " ".join(sorted(filter(None, who))) for name, who in sorted(found.items())}
    if len({frozenset(who) for who in found.values()}) > 1:
        (first, one), (second, other) = next(
            pair for pair in combinations(named.items(), 2) if found[pair[0][0]] != found[pair[1][0]]
        )
        return f"CODEOWNERS gives {first} to {one or 'nobody'} and {second} to {other or 'nobody'}", ""
    whose = "have the same owners" if any(named.values()) else "have no owners in CODEOWNERS"
    return "", f"{len(found)} namespaces {whose}: where all merges by itself, one pull request a cluster costs least"


def complete_view(
    draft: ConfigurationView, snapshot: Snapshot, groups: tuple[str, str] = ("", "")
) -> ConfigurationView:
    """The draft with what the repository declares, what it lacks, and what `choose_groups` said."""
    entries = list(_accelerators(snapshot))
    models = {each.model for each in snapshot.variants}
    lacking = {each.model for each in snapshot.variants if each.service_class is None}
    classes = sorted({each.service_class.value.name for each in snapshot.variants if each.service_class is not None})
    return replace(
        draft,
        priced=tuple(view for view, is_priced in entries if is_priced),
        unpriced=tuple(view for view, is_priced in entries if not is_priced),
        without_target=_without_target(len(lacking), len(models)),
        default_class=classes[0] if len(classes) == 1 else "",
        own_groups=groups[0],
        shared_groups=groups[1],
    )


def _without_target(lacking: int, models: int) -> str:
    if not lacking:
        return ""
    which = "No model has" if lacking == models else f"{lacking} of {models} models have no"
    target = "a latency target" if lacking == models else "latency target"
    return f"{which} {target}: they are sized by how full their replicas are. To give them one:"


def _accelerators(snapshot: Snapshot) -> Iterator[tuple[AcceleratorView, bool]]:
    """Every accelerator that something runs on or may run on, and whether its price is known."""
    running = Counter(each.current.accelerator for each in snapshot.variants if each.current.accelerator)
    optional = {option.accelerator for each in snapshot.variants for option in each.options}
    for name in sorted({*running, *optional}):
        found = [each for catalog in snapshot.catalogs.values() if (each := catalog.find(name)) is not None]
        priced = next((each for each in found if each.cost_per_hour is not None), None)
        used = f"{count(running[name], 'variant')} on it" if running[name] else "a profile names it"
        if priced is None:
            yield AcceleratorView(name=name, reason=used), False
        else:
            place = priced.cost_place or priced.place
            reason = f"{priced.cost_per_hour:g} an hour ({place}), {used}"
            yield AcceleratorView(name=name, reason=reason), True


class Fate(StrEnum):
    """What becomes of a file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file of the work tree: its path from the root, and the text that init wants in it, without its first line.

    What is `started` is a person's as soon as it is there: its first line proves nothing. What is edited is the whole
    file, which is a person's too: it was `before`, and is left alone where the work tree has something else.
    """

    path: str
    text: str
    is_started: bool = False
    before: bytes | None = None
    reason: str = ""

    @property
    def content(self) -> bytes:
        """The whole file."""
        body = self.text.encode()
        return body if self.is_started or self.before is not None else stamp(body, "reconciler init") + body

    def fate_in(self, root: Path) -> Fate:
        """What becomes of it in a work tree, or would."""
        refuse_links(root, self.path, f"init: {self.path}")
        present = read_content(root, self.path)
        if present == self.content:
            return Fate.UNCHANGED
        if self.before is not None:
            return Fate.UPDATED if present == self.before else Fate.KEPT
        if present is None:
            return Fate.CREATED
        return Fate.UPDATED if is_untouched(present) else Fate.KEPT

    def write(self, root: Path) -> Fate:
        """Write it, unless a person has changed what is there."""
        fate = self.fate_in(root)
        if fate in (Fate.CREATED, Fate.UPDATED):
            write_content(root, self.path, self.content, f"init: {self.path}")
        return fate


def ignore_statuses(commit: Commit, settings: Settings, renderer: Renderer) -> Iterator[GeneratedFile]:
    """Manifests of Argo CD with the entry by which it does not compare statuses; those that cannot be edited stay."""
    written: dict[str, dict[int, Document]] = defaultdict(dict)
    for deployer, _ in find_comparing(commit.fleet, settings):
        for document in _written(commit, deployer):
            written[document.path][document.index] = document
    text = renderer.render("manifests/fields.yaml.j2", FieldsView(lines=lines_of([dict(IGNORED_STATUS)])))
    bodies = {each.path: each.body for each in commit.manifests}
    for path, documents in sorted(written.items()):
        with suppress(InputError):
            edits = [_add_entry(document, text) for document in documents.values()]
            edited = write_edits(path, bodies[path], edits).decode()
            words = "Argo CD before 3.0 would compare statuses"
            yield GeneratedFile(path=path, text=edited, before=bodies[path], reason=words)


_SPECS: Mapping[str, tuple[str, ...]] = {"Application": ("spec",), APPLICATION_SET: ("spec", "template", "spec")}
"""Where what an Application ignores is written."""


def _written(commit: Commit, deployer: Deployer) -> Iterator[Document]:
    """The documents that say what an Application is: its own, or that of the set which makes it."""
    documents = commit.fleet.repository.files.get(deployer.spec.document.path, ())
    candidates = [each for each in documents if text_at(each.value, "kind") in _SPECS]
    for each in candidates:
        if len(candidates) == 1 or value_at(each.value, ("metadata", "name")) == deployer.identity.name:
            yield each


def _add_entry(document: Document, text: str) -> FileEdit:
    sheet = Sheet(document=document, prefix=_SPECS[text_at(document.value, "kind")])
    listed = sheet.find("ignoreDifferences")
    if isinstance(listed, list) and listed:
        return sheet.append(text, len(listed), "ignoreDifferences")
    return sheet.insert(text, "ignoreDifferences")


IMAGE = f"ghcr.io/{HOME}"
IMAGE_NAME = re.compile(
    r"(?P<name>[a-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5}(?=/))?(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
ACTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+(?:/[A-Za-z0-9._/-]+)?@[A-Za-z0-9._/-]+")
JOB_FOLDER = "reconciler"
WORKFLOW = ".github/workflows/reconciler.yml"
PIPELINE = ".gitlab/reconciler.yml"
HTTP_PORT, HTTPS_PORT = 80, 443
PROMETHEUS_PORT = 9090


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Which files somebody asked for; with `adopt` also that serving workloads are managed."""

    github_action: bool = False
    gitlab_ci: bool = False
    cronjob: bool = False
    argocd: bool = False
    flux: bool = False
    adopt: bool = False
    image: str = ""
    """NAME@DIGEST or NAME:TAG of a mirror or an image of one's own; empty: the released one."""
    action: str = ""
    """OWNER/REPOSITORY@COMMIT of the same; empty: the released one."""

    def check(self) -> None:
        """Raise ConfigurationError for wishes that do not go together, or name no image or action."""
        if self.image and IMAGE_NAME.fullmatch(self.image) is None:
            raise ConfigurationError("--image: expected NAME@sha256:DIGEST or NAME:TAG, with all 64 digits")
        if self.action and ACTION_NAME.fullmatch(self.action) is None:
            raise ConfigurationError("--action: expected OWNER/REPOSITORY@REF, best with the 40 digits of a commit")
        if self.argocd and self.flux:
            raise ConfigurationError("--argocd, --flux: expected one of them: who shall keep the job?")
        if (self.argocd or self.flux) and not self.cronjob:
            raise ConfigurationError("--argocd, --flux: they say who keeps the job of --cronjob: give it too")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What the templates of jobs print.

    `repository` is the https address of the repository, `source` what Flux calls it; `prometheus_ports` are those that
    the network policy must open besides 443 and 9090, and `origins` those that a token for Prometheus may go to.
    """

    repository: str
    branch: str
    path: str = JOB_FOLDER
    home: str = HOME
    image: str = IMAGE
    tag: str = __version__
    digest: str = ""
    action: str = f"{HOME}@v{__version__}"
    is_released: bool = True
    """Whether the action is named by a release, which its commit should replace."""
    home_namespace: str = ""
    project: str = "default"
    source: str = "flux-system"
    prometheus_ports: tuple[int, ...] = ()
    origins: str = ""
    is_in_cluster: bool = False
    """Whether only what runs in the cluster, or in its network, reaches Prometheus."""


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
        is_in_cluster=any(map(is_in_cluster, urls)),
    )
    if named := IMAGE_NAME.fullmatch(wishes.image):
        tag = named["tag"] or ("" if named["digest"] else "latest")
        view = replace(view, image=named["name"], tag=tag, digest=named["digest"] or "")
    if wishes.action:
        view = replace(view, action=wishes.action, is_released=False)
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
        if port not in (HTTPS_PORT, PROMETHEUS_PORT) and url != FILL_IN:
            yield port


TEMPLATE = "init/reconciler.yaml.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """What somebody asked of init; with `checks` nothing is written."""

    flags: Flags
    environment: Environment
    wishes: Wishes
    now_s: float
    checks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitResult:
    """What was found, what became of each file (or would), and the first plan.

    `clusters` are empty where a configuration says already which there are.
    """

    found: FoundFiles
    prepared: Prepared
    files: tuple[tuple[GeneratedFile, Fate], ...]
    clusters: tuple[InferredCluster, ...] = ()
    adopted: WorkloadsView = field(default_factory=WorkloadsView)
    """What of the serving workloads is managed now, and what is left to a person; empty unless that was asked for."""

    address: JobAddress | None = None
    """What is written as the address of the Prometheus that was asked."""
    urls: tuple[str, ...] = ()
    """The addresses that jobs use."""

    @property
    def is_reached_from_outside(self) -> bool:
        """Whether a runner outside of the cluster may reach every Prometheus."""
        return not any(map(is_in_cluster, self.urls))

    @property
    def is_measured(self) -> bool:
        """Whether any cluster has a Prometheus to ask."""
        return any(each.prometheus is not None for each in self.prepared.recording.settings.clusters)

    @property
    def changes(self) -> bool:
        """Whether any file is written, or would be."""
        return any(fate in (Fate.CREATED, Fate.UPDATED) for _, fate in self.files)


def init(request: InitRequest, progress: Progress = no_progress) -> InitResult:
    """Look, infer, write and plan; ConfigurationError for a repository without a work tree or a first commit."""
    request.wishes.check()
    root = find_work_tree(request.flags.repo, "init")
    remote = origin_url(root) or ""
    repository = open_directory(root, base=request.flags.base or None)
    everything = Settings(clusters=(ClusterSettings(name=DEFAULT_CLUSTER),))
    listed = read_files(repository, everything, remote)
    found = look({each.path: each.body for each in listed.commit.manifests}, remote)
    found = replace(found, paths=listed.paths)
    clusters = (
        ()
        if (read_content(root, REPOSITORY_FILE) is not None)
        else _infer(found, tuple(find_alternatives(listed.commit, everything)), request.flags)
    )
    renderer = Renderer()
    draft, prepared = _plan(request, root, clusters, renderer, progress)
    address = job_address(repository, request.flags.prometheus) if draft and request.flags.prometheus else None
    files = []
    adopted = _adopted(prepared) if request.wishes.adopt else WorkloadsView()
    if adopted.entries:
        prepared = _plan_with(request, root, draft, adopted, renderer, progress)
    if draft is not None:
        owners = owners_of(repository, {each.place.path for each in prepared.snapshot.variants})
        groups = choose_groups(prepared.snapshot, owners)
        text = renderer.render(TEMPLATE, _for_jobs(complete_view(draft, prepared.snapshot, groups), address))
        text += render_entries(renderer, adopted) if adopted.entries or adopted.left else ""
        files.append(GeneratedFile(path=REPOSITORY_FILE, text=text, is_started=True))
    elif adopted.entries:
        present = read_content(root, REPOSITORY_FILE) or b""
        text = with_entries(present, renderer, adopted).decode()
        reason = f"{count(len(adopted.entries), 'serving workload')} to manage"
        files.append(GeneratedFile(path=REPOSITORY_FILE, text=text, before=present, reason=reason))
    settings = prepared.recording.settings
    from_here = is_loopback(request.flags.prometheus) if request.flags.prometheus else False
    written = _written_settings(request, root) if from_here and draft is None else settings
    asked = [each.prometheus.url for each in written.clusters if each.prometheus is not None]
    urls = (address.url,) if address is not None else tuple(asked)
    branch = settings.git.base_branch or repository.branch
    whole = replace(settings, clusters=(ClusterSettings(name=DEFAULT_CLUSTER),))
    files += ignore_statuses(listed.commit, whole, renderer)
    files += job_files(request.wishes, renderer, found, remote=remote, branch=branch, urls=urls)
    fates = [(each, each.fate_in(root)) for each in files]  # all are looked at before the first is written
    if not request.checks:
        fates = [(each, each.write(root)) for each in files]
    return InitResult(
        found=found,
        prepared=prepared,
        files=tuple(fates),
        clusters=clusters,
        adopted=adopted,
        address=address,
        urls=urls,
    )


def _for_jobs(view: ConfigurationView, address: JobAddress | None) -> ConfigurationView:
    """The configuration with the address that jobs use, not the one that was asked from here."""
    if address is None:
        return view
    clusters = (
        replace(each, url=address.url, url_reason=address.reason) if each.url else each for each in view.clusters
    )
    return replace(view, clusters=tuple(clusters))


def _infer(found: FoundFiles, alternatives: tuple[tuple[str, ...], ...], flags: Flags) -> tuple[InferredCluster, ...]:
    wanted = flags.clusters[0] if len(flags.clusters) == 1 else ""
    clusters = split_overlays(alternatives, infer_clusters(found, wanted), wanted)
    overlays = [each.name for each in clusters if each.exclude]
    if flags.prometheus and len(overlays) > 1:
        raise ConfigurationError(
            f"--prometheus: overlays build the same objects ({', '.join(overlays)}), and this is the Prometheus of one "
            f"of them: name it with --cluster, like --cluster {overlays[-1]}"
        )
    return clusters


def _plan(
    request: InitRequest, root: Path, clusters: tuple[InferredCluster, ...], renderer: Renderer, progress: Progress
) -> tuple[ConfigurationView | None, Prepared]:
    """The plan by the configuration that is there, else by what can be inferred without asking."""
    if not clusters:
        return None, _plan_by(request, _with_uncommitted(request.flags, root), progress)
    url = request.flags.prometheus
    has_token = request.environment.prometheus_token is not None
    draft = draft_view(clusters, url, has_token=has_token)
    prepared = _plan_draft(request, draft, renderer, progress)
    seen = tuple(filter(None, clusters_seen(prepared.recording.answers)))
    if len(seen) > 1:
        unknown = [each.name for each in clusters if each.name not in seen]
        if unknown:
            raise ConfigurationError(
                f"this Prometheus holds several clusters ({', '.join(seen)}), and none of them is called "
                f"{unknown[0]}: name yours with --cluster"
            )
        draft = draft_view(clusters, url, has_token=has_token, labels=seen)
        prepared = _plan_draft(request, draft, renderer, progress)
    return draft, prepared


def _adopted(prepared: Prepared) -> WorkloadsView:
    """The entries of what is served and not managed."""
    seen = prepared.recording
    declaration = read_declaration(seen.manifests, seen.withheld, seen.settings, seen.paths, seen.repository)
    return propose_entries(prepared.snapshot, declaration.adapter_rules)


def _plan_with(
    request: InitRequest,
    root: Path,
    draft: ConfigurationView | None,
    adopted: WorkloadsView,
    renderer: Renderer,
    progress: Progress,
) -> Prepared:
    """The plan with the workloads that are managed from now on, whatever the configuration says else."""
    entries = render_entries(renderer, replace(adopted, left=()))
    if draft is not None:
        return _plan_draft(request, draft, renderer, progress, entries)
    with _operator_file(f"apiVersion: {API_VERSION}\nkind: {KIND}\n{entries}") as file:
        flags = _with_uncommitted(request.flags, root)
        return _plan_by(request, replace(flags, config_files=(*flags.config_files, file)), progress)


def _with_uncommitted(flags: Flags, root: Path) -> Flags:
    """A configuration that is not committed yet counts all the same: whoever runs init wrote it just now."""
    repository = open_directory(root, base=flags.base or None)
    if repository.read_file_at(repository.commit, REPOSITORY_FILE) is not None:
        return flags
    return replace(flags, config_files=(root / REPOSITORY_FILE, *flags.config_files))


def _written_settings(request: InitRequest, root: Path) -> Settings:
    """The configuration that is there, for its addresses: what was asked from here is of no use to a job."""
    files = (root / REPOSITORY_FILE, *request.flags.config_files)
    flags = replace(request.flags, prometheus="", config_files=files)
    try:
        with open_session(flags, request.environment, writes=False, with_forge=False) as session:
            return session.settings
    except ConfigurationError:  # an address that is yet to be filled in
        return Settings()


def _plan_draft(
    request: InitRequest, draft: ConfigurationView, renderer: Renderer, progress: Progress, entries: str = ""
) -> Prepared:
    flags = request.flags
    is_several = len(draft.clusters) > 1
    with _operator_file(renderer.render(TEMPLATE, draft) + entries) as file:
        flags = replace(flags, config_files=(file, *flags.config_files))
        return _plan_by(request, replace(flags, prometheus="" if is_several else flags.prometheus), progress)


@contextmanager
def _operator_file(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reconciler-") as directory:
        file = Path(directory) / REPOSITORY_FILE
        file.write_text(text, encoding="utf-8")
        yield file


def _plan_by(request: InitRequest, flags: Flags, progress: Progress) -> Prepared:
    with open_session(flags, request.environment, writes=False, with_forge=False, progress=progress) as session:
        return plan(session.doors, session.settings, request.now_s, repository=session.repository)
