"""Attention, each operator counted by hand; and bands against counting pairs one by one."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from hta_graph.roofline.cost_models.attention import BandMask
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Demand, Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall
from tests.roofline.recorded_inputs import Case, recorded
from tests.support.deep_tests import for_all

MATRIX = Unit.MATRIX

# Two batches of four heads, 6 queries and 6 keys with 8 elements each, heads before tokens or after them.
HEADS = ("half[2, 4, 6, 8]",) * 3
TOKENS = ("half[2, 6, 4, 8]",) * 3
ONE = 2 * 2 * 4 * 6 * 8
"""Bytes of queries, and of keys, values and the output as well."""
LOGARITHMS = "float[2, 4, 6]"
OF_LOGARITHMS = 4 * 2 * 4 * 6
ALL, CAUSAL = 6 * 6, 1 + 2 + 3 + 4 + 5 + 6
NEAR = 1 + 2 + 2 + 2 + 2 + 2
"""Pairs: all, causal, and of those the last two keys of each query."""
PER_PAIR = 2 * 2 * 4 * (8 + 8)
BACK_PER_PAIR = 2 * 2 * 4 * 5 * 8
OUTER = ("half[2, 4, 6, 8]", LOGARITHMS)
OUTER_TOKENS = ("half[2, 6, 4, 8]", LOGARITHMS)
BACK = 8 * ONE + OF_LOGARITHMS
"""Backward: the output's gradient, queries, keys, values, output and three gradients."""
SEED = ("long int[]", "long int[]")

# Three sequences of 6 one after the other; their bounds are four numbers.
RAGGED = ("half[18, 4, 8]",) * 3
OF_RAGGED = 2 * 18 * 4 * 8
RAGGED_PER_PAIR = 2 * 3 * 4 * (8 + 8)
RAGGED_BACK = 2 * 3 * 4 * 5 * 8
BOUNDS, LONGEST = ("int[4]", "int[4]"), ("6", "6")
RAGGED_LOGARITHMS = "float[4, 18]"
OF_RAGGED_BACK = 8 * OF_RAGGED + 4 * 4 * 18


def case(flops: int, moved: int | None, name: str, *inputs: str, is_least: bool = False) -> Case:
    return Case(recorded(name, *inputs), flops, moved, "half", MATRIX, is_least)


