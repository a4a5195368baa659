"""The FLOPs of models beside those of PyTorch's own counter: ``python -m tests.operators.flop_counter``, with PyTorch.

Every call runs under ``torch.profiler`` with ``record_shapes``, so that what is parsed is what the profiler writes, and
under ``torch.utils.flop_counter``. Operators of GPUs run on meta tensors, which have shapes and no numbers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.operators.models.all_models import demand_of
from hta_graph.operators.operator_call import NotToldError, operator_call

if TYPE_CHECKING:
    import torch

__all__ = ["Compared", "compared"]

CAUSAL = "PyTorch's counter takes no notice of the mask: S·S pairs instead of S·(S + 1)/2"
TURNED = "PyTorch's counter takes the second dimension for heads; of this operator it is the length"


@dataclass(frozen=True)
class Compared:
    """A call: operator, shapes as recorded, what PyTorch counts and what the model does, why they differ if they do."""

    operator: str
    inputs: str
    theirs: int
    ours: int | str
    why: str

    @property
    def agrees(self) -> bool:
        """Whether the counts are equal, or differ by exactly what is known."""
        return self.ours == self.theirs or bool(self.why)


@dataclass(frozen=True)
class Asked:
    """A call to compare; ``factor`` is what PyTorch's count is multiplied with before it must be equal."""

    operator: str
    run: Callable[[], Any]
    pairs: tuple[int, int] = (1, 1)
    why: str = ""


def compared() -> list[Compared]:
    """Compare all calls."""
    return [_compared(asked) for asked in asked_calls()]


