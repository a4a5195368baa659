"""The one table of cost models: which operators' work is known, and how it is counted."""

from __future__ import annotations

import re

from hta_graph.roofline.cost_models.attention import ATTENTION
from hta_graph.roofline.cost_models.convolution import CONVOLUTIONS, CONVOLUTIONS_BACKWARD, POOLING
from hta_graph.roofline.cost_models.fill_copy_concat import CONCAT, FILLS_AND_COPIES
from hta_graph.roofline.cost_models.gather_scatter import GATHER_SCATTER
from hta_graph.roofline.cost_models.interpolation import INTERPOLATION
from hta_graph.roofline.cost_models.matmul import MATMUL
from hta_graph.roofline.cost_models.normalization import BATCH_NORMS, NORMALIZATIONS
from hta_graph.roofline.cost_models.optimizers import OPTIMIZERS
from hta_graph.roofline.cost_models.pointwise import LOSSES, POINTWISE
from hta_graph.roofline.cost_models.reductions import ORDERING, REDUCTIONS
from hta_graph.roofline.cost_models.served_attention import SERVED_ATTENTION
from hta_graph.roofline.cost_models.triton import TRITON
from hta_graph.roofline.demand import CostModel, Demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall

MODELS: tuple[CostModel, ...] = (
    *MATMUL,
    *CONVOLUTIONS,
    *CONVOLUTIONS_BACKWARD,
    *ATTENTION,
    *SERVED_ATTENTION,
    *POINTWISE,
    *REDUCTIONS,
    *ORDERING,
    *FILLS_AND_COPIES,
    *OPTIMIZERS,
    *NORMALIZATIONS,
    *BATCH_NORMS,
    *LOSSES,
    *POOLING,
    *INTERPOLATION,
    *CONCAT,
    *GATHER_SCATTER,
    *TRITON,
)

MAX_WORK = 1 << 62
"""More is no work that a GPU can do, and no integer of 64 bits."""
LOOSE = re.compile(r"index|gather|scatter|embedding|take|masked_select|max_pool\w*_backward|sort|topk|unique|kthvalue")
BY_NAME = {name: model for model in MODELS for name in model.operators}


def model_of(name: str) -> CostModel | None:
    """Return the model of an operator; one that works in place does the same work as the one that does not.

    >>> model_of("aten::mm").flops
    '2·B·M·N·K'
    """
    if name.startswith("triton_"):
        return BY_NAME["triton_*"]
    return BY_NAME.get(name) or BY_NAME.get(name.removesuffix("_"))


def is_loose_bound(name: str) -> bool:
    """Return whether an operator's true traffic may be far more than its least.

    Rows that an index names may repeat, and who puts in order goes over all again and again.

    >>> is_loose_bound("aten::index_select"), is_loose_bound("aten::sort"), is_loose_bound("aten::mm")
    (True, True, False)
    """
    return LOOSE.search(name) is not None


def demand_of(call: OperatorCall) -> Demand | None:
    """Return what a call demands; ``None`` of an operator without a model.

    Raises:
        NotRecordedError: the recording does not say what its model needs.
    """
    model = model_of(call.name)
    found = model.demand(call) if model else None
    if found is not None and max(found.flops, found.bytes or 0) > MAX_WORK:
        raise NotRecordedError("plausible sizes")
    return found
