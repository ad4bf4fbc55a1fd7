"""Dataclasses whose methods are not compiled.

`dataclasses.dataclass` writes up to six methods for each class as text, and compiles these whenever the class is
defined: a quarter of the time that a short command takes. Here, the methods loop over the fields instead, so an
object takes longer to make, and a class hardly any time. Fields are `dataclasses` fields, so functions such as
`replace` accept these classes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from inspect import Signature
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, kw_only: bool = False) -> Any:
        """Make a class a dataclass, as the decorator of the same name in `dataclasses` does."""

        def made(cls: type) -> type:
            cls.__signature__ = _Arguments()
            dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            for name, method in _methods(cls, frozen).items():
                if name not in vars(cls):
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)


class _Arguments:
    """The signature of a class, which is made when it is asked for."""

    def __get__(self, record: object, cls: type) -> Signature:
        from inspect import Parameter, Signature

        def argument(field: dataclasses.Field[Any]) -> Parameter:
            given = [default for default in (field.default, field.default_factory) if default is not MISSING]
            kind = Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD
            return Parameter(field.name, kind, default=given[0] if given else Parameter.empty)

        fields = [field for field in dataclasses.fields(cls) if field.init]
        return Signature(list(map(argument, sorted(fields, key=lambda field: bool(field.kw_only)))))


def _methods(cls: type, frozen: bool) -> dict[str, Callable[..., Any] | None]:
    """Return the methods of a dataclass by name."""
    fields = dataclasses.fields(cls)
    arguments = frozenset(field.name for field in fields if field.init)
    positional = [field.name for field in fields if field.init and not field.kw_only]
    # What an object has if no argument gives it: values, and functions that make them.
    values = {field.name: field.default for field in fields if field.default is not MISSING}
    makers = {field.name: field.default_factory for field in fields if field.default_factory is not MISSING}
    required = arguments - values.keys() - makers.keys()
    names = [field.name for field in fields if field.name in arguments | values.keys() | makers.keys()]
    shown = [field.name for field in fields if field.repr]
    compared = [field.name for field in fields if field.compare]
    ends = hasattr(cls, "__post_init__")

    def start(self: Any, *args: Any, **named: Any) -> None:
        given = dict(zip(positional, args, strict=False)) | named
        if len(given) < len(args) + len(named) or not required <= given.keys() <= arguments:
            needs = ", ".join(sorted(required)) or "none"
            got = ", ".join(["a value"] * len(args) + list(named)) or "none"
            raise TypeError(f"{cls.__qualname__} takes {', '.join(sorted(arguments))}; it needs {needs}, and got {got}")
        own = vars(self)
        for name in names:
            own[name] = given[name] if name in given else values[name] if name in values else makers[name]()
        if ends:
            self.__post_init__()

    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def equal(self: Any, other: object) -> object:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return [getattr(self, name) for name in compared] == [getattr(other, name) for name in compared]

    def hashed(self: Any) -> int:
        return hash(tuple(getattr(self, name) for name in compared))

    def refuse(self: Any, name: str, *value: Any) -> None:
        raise FrozenInstanceError(f"{name!r} of {cls.__qualname__} cannot change")

    methods: dict[str, Callable[..., Any] | None] = {"__init__": start, "__repr__": text, "__eq__": equal}
    if not frozen:
        return {**methods, "__hash__": None}
    return {**methods, "__hash__": hashed, "__setattr__": refuse, "__delattr__": refuse}
