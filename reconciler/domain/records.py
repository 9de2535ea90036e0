"""`dataclass` and `replace` of the standard library, for the many records of this program.

They behave alike; what differs is the time that they take. Records are structs of msgspec, which are made, compared and
hashed in C: a plan of 10,000 variants makes more than two million. Nor is anything compiled when a class is created,
which for seven hundred classes was a third of the time of a small plan.

`key` is for frozen, ordered records by which others are found: a plan of 10,000 variants asks six million times for the
hash of one, so they keep it.
"""

from typing import TYPE_CHECKING

import msgspec

__all__ = ["Record", "dataclass", "field_names", "key", "replace"]


class Record(msgspec.Struct):
    """What every record is."""


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
    from dataclasses import dataclass as key

    def field_names(record: object) -> tuple[str, ...]: ...
else:
    import dataclasses
    import operator
    from abc import ABCMeta
    from dataclasses import MISSING, Field
    from reprlib import recursive_repr

    _replaced = msgspec.structs.replace
    _ORDERS = ("__lt__", "__le__", "__gt__", "__ge__")
    _OF_PLAIN_CLASSES = ("__dict__", "__weakref__", "__match_args__")

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, order: bool = False
    ):
        """Make a class a dataclass as `dataclasses.dataclass` does; without slots, or below a protocol, by that one."""
        options = {"frozen": frozen, "kw_only": kw_only, "eq": eq, "order": order}

        def decorate(cls):
            if not slots or isinstance(cls, ABCMeta):
                return dataclasses.dataclass(slots=slots, **options)(cls)
            return _struct_of(cls, **options)

        return decorate

    def key(*, frozen: bool, slots: bool, kw_only: bool, order: bool):
        """Make a class of texts and other keys a frozen, ordered dataclass with named arguments that keeps its hash."""
        if not (frozen and slots and kw_only and order):
            raise TypeError("a key is frozen, ordered, and made with named arguments")
        return lambda cls: _struct_of(cls, frozen=True, kw_only=True, order=True, cache_hash=True)

    def replace(record, /, **changes):
        """A copy of a record with other values; `__post_init__` runs again, as with `dataclasses.replace`."""
        if isinstance(record, Record):
            return _replaced(record, **changes)
        return dataclasses.replace(record, **changes)

    def field_names(record):
        """The names of the fields of a record or its class, in the order in which they are declared."""
        return record.__struct_fields__

    def _struct_of(cls, **options):
        """The struct with the fields and methods of a class, which `dataclasses` knows as a dataclass."""
        if "__init__" in vars(cls):
            raise TypeError(f"{cls.__qualname__}: a record has no constructor of its own")
        if issubclass(cls, Record):
            raise TypeError(f"{cls.__qualname__}: a record has the fields of no other, unless both have no slots")
        own = {name: value for name, value in vars(cls).items() if name not in _OF_PLAIN_CLASSES}
        written = {name: own[name] for name in own.get("__annotations__", ()) if name in own}
        described = {name: each for name, each in written.items() if isinstance(each, Field)}
        for name, each in described.items():
            if not each.init:
                raise TypeError(f"{cls.__qualname__}.{name}: what is not given to a record is no field of it")
            own[name] = _struct_field(each)
        own = {"__repr__": _repr, **own, "__qualname__": cls.__qualname__}
        own["__dataclass_fields__"] = _LazyFields(written, kw_only=options["kw_only"])
        bases = (Record, *(each for each in cls.__bases__ if each is not object))
        made = type(Record)(cls.__name__, bases, own, **options)
        if options.get("eq", True) and not all(each.compare for each in described.values()):
            compared = [name for name in field_names(made) if name not in described or described[name].compare]
            for name, method in _comparisons(compared, **options).items():
                if name not in own:
                    setattr(made, name, method)
        return made

    def _struct_field(field):
        if field.default_factory is not MISSING:
            return msgspec.field(default_factory=field.default_factory)
        return msgspec.field() if field.default is MISSING else field.default

    class _LazyFields:
        """The fields of a record as `dataclasses` finds them: most records are never asked for theirs."""

        def __init__(self, written, *, kw_only):
            self.written, self.kw_only = written, kw_only

        def __set_name__(self, owner, name):
            self.owner = owner

        def __get__(self, record, _):
            owner = self.owner
            plain = type(owner.__name__, (), {"__annotations__": owner.__annotations__, **self.written})
            plain.__module__ = owner.__module__
            listed = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=self.kw_only)(plain)
            owner.__dataclass_fields__ = listed.__dataclass_fields__
            return listed.__dataclass_fields__

    def _comparisons(names, *, frozen, order=False, **_):
        """The methods of a record of which some fields do not count when it is compared."""
        values = operator.attrgetter(*names)

        def compared_by(compare):
            def method(self, other):
                return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

            return method

        methods = {"__eq__": compared_by(operator.eq), "__hash__": None}
        if frozen:
            methods["__hash__"] = lambda self: hash(values(self))
        return methods | {name: compared_by(getattr(operator, name)) for name in _ORDERS if order}

    @recursive_repr()
    def _repr(self):
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
        return f"{type(self).__qualname__}({shown})"
