"""Pseudonyms of private names, and other numbers for processes, threads, arrows and addresses.

The same for the same text, and of the type that the name decided. Rules and analyses read a type from some names: a
kernel that says ``all_reduce`` communicates, an operator that ends in ``Backward`` is autograd's. A pseudonym keeps the
words that decide so, which all are words of the field. Numbers keep their order and which of them are the same.

acme_fused_all_reduce<float>        kernel_3_all_reduce
acme::AttentionBackward             operator_7Backward
train/loop.py(12): fit              frame_4.py(12): call
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hta_graph.export.anonymize.public_names import LONGEST_NAME, is_public
from hta_graph.model import EventKind
from hta_graph.multi_rank.matching.read_communications import PEER_PATTERN, communication_kind
from hta_graph.trace import profiler_names as known
from hta_graph.trace.table import LaneTable

CATEGORIES: dict[EventKind, str] = {
    EventKind.CPU_OP: "operator",
    EventKind.RUNTIME: "call",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "copy",
    EventKind.MEMSET: "copy",
    EventKind.ANNOTATION: "annotation",
    EventKind.GPU_ANNOTATION: "annotation",  # they have the names of annotations on the CPU
    EventKind.PYTHON_FUNCTION: "frame",
    EventKind.SYNC_RECORD: "record",
    EventKind.OVERHEAD: "overhead",
    EventKind.MEMORY: "memory",
    EventKind.OTHER: "row",
    EventKind.GRAPH_HOST_NODE: "host node",
    EventKind.GRAPH_EVENT_NODE: "event node",
}
"""What stands for a name of each kind; a number is added."""

EVALUATED = "autograd::engine::evaluate_function: "
LONE_NUMBER = re.compile(r"(?<!\w)\d{1,9}(?!\w)")
"""Numbers that stand alone: analyses take names that differ in these only for one place of a program."""
MAX_NUMBERS = 8

COLLECTIVE_WORDS = (
    r"reduce_?scatter", r"all_?reduce|cross_device_reduce", r"all_?gather", r"all_?to_?all", r"broadcast", r"barrier",
    r"send_?recv", r"(?<![a-z])i?send(?![a-z])", r"(?<![a-z])i?recv(?![a-z])", r"(?<![a-z])gather",
    r"(?<![a-z])scatter", r"(?<![a-z])reduce",
)  # fmt: skip
COLLECTIVE_PATTERNS = [re.compile(pattern) for pattern in COLLECTIVE_WORDS]
TRITON = re.compile(r"triton_(poi|per|red|tem|for|spl|unk)_")
SOURCE_LINE = re.compile(r"\.py\((\d{1,9})\): ")
MODULE_FRAME_NAME = re.compile(r"nn\.Module: .*?(_\d{1,9})?", re.DOTALL)
OBJECT_ADDRESS = re.compile(r" object at 0x[0-9a-fA-F]+")

_CALL_PREFIXES = (
    known.AMD_CALL, known.BLOCKING_CALL, known.DEVICE_SYNC_CALL, known.STREAM_SYNC_CALL, known.ENQUEUEING_CALL,
    known.EVENT_SYNC_CALL, known.EVENT_RECORD_CALL, known.STREAM_WAIT_CALL, known.GRAPH_LAUNCH_CALL,
    known.KERNEL_LAUNCH_CALL, known.NON_BLOCKING_QUERY, known.SYNCHRONOUS_COPY_CALL, known.LOCK_TAKING_CALL,
    known.WARM_UP, known.ALLOCATION_CALL, known.IMPLICIT_WAIT_CALL,
)  # fmt: skip
_COPY_PREFIXES = (
    known.COPY_KIND, known.COPY_TO_PAGEABLE, known.COPY_BLOCKING_SYNCHRONOUS_CALL, known.PAGEABLE_UPLOAD,
    known.COPY_TO_HOST,
)  # fmt: skip
_LOADING_PATTERNS = tuple(re.compile(pattern) for pattern in known.DATA_LOADING)
_MATCHED: dict[str, tuple[re.Pattern[str], ...]] = {
    "operator": (
        known.AUTOGRAD_OPERATOR,
        known.VALUE_READING_OPERATOR,
        known.IN_PROCESS_LOADING,
        re.compile("aten::"),
    ),
    "call": _CALL_PREFIXES,
    "copy": _COPY_PREFIXES,
    "annotation": (known.GLOO_COLLECTIVE, known.IN_PROCESS_LOADING, known.OPTIMIZER_STEP),
    "frame": (known.MODULE_FRAME, known.OWN_FRAME, known.WARM_UP, known.WRAPPER_FRAME, known.MODEL_FRAME),
    "kernel": (known.DEVICE_COPY, known.DEVICE_WAIT),
}
_SEARCHED: dict[str, tuple[re.Pattern[str], ...]] = {
    "operator": _LOADING_PATTERNS,
    "annotation": (*_LOADING_PATTERNS, PEER_PATTERN),
    "kernel": (known.COMMUNICATION_KERNEL,),
}


class Pseudonyms:
    """Replaces private names by pseudonyms, and counts them; the same for all ranks of a job.

    Args:
        keep: categories of which all names are kept.

    ``kept`` and ``replaced`` are the distinct names by category, of the latter how many; ``untyped`` those replaced
    ones whose type no pseudonym could keep.
    """

    def __init__(self, keep: Iterable[str] = ()) -> None:
        self._keep = frozenset(keep)
        self._found: dict[tuple[EventKind, str], str] = {}
        self._numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.kept: defaultdict[str, set[str]] = defaultdict(set)
        self.replaced: Counter[str] = Counter()
        self.untyped: Counter[str] = Counter()

    def name(self, kind: EventKind, text: str) -> str:
        """Return what an event of a kind is called: its own name if everybody knows it, else its pseudonym."""
        key = (kind, text)
        if key not in self._found:
            self._found[key] = self._named(kind, text)
        return self._found[key]

    def number(self, category: str, text: str) -> int:
        """Return the number of a text in its category, from 1 in order of coming."""
        numbers = self._numbers[category]
        return numbers.setdefault(text, len(numbers) + 1)

    def text(self, category: str, text: str) -> str:
        """Return the pseudonym of a text that is no event's name: a host, a group, a lane."""
        if text not in self._numbers[category]:
            self.replaced[category] += 1
        return f"{category}_{self.number(category, text)}"

    def _named(self, kind: EventKind, text: str) -> str:
        category = CATEGORIES[kind]
        if category in self._keep or is_public(kind, text):
            # An address is nobody's name, and tells nothing: equal ones stay equal.
            plain = OBJECT_ADDRESS.sub(self._address, text) if category == "frame" else text
            self.kept[category].add(plain)
            return plain
        inner = text.removeprefix(EVALUATED)
        if kind is EventKind.CPU_OP and inner != text and not inner.startswith(EVALUATED):
            return EVALUATED + self.name(kind, inner)
        self.replaced[category] += 1
        # A name that is longer than any is not searched: patterns may take long on it.
        if len(text) <= LONGEST_NAME:
            types = _types_of_name(category, text)
            for candidate in self._candidates(category, text):
                if _types_of_name(category, candidate) == types:
                    return candidate
        self.untyped[category] += 1
        return f"{category}_{self.number(category, text)}"

    def _address(self, found: re.Match[str]) -> str:
        return f" object at 0x{self.number('address', found[0]):x}"

    def _candidates(self, category: str, text: str) -> Iterator[str]:
        """Propose pseudonyms, those that say least first."""
        wordings: dict[str, Callable[[str], Iterator[str]]] = {
            "operator": self._operators,
            "annotation": self._annotations,
            "kernel": self._kernels,
            "call": self._calls,
            "copy": self._copies,
            "frame": self._frames,
        }
        if category in wordings:
            yield from wordings[category](text)
        yield f"{category}_{self.number(category, text)}"

    def _operators(self, text: str) -> Iterator[str]:
        plain = self._plain("operator", text)
        backward = re.search(r"Backward\d*$", text)
        ending = backward[0] if backward else ""
        for middle in ("", collective_word(text)):
            yield f"{plain}{middle}{ending}"
            yield f"aten::{plain}{middle}{ending}"
            yield f"autograd::engine::{plain}{middle}{ending}"
            yield from (f"{word}{plain}{middle}" for word in _loading_words(text))

    def _annotations(self, text: str) -> Iterator[str]:
        plain = self._plain("annotation", text)
        peer = PEER_PATTERN.search(text)
        word = collective_word(text)
        ending = word + (f" {peer[0]}" if peer else "")
        yield f"{plain}{ending}"
        yield f"gloo:{plain}{ending}"
        yield f"Optimizer.step#{plain}{ending}"
        yield from (f"{start}{plain}{ending}" for start in _loading_words(text))
        yield from (f"{plain}{ending} {end}" for end in _loading_words(text))

    def _kernels(self, text: str) -> Iterator[str]:
        plain = f"kernel_{self.number('kernel', text)}"
        triton = TRITON.match(text)
        yield f"{triton[0]}{plain}" if triton else plain
        talks = known.COMMUNICATION_KERNEL.search(text)
        if talks:
            # What a communication kernel does is read from its name too, by the first of these words that stands in it.
            yield f"{plain}_{talks[talks.lastindex or 0].lower()}{collective_word(text)}"
            yield f"{plain}_nccl{collective_word(text)}"

    def _calls(self, text: str) -> Iterator[str]:
        plain = f"call_{self.number('call', text)}"
        starts = {found[0] for pattern in _CALL_PREFIXES if (found := pattern.match(text))}
        yield from (f"{start}_{plain}" for start in sorted(starts, key=len, reverse=True))
        yield plain

    def _copies(self, text: str) -> Iterator[str]:
        plain = f"copy_{self.number('copy', text)}"
        starts = {found[0] for pattern in _COPY_PREFIXES if (found := pattern.match(text))}
        yield from (f"{start} {plain}" for start in sorted(starts, key=len, reverse=True))
        yield plain

    def _frames(self, text: str) -> Iterator[str]:
        if found := MODULE_FRAME_NAME.fullmatch(text):
            # One class has one name; which of its objects it is stays.
            ending = found[1] or ""
            kind = text.removesuffix(ending)
            yield f"nn.Module: Module{self.number('module', kind)}{ending}"
        plain = f"frame_{self.number('frame', OBJECT_ADDRESS.sub('', text))}"
        line = SOURCE_LINE.search(text)
        if line:
            yield from (f"{plain}.py({line[1]}): {word}" for word in ("call", "forward", "wrapper"))
        address = OBJECT_ADDRESS.search(text)
        if text.startswith("<built-in"):
            yield f"<built-in method record_function of {plain}{self._address(address) if address else ''}>"
        yield f"<{plain}{self._address(address)}>" if address else f"<{plain}>"

    def _plain(self, category: str, text: str) -> str:
        """Return a pseudonym for all texts that differ in numbers only, with these."""
        numbers = LONE_NUMBER.findall(text)
        if not numbers or len(numbers) > MAX_NUMBERS or PEER_PATTERN.search(text):
            return f"{category}_{self.number(category, text)}"
        return " ".join([f"{category}_{self.number(category, LONE_NUMBER.sub('#', text) + chr(0))}", *numbers])


