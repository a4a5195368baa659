"""Which arguments of rows stay, and in which form; one that is not listed here goes, whatever it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import isfinite, prod
from typing import Any

from hta_graph.export.anonymize.pseudonyms import Pseudonyms, collective_word
from hta_graph.export.anonymize.public_names import SYNC_RECORDS
from hta_graph.export.anonymize.renumbered import IdMap
from hta_graph.model import EventKind
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL
from hta_graph.trace.rows import number_or_text

__all__ = ["ArgumentAllowlist", "group_name", "allowed_ranks", "allowed_number"]

NUMERIC_ARGUMENTS = {
    "correlation", "External id", "external id", "Sequence number", "Fwd thread id", "wait_on_stream",
    "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "bytes", "memory bandwidth (GB/s)", "Seq", "Comms Id",
    "Group size", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank", "Rank", "Global rank start",
    "Global rank stride", "Is asynchronized op", "Process Group ID", "Record function id", "Ev Idx", "Python id",
    "Python parent id", "Python module id", "cbid", "graph id", "graph node id", "queued", "Bytes", "Total Allocated",
    "Total Reserved", "Device Id", "Device Type",
}  # fmt: skip
"""Counters, sizes of copies and messages, and numbers of ranks: what the graph, matching and analyses are made of."""

SHAPE_ARGUMENTS = {
    "Input Strides", "grid", "block", "blocks per SM", "warps per SM", "est. achieved occupancy %",
    "registers per thread", "shared memory", "In split size", "Out split size",
}  # fmt: skip
"""What tells how large tensors are, or how a kernel was launched for them."""

DIMENSION_ARGUMENTS = {"Input Dims", "Input dims"}
TYPE_PATTERN = re.compile(
    r"(c10::)?(float|double|half|bfloat16|bool|byte|char|short|int|long|long int|unsigned char|signed char|short int"
    r"|unsigned int|u?int\d{1,2}|float\d{1,2}(_\w{1,12})?|complex\w{0,8}(<\w{1,10}>)?|Scalar|ScalarList|TensorList"
    r"|OptionalTensorList|GenericList|Generic ?Dict|Device|None|Float8_\w{1,12})",
    re.IGNORECASE,
)
COLLECTIVE_PATTERN = re.compile(
    r"_?(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|gather|scatter|barrier|send|recv)"
    r"(v|_base|_oop|_sparse|_into_tensor|_tensor|_coalesced|_block)*|wait|coalesced"
)
SYNC_PATTERN = re.compile(SYNC_RECORDS)
COUNTER_PATTERN = re.compile(r"[a-z0-9]{1,12}__[a-z0-9_]{1,100}(\.[a-z_]{1,30}){0,3}")
RANK_LIST_PATTERN = re.compile(r"[\[\]\d, .]{0,20000}")
KNOWN_DESCRIPTIONS = ("", "undefined", "default_pg")
RANK_PATTERN = re.compile(r"\d{1,9}|")
LARGEST_SIZE = 1 << 40
MAX_DEPTH = 8


class ArgumentAllowlist:
    """Chooses the arguments of one rank's rows; ``dropped`` counts the others by key.

    Args:
        names: other names for texts.
        numbers: other numbers.
        shapes: whether shapes stay.
    """

    def __init__(self, names: Pseudonyms, numbers: IdMap, *, shapes: bool) -> None:
        self._names = names
        self._shapes = shapes
        self.dropped: Counter[str] = Counter()
        self._rules: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(NUMERIC_ARGUMENTS, allowed_number),
            **dict.fromkeys(("device", "context", "stream"), lambda value: numbers.stream(number_or_text(value))),
            "dtype": _allowed_type,
            "Addr": lambda value: None if allowed_number(value) is None else numbers.address(allowed_number(value)),
            "Collective name": self._collective,
            "Process Group Name": lambda value: group_name(names, value),
            "Process Group Ranks": allowed_ranks,
            "Process Group Description": lambda value: group_description(names, value),
            "cuda_sync_kind": lambda value: _if_matching(SYNC_PATTERN, value),
            "kernel": lambda value: names.name(EventKind.KERNEL, value) if isinstance(value, str) else None,
        }
        if shapes:
            self._rules |= dict.fromkeys((*SHAPE_ARGUMENTS, *DIMENSION_ARGUMENTS), _allowed_numbers)
            self._rules |= {"Input type": _allowed_types, "Concrete Inputs": _plain_inputs}

    def of(self, name: str, args: Any, *, is_range: bool) -> dict[str, Any]:
        """Return what stays of the arguments of a row.

        Args:
            name: what the row was called.
            args: its arguments.
            is_range: whether they are the values of hardware counters.
        """
        if not isinstance(args, dict):
            return {}
        meets = name in PROCESS_GROUP_CALL or name.startswith("gloo:") or name == "record_param_comms"
        found = {}
        for key, value in args.items():
            rule = self._rules.get(key)
            if rule is None and meets:
                rule = _COMMUNICATION_RULES.get(key)
            if rule is None and is_range and COUNTER_PATTERN.fullmatch(key):
                rule = allowed_number
            kept = None if rule is None or value is None else rule(value)
            if kept is not None:
                found[key] = kept
            elif value is not None:
                self.dropped[key] += 1
        return found

    def _collective(self, value: Any) -> str | None:
        """Keep the name of a collective; of another one the word that says what it does."""
        if not isinstance(value, str):
            # That there is one makes a kernel one of communication, whatever it is.
            return None if isinstance(value, (dict, list, bool)) else "unknown"
        if COLLECTIVE_PATTERN.fullmatch(value):
            return value
        return self._names.text("collective", value) + collective_word(value)


def allowed_number(value: Any) -> int | float | str | None:
    """Keep a number, also where it is written as text; nothing else.

    >>> allowed_number(7), allowed_number("12"), allowed_number("host-12"), allowed_number(True), allowed_number([1])
    (7, '12', None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)[:40]
    try:
        number = Decimal(value[:60] if isinstance(value, str) else value)
    except ArithmeticError:
        return None
    if not number.is_finite():
        return None
    if isinstance(value, Decimal):
        return int(number) if number == number.to_integral_value() and abs(number) < 1 << 63 else float(number)
    return str(number)


