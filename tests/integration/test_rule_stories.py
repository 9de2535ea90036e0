"""What a team's rules make of a load: every story ends as a person would expect, and the pull request says why."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.fleet import run_here
from tests.servers.git_workshop import run_git
from tests.servers.prometheus import ABSENT
from tests.stories.stage import TEAM_FILE, Moment, Phase, Replacements, Team, at_work, remembered, served

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

# One replica on an H100 carries 35.57 requests a second, and a load is planned for with a headroom of a fifth.
CALM, BUSY, SPIKE = 50.0, 110.0, 200.0
NOTES = served("notes", 6, 100.0)
"""It has more than it needs: its change makes the pull request in which the others are told."""

FRIDAY = Moment(at="2026-09-18T21:00+02:00", served=(served("chat", 2, SPIKE), NOTES))
TOO_EARLY = Moment(at="2026-03-23T05:31+00:00", served=(served("chat", 2, CALM),))
SUMMER_TIME = Moment(at="2026-03-30T05:31+00:00", served=(served("chat", 2, CALM),))
MOVE = Moment(
    at="2026-09-02T10:00+00:00",
    served=(
        served(
            "left",
            6,
            24.0,
            Phase(minutes=6, replicas=1, per_s=24.0, accelerator="H100"),
            model="org/chat",
            accelerator="A100",
        ),
        served("right", 6, 24.0, model="org/chat", accelerator="A100"),
    ),
    hours=2.0,
)
MERGED = Moment(
    at="2026-09-04T10:00+00:00",
    served=(
        served("chat", 2, BUSY, Phase(minutes=3, replicas=4, per_s=SPIKE)),
        served("notes", 2, CALM, Phase(minutes=3, replicas=2, per_s=BUSY)),
    ),
)
EXPERIMENT = Moment(at="2026-09-06T10:00+00:00", served=(served("chat", 2, BUSY), NOTES))
STEPS = Moment(
    at="2026-09-08T08:00+00:00",
    served=(
        served("chat", 2, SPIKE, Phase(minutes=3, replicas=3, per_s=SPIKE), Phase(minutes=33, replicas=4, per_s=SPIKE)),
        served("notes", 2, CALM, Phase(minutes=50, replicas=2, per_s=BUSY)),
    ),
    hours=2.0,
)
POOL = Moment(at="2026-09-10T10:00+00:00", served=(served("chat", 2, SPIKE), served("notes", 3, 40.0)))
THREE = Moment(
    at="2026-09-12T10:00+00:00",
    served=tuple(served(name, 2, SPIKE / 2, model="org/chat") for name in ("blue", "green", "red")),
)
MONTH = Moment(
    at="2026-09-20T14:00+00:00",
    served=(served("chat", 4, 125.0), served("search", 4, SPIKE, namespace="search"), NOTES),
)
"""What chat asks for is room for the headroom; search cannot carry what comes."""
FIRST = Moment(at="2026-09-14T10:00+00:00", served=(served("chat", 2, BUSY), NOTES))
MOMENTS = (FRIDAY, TOO_EARLY, SUMMER_TIME, MOVE, MERGED, EXPERIMENT, STEPS, POOL, THREE, MONTH, FIRST)

OpenTeam = Callable[..., Team]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where all moments are remembered."""
    with remembered(MOMENTS, tmp_path_factory.mktemp("stories")) as url:
        yield url


@pytest.fixture
def begin(prometheus: str, tmp_path: Path) -> Iterator[OpenTeam]:
    """Opens a team at a moment with rules of its own, one a line."""
    with ExitStack() as stack:

        def opened(moment: Moment, *rules: str, settings: Replacements = (), learned: str = "") -> Team:
            team = at_work(moment, prometheus, tmp_path, rules=rules, settings=settings, learned=learned)
            return stack.enter_context(team)

        yield opened


WEEKEND = 'freeze: {cron: "0 18 * * 5", for: 62h, timeZone: Europe/Berlin}'
SHUT = WEEKEND.replace("}", ", repairs: hold}")
RULE = f"({TEAM_FILE}:4)"
"""Where the first rule stands."""


