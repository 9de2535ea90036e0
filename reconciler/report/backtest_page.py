"""A backtest as a page: the sentence, what is possible at which cost, a day of each model, what stopped changes."""

from collections.abc import Iterator

from reconciler.domain.backtests import AT_ONCE, DELAYED, OURS, RAN, Backtest, Course, PolicyResult
from reconciler.report.backtest import SHOWN, amount, by_cost, equal_cost, percent, proposal_words, sentence
from reconciler.report.formatting import count, four_digits, one_line, rate
from reconciler.report.page import (
    Chart,
    Layer,
    Mark,
    Page,
    Scale,
    Section,
    Table,
    Tick,
    band,
    line,
    spelled,
    stairs,
    table,
    ticks,
)

LEAST_MISS = 1e-4
MISSES = ((0.5, "50 %"), (0.2, "20 %"), (0.1, "10 %"), (0.05, "5 %"), (0.02, "2 %"), (0.01, "1 %"), (0.005, "0.5 %"))
FINE_MISSES = ((0.002, "0.2 %"), (0.001, "0.1 %"), (0.0001, "0.01 %"))
HOURS = (0, 6, 12, 18, 24)
FEWEST_POINTS = 2
MISSED = 0.01
"""Of ten minutes' requests: from here up a moment is marked."""
KINDS = {RAN: "ran", OURS: "ours", DELAYED: "best", AT_ONCE: "ideal"}


def backtest_page(backtest: Backtest) -> Page:
    """The page."""
    first, last = backtest.days[0].day, backtest.days[-1].day
    what = f"{count(backtest.models, 'model')}, {count(len(backtest.days), 'day')}"
    return Page(
        title=f"Backtest of {first}" if first == last else f"Backtest {first} to {last}",
        lead=sentence(backtest),
        sections=tuple(_sections(backtest)),
        foot=(
            f"{what} (UTC); what ran is from {backtest.ran_from}. Recording {backtest.recording[:12]}.",
            "Intervals hold nine of ten draws of days. What was swept is chosen on these days: expect less of it.",
            *(f"Assumed: {each}." for each in backtest.assumptions),
        ),
    )


def _sections(backtest: Backtest) -> Iterator[Section]:
    yield Section(
        heading="Cost and attainment",
        words=("Further down and left is better. A line is a policy over its settings, the best at each cost.",),
        charts=(_frontier(backtest),),
        tables=(_policies(backtest), *_classes(backtest)),
    )
    found = tuple(_opportunities(backtest))
    if found:
        yield Section(heading="Opportunities", lines=found)
    lines = tuple(f"{name}: {words}" for name, words in proposal_words(backtest))
    yield Section(heading="Pull requests and forecasts", lines=lines)
    if backtest.stopped:
        rows = [(one_line(words), str(number)) for words, number in list(backtest.stopped.items())[:SHOWN]]
        yield Section(
            heading="What rules and limits stopped",
            tables=(table("Decisions in all days, by what changed or stopped them", ("by", "decisions"), rows, (1,)),),
        )
    yield from _models(backtest)
    if backtest.left_out:
        rows = [(one_line(model), one_line(words)) for model, words in backtest.left_out.items()]
        yield Section(
            heading=f"Not replayed: {count(len(rows), 'model')}",
            tables=(table("Models that were left out", ("model", "because"), rows),),
            is_folded=True,
        )


def _frontier(backtest: Backtest) -> Chart:
    swept = [each for each in by_cost(backtest) if each.points]
    single = [backtest.result(name) for name in (RAN, OURS, DELAYED, AT_ONCE)]
    near = 2.0 * max(each.cost.value for each in single)
    paths = [(each, _best_points(each, near)) for each in swept]
    costs = [each.cost.value for each in single] + [cost for _, points in paths for cost, _ in points]
    across = Scale(least=min(costs) * 0.97, most=max(costs) * 1.03)
    misses = [max(1 - each.attainment.value, LEAST_MISS) for each in single]
    misses += [miss for _, points in paths for _, miss in points]
    up = Scale(least=LEAST_MISS, most=max(*misses, 0.02) * 1.2, is_logarithmic=True)
    layers = tuple(
        Layer(kind=f"peer peer-{place}", path=line(points, across, up), words=each.name)
        for place, (each, points) in enumerate(paths)
        if points
    )
    marks = tuple(
        Mark(
            kind=KINDS[each.name],
            left=spelled(across.at(each.cost.value)),
            top=spelled(100 - up.at(max(1 - each.attainment.value, LEAST_MISS))),
            title=f"{each.name}: {four_digits(each.cost.value)} a day, {percent(each.attainment.value)} inside targets",
            words=each.name,
        )
        for each in single
    )
    return Chart(
        label="Cost a day against requests outside their targets; the table below has the same numbers.",
        unit="requests outside their targets",
        layers=layers,
        marks=marks,
        across=tuple(Tick(at=spelled(across.at(each)), words=four_digits(each)) for each in ticks(across)),
        up=tuple(
            Tick(at=spelled(100 - up.at(share)), words=words)
            for share, words in (*MISSES[::2], *FINE_MISSES)
            if up.least <= share <= up.most
        ),
        axis=f"{backtest.unit} a day",
    )


def _best_points(result: PolicyResult, most: float) -> list[tuple[float, float]]:
    """The settings that miss less than all that are cheaper, as cost and misses."""
    points: list[tuple[float, float]] = []
    for each in result.points:
        miss = max(1 - each.attainment, LEAST_MISS)
        if each.cost <= most and (not points or miss < points[-1][1]):
            points.append((each.cost, miss))
    return points * 2 if len(points) == 1 else points  # a line of no length is a point


