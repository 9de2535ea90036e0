"""Titles as a team shapes them: within what commitlint takes, whatever groups and models are called."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.settings import AS_IS
from reconciler.report.summary import HEADER_LENGTH, shaped

TITLE = "Scale up llama-3.1-8b and 2 more: +$19.50/h in prod/llm"


def test_ours_is_kept_where_nothing_is_set() -> None:
    assert shaped(AS_IS, TITLE * 9, "prod/llm", "auto") == TITLE * 9


def test_all_variables_are_filled() -> None:
    found = shaped("chore({{group}}, {{ part }}): {{ change }}", TITLE, "prod/llm", "auto")
    assert found == "chore(prod/llm, auto): scale up llama-3.1-8b and 2 more: +$19.50/h in prod/llm"


@given(text=st.text(min_size=1), group=st.text(max_size=300))
def test_no_name_makes_it_too_long_or_is_filled_again(text: str, group: str) -> None:
    found = shaped("fix: {{ change }} of {{ group }}", f"{text}{{{{ part }}}}", group[:20], "auto")
    assert len(found) <= HEADER_LENGTH
    assert found.startswith("fix: ")