def test_a_freeze_holds_a_spike_and_says_until_when_and_what_for(begin: OpenTeam) -> None:
    """Friday evening, chat is frozen over the weekend: it is left alone, and everybody sees what it would need."""
    team = begin(FRIDAY, f"{{name: weekend, scope: {{name: chat}}, {SHUT}}}")
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (2, 4)
    words = team.words()
    assert "- `chat`: rule weekend: frozen until 2026-09-21 08:00 (Europe/Berlin), 7 would be needed (`" in words
    assert "**chat gets 71.1 of the 240.0 req/s it needs, 168.9 req/s stay unserved.**" in words


def test_a_freeze_leaves_a_repair_to_a_person(begin: OpenTeam) -> None:
    team = begin(FRIDAY, f"{{name: weekend, {WEEKEND}}}", "{name: alone, autoMerge: {}}")
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (7, 6)
    words = team.words()
    assert "frozen until 2026-09-21 08:00 (Europe/Berlin): a person decides about repairs" in words
    assert "needs approval: rule weekend" in words


def test_a_freeze_of_what_shrinks_lets_a_spike_be_repaired(begin: OpenTeam) -> None:
    team = begin(FRIDAY, f"{{name: weekend, scope: {{direction: [down]}}, {WEEKEND}}}")
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (7, 6)
    assert "- `notes`: rule weekend: frozen until 2026-09-21 08:00 (Europe/Berlin) (`" in team.words()


def test_a_freeze_takes_back_what_was_proposed_before_it(begin: OpenTeam) -> None:
    """Nobody merged the pull request before the team decided to freeze: what would break that is withdrawn."""
    team = begin(FRIDAY, "{name: told, labels: {add: [scaling]}}")
    assert team.run().code == 0
    assert team.proposes("chat") == 7
    team.set_rules(f"{{name: weekend, scope: {{name: chat}}, {SHUT}}}")
    outcome = team.run()
    assert "closed: prod/chat urgent #1" in outcome.out
    assert team.proposes("chat") == 2
    told = f"chat/chat   rule weekend {RULE}: frozen until 2026-09-21 08:00 (Europe/Berlin), 7 would be needed"
    assert told in outcome.out


@pytest.mark.parametrize(("moment", "replicas"), [(TOO_EARLY, 2), (SUMMER_TIME, 6)])
def test_a_floor_on_monday_counts_by_the_clock_on_the_wall(begin: OpenTeam, moment: Moment, replicas: int) -> None:
    """Half past seven in Berlin is 06:30 UTC in winter and 05:30 UTC from the last Sunday of March on."""
    window = '{cron: "30 7 * * 1", for: 3h, timeZone: Europe/Berlin, minReplicas: 6}'
    team = begin(moment, f"{{name: ready-on-monday, schedule: {window}}}")
    assert team.run().code == 0
    assert team.proposes("chat") == replicas
    told = "at least 6 until 2026-03-30 10:30 (Europe/Berlin)"
    assert [told in words for words in team.proposed().values()] == [True] * (replicas == 6)


def test_a_move_begins_with_one_variant_and_the_next_follows(begin: OpenTeam) -> None:
    """Both variants would do better on an H100: the first is the canary, the second goes after its merge."""
    team = begin(MOVE, "{name: canary, availability: {variantsAtOnce: 1}}", settings=(("keep", "H100"),))
    assert team.run().code == 0
    assert "<br>6 × A100 → **1 × H100**" in team.words_about("left")
    assert "- `right`: rule canary: at most 1 of the 2 variants of its model change at once (`" in team.words()
    team.merge_all()
    team.later(minutes=90)
    assert team.run().code == 0
    assert "▸ `right`<br>6 × A100 → **1 × H100**" in team.words().replace("⇄", "▸")


