"""The manual's blocks that need PyTorch, run with it: what another run of the manual leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.manual_pages import ROOT, blocks, pages

# Looked for without importing it: what trains is another process.
pytest.importorskip("torch", reason="PyTorch is absent; pip install torch runs them")

PROGRAM = """
import torch

rank, world_size = 0, 1
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = loader = [torch.randn(8, 16) for _ in range(20)]
batch = loader[0]

def train(batch=batch, *_):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

train_step = step = train
"""
"""A small training with the names that pages use for a reader's own."""


def with_pytorch(page: Path) -> list[str]:
    """Return the texts of a page's blocks that are left out elsewhere since they need PyTorch."""
    return [block.text for block in blocks(page) if block.language == "python" and "PyTorch" in block.not_run]


def test_some_pages_have_such_blocks() -> None:
    assert any(map(with_pytorch, pages()))


@pytest.mark.parametrize(
    "page", [page for page in pages() if with_pytorch(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_blocks_of_a_page_run_with_pytorch(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([PROGRAM, *with_pytorch(page)])], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{page.name}:\n{done.stderr}"
