"""Pages of HTML: one file that loads nothing, whatever names it holds."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reconciler.cli.console import json_pieces
from reconciler.domain.backtests import (
    AT_ONCE,
    DELAYED,
    OURS,
    RAN,
    Backtest,
    BacktestDay,
    Course,
    Courses,
    Interval,
    Point,
    PolicyResult,
)
from reconciler.domain.plan import Plan
from reconciler.rendering.renderer import Renderer, shipped_templates
from reconciler.report.backtest import amount, backtest_json, backtest_text, day_json, sentence
from reconciler.report.backtest_page import backtest_page
from reconciler.report.explain import Chain, SettingRow
from reconciler.report.page import Scale, band, line, stairs, ticks
from reconciler.report.plan_page import explain_page, plan_page
from reconciler.simulation.policies import POLICIES

HOSTILE = "<script src=//x>&\"'</style><img src=x onerror=alert(1)>" + "y" * 300
VOID = {"meta", "path", "br", "link"}
TEMPLATE = "html/page.html.j2"
LEVELS = "0.5", "0.9", "0.99"


class Elements(HTMLParser):
    """Every element with its attributes; raises where one is closed that was not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def result(name: str, cost: float, attainment: float, *points: Point, equal: float | None = None) -> PolicyResult:
    return PolicyResult(
        name=name,
        reproduces="",
        setting="target 0.8" if points else "",
        cost=Interval(value=cost, low=cost - 1, high=cost + 1),
        attainment=Interval(value=attainment, low=attainment, high=attainment),
        by_class={"gold": attainment, "iron": 1.0},
        unserved=0.0,
        starts=3.0,
        changes=4.0,
        equal_cost=equal,
        points=points,
    )