def test_a_change_settles_ten_minutes_after_a_merge(begin: OpenTeam) -> None:
    """The load rose again meanwhile, and the new replicas have hardly begun to serve."""
    team = begin(MERGED, "{name: settle, scope: {name: chat}, cooldown: {after: 30m}}")
    assert team.run().code == 0
    assert team.proposes("chat") == 4
    team.merge_change_of("chat")
    team.later(minutes=10)
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (4, 4)
    assert "- `chat`: rule settle: its last change is to settle until 10:30 UTC, 7 would be needed" in team.words()
    team.later(minutes=25)
    assert team.run().code == 0
    assert team.proposes("chat") == 7


def test_a_change_settles_that_a_person_made_as_well(begin: OpenTeam) -> None:
    """Ann took a replica away ten minutes ago, with a commit of her own."""
    team = begin(EXPERIMENT, "{name: settle, scope: {name: chat}, cooldown: {after: 30m}}")
    team.replicas_were("chat", ("2026-09-05T10:00+00:00", 3), ("2026-09-06T09:50+00:00", 2))
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (2, 4)
    assert "- `chat`: rule settle: its last change is to settle until 10:20 UTC, 4 would be needed (`" in team.words()


SPENT = (("2026-08-20T10:00+00:00", 8), ("2026-09-11T00:00+00:00", 4))
"""Of 6 dollars an hour: 11520 by the 11th, and 5520 since then."""


@pytest.mark.parametrize(("amount", "replicas"), [(17000, 4), (30000, 5)])
def test_a_budget_that_is_used_up_in_mid_month_lets_nothing_be_added(
    begin: OpenTeam, amount: int, replicas: int
) -> None:
    team = begin(MONTH, f"{{name: month, scope: {{name: chat}}, budget: {{amount: {amount}, per: month}}}}")
    team.replicas_were("chat", *SPENT)
    assert team.run().code == 0
    assert team.proposes("chat") == replicas
    told = f"- `chat`: rule month: the budget of {amount} a month is used up, 5 would be needed (`"
    assert (told in team.words_about("notes")) is (replicas == 4)


def test_a_repair_beyond_a_budget_is_proposed_and_a_person_decides(begin: OpenTeam) -> None:
    team = begin(MONTH, "{name: month, scope: {name: search}, budget: {amount: 17000, per: month}}")
    team.replicas_were("search", *SPENT)
    assert team.run().code == 0
    assert team.proposes("search") == 7
    words = team.words_about("search")
    assert words.startswith("> **1 change, needs approval: +\\$18.00/h")
    assert f"the budget of 17000 a month is used up: beyond it only a person repairs a target {RULE}." in words


def test_a_checkout_without_history_holds_what_a_budget_would_have_to_allow(begin: OpenTeam, tmp_path: Path) -> None:
    team = begin(MONTH, "{name: month, scope: {name: chat}, budget: {amount: 30000, per: month}}")
    team.replicas_were("chat", *SPENT)
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{team.workshop.remote}", "shallow")
    planned = run_here(["plan", "--repo", str(tmp_path / "shallow"), "--prometheus", team.prometheus])
    unknown = "neither Git's history nor Prometheus says what ran of chat/chat since 2026-09-01, 5 would be needed"
    assert unknown in planned.out


def test_a_replay_looks_back_at_what_the_run_saw(begin: OpenTeam, tmp_path: Path) -> None:
    team = begin(MONTH, "{name: month, scope: {name: chat}, budget: {amount: 17000, per: month}}")
    team.replicas_were("chat", *SPENT)
    recording = str(tmp_path / "plan.zip")
    planned = team.plan("--record", recording)
    assert "the budget of 17000 a month is used up" in planned.out
    assert run_here(["plan", "--replay", recording]).out == planned.out


def test_an_expression_denies_what_never_happens(begin: OpenTeam) -> None:
    when = "change.replicas_after > 3 && variant.labels['team'] == 'search' && change.added > 0"
    team = begin(EXPERIMENT, f'{{name: small, deny: {{when: "{when}", reason: search stays small}}}}')
    assert team.run().code == 0
    assert (team.proposes("chat"), team.proposes("notes")) == (2, 4)
    assert "**Held**\n- `chat`: rule small: search stays small (`" in team.words()


