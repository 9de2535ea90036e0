"""ApplicationSets whose generators stand in Git: the Applications that they make, where their templates are plain."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import Final, TypeAlias

from reconciler.domain.globs import path_matches
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import parse_documents
from reconciler.placement.origins import AS_BUILT, SourceField, value_at
from reconciler.placement.paths import directory_of, name_of
from reconciler.placement.repository import ManifestRepository

KIND: Final = "ApplicationSet"
_HEAD: Final[Mapping[str, Value]] = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
_PLACEHOLDER: Final = re.compile(r"\{\{-?\s*\.?([A-Za-z0-9_.\[\]-]+?)\s*-?\}\}")
_PARAMETER: Final = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")
_MAX_APPLICATIONS: Final = 5_000


def make_applications(repository: ManifestRepository, source: SourceField) -> Iterator[SourceField]:
    """The Applications of an ApplicationSet, each as the root of a document of its own.

    Followed: list generators, and Git generators on directories and files of this repository, with what they say over
    the template. A template that still has a placeholder afterwards makes nothing that can be told.
    """
    spec = source.below("spec")
    # Applications live where their set lives.
    own = value_at(source.value, ("metadata", "namespace"))
    namespace: dict[str, Value] = {} if own is None else {"namespace": own}
    patch = spec.text("templatePatch")
    for number, (parameters, template) in enumerate(_parameters(repository, spec)):
        if number >= _MAX_APPLICATIONS:
            return
        made = _patch(_fill(template, parameters), patch, parameters, source)
        if isinstance(made, dict) and not _has_placeholder(made):
            metadata = made.get("metadata")
            names = {**(metadata if isinstance(metadata, dict) else {}), **namespace}
            fields: dict[str, Value] = {**_HEAD, **made, "metadata": names}
            yield SourceField(replace(source.document, value=fields, index=AS_BUILT))


def _patch(made: Value, patch: str, parameters: Mapping[str, str], source: SourceField) -> Value:
    """What a set's `templatePatch` makes of an Application; None where the patch cannot be told."""
    text = _fill(patch, parameters)
    if not patch or not isinstance(text, str):
        return made
    if "{{" in text:
        return None
    (document, *_) = parse_documents(source.document.path, text.encode()) or (None,)
    return made if document is None else _overlay(made, document.value)


def _overlay(value: Value, over: Value) -> Value:
    """A value with what another one says over it; what that leaves empty stays."""
    if isinstance(value, dict) and isinstance(over, dict):
        told = {key: each for key, each in over.items() if each not in ("", {}, [], None)}
        return {**value, **{key: _overlay(value.get(key), each) for key, each in told.items()}}
    return over


def find_paths(repository: ManifestRepository, source: SourceField) -> Iterator[str]:
    """The paths that an ApplicationSet deploys in a way that nobody here can follow, perhaps with placeholders left.

    Clusters are not known here: what is made for each of them has the path that the rest of the set says.
    """
    for parameters, template in _parameters(repository, source.below("spec"), for_clusters=True):
        made = _fill(template, parameters)
        if _has_placeholder(value_at(made, ("spec",))):
            several = value_at(made, ("spec", "sources"))
            for each in (value_at(made, ("spec", "source")), *(several if isinstance(several, list) else ())):
                path = value_at(each, ("path",))
                url = value_at(each, ("repoURL",))
                if isinstance(path, str) and isinstance(url, str) and repository.is_ours(url):
                    yield path


def may_be(text: str, name: str) -> bool:
    """Whether a text, with parameters in it, may become a path or a name; one without any text does not."""
    first, *rest = _PARAMETER.split(text.strip("/").removeprefix("./"))
    if not rest or not name.startswith(first):
        return bool(text) and first == name
    *middle, last = rest
    # Found one after the other: a pattern with as many stars as a repository likes could take for ever.
    position, end = len(first), len(name) - len(last)
    for part in middle:
        position = name.find(part, position, max(end, 0))
        if position < 0:
            return False
        position += len(part)
    return position <= end and name.endswith(last)


