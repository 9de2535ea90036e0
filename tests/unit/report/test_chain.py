"""Figures and queries as people read them."""

from reconciler.domain.identity import Figure, Place, Source, SourceKind
from reconciler.report.explain import figure_json, figure_lines, query_lines, value_text

THRESHOLD = Figure(
    subject="threshold",
    name="scale_up",
    value=0.85,
    unit="fraction",
    source=Source(kind=SourceKind.CONFIG_MAP, place=Place(path="wva.yaml", line=7), detail="ConfigMap wva"),
)
USAGE = Figure(subject="llama-0", name="KV cache usage", value=0.925, unit="fraction", queries=("kv_cache_usage",))
SILENT = Figure(subject="llama-1", name="KV cache usage", value=None, unit="fraction", reason="no series has it")


def test_each_figure_says_what_it_is_of_and_where_it_is_from() -> None:
    assert figure_lines((THRESHOLD, USAGE, SILENT)) == (
        "FIGURE                     VALUE  FROM",
        "threshold  scale_up        0.85   ConfigMap wva, wva.yaml:7",
        "llama-0    KV cache usage  0.925  kv_cache_usage",
        "llama-1    KV cache usage  ?      no series has it",
    )


def test_nothing_known_is_no_table() -> None:
    assert figure_lines(()) == ()
    assert query_lines({}, width=80) == ()


def test_numbers_carry_their_unit_and_texts_none() -> None:
    assert value_text(Figure(subject="", name="", value=37352.9411, unit="tokens")) == "37352.9 tokens"
    assert value_text(Figure(subject="", name="", value="P1-obs")) == "P1-obs"


def test_what_comes_from_outside_cannot_start_a_line_of_its_own() -> None:
    lines = figure_lines((Figure(subject="a\nb", name="x", value="1\n2", reason="\u202ebad"),))
    assert len(lines) == 2
    assert "\u202e" not in lines[1]


def test_queries_wrap_beside_their_names() -> None:
    lines = query_lines({"running": ("sum by (namespace, pod) (vllm:num_requests_running)",)}, width=50)
    assert lines[0] == "QUERY    PROMQL"
    assert lines[1].startswith("running  sum by (namespace, pod)")
    two = query_lines({"running": ("sum(a or b)", "sum(c)")}, width=0)
    assert two[1:] == ("running  sum(a or b)", "         or sum(c)")
    assert all(len(line) <= 50 for line in lines)


def test_the_document_holds_the_same() -> None:
    assert figure_json(THRESHOLD) == {
        "subject": "threshold",
        "name": "scale_up",
        "value": 0.85,
        "unit": "fraction",
        "source": "ConfigMap wva, wva.yaml:7",
        "reason": None,
        "queries": [],
    }
