"""A frozen dataclass made quickly behaves as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from hta_graph import quick_dataclass


def make(decorator: Callable[..., Any], **options: bool) -> list[type[Any]]:
    @decorator(frozen=True, **options)
    class Point:
        """With fields of every kind."""

        x: int
        y: float = field(default=2.0, compare=False)
        names: list[str] = field(default_factory=list)
        hidden: int = field(default=4, repr=False, kw_only=True)
        made: tuple[int, ...] = field(default_factory=lambda: (1,), init=False)
        later: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "later", 7)

    @decorator(frozen=True, **options)
    class Named(Point):
        """With a base, a default of its own and methods of its own."""

        hidden: int = 5
        label: str = ""

        def __repr__(self) -> str:
            return f"<{self.label}>"

        def __hash__(self) -> int:
            return 3

    @decorator(frozen=True, **options)
    class Single:
        """With one field."""

        x: int

    @decorator(frozen=True, **options)
    class Empty:
        """Without fields."""

    return [Point, Named, Single, Empty]


def outcome(ask: Callable[[], Any]) -> tuple[str, str]:
    try:
        return "answer", repr(ask())
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, str(error)


ASKED: list[Callable[[type[Any]], Any]] = [
    lambda kind: kind(),
    lambda kind: kind(1),
    lambda kind: kind(x=1),
    lambda kind: kind(1, 2),
    lambda kind: kind(1, 2, ["a"], hidden=3),
    lambda kind: kind(1, 2, ["a"], 3),
    lambda kind: kind(1, 2, ["a"], 3, "b"),
    lambda kind: kind(1, unknown=3),
    lambda kind: vars(kind(1)),
    lambda kind: vars(kind(1, 2, ["a"])),
    lambda kind: kind(1) == kind(1),
    lambda kind: kind(1, 2) == kind(1, 3),
    lambda kind: kind(1) == kind(2),
    lambda kind: kind(1) == 1,
    lambda kind: kind(1).__eq__(1),
    lambda kind: hash(kind(1)) == hash(kind(1)),
    lambda kind: hash(kind(1, 2, ())) in (hash((1, (), 4, (1,), 7)), hash((1,)), hash(())),
    lambda kind: kind(1, 2, ()) in {kind(1, 3, ())},
    lambda kind: setattr(kind(1), "x", 2),
    lambda kind: setattr(kind(1), "other", 2),
    lambda kind: delattr(kind(1), "x"),
    lambda kind: dataclasses.asdict(kind(1)),
    lambda kind: dataclasses.replace(kind(1), x=5),
    lambda kind: [(item.name, item.type, item.init) for item in dataclasses.fields(kind)],
    lambda kind: kind.__match_args__,
    lambda kind: copy.copy(kind(1)) == kind(1),
    lambda kind: [(name, one.kind, one.annotation) for name, one in inspect.signature(kind).parameters.items()],
]


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"repr": False}, {"kw_only": True}], ids=str)
@pytest.mark.parametrize("place", range(4), ids=["Point", "Named", "Single", "Empty"])
def test_it_behaves_as_the_standard_library(place: int, options: dict[str, bool]) -> None:
    kind, quick = (make(one, **options)[place] for one in (dataclasses.dataclass, quick_dataclass.dataclass))
    for asked in ASKED:
        expected, found = outcome(lambda asked=asked: asked(kind)), outcome(lambda asked=asked: asked(quick))  # type: ignore[misc]
        if " object at 0x" not in expected[1]:
            assert found == expected


WAYS: list[Callable[[type[Any]], Any]] = [
    lambda kind: vars(kind(1, 2)),
    lambda kind: vars(kind(1, instance=2)),
    lambda kind: vars(kind(instance=2, x=1)),
    lambda kind: vars(kind(1)),
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3),
    lambda kind: kind(1, 2, x=3),
    lambda kind: kind(1, x=3),
    lambda kind: kind(1, z=2),
]


@pytest.mark.parametrize("made", WAYS)
def test_first_objects_are_made_as_all_are(made: Callable[[type[Any]], Any]) -> None:
    def pair(decorator: Callable[..., Any]) -> type[Any]:
        @decorator(frozen=True)
        class Pair:
            """With nothing but fields."""

            x: int
            instance: int = 2

        return Pair

    kind, quick = pair(dataclasses.dataclass), pair(quick_dataclass.dataclass)
    count = quick_dataclass.FEW_OBJECTS + 2
    assert [outcome(lambda: made(quick)) for _ in range(count)] == [outcome(lambda: made(kind))] * count


@quick_dataclass.dataclass(frozen=True)
class Kept:
    """At the top of a module, so that it can be pickled."""

    x: int
    y: tuple[int, ...] = ()


def test_one_that_arrives_before_any_is_made_is_complete() -> None:
    made = object.__new__(Kept)
    vars(made).update(x=1, y=(2,))
    assert (repr(made), type(vars(Kept)["__init__"]).__name__) == ("Kept(x=1, y=(2,))", "_FirstInit")
    with pytest.raises(FrozenInstanceError):
        made.x = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(made)) == made == Kept(1, (2,))  # noqa: S301
    assert Kept.__init__.__qualname__ == "Kept.__init__"


def test_others_are_left_to_the_standard_library() -> None:
    with pytest.raises(TypeError, match="only frozen"):
        quick_dataclass.dataclass(frozen=False)
