"""Matrix products, each counted by hand."""

from __future__ import annotations

from hta_graph.operators.demand import Unit
from tests.operators.recorded import Case, recorded

BF16 = "c10::BFloat16"
MATRIX = Unit.MATRIX

CASES = [
    # 8192 × 7168 times 7168 × 8, two bytes each
    Case(
        recorded("aten::mm", f"{BF16}[8192, 7168]", f"{BF16}[7168, 8]"),
        2 * 8192 * 8 * 7168, 2 * (8192 * 7168 + 7168 * 8 + 8192 * 8), "bfloat16", MATRIX,
    ),
    Case(
        recorded("aten::bmm", "float[16, 100, 80]", "float[16, 80, 60]"),
        16 * 2 * 100 * 60 * 80, 4 * 16 * (100 * 80 + 80 * 60 + 100 * 60), "float", MATRIX,
    ),
    Case(
        recorded("aten::addmm", "float[7]", "float[5, 3]", "float[3, 7]", "1", "1"),
        2 * 5 * 7 * 3, 4 * (7 + 5 * 3 + 3 * 7 + 5 * 7), "float", MATRIX,
    ),
    Case(
        recorded("aten::baddbmm", "float[2, 5, 7]", "float[2, 5, 3]", "float[2, 3, 7]", "1", "1"),
        2 * 2 * 5 * 7 * 3, 4 * 2 * (5 * 7 + 5 * 3 + 3 * 7 + 5 * 7), "float", MATRIX,
    ),
]  # fmt: skip