def _policies(backtest: Backtest) -> Table:
    rows = []
    for each in by_cost(backtest):
        shown = (each.name, amount(each.cost), percent(each.attainment.value), equal_cost(each))
        rows.append((*shown, f"{each.unserved * 100:.2g} %", f"{each.starts:.0f}", f"{each.changes:.0f}", each.setting))
    headings = (
        *("policy", f"{backtest.unit} a day", "inside targets", "at what ours attains", "unserved"),
        *("starts a day", "changes a day", "setting"),
    )
    return table("Policies compared", headings, rows, range(1, 7))


def _classes(backtest: Backtest) -> Iterator[Table]:
    shown = [backtest.result(name) for name in (RAN, OURS, DELAYED)]
    names = sorted(shown[1].by_class)
    if len(names) > 1:
        rows = [(one_line(name, limit=60), *(percent(each.by_class[name]) for each in shown)) for name in names]
        yield table(
            "Requests inside their targets, by service class",
            ("class", *(each.name for each in shown)),
            rows,
            (1, 2, 3),
        )


def _opportunities(backtest: Backtest) -> Iterator[str]:
    ours = backtest.result(OURS)
    for each in by_cost(backtest):
        if each.equal_cost is not None and each.equal_cost < ours.cost.value and "pull request" not in each.name:
            less = 100 * (1 - each.equal_cost / ours.cost.value)
            words = f"{each.name} would cost {less:.2g} % less at what ours attains ({each.setting})"
            yield (
                f"{words}: where an autoscaler may run in the cluster, let it move replicas, and pull requests its "
                "targets and bounds."
            )
    slowed = backtest.result(DELAYED).cost.value - backtest.result(AT_ONCE).cost.value
    if slowed > 0 and ours.cost.value > 0:
        yield f"Faster merges, syncs and starts are worth up to {100 * slowed / ours.cost.value:.2g} % of the cost."
    worst = min(ours.by_class.items(), key=lambda item: item[1], default=None)
    if worst is not None and len(ours.by_class) > 1 and worst[1] < ours.attainment.value - 0.002:
        yield f"{one_line(worst[0], limit=60)} has the fewest requests inside targets: {percent(worst[1])}."


def _models(backtest: Backtest) -> Iterator[Section]:
    """Of each model the day on which most was missed, else the one that changed most."""
    found: dict[str, tuple[tuple[float, int, str], Course]] = {}
    for each in backtest.days:
        for course in each.courses:
            rank = _missed(course), len(course.changes), each.day
            if course.model not in found or rank > found[course.model][0]:
                found[course.model] = rank, course
    for model, ((missed, _, day), course) in found.items():
        words = f"{day}: {percent(1 - missed)} inside targets, {count(len(course.changes), 'change')}"
        which = "The day on which most was missed" if missed > 0 else "The day that changed most"
        changes = [(_clock(at_s), str(before), str(after)) for at_s, before, after in course.changes]
        yield Section(
            heading=one_line(model, limit=90),
            words=(f"{one_line(course.service_class, limit=60)}. {which}, {words}.",),
            charts=(_day_chart(course),),
            tables=(table("Changes that reached the cluster", ("UTC", "replicas before", "after"), changes, (1, 2)),)
            if changes
            else (),
            is_folded=len(found) > SHOWN,
        )


def _missed(course: Course) -> float:
    load = [each or 0.0 for each in course.load]
    total = sum(load)
    return sum(each * miss for each, miss in zip(load, course.missed, strict=True)) / total if total > 0 else 0.0


def _day_chart(course: Course) -> Chart:
    moments = len(course.load)
    fan = {level: values for level, values in course.forecast.items() if len(values) == moments}
    tops = [each for row in (course.load, course.ours, course.ran, *fan.values()) for each in row if each is not None]
    across, up = Scale(least=0.0, most=float(moments)), Scale(least=0.0, most=max(tops, default=1.0) * 1.08 or 1.0)
    load = [(place + 0.5, each) for place, each in enumerate(course.load)]
    layers = []
    levels = sorted(fan, key=float)
    if len(levels) >= FEWEST_POINTS:
        words = f"forecast, {float(levels[0]) * 100:g} to {float(levels[-1]) * 100:g} %"
        layers.append(Layer(kind="fan", path=band(fan[levels[0]], fan[levels[-1]], across, up), words=words))
    layers += [
        Layer(kind="ran", path=stairs(course.ran, across, up), words="capacity of what ran"),
        Layer(kind="ours", path=stairs(course.ours, across, up), words="our capacity"),
        Layer(kind="load", path=line(load, across, up), words="load"),
    ]
    misses = [place for place, miss in enumerate(course.missed) if miss >= MISSED]
    if misses:
        path = "".join(line([(place, 0.0), (place + 1.0, 0.0)], across, up) for place in misses)
        layers.append(Layer(kind="miss", path=path, words="targets missed"))
    most = max((each for each in course.load if each is not None), default=0.0)
    return Chart(
        label=(
            f"Load and capacity over the day: at most {rate(most)}, our capacity {rate(min(course.ours))} to "
            f"{rate(max(course.ours))}, targets missed in {count(len(misses), 'period')} of ten minutes."
        ),
        unit="req/s",
        layers=tuple(layers),
        marks=(),
        across=tuple(Tick(at=spelled(100 * hour / 24), words=f"{hour:02}:00") for hour in HOURS),
        up=tuple(Tick(at=spelled(100 - up.at(each)), words=four_digits(each)) for each in ticks(up, 3)),
        axis="UTC",
    )


def _clock(at_s: float) -> str:
    minutes = round(at_s / 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"
