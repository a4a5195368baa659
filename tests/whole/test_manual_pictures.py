"""The manual's pictures: each is current, shows what its name says, and stands in a section of its page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.answer import Answer
from analyses.declare.scope import Scope, in_window
from analyses.questions.idle_time import LaunchGap, idle_time, launch_gaps, stream_idle_time
from analyses.questions.stragglers import answer as stragglers
from hta_graph.export.picture import lanes_picture
from hta_graph.export.picture.style import link_colour
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import CUSTOM_KINDS, BoundBy, EdgeKind, GapCause, Reason
from hta_graph.paths.windows import between
from tests.export.picture.read_svg import arrows_in, bars_in, parsed, texts_in
from tests.manual_pictures.classes import CLASSES, REASONS
from tests.manual_pictures.edges import EDGES
from tests.manual_pictures.every_picture import FOLDER, drawn, every_picture, shown
from tests.manual_pictures.gaps import GAPS, LAUNCH_GAPS
from tests.manual_pictures.rank_waits import RANK_WAITS
from tests.support.deep_tests import deep

pytestmark = pytest.mark.sampled(2)

BUILT_IN = [kind for kind in EdgeKind if kind not in CUSTOM_KINDS.values()]
"""A custom rule brings its own picture."""
PICTURES = {picture.file.removesuffix(".svg"): picture for picture in every_picture()}
READING = FOLDER.parent / "reading"
LARGEST = {"first_answer": 30_000}
"""Bytes; those of a program made for one word have less."""
USUAL_SIZE = 15_000

every = pytest.mark.parametrize("name", PICTURES)
of_a_word = pytest.mark.parametrize("name", [name for name in PICTURES if name != "first_answer"])


@cache
def path_in(name: str) -> hg.CriticalPath:
    return shown(PICTURES[name])


@cache
def page(name: str) -> str:
    return (READING / f"{name}.md").read_text(encoding="utf-8")


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(27)
@every
def test_a_picture_is_current(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert text == drawn(PICTURES[name]), "python -m tests.manual_pictures writes them again"


def test_no_other_picture_of_these_lies_there() -> None:
    groups = ("edge_", "class_", "reason_", "gap_", "launch_gap_", "rank_wait_", "first_")
    assert {path.stem for path in FOLDER.glob("*.svg") if path.stem.startswith(groups)} == PICTURES.keys()


@every
def test_a_picture_is_small_and_fits_a_page(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST.get(name, USUAL_SIZE)
    assert float(parsed(text).get("width", "inf")) <= 700
    assert "left out" not in text


@every
def test_no_bar_and_no_text_of_a_picture_leaves_it(name: str) -> None:
    source = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    root = parsed(source)
    width, height = (float(root.get(key, "0")) for key in ("width", "height"))
    for shape in [*bars_in(source), *bars_in(source, of_events=False)]:
        assert 0 <= shape.x <= shape.x + shape.width <= width
        assert 0 <= shape.y <= shape.y + shape.height <= height
    assert all(0 < float(text.get("y", "0")) < height for text in root.iter("{http://www.w3.org/2000/svg}text"))


# -- what they show ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawings", "kinds"),
    [
        (EDGES, BUILT_IN),
        (CLASSES, BoundBy),
        (REASONS, Reason),
        (GAPS, GapCause),
        (LAUNCH_GAPS, set(LaunchGap) - {LaunchGap.LAUNCH_UNKNOWN}),
    ],
    ids=["edges", "classes", "reasons", "causes of gaps", "launches"],
)
def test_each_word_has_its_picture(drawings: Mapping[Any, Any], kinds: Any) -> None:
    assert set(drawings) == set(kinds)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.label)
def test_the_edge_occurs_and_is_drawn(kind: EdgeKind) -> None:
    path = path_in(f"edge_{kind.label}")
    arrows = arrows_in(lanes_picture(path, kinds=[kind]).source)
    assert arrows
    assert {arrow.colour for arrow in arrows} == {link_colour(kind)}
    assert kind.label in texts_in(drawn(PICTURES[f"edge_{kind.label}"]))
    without = [other for other in EdgeKind if other != kind]
    assert all(arrow.colour != link_colour(kind) for arrow in arrows_in(lanes_picture(path, kinds=without).source)) or (
        kind in (EdgeKind.THREAD_ORDER, EdgeKind.EXECUTION)  # these two share a colour
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bound", BoundBy, ids=lambda bound: bound.label)
def test_the_class_takes_most_of_the_path(bound: BoundBy) -> None:
    by_bound = path_in(f"class_{bound.label}").by_bound_ns
    of_gpu = {"gpu_compute_bound"} if bound == BoundBy.GPU_KERNEL_KERNEL_OVERHEAD else set()
    assert max(by_bound, key=lambda key: by_bound[key] * (key not in of_gpu)) == bound.label


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reason", set(Reason) - {Reason.OTHER_RANK}, ids=lambda reason: reason.label)
def test_the_reason_stands_in_the_path(reason: Reason) -> None:
    assert path_in(f"reason_{reason.label}").by_reason_ns[reason.label] > 0


def test_where_ranks_are_compared_a_path_goes_to_the_late_one_and_says_no_reason() -> None:
    path = path_in("reason_other_rank")
    assert Reason.OTHER_RANK.label not in path.by_reason_ns
    assert path.by_rank_ns[1] > path.by_rank_ns[0] > 0
    assert isinstance(path.graph, JobGraph)
    alone = hg.critical_path(path.graph.graph(0), hg.whole())
    assert Reason.OTHER_RANK.label not in alone.by_reason_ns
    assert alone.by_bound_ns["gpu_communication_bound"] > path.by_bound_ns["gpu_communication_bound"]


def scopes_of(path: hg.CriticalPath) -> list[Scope]:
    window = between(path.window.start_ns, path.window.end_ns)
    return [in_window(part.rank, part.graph, window) for part in path.graph.rank_graphs]


def causes_of(*frames: pd.DataFrame) -> set[str]:
    return {cause for frame in frames for cause in frame["cause"]}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "cause", [deep(one) if one is GapCause.QUEUE_FULL else one for one in GapCause], ids=lambda cause: cause.label
)
def test_idle_time_finds_the_cause(cause: GapCause) -> None:
    scopes = scopes_of(path_in(f"gap_{cause.label}"))
    assert cause.label in causes_of(idle_time(scopes), stream_idle_time(scopes))


@pytest.mark.parametrize("cause", LAUNCH_GAPS, ids=lambda cause: cause.label)
def test_idle_time_says_when_the_next_one_was_launched(cause: LaunchGap) -> None:
    assert causes_of(launch_gaps(scopes_of(path_in(f"launch_gap_{cause.label}")))) == {cause.label}


def charged(name: str) -> pd.DataFrame:
    path = path_in(name)
    found: Answer = stragglers(scopes_of(path))
    return found.tables["causes"]


def test_waiting_is_charged_to_what_the_late_rank_did() -> None:
    first = charged("rank_wait_direct").iloc[0]
    assert (first["rank"], first["name"], first["propagated_ns"]) == (1, "aten::bmm", 0)
    assert first["direct_ns"] == 50_000


def test_waiting_for_a_rank_that_waited_is_passed_on() -> None:
    first = charged("rank_wait_passed_on").iloc[0]
    assert (first["rank"], first["name"]) == (0, "aten::bmm")
    assert first["propagated_ns"] > 0


def test_waiting_at_the_first_meeting_has_no_name() -> None:
    causes = charged("rank_wait_not_charged")
    assert causes["name"].isna().all()
    assert causes["caused_ns"].sum() > 0


# -- their pages ------------------------------------------------------------------------------------------------------


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one."""
    found = re.search(rf"^(#+) `?{re.escape(heading)}`?$\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section is called {heading}"
    return found[2]


PAGE_OF = {"edge": "edges", "class": "classes", "reason": "causes", "gap": "causes", "launch_gap": "causes",
           "rank_wait": "causes"}  # fmt: skip
FACTS = ("**When.**", "**Meaning.**", "**What to do.**")
"""What evidence there is follows where it is no record."""


def group_of(name: str) -> str:
    return next(group for group in sorted(PAGE_OF, key=len, reverse=True) if name.startswith(f"{group}_"))


@of_a_word
def test_a_section_shows_the_picture_and_tells_what_it_means(name: str) -> None:
    text = page(PAGE_OF[group_of(name)])
    (holder,) = [
        part for part in re.split(r"^(?=#{2,} )", text, flags=re.MULTILINE) if f"../pictures/{name}.svg" in part
    ]
    assert re.search(rf"!\[[^\]]+\]\(\.\./pictures/{name}\.svg\)", holder)
    assert [fact for fact in FACTS if fact not in holder] == []


@pytest.mark.parametrize(("group", "kinds"), [("edge", BUILT_IN), ("class", BoundBy)], ids=["edges", "classes"])
def test_each_word_has_a_section_of_its_name(group: str, kinds: Any) -> None:
    for kind in kinds:
        assert f"../pictures/{group}_{kind.label}.svg" in section(page(PAGE_OF[group]), kind.label)


def test_the_first_page_shows_the_step_of_its_examples() -> None:
    assert "(../pictures/first_answer.svg)" in page("index")


def part_of_causes(heading: str) -> str:
    """Return a chapter of the page of causes."""
    found = re.search(rf"^## {heading}$\n(.*?)(?=^## |\Z)", page("causes"), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("heading", "group", "kinds"),
    [
        ("Unexplained time", "reason", Reason),
        ("Idle GPU or stream", "gap", GapCause),
        ("Launch of the next activity", "launch_gap", LAUNCH_GAPS),
    ],
    ids=["reasons", "gaps", "launches"],
)
def test_each_cause_has_a_section_of_its_name(heading: str, group: str, kinds: Any) -> None:
    chapter = part_of_causes(heading)
    for kind in kinds:
        assert f"../pictures/{group}_{kind.label}.svg" in section(chapter, kind.label)


def test_each_way_of_charging_waits_has_its_picture_on_the_page() -> None:
    chapter = part_of_causes("Waiting ranks")
    assert [name for name in RANK_WAITS if f"../pictures/rank_wait_{name}.svg" not in chapter] == []


def test_the_page_of_edges_explains_every_kind_in_their_order() -> None:
    table = page("edges").split("| edge | meaning |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", table, re.MULTILINE)
    assert [label for cell in cells for label in re.findall(r"`(\w+)`", cell)] == [kind.label for kind in EdgeKind]


def test_the_page_of_classes_explains_every_class() -> None:
    table = page("classes").split("| class | the time is |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= {bound.label for bound in BoundBy}
