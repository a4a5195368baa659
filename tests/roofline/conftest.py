"""What compares with PyTorch is collected only where PyTorch is."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["flops", "flop_counter.py"]
