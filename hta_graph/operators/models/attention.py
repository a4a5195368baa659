"""Attention in one operator, forward and backward.

Forward there are two products for each pair of a query and a key that it attends to, backward five: the scores are
computed again. Softmax, masks and dropout are not counted. Of sequences one after the other only the bounds' number
is recorded, not where they are: their lengths are known where all are as long as the longest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hta_graph.operators.demand import Demand, Unit
from hta_graph.operators.models.bands import Band
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor
from hta_graph.operators.tensor_types import known_bytes

__all__ = ["FIRST", "LAST", "MASK_KINDS", "FusedPlaces", "attention"]

FIRST, LAST = (False,), (True,)
"""Where a causal mask's diagonal begins; an operator that has had both kinds has both."""
MASK_KINDS = {"0": (), "1": FIRST, "2": LAST}
"""What the memory-efficient kernels call their masks: none, causal from the first pair, causal from the last."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class FusedPlaces:
    """At which positions an operator has its inputs; ``None`` or empty where it has none.

    ``causal`` is a switch, or a kind of :data:`MASK_KINDS` where ``by_kind``. ``bounds`` are those of the sequences of
    queries and keys, ``longest`` the longest of them. What is given at ``hidden`` changes lengths or masks in ways that
    are not recorded. Backward, ``back`` are the positions of output and logarithms.
    """

    causal: int | None
    query: int = 0
    heads_first: bool = False
    by_kind: bool = False
    corners: tuple[bool, ...] = FIRST + LAST
    bias: int | None = None
    bounds: Pair | None = None
    longest: Pair | None = None
    window: Pair | None = None
    hidden: tuple[int, ...] = ()
    back: Pair | None = None
    output: int | None = None
    arity: int | None = None


@dataclass(frozen=True)
class LaidSequences:
    """The tensors of a call, what their sides are, and how many of what there is.

    ``axis`` is the side along which tokens lie, of ``together`` sequences; ``across`` is that of the heads.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    axis: int
    across: int
    together: int
    batch: int
    queries: int
    keys: int

    @property
    def heads(self) -> int:
        """How many heads of queries there are."""
        return self.query.shape[self.across]

    def sizes(self) -> dict[str, int]:
        """Return how many of what there is by name; ``K`` is the sum over a head's elements."""
        named = {"batch": self.batch, "heads": self.heads, "queries": self.queries, "keys": self.keys}
        return named | {"K": self.query.shape[-1]}

    def part(self, tensor: Tensor, tokens: int) -> Tensor:
        """Return what remains of a tensor with so many tokens of each sequence."""
        sides = list(tensor.shape)
        sides[self.axis] = tokens * self.together
        return Tensor(tuple(sides), tensor.dtype, tensor.strides)


def attention(call: OperatorCall, places: FusedPlaces) -> Demand:
    """Return the work of attention.

    Raises:
        NotToldError: the recording does not say what each query attends to.
    """
    _refuse_hidden(call, places)
    found = _sequences(call, places)
    bands = _bands(call, places)
    counts = {band.pairs(found.queries, found.keys) for band in bands}
    inner, outer = found.query.shape[-1], found.value.shape[-1]
    products = 3 * inner + 2 * outer if places.back else inner + outer
    return Demand(
        flops=2 * found.batch * found.heads * min(counts) * products,
        bytes=_moved(call, places, found, bands),
        dtype=found.query.dtype,
        unit=Unit.MATRIX,
        is_least=len(counts) > 1,
        sizes=found.sizes(),
    )


def _refuse_hidden(call: OperatorCall, places: FusedPlaces) -> None:
    """Raise where something is given of which nothing follows for the work."""
    if places.arity not in {None, len(call.inputs)}:
        raise NotToldError("the inputs as this version of the operator has them")
    for at in places.hidden:
        if (at < len(call.inputs) and call.inputs[at] is not None) or call.text(at) not in {"", "0"}:
            raise NotToldError("the lengths of the sequences")


def _sequences(call: OperatorCall, places: FusedPlaces) -> LaidSequences:
    query, key, value = (call.tensor(places.query + step) for step in range(3))
    bounds = [call.tensor_or_none(at) for at in places.bounds or ()]
    found = _ragged(call, places, query, key, value) if any(bounds) else _dense(places, query, key, value)
    of_keys = key.shape[found.across]
    fits = query.shape[-1] == key.shape[-1] and key.shape[:-1] == value.shape[:-1]
    if not fits or not of_keys or found.heads % of_keys:
        raise NotToldError("shapes that fit each other")
    return found