def backtest(models: int = 2, name: str = "prod/chat/m") -> Backtest:
    """A day of so many models."""
    courses = tuple(
        Course(
            model=f"{name}{number}",
            service_class="gold",
            load=tuple(10.0 + (at + number) % 13 * 0.37 for at in range(144)),
            ours=tuple(12.0 + at // 20 for at in range(144)),
            ran=(20.0,) * 144,
            missed=tuple(0.3 if at == 50 else 0.0 for at in range(144)),
            forecast={
                level: tuple(9.0 * float(level) + at % 7 for at in range(144)) for level in ("0.5", "0.9", "0.99")
            },
            changes=((3600.0, 2, 3), (7200.0, 3, 2)),
        )
        for number in range(models)
    )
    day = BacktestDay(
        day="2026-11-25",
        known=1.0,
        tallies={},
        opened=11,
        pushed=2,
        merged=10,
        reversed_changes=1,
        all_changes=9,
        covered=9,
        judged=10,
        stopped={},
        courses=Courses.of(courses),
    )
    curve = (Point(words="a", cost=70.0, attainment=0.95), Point(words="b", cost=90.0, attainment=0.999))
    return Backtest(
        days=(day,),
        models=models,
        unit="USD",
        ran_from="Git's history",
        policies=(
            result(OURS, 77.0, 0.993),
            result(RAN, 100.0, 0.971),
            result(DELAYED, 69.0, 1.0),
            result(AT_ONCE, 66.0, 1.0),
            result("HPA on arrival rate", 90.0, 0.999, *curve, equal=75.0),
            result("static peak", 190.0, 1.0, Point(words="c", cost=190.0, attainment=1.0), equal=190.0),
        ),
        saving=Interval(value=0.23, low=0.18, high=0.27),
        possible=0.31,
        regret=0.116,
        coverage=0.9,
        opened=11.0,
        pushed=2.0,
        reversals=0.05,
        stopped={"a-fifth: clamp": 3},
        left_out={"prod/chat/other": "what arrived before is not known"},
        assumptions=("replicas stay",),
        recording="r" * 64,
    )


def test_the_sentence_says_what_it_came_to() -> None:
    assert sentence(backtest()) == (
        "On your last day: 23 % (18-27) cheaper than what ran, 99.30 % inside targets instead of 97.1 %, "
        "11 pull requests a day; the best possible with this delay is 31 % cheaper."
    )
    dearer = replace(backtest(), saving=Interval(value=-0.04, low=-0.06, high=0.01), possible=-0.02)
    assert "4 % (-1 to 6) dearer than what ran" in sentence(dearer)
    assert "even the best possible with this delay is 2 % dearer" in sentence(dearer)
    assert backtest_text(backtest()).startswith(sentence(backtest()) + "\n")


def test_a_single_day_has_no_interval() -> None:
    assert backtest_page(backtest()).title == "Backtest of 2026-11-25"
    alone = replace(backtest(), saving=Interval(value=0.23, low=0.23, high=0.23))
    assert sentence(alone).startswith("On your last day: 23 % cheaper than what ran, ")
    assert amount(Interval(value=77.0, low=77.0, high=77.0)) == "77"


def test_costs_of_a_large_fleet_are_spelled_out() -> None:
    costly = replace(backtest(), policies=(result(OURS, 563_612.0, 0.98), *backtest().policies[1:]))
    assert " 563,600 (" in backtest_text(costly)
    assert ">563,600 (" in Renderer().render(TEMPLATE, backtest_page(costly))


def test_who_spends_less_than_the_best_possible_is_not_above_it() -> None:
    assert "cost is 11.6 % above that of a clairvoyant" in backtest_text(backtest())
    assert "cost is 67.4 % below that of a clairvoyant" in backtest_text(replace(backtest(), regret=-0.674))


def test_a_terminal_of_80_columns_wraps_the_sentence() -> None:
    assert max(map(len, backtest_text(backtest(), width=80).splitlines()[:3])) <= 80


def test_courses_are_the_same_when_they_were_packed_and_take_little() -> None:
    (day,) = backtest(models=120).days
    courses = [
        replace(each, load=(None, *each.load[1:]), missed=tuple(at / 7 for at in range(144))) for each in day.courses
    ]
    packed = Courses.of(courses)
    assert list(packed) == list(packed) == courses
    assert list(Courses.of(packed)) == courses
    assert list(Courses()) == []
    numbers = 120 * 7 * 144
    assert sum(map(len, packed.packed)) < 4 * numbers, "half of what arrays of them take"


def test_a_document_has_days_that_are_made_as_they_are_printed() -> None:
    whole = backtest()
    document = backtest_json(whole)
    assert isinstance(document["days"], Iterator)
    text = "".join(json_pieces(document, is_ascii=False))
    days = [day_json(each) for each in whole.days]
    assert text == json.dumps({**backtest_json(whole), "days": days}, indent=2) + "\n"
    assert list(json.loads(text))[:3] == ["version", "sentence", "days"]
    assert json.loads(text)["days"][0]["courses"][1]["changes"] == [[3600.0, 2, 3], [7200.0, 3, 2]]


def test_of_each_model_the_day_is_shown_on_which_most_was_missed() -> None:
    whole = backtest(models=3)
    (day,) = whole.days
    worst = [replace(each, missed=(0.4,) * 144) for each in day.courses][1:2]
    days = day, replace(day, day="2026-11-26", courses=Courses.of(worst)), replace(day, day="2026-11-27")
    words = [each.words[0] for each in backtest_page(replace(whole, days=days)).sections if "/m" in each.heading]
    shown = [day for each in words for day in re.findall(r"most was missed, ([0-9-]+):", each)]
    assert shown == ["2026-11-27", "2026-11-26", "2026-11-27"]


def test_a_page_loads_nothing_and_closes_what_it_opens() -> None:
    text = Renderer().render(TEMPLATE, backtest_page(backtest()))
    page = Elements(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.found}
    assert not [attributes for _, attributes in page.found if {"src", "href", "srcset"} & attributes.keys()]
    assert "url(" not in text
    assert "default-src 'none'" in text
    pictures = [attributes for _, attributes in page.found if attributes.get("role") == "img"]
    assert len(pictures) == 3
    assert all(attributes["aria-label"] for attributes in pictures)
    assert all(attributes["d"] for tag, attributes in page.found if tag == "path")
    assert "HPA on arrival rate would cost 2.6 % less" in text


def test_a_legend_shows_each_line_as_it_is_drawn() -> None:
    page = Elements(Renderer().render(TEMPLATE, backtest_page(backtest())))
    paths = [attributes for tag, attributes in page.found if tag == "path"]
    shown = {each["class"] for each in paths if each["d"] == "M1 2H39"}
    assert shown == {each["class"] for each in paths if each["d"] != "M1 2H39"} - {"fan", "miss"}
    assert "peer peer-0" in shown


def test_hostile_names_stay_text() -> None:
    page = Elements(Renderer().render(TEMPLATE, backtest_page(backtest(name=HOSTILE))))
    assert page.open == []
    assert not [tag for tag, _ in page.found if tag in ("script", "img")]
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]