def collective_word(text: str) -> str:
    """Return the word by which a name is taken for a kind of communication.

    >>> collective_word("AcmeAllReduceRing"), collective_word("acme")
    ('_allreduce', '')
    """
    lower = text.lower()
    return next((f"_{found[0]}" for pattern in COLLECTIVE_PATTERNS if (found := pattern.search(lower))), "")


def _loading_words(text: str) -> Iterator[str]:
    """Yield the words by which a name is taken for data loading."""
    if known.DATA_LOADER in text:
        yield from ("_SingleProcessDataLoaderIter ", "_MultiProcessingDataLoaderIter ", "enumerate(DataLoader) ")
        yield from ("DataLoader.__next__ ", "DataLoader ")


def _types_of_name(category: str, text: str) -> tuple[object, ...]:
    """Return all that rules and analyses read from a name of a category."""
    matched = [pattern.match(text) is not None for pattern in _MATCHED.get(category, ())]
    searched = [pattern.search(text) is not None for pattern in _SEARCHED.get(category, ())]
    peer = PEER_PATTERN.search(text) if category == "annotation" else None
    talks = category in ("operator", "annotation") or (category == "kernel" and any(searched))
    words = (collective_word(text), communication_kind([text])) if talks else ()
    return (*matched, *searched, *words, peer and peer[0])