CASES = [
    case(CAUSAL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_flash_attention", *HEADS, "0.", "True", "False", ""),
    case(ALL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_flash_attention", *HEADS, "0.", "False", "False", ""),
    # whether it is causal was not recorded: at least that
    case(CAUSAL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_flash_attention", *HEADS, is_least=True),
    # eight bits, three scales: the type of the output is not told
    Case(
        recorded("aten::_scaled_dot_product_flash_attention", *["c10::Float8_e4m3fn[2, 4, 6, 8]"] * 3, "float[]",
                 "float[]", "float[]", "0.", "True", "False", ""),
        CAUSAL * PER_PAIR, None, "float8_e4m3fn", MATRIX,
    ),
    # eight heads of queries for two of keys and values, whose elements are 4: of 3 queries and 5 keys all pairs
    case(
        2 * 8 * 15 * (16 + 4), 2 * (8 * 3 * 16 + 2 * 5 * 16 + 2 * 5 * 4 + 8 * 3 * 4),
        "aten::_scaled_dot_product_flash_attention", "half[1, 8, 3, 16]", "half[1, 2, 5, 16]", "half[1, 2, 5, 4]",
        "0.", "False", "False", "",
    ),
    # causal with 3 queries and 5 keys: 1 + 2 + 3 from the first on, 3 + 4 + 5 to the last; the less, of three keys
    case(
        2 * 8 * 6 * (16 + 16), 2 * 16 * (8 * 3 + 2 * 3 + 2 * 3 + 8 * 3),
        "aten::_scaled_dot_product_flash_attention", "half[1, 8, 3, 16]", "half[1, 2, 5, 16]", "half[1, 2, 5, 16]",
        "0.", "True", "False", "", is_least=True,
    ),
    case(CAUSAL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_flash_attention_for_cpu", *HEADS, "0.", "True", "", ""),
    case(
        ALL * PER_PAIR, 4 * ONE + 2 * 6 * 6, "aten::_scaled_dot_product_flash_attention_for_cpu", *HEADS, "0.", "False",
        "half[6, 6]", "",
    ),
    # of causal masks it knows that from the first pair on
    case(
        2 * 8 * 6 * (16 + 16), 2 * 16 * (8 * 3 + 2 * 3 + 2 * 3 + 8 * 3),
        "aten::_scaled_dot_product_efficient_attention", "half[1, 8, 3, 16]", "half[1, 2, 5, 16]", "half[1, 2, 5, 16]",
        "", "True", "0.", "True", "",
    ),
    # a bias that is the same for all batches and heads takes the memory of one
    case(
        ALL * PER_PAIR, 4 * ONE + 2 * 6 * 6, "aten::_scaled_dot_product_efficient_attention", *HEADS,
        "half[2, 4, 6, 6]@0,0,6,1", "True", "0.", "False", "",
    ),
    case(
        CAUSAL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_cudnn_attention", *HEADS, "", "True", "0.", "True",
        "False", "",
    ),
    case(CAUSAL * PER_PAIR, 4 * ONE, "aten::_scaled_dot_product_cudnn_attention", *HEADS, "0.", "True", "False", ""),
    case(
        CAUSAL * PER_PAIR, 4 * ONE, "aten::_flash_attention_forward", *TOKENS, "", "", "6", "6", "0.", "True", "False",
        "", "", "", "", "", "", "",
    ),
    # no more than one key before itself
    case(
        NEAR * PER_PAIR, 4 * ONE, "aten::_flash_attention_forward", *TOKENS, "", "", "6", "6", "0.", "True", "False",
        "", "1", "0", "", "", "", "",
    ),
    case(
        CAUSAL * PER_PAIR, 4 * ONE, "aten::_flash_attention_forward", *TOKENS, "", "", "6", "6", "0.", "True", "False",
        "float[]", "float[]", "float[]", "", "", "", "", "",
    ),
    case(
        CAUSAL * RAGGED_PER_PAIR, 4 * OF_RAGGED, "aten::_flash_attention_forward", *RAGGED, *BOUNDS, *LONGEST, "0.",
        "True", "False", "", "", "", "", "", "", "",
    ),
    # as in the trace of segment-anything: without the longest of the keys
    case(
        ALL * PER_PAIR, 4 * ONE + 2 * 2 * 4 * 36, "aten::_efficient_attention_forward", *TOKENS, "half[2, 4, 6, 6]", "",
        "", "", "0.", "0", "False", "", "", "",
    ),
    case(
        CAUSAL * PER_PAIR, 4 * ONE, "aten::_efficient_attention_forward", *TOKENS, "", "", "", "", "", "0.", "1",
        "True", "", "", "",
    ),
    # 2, causal to the last pair: 5 queries and 3 keys make 0 + 0 + 1 + 2 + 3; two queries are not read
    case(
        2 * 6 * (16 + 16), 2 * 16 * (3 + 3 + 3 + 5), "aten::_efficient_attention_forward", "half[1, 5, 1, 16]",
        "half[1, 3, 1, 16]", "half[1, 3, 1, 16]", "", "", "", "", "", "0.", "2", "True", "", "", "",
    ),
    case(
        CAUSAL * RAGGED_PER_PAIR, 4 * OF_RAGGED, "aten::_efficient_attention_forward", *["half[1, 18, 4, 8]"] * 3, "",
        *BOUNDS, *LONGEST, "0.", "1", "True", "", "", "",
    ),
    case(
        CAUSAL * PER_PAIR, 4 * ONE, "aten::_cudnn_attention_forward", *HEADS, "", "", "", "6", "6", "True", "0.",
        "True", "False", "",
    ),
    case(
        ALL * RAGGED_PER_PAIR, 4 * OF_RAGGED, "aten::_cudnn_attention_forward", *RAGGED, "", *BOUNDS, *LONGEST, "True",
        "0.", "False", "False", "",
    ),
    case(
        NEAR * PER_PAIR, 4 * ONE, "flash_attn::_flash_attn_forward", *TOKENS, "0.", "0.3", "True", "1", "-1", "0.", "",
        "False",
    ),
    # causal ends with the last pair: a query alone meets all of 9 keys, of a window of 3 before it four
    case(
        2 * 4 * 9 * 16, 2 * 4 * 8 * (1 + 9 + 9 + 1), "flash_attn::_flash_attn_forward", "half[1, 1, 4, 8]",
        "half[1, 9, 4, 8]", "half[1, 9, 4, 8]", "0.", "0.3", "True", "-1", "-1", "0.", "", "False",
    ),
    case(
        2 * 4 * 4 * 16, 2 * 4 * 8 * (1 + 4 + 4 + 1), "flash_attn::_flash_attn_forward", "half[1, 1, 4, 8]",
        "half[1, 9, 4, 8]", "half[1, 9, 4, 8]", "0.", "0.3", "True", "3", "-1", "0.", "", "False",
    ),
    case(
        CAUSAL * RAGGED_PER_PAIR, 4 * OF_RAGGED, "flash_attn::_flash_attn_varlen_forward", *RAGGED, *BOUNDS, *LONGEST,
        "0.", "0.3", "True", "-1", "-1", "0.", "", "False", "", "", "", "False",
    ),
    *(
        case(
            NEAR * RAGGED_PER_PAIR, 4 * OF_RAGGED, f"flash_attn_3::{name}", *RAGGED, "", "", "", "", *BOUNDS, "", "",
            "", *LONGEST, *[""] * 9, "0.1", "True", "1", "0", "0", "0.", "True", "", "1", "", "0",
        )
        for name in ("fwd", "_flash_attn_forward")
    ),
    case(
        CAUSAL * BACK_PER_PAIR, BACK, "aten::_scaled_dot_product_flash_attention_backward", *HEADS, HEADS[0], *OUTER,
        "", "", "6", "6", "0.", "True", *SEED, "",
    ),
    case(
        ALL * BACK_PER_PAIR, BACK, "aten::_scaled_dot_product_flash_attention_for_cpu_backward", *HEADS, HEADS[0],
        *OUTER, "0.", "False", "", "",
    ),
    case(
        CAUSAL * BACK_PER_PAIR, BACK, "aten::_scaled_dot_product_efficient_attention_backward", *HEADS, HEADS[0], "",
        *OUTER, *SEED, "0.", "[True, True, True, False]", "True", "",
    ),
    *(
        case(
            CAUSAL * BACK_PER_PAIR, BACK, name, *HEADS, HEADS[0], *OUTER, *SEED, "", "", "", "6", "6", "0.", "True", "",
        )
        for name in ("aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward")
    ),
    # keys of 16 elements and values of 4: three products with the former, two with the latter
    case(
        2 * 8 * 15 * (3 * 16 + 2 * 4),
        2 * (2 * 8 * 3 * 4 + 2 * 8 * 3 * 16 + 2 * 2 * 5 * 16 + 2 * 2 * 5 * 4) + 4 * 8 * 3,
        "aten::_scaled_dot_product_cudnn_attention_backward", "half[1, 8, 3, 4]", "half[1, 8, 3, 16]",
        "half[1, 2, 5, 16]", "half[1, 2, 5, 4]", "half[1, 8, 3, 4]", "float[1, 8, 3]", *SEED, "", "", "", "3", "5",
        "0.", "False", "",
    ),
    case(
        CAUSAL * BACK_PER_PAIR, BACK, "aten::_flash_attention_backward", *TOKENS, TOKENS[0], *OUTER_TOKENS, "", "", "6",
        "6", "0.", "True", *SEED, "", "", "",
    ),
    case(
        ALL * BACK_PER_PAIR, BACK + 2 * 2 * 4 * 36, "aten::_efficient_attention_backward", *TOKENS, TOKENS[0],
        "half[2, 4, 6, 6]", TOKENS[0], "", "", "6", "6", LOGARITHMS, "0.", *SEED, "0", "False", "", "", "", "False",
    ),
    case(
        NEAR * BACK_PER_PAIR, BACK, "flash_attn::_flash_attn_backward", *TOKENS, TOKENS[0], *OUTER_TOKENS, "", "", "",
        "0.", "0.3", "True", "1", "0", "0.", "", "False", "",
    ),
    case(
        CAUSAL * RAGGED_BACK, OF_RAGGED_BACK, "flash_attn::_flash_attn_varlen_backward", *RAGGED, RAGGED[0], RAGGED[0],
        RAGGED_LOGARITHMS, *RAGGED, *BOUNDS, *LONGEST, "0.", "0.3", "True", "-1", "-1", "0.", "", "False", "", "False",
    ),
    case(
        NEAR * RAGGED_BACK, OF_RAGGED_BACK, "flash_attn_3::bwd", *RAGGED, RAGGED[0], RAGGED[0], RAGGED_LOGARITHMS, "",
        "", "", *BOUNDS, "", "", *LONGEST, "0.1", "True", "1", "0", "0.", "False", "0",
    ),
    case(
        CAUSAL * RAGGED_BACK, OF_RAGGED_BACK, "flash_attn_3::_flash_attn_backward", *RAGGED, RAGGED[0], RAGGED[0],
        RAGGED_LOGARITHMS, *BOUNDS, "", "", *LONGEST, "0.1", "True", "-1", "-1", "0.", "False", "0",
    ),
]  # fmt: skip


def demanded(call: OperatorCall) -> Demand:
    found = demand_of(call)
    assert found is not None
    return found


def test_attention_tells_how_many_of_what_there_is() -> None:
    found = demanded(recorded("aten::_scaled_dot_product_flash_attention", *HEADS, "0.", "True", "False", ""))
    assert dict(found.sizes) == {"batch": 2, "heads": 4, "queries": 6, "keys": 6, "K": 8}


BETWEEN = (*[""] * 4, "int[128]", "int[128]", *[""] * 3, "2048", "2048", *[""] * 9, "0.1", "True", "128", "0", "0")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "call",
    [
        # as in the trace of nanogpt: up to 127 sequences, no longer than 2048, 16384 tokens in all
        recorded("flash_attn_3::fwd", *["half[16384, 6, 128]"] * 3, *BETWEEN, "0.", "True", "", "1", "", "0"),
        # a version with other inputs
        recorded("flash_attn_3::fwd", *TOKENS, *[""] * 20, "True"),
        # a table of pages
        recorded("flash_attn::_flash_attn_varlen_forward", *RAGGED, *BOUNDS, *LONGEST, "0.", "0.3", "True", "-1", "-1",
                 "0.", "", "False", "int[3, 2]", "", "", "False"),
        # the longest was not recorded
        recorded("flash_attn::_flash_attn_varlen_forward", *RAGGED, *BOUNDS, "", ""),
        # three heads of keys for four of queries
        recorded("aten::_scaled_dot_product_flash_attention", HEADS[0], *["half[2, 3, 6, 8]"] * 2, "0.", "True"),
        recorded("aten::_scaled_dot_product_flash_attention", "half[2, 4, 6]", *HEADS[1:], "0.", "True"),
        recorded("aten::_scaled_dot_product_flash_attention", *HEADS[:2], "half[2, 4, 5, 8]", "0.", "True"),
        # which of its numbers is the mask's kind is not told
        recorded("aten::_efficient_attention_forward", *TOKENS, *[""] * 11),
    ],
    ids=lambda call: call.name,
)  # fmt: skip
def test_attention_whose_pairs_are_not_recorded_tells_nothing(call: OperatorCall) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(call)


REACH = st.none() | st.integers(0, 9)


@for_all(st.builds(BandMask, REACH, REACH, st.booleans()), st.integers(0, 9), st.integers(0, 9), examples=8000)
def test_a_band_holds_the_pairs_that_are_near_its_diagonal(band: BandMask, queries: int, keys: int) -> None:
    shift = keys - queries if band.lower_right else 0
    pairs = [
        (query, key)
        for query in range(queries)
        for key in range(keys)
        if band.before is None or key >= query + shift - band.before
        if band.after is None or key <= query + shift + band.after
    ]
    assert band.pairs(queries, keys) == len(pairs)
    assert band.attended_keys(queries, keys) == len({key for _, key in pairs})
    assert band.attending_queries(queries, keys) == len({query for query, _ in pairs})
