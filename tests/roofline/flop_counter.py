"""What operators demand beside what PyTorch's own counter counts for the same calls.

``python -m tests.roofline.flop_counter`` prints a table; it needs PyTorch and no GPU. It fails where the two differ
by anything but what is explained.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import OperatorCall, operator_call
from tests.roofline.flops.attention import attention
from tests.roofline.flops.comparison import Comparison, Run
from tests.roofline.flops.convolution import backward, forward
from tests.roofline.flops.matmul import products

__all__ = ["main"]


@dataclass(frozen=True)
class Row:
    """A line of the table: what PyTorch counts, what is counted here, and what should be."""

    call: OperatorCall
    theirs: int
    ours: int
    expected: int
    why: str

    @property
    def is_as_expected(self) -> bool:
        return self.ours == self.expected

    def line(self) -> str:
        shapes = " ".join("×".join(map(str, one.shape)) or "1" for one in self.call.tensors[:3])
        verdict = "DIFFERS" if not self.is_as_expected else "equal" if self.ours == self.theirs else "explained"
        return f"{self.call.name:62} {shapes:44} {self.theirs:>14} {self.ours:>14}  {verdict:9} {self.why}".rstrip()


def recorded_call(name: str, run: Run) -> OperatorCall:
    """Return the first call of an operator that the profiler recorded while something ran."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recording:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recording.export_chrome_trace(str(path))
        rows: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    args = next(row["args"] for row in rows if row.get("name") == name and row.get("cat") == "cpu_op")
    columns = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
    return operator_call(name, *(args[column] for column in columns))


def compared(case: Comparison) -> Row:
    """Count a case both ways."""
    call = case.call if isinstance(case.call, OperatorCall) else recorded_call(case.operator, case.call)
    found = demand_of(call)
    assert found is not None, case.operator
    theirs = case.theirs()
    expected = case.share * theirs if case.ours is None else case.ours
    assert expected == int(expected), case.operator
    return Row(call, theirs, found.flops, int(expected), case.why)


def rows() -> Iterator[Row]:
    """Count all cases both ways."""
    for case in (*products(), *forward(), *backward(), *attention()):
        yield compared(case)


def main() -> int:
    """Print the table; return how many lines differ for no reason that is given."""
    table = list(rows())
    equal = sum(row.ours == row.theirs for row in table)
    wrong = sum(not row.is_as_expected for row in table)
    named = {row.call.name.removesuffix("_") for row in table}
    counts = f"{equal} equal, {len(table) - equal - wrong} explained, {wrong} differ"
    said = [*(row.line() for row in table), f"{len(table)} calls of {len(named)} operators: {counts}"]
    sys.stdout.write("\n".join(said) + "\n")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