def test_a_name_among_what_is_assumed_controls_no_terminal() -> None:
    text = backtest_text(replace(backtest(), assumptions=("prod/\x1b[2Jchat: as before", "merges take 15 min")))
    assert "\x1b" not in text
    assert "chat: as before; merges take 15 min" in text


def test_a_page_of_a_hundred_models_stays_below_three_mebibytes() -> None:
    text = Renderer().render(TEMPLATE, backtest_page(backtest(models=100)))
    assert len(text.encode()) < 3 * 2**20
    assert text.count("<details>") == 101  # of each model, and of what was left out


def test_a_plan_and_its_decisions_are_pages_too(plan: Plan) -> None:
    text = Renderer().render(TEMPLATE, plan_page(plan))
    assert Elements(text).open == []
    assert all(label in text for label in ("changes", "Held"))
    for decision in plan.decisions:
        rows = (SettingRow(name="headroom", value=HOSTILE, source="built-in"),)
        page = Elements(Renderer().render(TEMPLATE, explain_page(plan, decision, rows, Chain(), "later")))
        assert page.open == []
        assert "script" not in [tag for tag, _ in page.found]


ACROSS, UP = Scale(least=0.0, most=4.0), Scale(least=0.0, most=10.0)


def test_lines_have_gaps_where_nothing_is_known() -> None:
    assert line([(0, 0.0), (1, 5.0), (2, None), (3, 10.0)], ACROSS, UP) == "M0 100L25 50M75 0"


def test_steps_of_equal_height_are_one() -> None:
    assert stairs((5.0, 5.0, 10.0, None), ACROSS, UP) == "M0 50L50 50L50 0L75 0"


def test_a_band_is_closed_and_whole_where_both_sides_are_known() -> None:
    found = band((1.0, 1.0, None, 2.0), (2.0, 3.0, 4.0, 4.0), ACROSS, UP)
    assert found == "M0 80L25 70L25 90L0 90Z"


@pytest.mark.parametrize(("most", "expected"), [(10.0, (0, 5, 10)), (0.0, (0,)), (1234.0, (0, 500, 1000))])
def test_ticks_are_round(most: float, expected: tuple[float, ...]) -> None:
    assert ticks(Scale(least=0.0, most=most), 3) == expected


def test_places_are_percent_and_stay_inside() -> None:
    text = Renderer().render(TEMPLATE, backtest_page(backtest()))
    places = [float(each) for each in re.findall(r"(?:left|top):([-0-9.]+)%", text)]
    assert places
    assert all(0 <= each <= 100 for each in places)


def test_every_policy_that_is_swept_has_a_color_of_its_own_in_light_and_dark() -> None:
    text = shipped_templates()[TEMPLATE]
    for place in range(len(POLICIES)):
        assert f"path.peer-{place}{{stroke:var(--p{place})" in text
        assert len(set(re.findall(rf"--p{place}:(#\w+)", text))) == 2
