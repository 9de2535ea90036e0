"""ApplicationSets whose generators stand in Git: the Applications that they make, where their templates are plain."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from reconciler.domain.globs import path_matches
from reconciler.manifests.composer import Value
from reconciler.placement.origins import AS_BUILT, SourceField, value_at
from reconciler.placement.paths import directory_of, name_of
from reconciler.placement.repository import ManifestRepository

KIND: Final = "ApplicationSet"
_HEAD: Final[Mapping[str, Value]] = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
_PLACEHOLDER: Final = re.compile(r"\{\{-?\s*\.?([A-Za-z0-9_.\[\]-]+?)\s*-?\}\}")
_MAX_APPLICATIONS: Final = 5_000


def make_applications(repository: ManifestRepository, source: SourceField) -> Iterator[SourceField]:
    """The Applications of an ApplicationSet, each as the root of a document of its own.

    Followed: list generators, and Git generators on directories and files of this repository. A template that still
    has a placeholder afterwards makes nothing that can be told.
    """
    template = source.below("spec", "template")
    value = template.value
    if not isinstance(value, dict):
        return
    # Applications live where their set lives.
    own = value_at(source.value, ("metadata", "namespace"))
    namespace: dict[str, Value] = {} if own is None else {"namespace": own}
    for number, parameters in enumerate(_parameters(repository, source.below("spec"))):
        if number >= _MAX_APPLICATIONS:
            return
        made = _fill(value, parameters)
        if isinstance(made, dict) and not _has_placeholder(made):
            metadata = made.get("metadata")
            names = {**(metadata if isinstance(metadata, dict) else {}), **namespace}
            fields: dict[str, Value] = {**_HEAD, **made, "metadata": names}
            yield SourceField(replace(source.document, value=fields, index=AS_BUILT))


def _parameters(repository: ManifestRepository, spec: SourceField) -> Iterator[Mapping[str, str]]:
    for generator in spec.items("generators"):
        listed = generator.get("list")
        if listed is not None:
            for element in listed.items("elements"):
                yield dict(_flatten(element.value, ""))
        git = generator.get("git")
        if git is not None and repository.is_ours(git.text("repoURL")):
            yield from _in_directories(repository, git)
            yield from _in_files(repository, git)


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
