"""Classes in the colours of viewers: each has one, and no two look alike."""

from __future__ import annotations

import math
import re
from itertools import combinations

from hta_graph.export.perfetto.path_overlay import CLASS_CNAME, CLASS_TITLE
from hta_graph.model import BoundBy

CATAPULT = {
    "thread_state_uninterruptible": (182, 125, 143), "thread_state_iowait": (255, 140, 0),
    "thread_state_running": (126, 200, 148), "thread_state_runnable": (133, 160, 210),
    "thread_state_unknown": (199, 155, 125), "background_memory_dump": (0, 180, 180),
    "light_memory_dump": (0, 0, 180), "detailed_memory_dump": (180, 0, 180), "generic_work": (125, 125, 125),
    "good": (0, 125, 0), "bad": (180, 125, 0), "terrible": (180, 0, 0), "rail_response": (67, 135, 253),
    "rail_animation": (244, 74, 63), "rail_idle": (238, 142, 0), "rail_load": (13, 168, 97),
}  # fmt: skip
"""Reserved colours of chrome://tracing (catapult, tracing/base/color_scheme.html), red, green and blue."""


def perfetto_hash(text: str, size: int) -> int:
    """Return what the interface makes of a text: FNV in a float's arithmetic (ui/src/base/hash.ts)."""
    found = 0x811C9DC5 & 0xFFFFFFF
    for letter in text:
        found = int(float(found ^ ord(letter)) * 16777619.0) & 0xFFFFFFFF
        found -= (found >> 31) << 32
    return abs(found) % size


def perfetto_colour(name: str) -> tuple[int, int]:
    """Return the hue (degrees) and the lightness (%) of a slice's colour (ui/src/components/colorizer.ts)."""
    text = re.sub(r"( )?\d+", "", name)
    return perfetto_hash(text, 360), perfetto_hash(f"{text}x", 40) + 40


def difference(one: tuple[int, int], other: tuple[int, int]) -> float:
    hues = abs(one[0] - other[0])
    return math.hypot(min(hues, 360 - hues), 2 * (one[1] - other[1]))


def test_every_class_has_a_name_with_its_key_and_a_colour() -> None:
    assert list(CLASS_TITLE) == list(CLASS_CNAME) == [bound.label for bound in BoundBy]
    assert all(f"({key})" in title for key, title in CLASS_TITLE.items())


def test_names_are_colours_of_their_own_in_perfetto() -> None:
    colours = {key: perfetto_colour(title) for key, title in CLASS_TITLE.items()}
    assert min(difference(*pair) for pair in combinations(colours.values(), 2)) >= 40
    hues = {key: hue for key, (hue, _) in colours.items()}
    assert 110 < hues["gpu_compute_bound"] < 150, "computing is green"
    assert min(hues["unexplained"], 360 - hues["unexplained"]) < 15, "what is unexplained is red"


def test_keys_alone_would_look_alike() -> None:
    assert perfetto_colour("data_loading") == perfetto_colour("gpu_communication_bound") == (100, 68)


def test_names_of_colours_are_those_of_the_older_viewer() -> None:
    chosen = [CATAPULT[name] for name in CLASS_CNAME.values()]
    assert min(math.dist(*pair) for pair in combinations(chosen, 2)) > 40
