"""Tensors that are joined or split, each counted by hand."""

from __future__ import annotations

from hta_graph.roofline.cost_models.fill_copy_concat import member_type
from hta_graph.roofline.cost_models.table import demand_of
from tests.roofline.recorded_inputs import Case, recorded

BATCHED = "void at::native::(anonymous namespace)::CatArrayBatchedCopy"
TWO_BYTES = "at::native::(anonymous namespace)::OpaqueType<2u>"

CASES = [
    Case(
        recorded(
            "aten::cat", ["float[8192, 7168]", "float[1, 7168]"], "0",
            kernel=f"{BATCHED}_vectorized<{TWO_BYTES}, unsigned int, 1, 128, 1>()",
        ),
        0, 2 * 2 * 8193 * 7168, "",
    ),
    # a member that is expanded is read once
    Case(
        recorded(
            "aten::cat", ["float[3, 4]@0,1", "float[2, 4]@4,1"], "0", kernel=f"{BATCHED}<double, unsigned int, 2>()"
        ),
        0, 8 * (4 + 8 + 20), "double",
    ),
    Case(recorded("aten::cat", ["float[3, 4]"], "0", "c10::BFloat16[3, 4]"), 0, 2 * (12 + 12), "bfloat16"),
    Case(recorded("aten::cat", ["float[3, 4]", "float[2, 4]"], "0"), 0, None, ""),
    Case(
        recorded("aten::_cat", ["float[3]", "float[2]"], "0", kernel=f"{BATCHED}<bool, unsigned int, 1, 64>()"),
        0, 5 + 5, "bool",
    ),
    Case(
        recorded("aten::stack", ["float[3]", "float[3]"], "0", kernel=f"{BATCHED}<c10::Half, unsigned int, 1, 64>()"),
        0, 2 * (6 + 6), "half",
    ),
    Case(recorded("aten::split_with_sizes_copy", "float[6, 4]", "[2, 4]", "0"), 0, 4 * (24 + 24), "float"),
]  # fmt: skip


def test_kernels_as_they_were_recorded_tell_what_they_join() -> None:
    opaque = "at::native::(anonymous namespace)::OpaqueType<8u>"
    assert member_type(f"{BATCHED}_contig<{opaque}, unsigned int, 1, 128, 1>({opaque}*, int)") == ("", 8)
    assert member_type(f"{BATCHED}_aligned16_contig<long, unsigned int, 1, 128, 1>(long*)") == ("long", 8)
    assert member_type(f"{BATCHED}<c10::complex<float>, unsigned int, 3, 64, 64>()") == ("complex<float>", 8)
    assert member_type(f"{BATCHED}<unsigned char, unsigned int, 3, 64, 64>()") == ("unsigned char", 1)
    assert member_type("Memcpy DtoD (Device -> Device)") == ("", 0)
    assert member_type("") == ("", 0)


def test_a_type_that_is_not_known_leaves_the_traffic_unknown() -> None:
    found = demand_of(recorded("aten::cat", ["float[3]"], "0", kernel=f"{BATCHED}<Mystery, unsigned int, 1>()"))
    assert found is not None
    assert found.bytes is None