def is_told(text: str) -> bool:
    """Whether a text has more in it than parameters and what divides them."""
    return bool(_PARAMETER.sub("", text).strip("/. "))


_Made: TypeAlias = tuple[Mapping[str, str], Value]


def _parameters(repository: ManifestRepository, spec: SourceField, *, for_clusters: bool = False) -> Iterator[_Made]:
    """What every generator makes, with the template as this generator overrides it."""
    template = spec.below("template").value
    for generator in spec.items("generators"):
        yield from _generated(repository, generator, template)
        if for_clusters:
            yield from _for_clusters(repository, generator, template)


def _generated(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    listed = generator.get("list")
    if listed is not None:
        own = _overlay(template, listed.below("template").value or {})
        for element in listed.items("elements"):
            yield dict(_flatten(element.value, "")), own
    git = generator.get("git")
    if git is not None and repository.is_ours(git.text("repoURL")):
        own = _overlay(template, git.below("template").value or {})
        for parameters in (*_in_directories(repository, git), *_in_files(repository, git)):
            yield parameters, own


def _for_clusters(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    """What is made of each cluster, or of each combination with one."""
    matrix, merge = generator.get("matrix"), generator.get("merge")
    if matrix is not None:
        parts = [list(_each(repository, inner, template)) for inner in matrix.items("generators")]
        for combination in islice(product(*parts), _MAX_APPLICATIONS):
            yield {key: value for each, _ in combination for key, value in each.items()}, template
    elif merge is not None:
        for inner in merge.items("generators"):
            yield from _each(repository, inner, template)
    elif generator.get("list") is None and generator.get("git") is None:
        yield {}, template


def _each(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    yield from _generated(repository, generator, template)
    yield from _for_clusters(repository, generator, template)


def _in_directories(repository: ManifestRepository, git: SourceField) -> Iterator[Mapping[str, str]]:
    entries = [(each.text("path"), each.flag("exclude")) for each in git.items("directories")]
    for directory in repository.directories if entries else ():
        wanted = any(path_matches(pattern, directory) for pattern, excludes in entries if not excludes)
        if directory and wanted and not any(path_matches(pattern, directory) for pattern, out in entries if out):
            yield _path_parameters(directory)


def _in_files(repository: ManifestRepository, git: SourceField) -> Iterator[Mapping[str, str]]:
    patterns = [each.text("path") for each in git.items("files")]
    for path in repository.paths if patterns else ():
        if any(path_matches(pattern, path) for pattern in patterns):
            for document in repository.read(path)[:1]:
                yield {**dict(_flatten(document.value, "")), **_path_parameters(directory_of(path), name_of(path))}


def _path_parameters(directory: str, file: str = "") -> dict[str, str]:
    """The parameters that a path becomes, under the names of both kinds of templates."""
    base = name_of(directory)
    parameters = {"path": directory, "path.path": directory, "path.basename": base, "path.basenameNormalized": base}
    for index, segment in enumerate(directory.split("/")):
        parameters[f"path[{index}]"] = segment
    return {**parameters, "path.filename": file} if file else parameters


def _flatten(value: Value, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flatten(member, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, bool):
        yield prefix, "true" if value else "false"
    elif isinstance(value, str | int | float):
        yield prefix, str(value)


def _fill(value: Value, parameters: Mapping[str, str]) -> Value:
    if isinstance(value, dict):
        return {key: _fill(member, parameters) for key, member in value.items()}
    if isinstance(value, list):
        return [_fill(item, parameters) for item in value]
    if isinstance(value, str) and "{{" in value:
        return _PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), value)
    return value


def _has_placeholder(value: Value) -> bool:
    if isinstance(value, dict):
        return any(map(_has_placeholder, value.values()))
    if isinstance(value, list):
        return any(map(_has_placeholder, value))
    return isinstance(value, str) and "{{" in value
