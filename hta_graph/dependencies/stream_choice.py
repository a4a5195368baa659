"""Which stream was meant? Timing over all streams at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.model import Codes, Ids, Ints, Rule

__all__ = ["NO_WORK", "item_ends", "nearest_stream", "batches", "ends_before"]


CELLS = 1 << 22
"""How large a table of questions by streams may be: many of both would not fit into memory."""

NO_WORK = -(2**62)
"""In a table of ends (ns): the stream has no work. Times can be negative; this leaves room to subtract them."""


def ends_before(context: RuleContext, streams: Ids, place: Ints) -> Ints:
    """Return when each stream's last item before each place ended (ns); rows: places, columns: streams."""
    queues, item_end = context.queues, item_ends(context)
    table = np.full((len(place), len(streams)), NO_WORK, np.int64)
    # The longer side at once, the shorter one by one: there may be very many streams, or very many questions.
    if len(place) < len(streams):
        for row, moment in enumerate(place.tolist()):
            item = queues.item_before(streams, np.full(len(streams), moment))
            table[row] = np.where(item >= 0, item_end[item], NO_WORK)
        return table
    for column, stream in enumerate(streams.tolist()):
        item = queues.item_before(np.full(len(place), stream), place)
        table[:, column] = np.where(item >= 0, item_end[item], NO_WORK)
    return table


def batches(questions: int, streams: int) -> Iterator[slice]:
    """Divide questions so that a table of them by streams stays small."""
    size = max(CELLS // max(streams, 1), 1)
    return (slice(first, first + size) for first in range(0, questions, size))


def item_ends(context: RuleContext) -> Ints:
    """Return when each item ended (ns)."""
    tails = context.queues.tails
    ends = context.trace.events.end[tails.members]
    last: Ints = np.maximum.reduceat(ends, tails.first[:-1]) if len(ends) else ends
    return last


def nearest_stream(ends: Ints, until: Ints, since: Ints, close_ns: int | Ints) -> tuple[Ints, Codes]:
    """Choose per row the column whose end lies in [since, until], nearest to ``until``, at most ``close_ns`` before."""
    # Rows are questions, columns streams: all streams are tried for all questions at once.
    lag = until[:, None] - ends
    fits = (ends > NO_WORK) & (lag >= 0) & (lag <= np.reshape(close_ns, (-1, 1))) & (ends >= since[:, None])
    lag = np.where(fits, lag, np.iinfo(np.int64).max)
    chosen = np.argmin(lag, axis=1) if lag.shape[1] else np.zeros(len(lag), np.int64)
    found = fits.any(axis=1)
    return np.where(found, chosen, -1), np.where(found, Rule.STREAM_BY_TIMING, 0).astype(np.int8)
