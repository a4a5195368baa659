"""Pseudonyms keep what a name decided, which names are the same, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.export.anonymize.pseudonyms import CATEGORIES, IdMap, Pseudonyms
from hta_graph.model import EventKind
from hta_graph.multi_rank.matching.read_communications import communication_kind
from hta_graph.trace.profiler_names import COMMUNICATION_KERNEL
from hta_graph.trace.table import LaneTable
from tests.support.deep_tests import for_all

GIVEN = [
    (EventKind.KERNEL, "acme_gemm", "kernel_1"),
    (EventKind.KERNEL, "acme::fused_all_reduce<float>", "kernel_1_all_reduce_all_reduce"),
    (EventKind.KERNEL, "triton_poi_fused_acme_all_reduce_3", "triton_poi_kernel_1"),
    (EventKind.CPU_OP, "acme::mm", "operator_1"),
    (EventKind.CPU_OP, "AcmeBackward", "operator_1Backward"),
    (EventKind.CPU_OP, "autograd::engine::evaluate_function: AcmeBackward",
     "autograd::engine::evaluate_function: operator_1Backward"),
    (EventKind.ANNOTATION, "batch 12 of acme", "annotation_1 12"),
    (EventKind.ANNOTATION, "acme DataLoader.read.__next__", "DataLoader.__next__ annotation_1"),
    (EventKind.ANNOTATION, "acme send 3->4", "annotation_1_send 3->4"),
    (EventKind.ANNOTATION, "gloo:acme", "gloo:annotation_1"),
    (EventKind.RUNTIME, "hipAcme", "hip_call_1"),
    (EventKind.PYTHON_FUNCTION, "acme/train.py(12): fit", "frame_1.py(12): call"),
    (EventKind.PYTHON_FUNCTION, "nn.Module: AcmeLayer_3", "nn.Module: Module1_3"),
    (EventKind.PYTHON_FUNCTION, "<built-in method acme of PyCapsule object at 0x7f00>", "<frame_1 object at 0x1>"),
    (EventKind.PYTHON_FUNCTION, "acme.py(7): forward", "frame_1.py(7): forward"),
    (EventKind.PYTHON_FUNCTION, "acme.py(7): timing_wrapper", "frame_1.py(7): wrapper"),
    (EventKind.PYTHON_FUNCTION, "<built-in method _record_function_enter of acme>",
     "<built-in method record_function of frame_1>"),
    (EventKind.ANNOTATION, "Optimizer.step#AcmeOptimizer.step", "Optimizer.step#annotation_1"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "name", "pseudonym"), GIVEN)
def test_a_pseudonym_keeps_the_words_that_decide_a_type(kind: EventKind, name: str, pseudonym: str) -> None:
    assert Pseudonyms().name(kind, name) == pseudonym


def test_names_that_differ_in_numbers_only_stay_one_place_of_the_program() -> None:
    names = Pseudonyms()
    assert [names.name(EventKind.ANNOTATION, f"acme {at}") for at in (1, 2)] == ["annotation_1 1", "annotation_1 2"]


def test_objects_of_one_class_stay_so() -> None:
    names = Pseudonyms()
    given_names = ("nn.Module: A_0", "nn.Module: A_1", "nn.Module: B_0")
    found = [names.name(EventKind.PYTHON_FUNCTION, name) for name in given_names]
    assert found == ["nn.Module: Module1_0", "nn.Module: Module1_1", "nn.Module: Module2_0"]


def test_an_annotation_is_called_alike_on_the_cpu_and_on_the_gpu() -> None:
    names = Pseudonyms()
    assert names.name(EventKind.ANNOTATION, "acme") == names.name(EventKind.GPU_ANNOTATION, "acme")


def test_what_is_kept_on_request_keeps_its_name() -> None:
    assert Pseudonyms(["annotation"]).name(EventKind.ANNOTATION, "acme") == "acme"


def test_what_no_pseudonym_can_keep_is_counted() -> None:
    names = Pseudonyms()
    assert names.name(EventKind.ANNOTATION, "gloo:acme DataLoader.x.__next__ 0->1") == "annotation_1"
    assert names.untyped == {"annotation": 1}


WORDS = ["acme", "all_reduce", "Backward", "DataLoader", ".__next__", "nccl", "0->1", "17", "aten::", "hip", "gloo:",
         ".py(3): f", "nn.Module: X", " ", "_", "cudaMemcpy", "Async", "é", "\n"]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map("".join)


@for_all(st.lists(st.tuples(st.sampled_from(sorted(CATEGORIES)), TEXTS), max_size=12), examples=400)
def test_different_names_of_a_kind_stay_different_and_equal_ones_equal(asked: list[tuple[EventKind, str]]) -> None:
    names = Pseudonyms()
    found = [(CATEGORIES[kind], names.name(kind, text)) for kind, text in asked]
    assert found == [(CATEGORIES[kind], names.name(kind, text)) for kind, text in asked]
    assert len(set(found)) == len({(CATEGORIES[kind], text) for kind, text in asked})


@for_all(TEXTS, examples=400)
def test_a_communication_kernel_stays_of_its_kind(text: str) -> None:
    names = Pseudonyms()
    found = names.name(EventKind.KERNEL, f"nccl {text}")
    assert communication_kind([found]) == communication_kind([f"nccl {text}"]) or names.untyped["kernel"] == 1


def test_a_name_of_megabytes_is_not_searched() -> None:
    names = Pseudonyms()
    assert names.name(EventKind.ANNOTATION, "DataLoader" * 200_000) == "annotation_1"
    assert names.untyped == {"annotation": 1}


@for_all(TEXTS, examples=400)
def test_a_kernel_communicates_by_its_pseudonym_as_it_did_by_its_name(text: str) -> None:
    names = Pseudonyms()
    found = names.name(EventKind.KERNEL, text)
    same = bool(COMMUNICATION_KERNEL.search(found)) == bool(COMMUNICATION_KERNEL.search(text))
    assert same or names.untyped["kernel"] == 1


def test_a_new_thread_costs_as_much_whatever_the_number_of_others() -> None:
    """Twenty thousand named threads took five seconds, for all numbers were looked through for each."""

    class NotLookedThrough(dict[int, int]):
        def values(self) -> Any:
            raise AssertionError

    none = np.empty(0, np.int64)
    ids = IdMap(LaneTable((), none.astype(np.bool_), none, none, none), Pseudonyms())
    ids._number = NotLookedThrough(ids._number)
    assert [ids.thread(number) for number in (7, 5, "7", 9)] == [1002, 1004, 1002, 1006]
