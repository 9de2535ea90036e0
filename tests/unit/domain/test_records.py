"""Records behave as dataclasses of the standard library do."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol

import pytest

import reconciler
from reconciler.domain import records

Decorator = Callable[..., Callable[[type], type]]
DECORATORS = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass], ids=["standard", "ours"])
BOTH: tuple[Decorator, Decorator] = (dataclasses.dataclass, records.dataclass)


def make_point(dataclass: Decorator, **options: Any) -> Any:
    class Point:
        """A place."""

        x: float
        y: float = 2.0
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        hidden: int = dataclasses.field(default=7, repr=False)

    return dataclass(**{"frozen": True, "slots": True, "kw_only": True, **options})(Point)


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except AttributeError:
        return AttributeError  # of which that of a frozen dataclass is one
    except Exception as error:  # noqa: BLE001 - which one is what is compared
        return type(error)


@pytest.mark.parametrize(
    "options", [{}, {"order": True}, {"kw_only": False}, {"frozen": False}, {"eq": False}], ids=str
)
@pytest.mark.parametrize(
    "act",
    [
        lambda point: repr(point(x=1)),
        lambda point: repr(point(x=1, y=3, hidden=1, tags=["a"])),
        lambda point: repr(point(1.5)),
        lambda point: point(),
        lambda point: point(x=1, z=2),
        lambda point: point(x=1).tags is point(x=1).tags,
        lambda point: point(x=1) == point(x=1),
        lambda point: point(x=1, tags=["a"]) == point(x=1),
        lambda point: point(x=1, hidden=1) == point(x=1),
        lambda point: point(x=1) == 1,
        lambda point: point(x=1) < point(x=2),
        lambda point: min(point(x=2), point(x=1, y=9), point(x=1)).y,
        lambda point: len({point(x=1), point(x=1), point(x=2)}),
        lambda point: len({*map(hash, [point(x=1), point(x=1)])}),
        lambda point: setattr(point(x=1), "x", 2),
        lambda point: delattr(point(x=1), "x"),
        lambda point: point(x=1).__dict__,
        lambda point: point.__match_args__,
        lambda point: [(each.name, each.default, each.compare) for each in dataclasses.fields(point)],
        lambda point: dataclasses.asdict(point(x=1)),
        lambda point: repr(dataclasses.replace(point(x=1), y=5)),
        lambda point: repr(copy.deepcopy(point(x=1, tags=["a"]))),
    ],
)
def test_a_record_does_what_a_dataclass_does(act: Callable[[Any], object], options: dict[str, bool]) -> None:
    standard, ours = (make_point(dataclass, **options) for dataclass in BOTH)

    assert outcome(lambda: act(ours)) == outcome(lambda: act(standard))


@pytest.mark.parametrize("options", [{}, {"kw_only": False}, {"frozen": False}], ids=str)
def test_the_hundredth_record_is_like_the_first(options: dict[str, bool]) -> None:
    standard, ours = (make_point(dataclass, **options) for dataclass in BOTH)

    made = [repr(ours(x=number, tags=[str(number)])) for number in range(100)]
    refused = [outcome(lambda: ours(x=1, z=2)) for _ in range(2)]

    assert made == [repr(standard(x=number, tags=[str(number)])) for number in range(100)]
    assert refused == [TypeError, TypeError]


@pytest.mark.parametrize("options", [{}, {"order": True}, {"frozen": False}], ids=str)
def test_values_are_compared_as_those_of_a_dataclass(options: dict[str, bool]) -> None:
    standard, ours = (make_point(dataclass, **options) for dataclass in BOTH)
    nan = float("nan")

    for point in (standard, ours):
        assert point(x=nan) == point(x=nan)
        assert point(x=1) == point(x=True)
        assert point(x=float("nan")) != point(x=float("nan"))
    assert ours(x=1) != standard(x=1)


def test_what_a_record_cannot_be_is_refused() -> None:
    class Constructed:
        a: int

        def __init__(self) -> None:
            self.a = 1

    class Derived:
        a: int = dataclasses.field(init=False)

    @records.dataclass(slots=True)
    class Above:
        a: int

    below = type("Below", (Above,), {})
    for each, words in ((Constructed, "constructor"), (Derived, "given"), (below, "no other")):
        with pytest.raises(TypeError, match=words):
            records.dataclass(slots=True)(each)


def test_a_class_without_slots_and_one_of_a_protocol_are_dataclasses() -> None:
    class Sized(Protocol):
        def size(self) -> int: ...

    @records.dataclass(frozen=True, slots=True)
    class Box(Sized):
        sides: int

        def size(self) -> int:
            return self.sides

    assert (Box(3).size(), dataclasses.replace(Box(3), sides=4), records.replace(Box(3), sides=4)) == (
        3,
        Box(4),
        Box(4),
    )


@DECORATORS
def test_what_a_class_writes_itself_is_kept(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 5)


@DECORATORS
def test_what_follows_the_constructor_sees_all_fields(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Sum:
        a: int
        b: int
        total: int = 0

        def __post_init__(self) -> None:
            self.total = self.a + self.b

    made = Sum(1, 2)

    assert (made.total, dataclasses.replace(made, b=5).total, records.replace(made, b=5).total) == (3, 6, 6)


@DECORATORS
def test_a_record_inside_itself_is_shown(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Node:
        child: object = None

    node = Node()
    node.child = node

    assert repr(node).endswith("Node(child=...)")


def make_name(dataclass: Decorator) -> Any:
    @dataclass(frozen=True, slots=True, kw_only=True, order=True)
    class Name:
        first: str
        last: str = ""

        @property
        def whole(self) -> str:
            return f"{self.first} {self.last}"

        def __str__(self) -> str:
            return self.whole

    Name.__qualname__ = "Name"
    return Name


@pytest.mark.parametrize(
    "act",
    [
        lambda name: repr(name(first="a")),
        lambda name: str(name(first="a", last="b")),
        lambda name: name("a"),
        lambda name: name(last="a"),
        lambda name: name(first="a", middle="b"),
        lambda name: name(first="a") == name(first="a", last=""),
        lambda name: name(first="a") == ("a", ""),
        lambda name: len({name(first="a"), name(first="a"), name(first="b")}),
        lambda name: [each.whole for each in sorted([name(first="b"), name(first="a", last="c"), name(first="a")])],
        lambda name: [(each.name, each.default) for each in dataclasses.fields(name)],
        lambda name: dataclasses.asdict(name(first="a")),
        lambda name: repr(dataclasses.replace(name(first="a"), last="c")),
        lambda name: repr(records.replace(name(first="a"), last="c")),
        lambda name: copy.deepcopy(name(first="a")) == name(first="a"),
        lambda name: list(inspect.signature(name).parameters),
    ],
)
def test_a_key_does_what_a_dataclass_does(act: Callable[[Any], object]) -> None:
    assert outcome(lambda: act(make_name(records.key))) == outcome(lambda: act(make_name(dataclasses.dataclass)))


def test_a_key_is_frozen_and_ordered() -> None:
    name = make_name(records.key)(first="a")

    with pytest.raises(AttributeError):
        name.first = "b"
    with pytest.raises(TypeError, match="frozen"):
        records.key(frozen=False, slots=True, kw_only=True, order=True)


def test_a_frozen_record_is_pickled() -> None:
    from reconciler.domain.identity import Place

    place = Place(path="a.yaml", line=3)

    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - our own bytes


def test_replacing_an_unknown_field_is_an_error() -> None:
    from reconciler.domain.identity import Place

    with pytest.raises(TypeError, match="columns"):
        records.replace(Place(path="a.yaml"), columns=1)  # type: ignore[call-arg]


def test_every_record_of_the_program_takes_what_its_fields_say() -> None:
    names = [
        each.name for each in pkgutil.walk_packages(reconciler.__path__, "reconciler.") if "__main__" not in each.name
    ]
    classes = {
        each
        for name in names
        for each in vars(importlib.import_module(name)).values()
        if isinstance(each, type) and dataclasses.is_dataclass(each) and each.__module__.startswith("reconciler.")
    }
    taken = {each: [field for field in dataclasses.fields(each) if field.init] for each in classes}

    assert len(classes) > 500
    for each, fields in taken.items():
        is_record = issubclass(each, records.Record)
        parameters = records.field_names(each) if is_record else inspect.signature(each).parameters
        assert list(parameters) == [field.name for field in fields], each
