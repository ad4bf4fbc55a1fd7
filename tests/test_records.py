"""Dataclasses whose methods are not compiled, compared with the standard library's."""

import dataclasses
import pickle
import re
from copy import copy
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from inspect import signature
from pathlib import Path

import pytest

import fmcli
from fmcli import records

BOTH = [records.dataclass, dataclasses.dataclass]


@records.dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.5
    names: list = field(default_factory=list, compare=False)


@records.dataclass
class Count:
    of: str
    number: int = field(default=0, init=False)

    def __post_init__(self):
        self.of = self.of.strip()


@pytest.mark.parametrize("dataclass", BOTH)
def test_values_come_from_arguments_defaults_and_makers(dataclass):
    @dataclass(frozen=True)
    class One:
        x: float
        y: float = 0.5
        many: list = field(default_factory=list)

    one = One(1.0)
    assert (one.x, one.y, one.many) == (1.0, 0.5, [])
    assert one.many is not One(1.0).many
    assert One(1, y=2) == One(x=1, many=[], y=2) == replace(One(1), y=2) != One(1)
    assert asdict(One(1, 2)) == {"x": 1, "y": 2, "many": []}
    assert [each.name for each in fields(One)] == ["x", "y", "many"]
    assert One(1) != (1, 0.5, [])
    assert repr(One(1, "a")).endswith("One(x=1, y='a', many=[])")
    found = signature(One).parameters
    assert [name for name, one in found.items() if one.default is one.empty] == ["x"]
    assert list(found) == ["x", "y", "many"]
    assert found["y"].default == 0.5


@pytest.mark.parametrize("dataclass", BOTH)
@pytest.mark.parametrize("arguments", [(), (1, 2, 3)])
def test_arguments_are_counted(dataclass, arguments):
    @dataclass
    class One:
        x: float
        y: float = 0.5

    with pytest.raises(TypeError, match="One"):
        One(*arguments)
    with pytest.raises(TypeError, match="One"):
        One(1, x=1)
    with pytest.raises(TypeError, match="z"):
        One(1, z=1)


@pytest.mark.parametrize("dataclass", BOTH)
def test_names_only(dataclass):
    @dataclass(frozen=True, kw_only=True)
    class One:
        x: float
        y: float = 0.5

    assert One(x=1) == One(y=0.5, x=1)
    with pytest.raises(TypeError):
        One(1)


@pytest.mark.parametrize("dataclass", BOTH)
def test_a_class_inherits_fields_and_keeps_its_own_methods(dataclass):
    @dataclass(frozen=True)
    class Base:
        x: float = 1

    @dataclass(frozen=True)
    class Other(Base):
        y: float = 2

        def __repr__(self):
            return "other"

    assert repr(Other()) == "other"
    assert Other(3) == Other(x=3, y=2)
    assert Other() != Base()


def test_frozen_objects_do_not_change():
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
    assert point.x == 1


def test_equal_frozen_objects_have_one_hash_and_others_have_none():
    assert hash(Point(1, 2, ["a"])) == hash(Point(1, 2, ["b"])) != hash(Point(1, 3))
    with pytest.raises(TypeError):
        hash(Count("rows"))


def test_objects_that_change_are_completed_after_their_start():
    count = Count(" rows ")
    count.number += 1
    assert (count.of, count.number) == ("rows", 1)
    with pytest.raises(TypeError):
        Count("rows", number=1)


@pytest.mark.parametrize("again", [copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_objects_are_copied_and_stored(again):
    assert again(Point(1, 2)) == Point(1, 2)


def test_no_class_is_compiled_at_the_start_of_a_command():
    folder = Path(fmcli.__file__).parent
    compiled = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    assert [path.name for path in folder.rglob("*.py") if compiled.search(path.read_text())] == []