def _dense(places: FusedPlaces, query: Tensor, key: Tensor, value: Tensor) -> LaidSequences:
    """Return the sequences of tensors that have a side for them."""
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4 or query.shape[0] != key.shape[0]:
        raise NotToldError("shapes that fit each other")
    axis, across = (2, 1) if places.heads_first else (1, 2)
    return LaidSequences(query, key, value, axis, across, 1, query.shape[0], query.shape[axis], key.shape[axis])


def _ragged(call: OperatorCall, places: FusedPlaces, query: Tensor, key: Tensor, value: Tensor) -> LaidSequences:
    """Return the sequences that lie one after the other, if all are as long as the longest."""
    if not places.bounds or not places.longest or not len(query.shape) == len(key.shape) == len(value.shape) > 2:
        raise NotToldError("the lengths of the sequences")
    count = call.tensor(places.bounds[0]).elements - 1
    lengths = [call.integer(at) for at in places.longest]
    axis = len(query.shape) - 3
    tokens = [tensor.shape[axis] for tensor in (query, key)]
    if count < 1 or call.tensor(places.bounds[1]).elements - 1 != count or math.prod(query.shape[:axis]) != 1:
        raise NotToldError("the lengths of the sequences")
    if tokens != [length * count for length in lengths]:
        raise NotToldError("the lengths of the sequences")
    return LaidSequences(query, key, value, axis, axis + 1, count, count, *lengths)


def _bands(call: OperatorCall, places: FusedPlaces) -> set[Band]:
    """Return the bands that the recording allows."""
    before, after = _window(call, places)
    corners = places.corners
    asked: tuple[bool, ...] = (True, False)
    if places.causal is not None and places.by_kind and call.text(places.causal) in MASK_KINDS:
        corners = MASK_KINDS[call.text(places.causal)] or corners
        asked = (call.text(places.causal) != "0",)
    elif places.causal is not None and not places.by_kind and (told := call.switch(places.causal)) is not None:
        asked = (told,)
    return {Band(before, 0 if causal else after, last) for causal in asked for last in corners}


def _window(call: OperatorCall, places: FusedPlaces) -> tuple[int | None, int | None]:
    """Return how far before and after itself a query attends; a negative number is no bound."""
    if not places.window or places.window[0] >= len(call.inputs):
        return None, None
    if not call.values:
        raise NotToldError("the window of the attention")
    before, after = (call.integer(at) if call.text(at) else -1 for at in places.window)
    return before if before >= 0 else None, after if after >= 0 else None


def _moved(call: OperatorCall, places: FusedPlaces, found: LaidSequences, bands: set[Band]) -> int | None:
    """Return the memory of what is read and written; of what no pair needs, nothing is read."""
    queries = min(band.queries_met(found.queries, found.keys) for band in bands)
    keys = min(band.keys_met(found.queries, found.keys) for band in bands)
    whole = all(band.pairs(found.queries, found.keys) == found.queries * found.keys for band in bands)
    bias = call.tensor_or_none(places.bias) if places.bias is not None and whole else None
    read = [found.part(found.query, queries), found.part(found.key, keys), found.part(found.value, keys), bias]
    result = Tensor((*found.query.shape[:-1], found.value.shape[-1]), _result_type(call, places, found.query))
    if not places.back:
        return known_bytes(*read, result)
    logarithms = call.tensor_or_none(places.back[1]) if queries == found.queries else None
    gradients = [replace(tensor, strides=None) for tensor in (found.query, found.key, found.value)]
    return known_bytes(*read, *_read_back(call, places, found, queries), logarithms, *gradients)


def _read_back(call: OperatorCall, places: FusedPlaces, found: LaidSequences, queries: int) -> list[Tensor]:
    """Return the output's gradient and the output, as far as they are read."""
    given = [call.tensor(at) for at in (0, places.back[0] if places.back else 0)]
    if any(len(tensor.shape) != len(found.query.shape) for tensor in given):
        raise NotToldError("shapes that fit each other")
    return [found.part(tensor, queries) for tensor in given]


def _result_type(call: OperatorCall, places: FusedPlaces, query: Tensor) -> str:
    """Return the type of the output: of eight bits it is a wider one, which is not told unless the output is given."""
    given = None if places.output is None else call.tensor_or_none(places.output)
    if given:
        return given.dtype
    return "" if query.dtype.startswith("float8") else query.dtype