def _compared(asked: Asked) -> Compared:
    """Run a call under both."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        asked.run()
    theirs, rows = counter.get_total_flops(), list(_recorded(asked))
    shapes = "; ".join(str(row["Input Dims"]) for row in rows)
    ours = _counted(asked.operator, rows)
    fewer, all_pairs = asked.pairs
    exact = isinstance(ours, int) and ours * all_pairs == theirs * fewer
    return Compared(asked.operator, shapes, theirs, ours, asked.why if exact and ours != theirs else "")


def _recorded(asked: Asked) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the operator's rows as the profiler writes them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recording:
        asked.run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recording.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    yield from (row["args"] for row in events if row.get("cat") == "cpu_op" and row["name"] == asked.operator)


def _counted(operator: str, rows: list[dict[str, Any]]) -> int | str:
    """Add up what the model counts for the rows of an operator."""
    total = 0
    for row in rows:
        keys = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
        try:
            demand = demand_of(operator_call(operator, *(row.get(key) for key in keys)))
        except NotToldError as error:
            return f"not told: {error}"
        if demand is None:
            return "no model"
        total += demand.flops
    return total if rows else "not recorded"


# -- the calls ---------------------------------------------------------------------------------------------------------


def asked_calls() -> list[Asked]:
    """List the calls."""
    import torch

    return [*_products(torch), *_convolutions(torch), *_gradients(torch), *_attention(torch)]


def _products(torch: Any) -> Iterator[Asked]:
    def ones(*shape: int, dtype: Any = torch.float32, device: str = "cpu") -> torch.Tensor:
        return torch.ones(*shape, dtype=dtype, device=device)  # type: ignore[no-any-return]

    for rows, inner, columns in (
        (1, 1, 1),
        (8, 3, 5),
        (64, 1024, 7),
        (1, 512, 512),
        (333, 17, 129),
        (0, 4, 6),
        (5, 0, 6),
    ):
        yield Asked("aten::mm", lambda m=rows, k=inner, n=columns: ones(m, k) @ ones(k, n))
    yield Asked("aten::mm", lambda: ones(64, 32, dtype=torch.bfloat16) @ ones(32, 16, dtype=torch.bfloat16))
    yield Asked("aten::mm", lambda: ones(16, 64).t() @ ones(16, 8))
    for batch, rows, inner, columns in ((1, 2, 3, 4), (16, 100, 80, 60), (4, 1, 64, 128), (96, 33, 7, 5)):
        yield Asked("aten::bmm", lambda b=batch, m=rows, k=inner, n=columns: torch.bmm(ones(b, m, k), ones(b, k, n)))
    yield Asked("aten::bmm", lambda: ones(2, 3, 8, 4) @ ones(2, 3, 4, 5))
    yield Asked("aten::bmm", lambda: torch.einsum("bik,bkj->bij", ones(3, 8, 4), ones(3, 4, 5)))
    for rows, inner, columns in ((5, 3, 7), (128, 256, 512), (1, 768, 3072)):
        yield Asked("aten::addmm", lambda m=rows, k=inner, n=columns: torch.addmm(ones(n), ones(m, k), ones(k, n)))
    yield Asked("aten::addmm", lambda: torch.nn.functional.linear(ones(6, 4), ones(3, 4), ones(3)))
    yield Asked("aten::addmm", lambda: torch.nn.functional.linear(ones(6, 4), ones(3, 4), ones(3)))
    for batch, rows, inner, columns in ((2, 5, 3, 7), (8, 16, 32, 64)):
        yield Asked(
            "aten::baddbmm",
            lambda b=batch, m=rows, k=inner, n=columns: torch.baddbmm(ones(b, m, n), ones(b, m, k), ones(b, k, n)),
        )
    yield Asked("aten::baddbmm", lambda: torch.baddbmm(ones(1), ones(4, 2, 3), ones(4, 3, 2), beta=0.5, alpha=2))
    narrow = torch.float8_e4m3fn

    def scaled(rows: int, inner: int, columns: int, out_dtype: Any = torch.bfloat16) -> Any:
        left = torch.empty(rows, inner, dtype=narrow, device="meta")
        right = torch.empty(columns, inner, dtype=narrow, device="meta").t()
        one = torch.ones((), device="meta")
        return torch.ops.aten._scaled_mm(left, right, one, one, out_dtype=out_dtype)

    for rows, inner, columns in ((16, 32, 64), (256, 768, 3072), (16384, 768, 50304)):
        yield Asked("aten::_scaled_mm", lambda m=rows, k=inner, n=columns: scaled(m, k, n))


CONVOLVED: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 32, 32), (8, 3, 3, 3), {}),
    ((2, 3, 32, 32), (8, 3, 3, 3), {"padding": 1}),
    ((2, 3, 33, 31), (8, 3, 7, 5), {"padding": (3, 2), "stride": 2}),
    ((1, 16, 20, 20), (32, 4, 3, 3), {"groups": 4, "padding": 1}),
    ((1, 16, 20, 20), (16, 1, 5, 5), {"groups": 16, "padding": 2}),
    ((4, 8, 20, 20), (8, 8, 3, 3), {"dilation": 2}),
    ((4, 8, 14, 14), (64, 8, 1, 1), {"stride": (2, 1)}),
    ((2, 4, 100), (6, 4, 5), {"padding": 2}),
    ((2, 4, 100), (6, 2, 9), {"groups": 2, "stride": 3}),
    ((1, 3, 8, 16, 16), (4, 3, 3, 3, 3), {"padding": 1}),
)
TRANSPOSED: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 8, 16, 16), (8, 4, 2, 2), {"stride": 2}),
    ((2, 8, 16, 16), (8, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 8, 9, 9), (8, 2, 3, 3), {"groups": 4}),
    ((1, 6, 50), (6, 3, 4), {"stride": 2, "padding": 1}),
)


def _convolutions(torch: Any) -> Iterator[Asked]:
    functions = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d, 5: torch.nn.functional.conv3d}
    back = {3: torch.nn.functional.conv_transpose1d, 4: torch.nn.functional.conv_transpose2d}
    for given, weight, told in CONVOLVED:
        run = functions[len(given)]
        yield Asked("aten::convolution", lambda r=run, g=given, w=weight, t=told: r(torch.ones(g), torch.ones(w), **t))
    for given, weight, told in TRANSPOSED:
        run = back[len(given)]
        yield Asked("aten::convolution", lambda r=run, g=given, w=weight, t=told: r(torch.ones(g), torch.ones(w), **t))


MASKS = ((True, True, True), (True, True, False), (True, False, False), (False, True, False))


GROUPED = "PyTorch's counter takes no notice of groups in the gradient of the weight"


def _gradients(torch: Any) -> Iterator[Asked]:
    """Yield backward passes of convolutions with each mask."""
    for mask in MASKS:
        yield _backward(torch, mask, (2, 3, 32, 32), (8, 3, 3, 3))
        yield _backward(torch, mask, (1, 16, 20, 20), (32, 4, 3, 3), groups=4, stride=2)
        yield _backward(torch, mask, (2, 8, 16, 16), (8, 4, 2, 2), stride=2, transposed=True)
    yield _backward(torch, MASKS[1], (2, 4, 100), (6, 4, 5))


def _backward(
    torch: Any, mask: tuple[bool, ...], given: tuple[int, ...], weight: tuple[int, ...], *, groups: int = 1,
    stride: int = 1, transposed: bool = False,
) -> Asked:  # fmt: skip
    """Return a backward pass; the forward pass that it needs is run here, so that nobody counts it."""
    rank = len(given) - 2
    told = ([stride] * rank, [0] * rank, [1] * rank, transposed, [0] * rank, groups)
    one, other = torch.ones(given), torch.ones(weight)
    result = torch.ops.aten.convolution(one, other, None, *told)
    pairs = (mask[0] + mask[1], mask[0] + groups * mask[1])
    return Asked(
        "aten::convolution_backward",
        lambda: torch.ops.aten.convolution_backward(result, one, other, [result.shape[1]], *told, mask),
        pairs, GROUPED if pairs[0] != pairs[1] else "",
    )  # fmt: skip


def _attention(torch: Any) -> Iterator[Asked]:
    """Yield the fused operators of GPUs, forward and backward, on meta tensors."""
    operators = torch.ops.aten
    for batch, heads, queries, keys, size in ((2, 4, 128, 128, 64), (1, 16, 1024, 1024, 128), (3, 2, 64, 256, 32)):
        for causal in (False, True) if queries == keys else (False,):
            pairs, why = ((queries + 1, 2 * queries), CAUSAL) if causal else ((1, 1), "")
            shape = (batch, heads, queries, keys, size)
            for operator, run in _fused(torch, operators, shape, causal).items():
                yield Asked(operator, run, pairs, why)
            turned = (pairs[0] * queries, pairs[1] * heads)
            for operator, run in _length_first(torch, operators, shape, causal).items() if queries == keys else ():
                yield Asked(operator, run, turned, f"{TURNED}; {why}" if why else TURNED)


def _fused(
    torch: Any, operators: Any, shape: tuple[int, ...], causal: bool
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """Return each fused operator on tensors of a shape."""
    batch, heads, queries, keys, size = shape

    def tensor(length: int) -> Any:
        return torch.empty((batch, heads, length, size), dtype=torch.bfloat16, device="meta")

    query, key = tensor(queries), tensor(keys)
    sums = torch.empty(batch, heads, queries, device="meta")
    seed = torch.empty((), dtype=torch.int64, device="meta")
    return {
        "aten::_scaled_dot_product_flash_attention": lambda: operators._scaled_dot_product_flash_attention(
            query, key, key, 0.0, causal
        ),
        "aten::_scaled_dot_product_flash_attention_backward": (
            lambda: operators._scaled_dot_product_flash_attention_backward(
                query, query, key, key, query, sums, None, None, queries, keys, 0.0, causal, seed, seed
            )
        ),
        "aten::_scaled_dot_product_efficient_attention": lambda: operators._scaled_dot_product_efficient_attention(
            query, key, key, None, True, 0.0, causal
        ),
        "aten::_scaled_dot_product_efficient_attention_backward": (
            lambda: operators._scaled_dot_product_efficient_attention_backward(
                query, query, key, key, None, query, sums, seed, seed, 0.0, [True, True, True, False], causal
            )
        ),
        "aten::_scaled_dot_product_cudnn_attention": lambda: operators._scaled_dot_product_cudnn_attention(
            query, key, key, None, True, 0.0, causal
        ),
    }


def _length_first(
    torch: Any, operators: Any, shape: tuple[int, ...], causal: bool
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """Return the kernels' own operators, whose tensors are [batch, length, heads, size]."""
    batch, heads, length, _, size = shape
    given = torch.empty(batch, length, heads, size, dtype=torch.bfloat16, device="meta")
    sums = torch.empty(batch, heads, length, device="meta")
    seed = torch.empty((), dtype=torch.int64, device="meta")
    lengths = (length, length)
    return {
        "aten::_flash_attention_forward": lambda: operators._flash_attention_forward(
            given, given, given, None, None, *lengths, 0.0, causal, False
        ),
        "aten::_flash_attention_backward": lambda: operators._flash_attention_backward(
            given, given, given, given, given, sums, None, None, *lengths, 0.0, causal, seed, seed
        ),
        "aten::_efficient_attention_forward": lambda: operators._efficient_attention_forward(
            given, given, given, None, None, None, None, None, 0.0, int(causal), True
        ),
    }


def main() -> None:
    """Print the table."""
    found = compared()
    for one in found:
        verdict = "equal" if one.ours == one.theirs else one.why or "DIFFERS"
        print(f"{one.operator:55} {one.theirs:>18,} {one.ours!s:>18} {verdict:8} {one.inputs[:110]}")  # noqa: T201
    equal, open_ = (
        sum(found) for found in ((one.ours == one.theirs for one in found), (not one.agrees for one in found))
    )
    print(f"{len(found)} calls, {equal} equal, {open_} unexplained")  # noqa: T201


if __name__ == "__main__":
    main()
