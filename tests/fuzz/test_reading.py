"""Reading never fails: what is wrong with a file becomes findings at its lines, soon, whatever its bytes are."""

import time
import tracemalloc

import pytest

from reconciler.domain.identity import Finding
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.manifests.documents import Document, parse_readable
from reconciler.resources.registry import KIND_WORDS
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants
from tests.fuzz.cases import Tape, broken_file, broken_repository, fuzz
from tests.fuzz.oracle import fields_of

FILE_CHUNKS, FILES_PER_CHUNK = 8, 750
REPOSITORY_CHUNKS, REPOSITORIES_PER_CHUNK = 2, 500
SETTINGS = Settings(clusters=(ClusterSettings(name="prod"),), other_clusters=(ClusterSettings(name="dev"),))
LONGEST_S = 20.0
"""Of the processor for one case: thousands of times what one takes, so nothing but an explosion gets there."""
MOST_MIB = 96
HOSTILE_BYTES = 128 * 1024
NAMES = frozenset(kind.decode() for kind in KIND_WORDS)
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"


def broken_files(tape: Tape) -> list[ManifestFile]:
    """One file, or two that may name each other or disagree."""
    files: dict[str, bytes] = {}
    for folder in ("apps", "apps/base")[: tape.choose((1, 1, 2))]:
        name, body = broken_file(tape)
        files[f"{folder if f'apps/{name}' in files else 'apps'}/{name}"] = body
    return [ManifestFile(path=path, body=body) for path, body in files.items()]


def repository_files(tape: Tape) -> list[ManifestFile]:
    return [ManifestFile(path=path, body=body) for path, body in broken_repository(tape).items()]


@pytest.mark.parametrize("chunk", range(FILE_CHUNKS))
def test_whatever_a_file_holds_it_is_read_or_found_at_fault(chunk: int) -> None:
    @fuzz(broken_files, chunk=chunk, examples=FILES_PER_CHUNK)
    def check(files: list[ManifestFile]) -> None:
        check_reading(files)
        check_documents(files[0].body)

    check()


@pytest.mark.parametrize("chunk", range(REPOSITORY_CHUNKS))
def test_whatever_a_file_of_a_repository_holds_the_others_are_read_with_it(chunk: int) -> None:
    @fuzz(repository_files, chunk=chunk, examples=REPOSITORIES_PER_CHUNK)
    def check(files: list[ManifestFile]) -> None:
        check_reading(files)

    check()


def check_reading(files: list[ManifestFile]) -> None:
    started_s = time.process_time()
    declaration = read_declaration(files, (), SETTINGS)
    assert time.process_time() - started_s < LONGEST_S
    bodies = {file.path: file.body for file in files}
    for finding in declaration.findings:
        check_finding(finding, bodies[finding.place.path])
    if len(files) > 1:
        assert read_declaration(files[::-1], (), SETTINGS) == declaration
    declared_variants(SETTINGS, declaration)


def check_finding(finding: Finding, body: bytes) -> None:
    assert finding.message
    str(finding).encode()
    # The lines of YAML inside a quoted text are guessed: one may lie behind the last.
    is_embedded = finding.place.field.startswith("data.") or ".data." in finding.place.field
    assert 0 <= finding.place.line <= body.count(b"\n") + (50 if is_embedded else 1)


def check_documents(body: bytes) -> None:
    """Each field has a line of the file, and no document of ours is skipped for want of its kind's name."""
    documents, errors = parse_readable("f.yaml", body)
    num_lines = body.count(b"\n") + 1
    for error in errors:
        assert 0 <= error.line <= num_lines
    for document in documents[:2]:
        for field in list(fields_of(document.value))[:50]:
            assert 1 <= document.line_of(field) <= num_lines
    chosen, _ = parse_readable("f.yaml", body, kinds=KIND_WORDS)
    assert {document.index for document in chosen} >= {each.index for each in documents if is_ours(each)}


def is_ours(document: Document) -> bool:
    kind = document.value.get("kind") if isinstance(document.value, dict) else None
    return isinstance(kind, str) and kind in NAMES


@pytest.mark.parametrize(
    ("head", "repeated"),
    [
        ("", "["),
        ("", "- "),
        ("", "? "),
        ("", "# Deployment\n"),
        ("", "Deployment\n"),
        ("", "kind: Deployment\n---\n"),
        ("", "---\n"),
        ("", "...\n"),
        ("kind: Deployment\nitems:\n", "- {a: 1}\n"),
        (f"{DEPLOYMENT}x: [", "a,"),
        (f"{DEPLOYMENT}x:\n", "- &a 1\n"),
        (f"{DEPLOYMENT}y: &a 1\nx:\n", "- *a\n"),
        (f"{DEPLOYMENT}x: |\n", "  a\n"),
        (f"{DEPLOYMENT}x:\n  ", "a "),
        (f'{DEPLOYMENT}x: "', "\\x41"),
        (f"{DEPLOYMENT}x: '", "a\n\n  "),
        (f"{DEPLOYMENT}x: ", "${A}"),
        (f"{DEPLOYMENT}x: ", "1_"),
        (f"{DEPLOYMENT}x: ", "\t"),
        (f"{DEPLOYMENT}x: 1\n", "\r\n"),
        (f"{DEPLOYMENT}x: 1\n", "   # c\n"),
    ],
)
def test_an_enormous_file_takes_neither_long_nor_much_memory(head: str, repeated: str) -> None:
    body = (head + repeated * (HOSTILE_BYTES // len(repeated))).encode()
    tracemalloc.start()
    started_s = time.process_time()
    try:
        read_declaration([ManifestFile(path="app.yaml", body=body)], (), SETTINGS)
        assert time.process_time() - started_s < LONGEST_S
        assert tracemalloc.get_traced_memory()[1] < MOST_MIB * 2**20
    finally:
        tracemalloc.stop()
