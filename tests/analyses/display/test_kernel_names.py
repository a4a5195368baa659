"""Names as people read them: generic kernels, mangled ones, and those that lie about themselves."""

from __future__ import annotations

import random
import time
from itertools import product

import pytest

from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import demangle, short_name, short_names, shorten_distinct, shorten_middle

RMSNORM = (
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemIDF16b"
    "DF16bfDF16bEENS_18Rmsnorm2dFwdTraitsILb1ELNS_21Rmsnorm2dFusedAddEnumE{}EEEEEEEvDpT1_"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_4"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "AllReduce_RING_LL_Sum_float"),
        (RMSNORM.format(0), "kentry [Rmsnorm2dFwd]"),
        ("void flash::kernel<flash::FlashAttnBwdSm90<1> >(flash::Params)", "kernel [FlashAttnBwdSm90]"),
        ("not_Z3add", "not_Z3add"),
    ],
)
def test_what_a_name_is_shortened_to(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("_Z3addPfS_", "add"),
        ("_ZN2at6native12_GLOBAL__N_14fillEv", "at::native::(anonymous namespace)::fill"),
        ("_ZNSt6vectorIiE4pushEv", "std::vector<…>"),
        ("_ZN1aILj10ELb1E5thirdE3b", "a<third…>"),
        ("_ZN1aIDF16b3oneE", "a<one…>"),
        ("_ZN3ab", "_ZN3ab"),
        ("_Z", "_Z"),
        ("_ZN", "_ZN"),
        ("_ZN9999999999a", "_ZN9999999999a"),
    ],
)
def test_a_mangled_name_gives_its_function_and_first_type(name: str, read: str) -> None:
    assert demangle(name) == read


def test_two_instances_of_a_template_are_told_apart() -> None:
    assert short_names([RMSNORM.format(0), RMSNORM.format(1), RMSNORM.format(0)], 60) == [
        "kentry [Rmsnorm2dFwd] #1", "kentry [Rmsnorm2dFwd] #2", "kentry [Rmsnorm2dFwd] #1",
    ]  # fmt: skip


def test_any_names_stay_different_on_one_printable_line_within_their_size() -> None:
    draw = random.Random(7)
    parts = [
        "_Z",
        "N",
        "3abc",
        "I",
        "E",
        "void ",
        "a::",
        "<",
        ">",
        "(",
        ")",
        "12",
        "\x1b[2J",
        "\n",
        "漢",
        "kernel",
        " → ",
    ]
    names = ["".join(draw.choices(parts, k=draw.randrange(12))) for _ in range(400)]
    for size in (12, 24, 60):
        shown = shorten_distinct(short_names(names, size), size)
        assert all(text.isprintable() and len(text) <= size for text in shown)
        # What the eye cannot tell apart in the trace either is not asked for.
        told = {one_line(name) for name in names}
        assert len(set(shown)) >= len(told)


def test_the_middle_is_cut_and_the_size_kept() -> None:
    for size, length in product(range(1, 12), range(20)):
        cut = shorten_middle("abcdefghijklmnopqrst"[:length], size)
        assert len(cut) == min(size, length)
    assert shorten_distinct(["a" * 30 + "b" * 30, "a" * 31 + "b" * 30], 12) == ["aaaaa…bbb #1", "aaaaa…bbb #2"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name",
    [
        "void a<" + "b" * 100_000 + ">",
        "void a" + "<" * 100_000,
        "_Z" + "N" * 100_000,
        "_ZN" + "1a" * 50_000,
        "_ZN4kernI" + "S" * 100_000,
        "_ZN4kernI" + "Li1" * 50_000,
        "_ZN4kernI" + "L" * 100_000,
        "a>" * 50_000 + " [clone",
        "/" * 100_000 + ".py(",
        "a → " * 50_000,
    ],
    ids=lambda name: name[:9],
)
def test_long_hostile_names_take_no_longer_than_others(name: str) -> None:
    begun = time.process_time()
    short_names([name, name + "x"], 40)
    assert time.process_time() - begun < 3


def test_the_name_of_an_event_of_a_job_is_short_behind_its_rank() -> None:
    names = ["rank 2: ncclDevKernel_AllReduce_Sum_f32(ncclArgs<4096ul>)", "rank 12: void add<1>(int)", "a rank 2: mul"]
    assert short_names(names) == ["rank 2: AllReduce_Sum_f32", "rank 12: add", "a rank 2: mul"]