FIRST_NEW_ID = 1000
"""Above the numbers of devices, which stand in the same place for a viewer."""

WHOLE_NUMBER = re.compile(r"\d{1,18}")
OLD_PROCESSES = ("CPU functions", "CUDA functions", "XPU functions")
"""The processes of PyTorch's profiler before Kineto: they say what its rows are."""
STREAM_NAME = re.compile(r"(?:stream )?-?\d{1,18}")


class IdMap:
    """The numbers of one rank: what they are, in the order of their coming or of their size.

    Args:
        lanes: of its trace; the threads that have events keep their order, and neighbours stay neighbours.
        names: gives texts that stand for numbers other names.
    """

    def __init__(self, lanes: LaneTable, names: Pseudonyms) -> None:
        self._names = names
        threads = (label for label, is_stream in zip(lanes.labels, lanes.is_stream, strict=True) if not is_stream)
        parts = [label.removeprefix("thread ").split(":", 1) for label in threads]
        self._processes = {part[0] for part in parts}
        self._devices = set(lanes.device[lanes.is_stream].tolist())
        self._number = _ids_in_order(int(text) for part in parts for text in part if WHOLE_NUMBER.fullmatch(text))
        self._largest = max(self._number.values(), default=FIRST_NEW_ID)
        self._arrows: dict[Any, int] = {}
        self._addresses: dict[Any, int] = {}

    def thread(self, value: Any) -> Any:
        """Return another number for a process or a thread."""
        if value is None or value == "":
            return value
        if isinstance(value, int) and -FIRST_NEW_ID < value <= 0:
            return value
        if value in OLD_PROCESSES:
            return value
        if not WHOLE_NUMBER.fullmatch(text := str(value).removesuffix(".0")):
            return self._names.text("thread", text)
        number = int(text)
        if number not in self._number:
            self._largest += 2
            self._number[number] = self._largest
        return self._number[number]

    def place(self, process: Any, thread: Any) -> tuple[Any, Any]:
        """Return where a row stands that may be on a thread or on a stream."""
        change = self.stream if self.is_on_device(process) else self.thread
        return change(process), change(thread)

    def is_on_device(self, process: Any) -> bool:
        """Return whether a process is a device and not the program."""
        return process in self._devices and str(process) not in self._processes

    def stream(self, value: Any) -> Any:
        """Return a part of a stream's name: numbers as they are, of devices and streams everybody has the same."""
        if value is None or value == "" or (isinstance(value, float) and value.is_integer()):
            return value
        if isinstance(value, (int, str)) and STREAM_NAME.fullmatch(str(value).strip()):
            return value
        if value in OLD_PROCESSES:
            return value
        return self._names.text("lane", str(value))

    def arrow(self, value: Any) -> int:
        """Return another number for an arrow; those between nodes of graphs are known by large ones."""
        is_of_nodes = isinstance(value, int) and value >= known.FIRST_NODE_ARROW
        return self._arrows.setdefault(value, len(self._arrows) + 1 + is_of_nodes * known.FIRST_NODE_ARROW)

    def address(self, value: Any) -> int:
        """Return another number for an address, 4 KB apart."""
        return self._addresses.setdefault(value, 4096 * (len(self._addresses) + 1))


def _ids_in_order(numbers: Iterable[int]) -> dict[int, int]:
    """Renumber in order, keeping only consecutive numbers consecutive: Gloo's workers are recognized by that.

    >>> _ids_in_order([70312, 70313, 4, 70320])
    {4: 1000, 70312: 1002, 70313: 1003, 70320: 1005}
    """
    found: dict[int, int] = {}
    before = new = None
    for number in sorted({number for number in numbers if number > 0}):
        new = FIRST_NEW_ID if new is None or before is None else new + (1 if number == before + 1 else 2)
        found[number] = new
        before = number
    return found
