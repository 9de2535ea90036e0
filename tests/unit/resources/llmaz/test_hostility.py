"""Whatever stands in a manifest of llmaz's, reading it ends in findings."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import merge
from reconciler.resources.llmaz.served_models import join_served_models
from reconciler.resources.reading import read_file

FOLDER = Path(__file__).parents[3] / "testdata" / "resources" / "llmaz"
DOCUMENTS = (FOLDER / "shapes.yaml").read_text().split("\n---\n")
WORDS = sorted({word for text in DOCUMENTS for word in text.split()})
NOISE = st.sampled_from(["null", "[]", "{}", "[{}]", "1", "-1", "1e400", ".nan", '"\\e[31m"', "*a", "true", "\n"])


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A few objects with some of their words replaced or cut."""
    texts = draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3))
    words = "\n---\n".join(texts).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(words) - 1))
        words[index] = draw(NOISE | st.sampled_from(WORDS) | st.text(max_size=8) | st.just(""))
    return " ".join(words)


@given(mutations())
def test_mutated_manifests_end_in_findings(text: str) -> None:
    try:
        documents = parse_documents("a.yaml", text.encode(errors="replace"))
    except InputError:
        return
    declaration = merge([read_file("prod", "a.yaml", documents)])
    served = join_served_models(declaration.llmaz, declaration.workloads, declaration.broken)
    assert all(str(finding).isprintable() for finding in declaration.findings)
    assert all(broken.reason.isprintable() for broken in declaration.broken)
    assert all(str(each.hold or "").isprintable() for each in served)
