"""Waiting on a page: a picture whose pixels are the shares, tables that hold all hosts and groups."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pandas as pd
import pytest

from analyses.declare.answer import Answer
from analyses.report.report import page
from analyses.report.wait_heatmap import WaitSection, wait_heatmap, wait_section
from hta_graph.base.colours import BOUND_COLOUR
from tests.support.page_summary import page_summary

RANKS = 40
STEP = "ProfilerStep#2"


def pixels_of(address: str) -> np.ndarray:
    """Decode an image of one colour: how opaque each pixel is."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunks[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + chunks[kind])
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return np.frombuffer(chunks[b"tRNS"], np.uint8)[rows[:, 1:]]


def test_a_pixel_is_as_strong_as_ranks_wait() -> None:
    shares = np.array([[0.0, 0.25, 0.5], [0.001, 0.0, 0.0]])
    drawn = wait_heatmap(pd.DataFrame(shares, ["rank 0", "rank 1"], [0.0, 2.0, 4.0]))
    assert pixels_of(drawn.image).tolist() == [[0, 128, 255], [1, 0, 0]]
    assert drawn.most == "50%"
    assert [row.text for row in drawn.rows] == [
        "rank 0: waits 25% of the time, most from 4.000 ms",
        "rank 1: waits <1% of the time, most from 0.000 ms",
    ]
    assert [(tick.at, tick.text) for tick in drawn.across][-1] == (drawn.right, "6")


def test_waits_that_overlap_are_no_more_than_all_and_no_waiting_is_no_colour() -> None:
    many = wait_heatmap(pd.DataFrame([[3.0, 0.5]], ["rank 0"], [0.0, 1.0]))
    none = wait_heatmap(pd.DataFrame([[0.0]], ["rank 0"], [0.0]))
    assert pixels_of(many.image).tolist() == [[255, 128]]
    assert pixels_of(none.image).tolist() == [[0]]
    assert none.rows[0].text == "rank 0: waits 0% of the time"


def test_very_many_ranks_are_one_picture_with_few_names() -> None:
    drawn = wait_heatmap(pd.DataFrame(np.ones((512, 200)), [f"rank {at}" for at in range(512)], range(200)))
    assert pixels_of(drawn.image).shape == (512, 200)
    assert (drawn.row_height, drawn.bottom - drawn.top, len(drawn.down)) == (1, 512, 8)


def answers(ranks: int) -> tuple[Answer, Answer]:
    """Answer for ranks of which the last one causes most, by two things."""
    number = np.arange(ranks)
    of_ranks = pd.DataFrame({"rank": number, "scope": STEP})
    caused = of_ranks.assign(times_last=1, wait_caused_ns=number * 1_000)
    waits = of_ranks.assign(wait_ns=5_000, transfer_ns=1_000)
    charged = pd.DataFrame({
        "rank": pd.array([ranks - 1, ranks - 1, 3, None], "Int64"), "scope": STEP,
        "bound_by": ["cpu_bound", "gpu_compute_bound", "cpu_bound", "unexplained"],
        "caused_ns": [6_000, 4_000, 5_000, 90_000],
    })  # fmt: skip
    groups = pd.DataFrame({"group": [str(at) for at in range(25)], "scope": STEP, "waited_ns": range(25)})
    hosts = pd.DataFrame({"host": ["a", "b"], "scope": STEP, "caused_ns": [1, 2]})
    drawn = {"waiting": pd.DataFrame([[0.5]], ["rank 0"], [0.0])} if ranks > 32 else {}
    waiting = Answer(
        {"stragglers": caused, "causes": charged, "hosts": hosts}, ["a clock was set back"],
        opening=["rank 39 holds up the others"], drawn=drawn,
    )  # fmt: skip
    return waiting, Answer({"ranks": waits, "group_kinds": groups.head(1), "groups": groups})


def test_the_worst_ranks_stand_first_then_what_is_typical() -> None:
    section = wait_section(*answers(RANKS))
    ranks, hosts, _, groups = section.tables
    assert ranks.title.endswith(": the top 10 of 40 ranks, median and 95th percentile")
    assert ranks.frame["rank"].tolist()[:2] + ranks.frame["rank"].tolist()[-2:] == [39, 3, "median", "p95"]
    assert ranks.frame["caused_ns"].tolist()[:3] == [10_000, 5_000, 0]
    assert [part.colour for part in ranks.bars[0].parts] == [
        BOUND_COLOUR["cpu_bound"],
        BOUND_COLOUR["gpu_compute_bound"],
    ]
    assert [sum(part.width for part in bar.parts) for bar in ranks.bars[:2]] == [100, 50]
    assert hosts.frame["host"].tolist() == ["b", "a"]
    assert (groups.title, len(groups.frame)) == ("Process groups", 25)
    assert groups.frame["waited_ns"].iloc[0] == 24
    assert section.notes == ["Rank 39 holds up the others."]


def test_of_few_ranks_all_are_listed_and_nothing_is_drawn() -> None:
    section = wait_section(*answers(8))
    assert isinstance(section, WaitSection)
    assert (len(section.tables[0].frame), section.figure) == (8, None)
    text = page(page_summary(), [section]).decode()
    assert "<image" not in text
    assert "A clock was set back." in text


def test_the_picture_is_all_that_the_policy_lets_a_page_load() -> None:
    text = page(page_summary(), [wait_section(*answers(RANKS))]).decode()
    assert "img-src data:;" in text
    assert text.count("data:image/png;base64,") == text.count("<image") == 1
    assert "When each of 40 ranks waits for others" in text


@pytest.mark.parametrize("charged", [0, 4])
def test_ranks_that_caused_nothing_are_there(charged: int) -> None:
    waiting, together = answers(8)
    causes = waiting.tables["causes"].iloc[:charged]
    section = wait_section(Answer({**waiting.tables, "causes": causes}), together)
    assert len(section.tables[0].frame) == 8
    assert section.tables[0].frame["caused_ns"].sum() == (15_000 if charged else 0)
