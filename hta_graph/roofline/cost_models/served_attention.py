"""Attention of inference engines, whose keys and values lie in a cache of pages: vLLM's wrappers, aiter's prefill.

The shapes of such a call say how many tokens are new, not how long their sequences are. vLLM's detailed annotation does
(``detailed_trace_annotation``): per phase it adds up the queries, the keys, and their products. Otherwise lengths are
known where all sequences must be as long as the longest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hta_graph.roofline.cost_models.attention import FORWARD_FLOPS, BandMask
from hta_graph.roofline.demand import CostModel, Demand, Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor

PHASE = re.compile(r"_(?:context|generation)_\d+\(sq(\d{1,15})sk(\d{1,15})sqsq(\d{1,18})sqsk(\d{1,18})\)")
"""Of the prefill or the decode part of a batch, summed over its sequences: queries, keys, queries², queries·keys."""
CACHE_OF_ONE_BYTE = re.compile(r"fp8|e4m3|e5m2", re.IGNORECASE)
"""What kernels call a cache of eight-bit numbers."""
LENGTHS = "the lengths of the sequences"


@dataclass(frozen=True)
class Batch:
    """The new tokens of all sequences, all their keys, and the pairs of a query and a key that it attends to."""

    queries: int
    keys: int
    pairs: int

    @classmethod
    def of_annotation(cls, text: str) -> Batch:
        """Read the batch of an annotation; each new token attends to all keys up to itself.

        >>> Batch.of_annotation("execute_5_context_1(sq4sk6sqsq16sqsk24)_generation_1(sq1sk9sqsq1sqsk9)")
        Batch(queries=5, keys=15, pairs=27)

        Raises:
            NotRecordedError: it has no such sums, or they contradict each other.
        """
        sums = [[int(number) for number in found] for found in PHASE.findall(text)]
        if not sums or any(keys < queries or together < own for queries, keys, own, together in sums):
            raise NotRecordedError(LENGTHS)
        pairs = sum(together - (own - queries) // 2 for queries, _, own, together in sums)
        return cls(sum(one[0] for one in sums), sum(one[1] for one in sums), pairs)


def _annotated(call: OperatorCall) -> Demand:
    """Count the work of a wrapper by the sums in the annotation around it."""
    batch = Batch.of_annotation(call.annotation)
    query, key, value = (call.tensor(at) for at in range(3))
    if len({len(tensor.shape) for tensor in (query, key, value)}) > 1 or len(query.shape) not in {2, 3}:
        raise NotRecordedError("shapes that fit each other")
    # Batches of a captured graph are padded to its size, never cut.
    if not query.shape[0] or query.shape[0] < batch.queries:
        raise NotRecordedError(LENGTHS)
    return _demand(call, batch, query, key, value)


def _batch_prefill(call: OperatorCall) -> Demand:
    """Count aiter's prefill, where all sequences are as long as the longest and nothing was cached before.

    Each has at least as many keys as queries, and at most as many as the longest: one number where these agree.
    """
    query, key, value = (call.tensor(at) for at in range(3))
    count, longest, keys = call.tensor(3).elements - 1, call.integer(6), call.integer(7)
    causal, before, after = call.boolean(12), call.integer(13), call.integer(14)
    fits = len(query.shape) == 3 and count > 0 and query.shape[0] == count * longest and keys == longest
    if not fits or causal is None:
        raise NotRecordedError(LENGTHS)
    band = BandMask(before if before >= 0 else None, 0 if causal else after if after >= 0 else None, lower_right=True)
    batch = Batch(query.shape[0], count * band.attended_keys(longest, keys), count * band.pairs(longest, keys))
    return _demand(call, batch, query, key, value)


def _demand(call: OperatorCall, batch: Batch, query: Tensor, key: Tensor, value: Tensor) -> Demand:
    """Return the work of a batch; of tensors with a side for heads each query head has one of keys and of values."""
    of_query = query.elements // query.shape[0]
    is_split = len(query.shape) == 3
    of_output = query.shape[1] * value.shape[2] if is_split else of_query
    of_cache = sum(tensor.shape[1] * tensor.shape[2] if is_split else tensor.shape[1] for tensor in (key, value))
    cached = 1 if CACHE_OF_ONE_BYTE.search(call.kernel) else key.width
    return Demand(
        flops=2 * batch.pairs * (of_query + of_output),
        bytes=batch.queries * (of_query + of_output) * query.width + batch.keys * of_cache * cached,
        dtype=query.dtype,
        unit=Unit.MATRIX,
        sizes={"queries": batch.queries, "keys": batch.keys},
    )


BYTES = "new queries + output + keys and values of all sequences (one byte each where the kernel names an 8-bit cache)"

SERVED_ATTENTION = (
    CostModel(
        ("vllm::unified_attention", "vllm::unified_attention_with_output", "sglang::unified_attention_with_output"),
        f"{FORWARD_FLOPS}, summed over sequences as the engine's detailed annotation says; no window",
        BYTES,
        _annotated,
    ),
    CostModel(
        ("aiter::mha_batch_prefill",), f"{FORWARD_FLOPS}; all sequences as long as the longest", BYTES, _batch_prefill
    ),
)
