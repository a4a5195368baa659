"""What operators demand against PyTorch's own counter, which counts while it runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hta_graph.roofline.cost_models.attention import ATTENTION
from hta_graph.roofline.cost_models.convolution import CONVOLUTIONS, CONVOLUTIONS_BACKWARD
from hta_graph.roofline.cost_models.matmul import MATMUL

# Looked for without importing it: what counts is another process.
pytest.importorskip("torch", reason="PyTorch is absent; pip install torch runs them")

NO_COUNTERPART = {
    "aten::_scaled_mm_v2", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2",
}  # fmt: skip
"""Operators that only a GPU runs, and that work as another of the table does but for their scales."""


def table() -> list[str]:
    """Return the lines of the comparison, once it ends well."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.roofline.flop_counter"], cwd=Path(__file__).parents[3], capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if re.match(r"\w+::|\d+ calls of", line)]


def test_pytorch_counts_the_same_or_what_it_counts_otherwise_is_explained() -> None:
    *lines, last = table()
    assert last.endswith(", 0 differ")
    assert len(lines) > 150
    assert sum(" equal" in line for line in lines) > 115
    counted = {line.split()[0].removesuffix("_") for line in lines}
    models = (*MATMUL, *CONVOLUTIONS, *CONVOLUTIONS_BACKWARD, *ATTENTION)
    named = {name for model in models for name in model.operators}
    assert named - counted == NO_COUNTERPART