def test_an_expression_clamps_and_what_that_costs_is_told(begin: OpenTeam) -> None:
    clamp = '{when: "change.added > 1", to: "change.replicas_before + 1", reason: one at a time}'
    team = begin(EXPERIMENT, f"{{name: slowly, clamp: {clamp}}}")
    assert team.run().code == 0
    assert team.proposes("chat") == 3
    words = team.words_about("chat")
    assert f"one at a time: 3 {RULE}." in words
    assert "**chat would still exceed its capacity and miss its wait p95 target of 2 s" in words
    assert "the only candidate: ceil(132 / 35.57), ended by rule slowly at 3" in words


def test_two_merges_use_up_the_steps_of_a_day(begin: OpenTeam) -> None:
    team = begin(STEPS, "{name: two-a-day, step: {up: 2, per: day}}", "{name: one-at-once, step: {up: 1}}")
    for replicas in (3, 4):
        assert team.run().code == 0
        assert team.proposes("chat") == replicas
        team.merge_change_of("chat")
        team.later(minutes=30)
    assert team.run().code == 0
    assert team.proposes("chat") == 4
    assert "- `chat`: rule two-a-day: at most 2 up a day, 8 would be needed" in team.words()


def test_nobody_takes_more_than_a_share_of_a_pool(begin: OpenTeam) -> None:
    pool = "{name: h100, device: H100, devices: 12}"
    team = begin(POOL, "{name: a-third, bounds: {maxPoolShare: 33%}}", settings=(("pools: []", f"pools: [{pool}]"),))
    assert team.run().code == 0
    assert team.proposes("chat") == 3
    words = team.words_about("chat")
    assert f"at most 33 % of pool prod/h100, 7 would be needed {RULE}." in words
    assert "covers 106.7 of 240 req/s: rule a-third leaves no more" in words


def test_all_variants_of_a_model_never_change_together(begin: OpenTeam) -> None:
    """Three variants would grow: two do, and the third follows after the merge."""
    most = (("accelerator: keep", "accelerator: keep, maxReplicas: 4"),)
    team = begin(THREE, "{name: not-all, availability: {variantsAtOnce: 2}}", settings=most)
    assert team.run().code == 0
    assert [team.proposes(name) > 2 for name in ("blue", "green", "red")] == [True, True, False]
    assert "rule not-all: at most 2 of the 3 variants of its model change at once" in team.words()


def test_a_first_change_of_a_young_profile_needs_a_person(begin: OpenTeam) -> None:
    first = "{name: first, approval: {firstChange: true}}"
    young = "{name: young, approval: {learnedWithin: 7d}}"
    team = begin(FIRST, first, young, learned="2026-09-10")
    assert team.run().code == 0
    words = team.words_about("chat")
    assert words.startswith("> **1 change, needs approval: ")
    assert f"its first change by us within 30 days {RULE}." in words
    young = "needs approval: rule young (.reconciler/policies/team.yaml:5): its profile was learned on 2026-09-10, "
    assert f"{young}less than 7 days ago" in words


def test_a_relaxed_rule_that_nobody_committed_changes_nothing(begin: OpenTeam) -> None:
    team = begin(FIRST, "{name: slow, step: {up: 1}}")
    checkout = team.workshop.clone
    (checkout / TEAM_FILE).write_text("apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: []\n")
    planned = run_here(["plan", "--repo", str(checkout), "--prometheus", team.prometheus])
    assert "clamp: slow" in planned.out
    assert team.run().code == 0
    assert team.proposes("chat") == 3
    assert f"at most 1 up at once, 4 would be needed {RULE}." in team.words_about("chat")


def test_a_rule_that_cannot_be_read_stops_its_scope_and_nothing_else(begin: OpenTeam) -> None:
    team = begin(FIRST, "{name: slow, scope: {name: chat}, stepp: {up: 1}}")
    outcome = team.run()
    assert outcome.code == 3
    assert f'{TEAM_FILE}:4: error: rules[0].stepp: unknown field, did you mean "step"?' in outcome.out
    assert (team.proposes("chat"), team.proposes("notes")) == (2, 4)
    told = r'- `chat`: rule slow cannot be read: rules\[0\].stepp: unknown field, did you mean "step"? (`'
    assert told in team.words()
