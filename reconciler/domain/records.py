"""`dataclass` and `replace` of the standard library, for the many records of this program.

They behave alike; what differs is when work is done. The standard decorator compiles up to ten methods for each class
when it is created, which for seven hundred classes was a third of the time of a small plan. Here a method is compiled
when it is first called, a constructor when it was called some times. The constructor of a frozen record sets its slots
directly, which takes half the time.

`key` is for frozen, ordered records by which others are found: a plan of 10,000 variants asks six million times for the
hash of one. Those are structs of msgspec, which keep their hash and compare in C.
"""

from typing import TYPE_CHECKING

__all__ = ["dataclass", "key", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
    from dataclasses import dataclass as key
else:
    import dataclasses
    import inspect
    from dataclasses import MISSING, FrozenInstanceError
    from operator import attrgetter
    from reprlib import recursive_repr

    import msgspec

    _SELDOM = 10
    """Calls of a constructor that are served without one: in a small plan most records are made a few times."""
    _ORDERS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
    _OTHERS = frozenset({"__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__", "__setstate__", *_ORDERS})

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, order: bool = False
    ):
        """Make a class a dataclass as `dataclasses.dataclass` does; without slots by that one."""
        if not slots:
            return dataclasses.dataclass(frozen=frozen, kw_only=kw_only, eq=eq, order=order)

        def decorate(cls):
            written = {name for name in _OTHERS & vars(cls).keys() if vars(cls)[name] is not None}
            has_hash = "__hash__" in written
            if "__init__" in vars(cls):
                raise TypeError(f"{cls.__qualname__}: a record has no constructor of its own")
            # Fields, match arguments and slots need nothing compiled.
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=True)(cls)
            _set_init_later(cls)
            cls.__signature__ = _LazySignature()
            methods = {"__repr__": _repr}
            if eq:
                methods |= {"__eq__": None}
                if not has_hash:
                    methods |= {"__hash__": None}
            if order:
                methods |= dict.fromkeys(_ORDERS)
            if frozen:
                methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete, "__setstate__": _set_state}
            for name in methods.keys() - written:
                if methods[name] is not None:
                    setattr(cls, name, methods[name])
                elif name == "__hash__" and not frozen:
                    setattr(cls, name, None)
                else:
                    _set_later(cls, name, _compile_hash if name == "__hash__" else _compile_comparison)
            return cls

        return decorate

    def key(*, frozen: bool, slots: bool, kw_only: bool, order: bool):
        """Make a class of texts and other keys a frozen, ordered dataclass with named arguments, as a struct."""
        if not (frozen and slots and kw_only and order):
            raise TypeError("a key is frozen, ordered, and made with named arguments")

        def decorate(cls):
            listed = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            own = {name: value for name, value in vars(cls).items() if name not in _OF_PLAIN_CLASSES}
            made = type(msgspec.Struct)(
                cls.__name__, (msgspec.Struct,), own, frozen=True, order=True, kw_only=True, cache_hash=True
            )
            made.__dataclass_fields__ = listed.__dataclass_fields__
            return made

        return decorate

    _OF_PLAIN_CLASSES = ("__dict__", "__weakref__", "__dataclass_fields__", "__dataclass_params__", "__match_args__")

    def replace(record, /, **changes):
        """A copy of a record with other values; `__post_init__` runs again, as with `dataclasses.replace`."""
        cls = type(record)
        try:
            names, values = _INITIALIZED[cls]
        except KeyError:
            names, values = _INITIALIZED[cls] = _initialized(cls)
        return cls(**(dict(zip(names, values(record), strict=True)) | changes))

    _INITIALIZED = {}

    def _initialized(cls):
        names = tuple(each.name for each in dataclasses.fields(cls) if each.init)
        return names, _values_of(names)

    def _values_of(names):
        """A function from a record to the values of these fields, as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        return lambda record: tuple(getattr(record, name) for name in names)

    def _set_later(cls, name, compile_for):
        """Put a method into a class that compiles the real one when it is first called."""

        def method(self, *arguments, **named):
            compiled = compile_for(cls, name)
            compiled.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, compiled)
            return compiled(self, *arguments, **named)

        setattr(cls, name, method)

    def _set_init_later(cls):
        """A constructor that fills the first records field by field, and compiles the real one for more of them."""
        left, filled, positional = _SELDOM, [], []

        def method(self, *arguments, **named):
            nonlocal left
            if left and not filled:
                filled[:] = [(each.name, getattr(cls, each.name).__set__, each) for each in dataclasses.fields(cls)]
                positional[:] = [name for name, _, each in filled if each.init and not each.kw_only]
            left -= left > 0
            if left and _fill(
                self, filled, dict(zip(positional, arguments, strict=False)) | named, len(arguments) + len(named)
            ):
                if hasattr(cls, "__post_init__"):
                    self.__post_init__()
                return None
            compiled = cls.__init__ = _compile_init(cls, "__init__")
            compiled.__qualname__ = f"{cls.__qualname__}.__init__"
            return compiled(self, *arguments, **named)

        cls.__init__ = method

    def _fill(record, fields, values, given):
        """Whether a record could be filled; what was `given` wrong is told by its compiled constructor."""
        for name, put, each in fields:
            given -= each.init and name in values
            value = values.get(name, MISSING) if each.init else MISSING
            if value is not MISSING:  # by which a signature says that a field has a factory
                put(record, value)
            elif each.default is not MISSING:
                put(record, each.default)
            elif each.default_factory is not MISSING:
                put(record, each.default_factory())
            elif each.init:
                return False
        return given == 0

    class _LazySignature:
        """What `inspect.signature` of a record is, which tools ask for before any constructor is compiled."""

        def __get__(self, record, owner):
            del record
            found = inspect.signature(_compile_init(owner, "__init__"))
            return found.replace(parameters=list(found.parameters.values())[1:])

    def _compile(source, name, known):
        known["__builtins__"] = {}
        exec(source, known)  # noqa: S102 - the source is made of the names of fields
        return known.pop(name)

    def _compile_init(cls, name):
        positional, named, body, known = ["self"], [], [], {"_MISSING": MISSING}
        is_frozen = cls.__setattr__ is _refuse_set
        for each in dataclasses.fields(cls):
            field, value = each.name, each.name
            if is_frozen:
                known[f"_set_{field}"] = getattr(cls, field).__set__
            if each.default_factory is not MISSING:
                known[f"_make_{field}"] = each.default_factory
                value = f"_make_{field}() if {field} is _MISSING else {field}" if each.init else f"_make_{field}()"
                default = "=_MISSING"
            elif each.default is not MISSING:
                known[f"_default_{field}"] = each.default
                value, default = field if each.init else f"_default_{field}", f"=_default_{field}"
            elif not each.init:
                continue
            else:
                default = ""
            if each.init:
                (named if each.kw_only else positional).append(f"{field}{default}")
            body.append(f" _set_{field}(self, {value})" if is_frozen else f" self.{field} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        parameters = ", ".join([*positional, *(["*", *named] if named else [])])
        compiled = _compile("\n".join([f"def __init__({parameters}):", *(body or [" pass"])]), name, known)
        compiled.__annotations__ = {each.name: each.type for each in dataclasses.fields(cls) if each.init}
        return compiled

    def _tuple_of(owner, names):
        return "(" + "".join(f"{owner}.{name}, " for name in names) + ")"

    def _compile_hash(cls, name):
        names = [each.name for each in dataclasses.fields(cls) if (each.compare if each.hash is None else each.hash)]
        return _compile(f"def __hash__(self):\n return _hash({_tuple_of('self', names)})", name, {"_hash": hash})

    def _compile_comparison(cls, name):
        names = [each.name for each in dataclasses.fields(cls) if each.compare]
        sign, mine, other = _ORDERS.get(name, "=="), _tuple_of("self", names), _tuple_of("other", names)
        source = (
            f"def {name}(self, other):\n"
            f" if other.__class__ is self.__class__:\n  return {mine} {sign} {other}\n return _UNKNOWN"
        )
        return _compile(source, name, {"_UNKNOWN": NotImplemented})

    @recursive_repr()
    def _repr(self):
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
        return f"{type(self).__qualname__}({shown})"

    def _refuse_set(self, name, value):
        del self, value
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self, name):
        del self
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _set_state(self, state):
        """What pickle and copy restore: `object.__getstate__` gives slots as the second of two."""
        for name, value in state[1].items():
            object.__setattr__(self, name, value)
