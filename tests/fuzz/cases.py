"""Draws files: documents of one seed or of several, put together and mutated a few times."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from reconciler.manifests.documents import Document, parse_documents, parse_readable
from tests.fuzz.breaking import BREAKAGES
from tests.fuzz.restructuring import restructure
from tests.fuzz.rewriting import REWRITES, Mutation
from tests.fuzz.seeds import read_repositories, read_seeds

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))
"""How many times as many cases as usual."""
Drawn = TypeVar("Drawn")
Choice = TypeVar("Choice")

_TAPE_BYTES = 96
_MARKERS = ("---\n", "---\n", "---\n", "--- # c\n", "...\n---\n", "\n---\n\n", "---\n---\n", "# c\n---\n")
_HEADS = ("", "", "", "---\n", "# head\n---\n", "# head\n", "%YAML 1.1\n---\n")
_NAMES = ("app.yaml", "b.yaml", "kustomization.yaml", ".argocd-source-llama.yaml", "values.yaml")


class Tape:
    """Choices read off bytes: one draw of hypothesis instead of thirty, which would take longer than the case.

    Zeros are the simplest choices and follow the end, so that a failing case still becomes small.
    """

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._position = 0

    def number(self) -> int:
        """A number below 65,536."""
        self._position += 2
        return int.from_bytes(self._tape[self._position - 2 : self._position], "little")

    def choose(self, choices: Sequence[Choice]) -> Choice:
        """One of some."""
        return choices[self.number() % len(choices)]

    def one_in(self, number: int) -> bool:
        """True once in so many times."""
        return self.number() % number == number - 1


def fuzz(
    build: Callable[[Tape], Drawn], *, chunk: int, examples: int
) -> Callable[[Callable[[Drawn], None]], Callable[[], None]]:
    """A check of many cases, the same in every run: chunks differ, so that they can run side by side."""
    cases = st.binary(min_size=_TAPE_BYTES, max_size=_TAPE_BYTES).map(lambda tape: build(Tape(tape)))

    def decorate(check: Callable[[Drawn], None]) -> Callable[[], None]:
        configured = settings(
            max_examples=examples * TIMES,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        return seed(chunk)(configured(given(cases)(check)))

    return decorate


def broken_file(tape: Tape) -> tuple[str, bytes]:
    """A name and bytes: a manifest with other values in it, one written another way, or whatever they are."""
    way = tape.number() % 4
    text, name = _compose(tape, restructured=way < 2)
    if way < 3:
        text = _mutate(tape, text, REWRITES, most=1 + way)
    else:
        text = _mutate(tape, text, (*REWRITES, *BREAKAGES), most=3)
    return tape.choose(_NAMES) if tape.one_in(8) else name, text.encode(errors="surrogateescape")


def broken_repository(tape: Tape) -> dict[str, bytes]:
    """A whole repository with one file changed, or two."""
    texts = dict(tape.choose(read_repositories()))
    for _ in range(tape.choose((1, 1, 2))):
        path = tape.choose(sorted(texts))
        if tape.one_in(2):
            texts[path] = restructure(texts[path], tape.number(), tape.number())
        texts[path] = _mutate(tape, texts[path], (*REWRITES, *BREAKAGES) if tape.one_in(4) else REWRITES, most=2)
    return {path: text.encode(errors="surrogateescape") for path, text in texts.items()}


def written_file(tape: Tape) -> tuple[bytes, tuple[Document, ...]]:
    """A manifest with at least one document that can be read, however it is written; and those documents."""
    text, _ = _compose(tape, restructured=tape.one_in(4))
    stages = [text]
    for _ in range(tape.number() % 5):
        mutation = tape.choose(BREAKAGES if tape.one_in(40) else REWRITES)
        stages.append(mutation(stages[-1], tape.number(), tape.number()))
    for stage in reversed(stages):
        body = stage.encode(errors="surrogateescape")
        documents, _ = parse_readable("f.yaml", body)
        if documents:
            return body, documents
    return b"a: 1\n", parse_documents("f.yaml", b"a: 1\n")


def _compose(tape: Tape, *, restructured: bool) -> tuple[str, str]:
    seeds = read_seeds()
    index = tape.number()
    documents = [seeds[index % len(seeds)].text]
    for step in range(1, 1 + tape.choose((0, 0, 1, 2))):
        neighbour = seeds[(index + step) % len(seeds)]
        documents.append((tape.choose(seeds) if tape.one_in(2) else neighbour).text)
    if restructured:
        documents[0] = restructure(documents[0], tape.number(), tape.number())
    text = tape.choose(_HEADS) + documents[0]
    for document in documents[1:]:
        text += tape.choose(_MARKERS) + document
    return text, seeds[index % len(seeds)].name


def _mutate(tape: Tape, text: str, mutations: Sequence[Mutation], *, most: int) -> str:
    for _ in range(tape.number() % (most + 1)):
        text = tape.choose(mutations)(text, tape.number(), tape.number())
    return text
