"""A backtest as text and as a document: one sentence first, then what it is made of."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from reconciler.domain.backtests import (
    AT_ONCE,
    DELAYED,
    OURS,
    RAN,
    Backtest,
    BacktestDay,
    Courses,
    Interval,
    PolicyResult,
)
from reconciler.domain.records import field_names, replace
from reconciler.report.formatting import Column, count, four_digits, hung, lines_of, one_line, wrapped

VERSION = 1
SHOWN = 12
"""Of what stopped changes, and of models that were left out."""

Json = Mapping[str, object]


def sentence(backtest: Backtest) -> str:
    """What it came to, in one sentence."""
    ours, ran = backtest.result(OURS), backtest.result(RAN)
    days = "your last day" if len(backtest.days) == 1 else f"your last {len(backtest.days)} days"
    kept = f"{percent(ours.attainment.value)} inside targets instead of {percent(ran.attainment.value)}"
    opened = count_of(backtest.opened, "pull request")
    if backtest.saving is None:
        return f"On {days}: nothing ran; {kept}, {opened} a day."
    saving = backtest.saving
    cheaper = f"{_span(saving)} {'cheaper' if saving.value >= 0 else 'dearer'} than what ran"
    best = "" if backtest.possible is None else _possible(backtest.possible)
    return f"On {days}: {cheaper}, {kept}, {opened} a day{best}."


def _possible(possible: float) -> str:
    if possible >= 0:
        return f"; the best possible with this delay is {possible * 100:.3g} % cheaper"
    return f"; even the best possible with this delay is {-possible * 100:.3g} % dearer"


def _span(share: Interval) -> str:
    """`23 % (18-27)`, of a sign that words give; of a single day, which tells nothing of others, `23 %`."""
    if share.low == share.high:
        return f"{abs(share.value) * 100:.0f} %"
    ends = sorted(abs(each) * 100 for each in (share.low, share.high))
    low, high = (share.low, share.high) if share.value >= 0 else (-share.high, -share.low)
    span = f"{low * 100:.0f} to {high * 100:.0f}" if low < 0 < high else f"{ends[0]:.0f}-{ends[1]:.0f}"
    return f"{abs(share.value) * 100:.0f} % ({span})"


def percent(share: float) -> str:
    """A share of requests, finer the nearer it is to all."""
    return f"{share * 100:.2f} %" if share > 0.99 else f"{share * 100:.1f} %"


def count_of(number: float, noun: str) -> str:
    """A mean of counts."""
    text = f"{number:.0f}" if number >= 10 else f"{number:.2g}"
    return f"{text} {noun}" + ("" if text == "1" else "s")


def backtest_text(backtest: Backtest, *, width: int = 0) -> str:
    """The sentence, the policies compared, what was proposed and what it rests on; `width` 0 is unlimited."""
    sections = (
        wrapped(sentence(backtest), indent=0, width=width),
        _policies(backtest),
        _classes(backtest),
        tuple(_proposals(backtest, width)),
        tuple(_stopped(backtest)),
        tuple(_left_out(backtest, width)),
        tuple(_foot(backtest, width)),
    )
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _policies(backtest: Backtest) -> tuple[str, ...]:
    results = by_cost(backtest)
    return lines_of(
        (
            Column(heading="POLICY", cells=tuple(each.name for each in results)),
            Column(
                heading=f"{backtest.unit.upper()}/DAY", cells=tuple(amount(each.cost) for each in results), right=True
            ),
            Column(heading="INSIDE", cells=tuple(percent(each.attainment.value) for each in results), right=True),
            Column(heading="AT OURS", cells=tuple(equal_cost(each) for each in results), right=True),
            Column(heading="UNSERVED", cells=tuple(f"{each.unserved * 100:.2g} %" for each in results), right=True),
            Column(heading="STARTS/DAY", cells=tuple(f"{each.starts:.0f}" for each in results), right=True),
            Column(heading="SETTING", cells=tuple(each.setting or "-" for each in results)),
        )
    )


def by_cost(backtest: Backtest) -> tuple[PolicyResult, ...]:
    """What ran, ours, ours with one thing changed, peers by what they cost at what ours attains, and the bounds."""
    known = [backtest.result(name) for name in (RAN, OURS)]
    bounds = [backtest.result(name) for name in (DELAYED, AT_ONCE)]
    ablated = [each for each in backtest.policies if not each.points and each not in (*known, *bounds)]
    peers = [each for each in backtest.policies if each.points]
    peers.sort(key=lambda each: (each.equal_cost is None, each.equal_cost or each.cost.value, each.name))
    return (*known, *ablated, *peers, *bounds)


def amount(cost: Interval) -> str:
    """A cost with its interval, if it has one."""
    if cost.low == cost.high:
        return four_digits(cost.value)
    return f"{four_digits(cost.value)} ({four_digits(cost.low)}-{four_digits(cost.high)})"


def equal_cost(result: PolicyResult) -> str:
    """What a swept policy costs at what ours attains; empty for one that is not swept."""
    if not result.points:
        return ""
    return "not reached" if result.equal_cost is None else four_digits(result.equal_cost)


def _classes(backtest: Backtest) -> tuple[str, ...]:
    names = sorted(backtest.result(OURS).by_class)
    shown = [backtest.result(name) for name in (RAN, OURS, DELAYED)]
    if len(names) < 2:
        return ()
    return lines_of(
        (
            Column(heading="INSIDE BY CLASS", cells=tuple(one_line(name, limit=40) for name in names)),
            *(
                Column(heading=each.name, cells=tuple(percent(each.by_class[name]) for name in names), right=True)
                for each in shown
            ),
        )
    )


def proposal_words(backtest: Backtest) -> Iterator[tuple[str, str]]:
    """What was proposed and forecast, each with a heading."""
    yield "pull requests", f"{backtest.opened:.3g} opened and {backtest.pushed:.3g} updated a day"
    if backtest.reversals is not None:
        yield (
            "reversals",
            f"{backtest.reversals * 100:.2g} % of changes take away within three hours what another brought",
        )
    if backtest.regret is not None:
        side = "above" if backtest.regret >= 0 else "below"
        yield "regret", f"cost is {abs(backtest.regret) * 100:.3g} % {side} that of a clairvoyant with the same delay"
    if backtest.coverage is None:
        yield "forecasts", "none decided: the load of now with its headroom did"
    else:
        yield "forecasts", f"{backtest.coverage * 100:.3g} % of loads were below the quantile of 90 %"


def _proposals(backtest: Backtest, width: int) -> Iterator[str]:
    for heading, words in proposal_words(backtest):
        yield from hung(f"{heading + ':':<15}", words, width=width)


def _stopped(backtest: Backtest) -> Iterator[str]:
    if backtest.stopped:
        yield "Changed or stopped, decisions in all days"
        for words, number in list(backtest.stopped.items())[:SHOWN]:
            yield f"  {number:>6}  {one_line(words, limit=90)}"


def _left_out(backtest: Backtest, width: int) -> Iterator[str]:
    if backtest.left_out:
        yield f"Not replayed: {count(len(backtest.left_out), 'model')}"
        for model, words in list(backtest.left_out.items())[:SHOWN]:
            yield from hung(f"  {one_line(model, limit=70)}  ", one_line(words), width=width)
        if len(backtest.left_out) > SHOWN:
            yield f"  and {len(backtest.left_out) - SHOWN} more (-o json)"


def _foot(backtest: Backtest, width: int) -> Iterator[str]:
    first, last = backtest.days[0].day, backtest.days[-1].day
    known = min(each.known for each in backtest.days)
    yield from wrapped(
        f"{count(backtest.models, 'model')}, {first} to {last} (UTC), at least {known * 100:.0f} % of each day known; "
        f"what ran is from {backtest.ran_from}; recording {backtest.recording[:6]}.",
        indent=0,
        width=width,
    )
    assumed = "; ".join(one_line(each, limit=len(each)) for each in backtest.assumptions)
    yield from hung("assumed: ", assumed, width=width)
    yield from wrapped(
        "Intervals hold nine of ten draws of days. What was swept is chosen on these days: expect less of it.",
        indent=0,
        width=width,
    )


def backtest_json(backtest: Backtest) -> Json:
    """The same as a document, with every day, setting and course; days are made one by one, as they are printed."""
    whole = asdict(replace(backtest, days=()))
    return {"version": VERSION, "sentence": sentence(backtest), **whole, "days": map(day_json, backtest.days)}


def day_json(day: BacktestDay) -> Json:
    """A day as a document."""
    courses = [{name: getattr(each, name) for name in field_names(each)} for each in day.courses]
    return {**asdict(replace(day, courses=Courses())), "courses": courses}