def group_name(names: Pseudonyms, value: Any) -> Any:
    """Keep the number of a process group; another name becomes a pseudonym, the same on all ranks."""
    if isinstance(value, str) and not RANK_PATTERN.fullmatch(value):
        return names.text("group", value)
    return value if isinstance(value, str) else allowed_number(value)


def group_description(names: Pseudonyms, value: Any) -> str | None:
    """Keep what PyTorch says of a group; what a program says becomes a pseudonym."""
    if not isinstance(value, str):
        return None
    return value if value in KNOWN_DESCRIPTIONS else names.text("description", value)


def allowed_ranks(value: Any) -> Any:
    """Keep a list of ranks, also where it is written as text."""
    return _if_matching(RANK_LIST_PATTERN, value) if isinstance(value, str) else _allowed_numbers(value)


def _if_matching(shape: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and shape.fullmatch(value) else None


def _allowed_type(value: Any) -> str | None:
    return _if_matching(TYPE_PATTERN, value)


def _allowed_types(value: Any) -> Any:
    """Keep the names of types in a list; what is none becomes empty, so that places stay places."""
    return [_allowed_type(item) or "" for item in value] if isinstance(value, list) else None


def _allowed_numbers(value: Any, depth: int = 0) -> Any:
    """Keep numbers, and lists of them; text only where it is such a list.

    >>> _allowed_numbers([[4, 2], []]), _allowed_numbers("[4, 4]"), _allowed_numbers([["secret"]])
    ([[4, 2], []], '[4, 4]', [[None]])
    """
    if isinstance(value, list):
        return [_allowed_numbers(item, depth + 1) for item in value] if depth < MAX_DEPTH else None
    return _if_matching(RANK_LIST_PATTERN, value) or allowed_number(value)


def _plain_inputs(value: Any) -> Any:
    """Keep the inputs of an operator that are numbers or lists of them."""
    if not isinstance(value, list):
        return None
    return [item if isinstance(item, str) and _INPUT.fullmatch(item) else "" for item in value]


_INPUT = re.compile(r"[\[\]\d, .eE+-]{0,2000}|True|False|None")


def _sizes_only(value: Any) -> Any:
    """Keep how many elements each tensor of a call has, not its shape.

    >>> _sizes_only([[128, 3], []]), _sizes_only([[[4, 2], [3]], []]), _sizes_only([["x"]])
    ([[384], []], [[[8], [3]], []], [[]])
    """
    return _sizes_within(value, 0) if isinstance(value, list) else None


def _sizes_within(value: list[Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        return []
    if any(isinstance(item, list) for item in value):
        return [_sizes_within(item, depth + 1) if isinstance(item, list) else [] for item in value]
    sizes = [
        item for item in value if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < LARGEST_SIZE
    ]
    if not value or len(sizes) < len(value):
        return []
    return [prod(sizes)] if prod(sizes) < LARGEST_SIZE else sizes


def _rank_inputs(value: Any) -> Any:
    """Keep the numbers among the inputs of a process group's call: its root or peer is one of them."""
    if not isinstance(value, list):
        return None
    return [item if isinstance(item, str) and RANK_PATTERN.fullmatch(item) else "" for item in value]


_COMMUNICATION_RULES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(DIMENSION_ARGUMENTS, _sizes_only),
    "Input type": _allowed_types,
    "Concrete Inputs": _rank_inputs,
}
"""What stays of the rows by which ranks are matched: whom, how many elements, of which type."""
