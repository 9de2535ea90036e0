"""Kinds of holds are a closed list: each is documented, and what it means is asked of the kind."""

import re
from pathlib import Path

import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.holds import CURES, Hold, HoldKind, hold_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / ".github" / "docs" / "holds.md").read_text()
ROWS = {
    cells[0].strip(" `").partition("`")[2]: [cell.strip() for cell in cells[1:]]
    for line in PAGE.splitlines()
    if line.startswith('| <a id="')
    for cells in [re.split(r"(?<!\\)\|", line)[1:-1]]
}


def test_every_kind_is_documented_and_nothing_else() -> None:
    assert set(ROWS) == {str(kind) for kind in HoldKind}


@pytest.mark.parametrize("kind", HoldKind, ids=str)
def test_every_kind_has_an_example_what_it_means_and_what_to_do(kind: HoldKind) -> None:
    example, meaning, remedy = ROWS[str(kind)]
    assert re.fullmatch(r"`[^`]+`", example)
    assert f'| <a id="{kind}"></a>`{kind}` |' in PAGE, "pull requests link to it"
    assert meaning
    assert remedy == CURES[kind].words


def test_every_kind_is_given_by_something() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "reconciler").rglob("*.py"))
    assert {kind.name for kind in HoldKind} <= set(re.findall(r"HoldKind\.([A-Z_]+)", sources))


@pytest.mark.parametrize("kind", HoldKind, ids=str)
def test_kinds_are_words_in_kebab_case(kind: HoldKind) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", str(kind))


def test_every_way_of_having_no_answer_is_missing_data() -> None:
    holds = [hold_of(NoAnswer(absence=absence, reason="metrics stale")) for absence in Absence]
    assert len({hold.kind for hold in holds}) == len(Absence)
    assert all(hold.kind.is_missing_data and hold.words == "metrics stale" for hold in holds)


def test_missing_data_drift_unproven_growth_and_rules_leave_open_proposals_alone() -> None:
    kept = {kind for kind in HoldKind if kind.keeps_proposals}
    assert kept == {kind for kind in HoldKind if kind.is_missing_data} | {
        HoldKind.DRIFTED,
        HoldKind.GROWTH_UNPROVEN,
        HoldKind.RULE,
        HoldKind.RULE_UNREADABLE,
    }


def test_a_hold_reads_as_its_words() -> None:
    assert str(Hold(kind=HoldKind.IGNORED, words="ignored: models[0]")) == "ignored: models[0]"


def test_choices_and_holds_that_end_without_help_need_no_cure() -> None:
    assert set(CURES) == set(HoldKind)
    assert {kind for kind, cure in CURES.items() if not cure.is_needed} == {
        HoldKind.IGNORED,
        HoldKind.AUTOSCALER_CHANGED,
        HoldKind.DECLINED,
        HoldKind.POOL_FULL,
        HoldKind.PUT_BACK,
        HoldKind.REFUSED,
        HoldKind.RULE,
        HoldKind.WAITING_FOR_DEVICES,
        HoldKind.WAITING_FOR_MERGE,
        HoldKind.WAITING_FOR_REPLICAS,
    }
