"""Flags of events by name and category, such as blocking calls: algorithms ask these and know no profiler's names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.base.safe_regex import names_matching
from hta_graph.graph.timeline import Launches
from hta_graph.model import Bools, EventKind, Ids
from hta_graph.trace.profiler_names import (
    ALLOCATION_CALL,
    AMD_CALL,
    AUTOGRAD_OPERATOR,
    BLOCKING_CALL,
    CAPTURE_CALL,
    CAPTURE_END_CALL,
    CODE_LOADING_CALL,
    COLLECT_CALL,
    COLLECTIVE_OPERATOR,
    COMMUNICATION_KERNEL,
    COMPILATION,
    COPY_KIND,
    COPY_KIND_OF_VENDOR,
    COPY_TO_HOST,
    DATA_LOADER,
    DATA_LOADING,
    DEVICE_COPY,
    DEVICE_WAIT,
    EAGER_KERNEL,
    ENQUEUEING_CALL,
    EVENT_SYNC_CALL,
    GARBAGE_COLLECTION,
    GLOO_COLLECTIVE,
    GPU_OPERATOR,
    GRAPH_LAUNCH_CALL,
    HOST_ALLOCATION_CALL,
    IMPLICIT_WAIT_CALL,
    IN_PROCESS_LOADING,
    KERNEL_LAUNCH_CALL,
    LOCK_TAKING_CALL,
    MODULE_FRAME,
    OPTIMIZER_STEP,
    OWN_FRAME,
    PAGEABLE_UPLOAD,
    POLLING_CALL,
    PROFILER_OVERHEAD,
    RELEASE_CALL,
    SEGMENT_CALL,
    SHARING_CALL,
    STEP_NAME,
    STREAM_HOLDING_CALL,
    STREAM_WAIT_CALL,
    SYNCHRONOUS_COPY_CALL,
    UPLOAD,
    VALUE_READING_OPERATOR,
    WAITING_OS_CALL,
    WARM_UP,
    WORK_CALL,
    WRAPPER_FRAME,
)
from hta_graph.trace.table import Trace

UNKNOWN_COPY = "Memcpy Unknown"


def is_step(name: str) -> bool:
    """Return whether a name is that of a profiler step."""
    return STEP_NAME.fullmatch(name) is not None


def is_warm_up(name: str) -> bool:
    """Return whether a name is that of what programs do once: take memory from the driver, load or compile code."""
    return WARM_UP.match(name) is not None


def _names_of_loaders(names: Sequence[str]) -> Bools:
    """Mark the names that mean data loading; few have the word in them, and most traces have none."""
    found = np.array([DATA_LOADER in name for name in names] or [False])
    may_be = np.flatnonzero(found)
    if len(may_be):
        found[may_be] = names_matching([*map(re.compile, DATA_LOADING)], [names[code] for code in may_be.tolist()])
    return found


def _copy_kind(name: str) -> str:
    """Return the kind of a copy or set by its name.

    >>> _copy_kind("Memcpy HtoD (Pageable -> Device)"), _copy_kind("CopyDeviceToHost"), _copy_kind("blit")
    ('Memcpy HtoD', 'Memcpy DtoH', 'Memcpy Unknown')
    """
    found = COPY_KIND.match(name)
    of_vendor = (kind for kind, pattern in COPY_KIND_OF_VENDOR.items() if pattern.match(name))
    return found[0] if found else next(of_vendor, UNKNOWN_COPY)


class EventFlags:
    """Marks of a trace's events, one entry per event; each is made when it is first asked for.

    Args:
        trace: the trace.
        launches: the calls that launched its events.
    """

    def __init__(self, trace: Trace, launches: Launches) -> None:
        self._trace = trace
        self._launches = launches
        self._loading: dict[tuple[str, ...], Bools] = {}

    def _kind_with_name(self, pattern: re.Pattern[str], kind: EventKind) -> Bools:
        """Mark the events of a kind whose name a pattern matches from its start."""
        events, named = self._trace.events, self._trace.names_starting_with(pattern, kind)
        if not named.any():  # as of most patterns
            return freeze(np.zeros(len(events), np.bool_))
        return freeze((events.kind == kind) & named[events.name])

    @cached_property
    def blocking_call(self) -> Bools:
        """Calls that return only when GPU work is done: their inside is a wait, not work."""
        return self._kind_with_name(BLOCKING_CALL, EventKind.RUNTIME)

    @cached_property
    def polling_call(self) -> Bools:
        """Calls of loops that ask until something is done; which loops waited, the graph's edges say."""
        return self._kind_with_name(POLLING_CALL, EventKind.RUNTIME)

    @cached_property
    def profiler_overhead(self) -> Bools:
        """Rows of what the recorder itself cost."""
        return self._kind_with_name(PROFILER_OVERHEAD, EventKind.OVERHEAD)

    @cached_property
    def synchronous_copy_call(self) -> Bools:
        """Copy calls that may block in any direction."""
        return self._kind_with_name(SYNCHRONOUS_COPY_CALL, EventKind.RUNTIME)

    @cached_property
    def enqueueing_call(self) -> Bools:
        """Calls that give a GPU something to do, also where that left no row."""
        return self._kind_with_name(ENQUEUEING_CALL, EventKind.RUNTIME)

    @cached_property
    def work_call(self) -> Bools:
        """Those of them that leave a row of the GPU in a whole recording."""
        return self._kind_with_name(WORK_CALL, EventKind.RUNTIME)

    @cached_property
    def gpu_operator(self) -> Bools:
        """Operators that only a GPU runs."""
        return self._kind_with_name(GPU_OPERATOR, EventKind.CPU_OP)

    @cached_property
    def event_sync_call(self) -> Bools:
        """Calls that wait for an event."""
        return self._kind_with_name(EVENT_SYNC_CALL, EventKind.RUNTIME)

    @cached_property
    def kernel_launch_call(self) -> Bools:
        """Calls that launch one kernel on NVIDIA, also where that left no row."""
        return self._kind_with_name(KERNEL_LAUNCH_CALL, EventKind.RUNTIME)

    @cached_property
    def graph_launch_call(self) -> Bools:
        """Calls that launch a captured graph, however many of its nodes were recorded."""
        return self._kind_with_name(GRAPH_LAUNCH_CALL, EventKind.RUNTIME)

    @cached_property
    def stream_wait_call(self) -> Bools:
        """Calls that let a stream wait for an event."""
        return self._kind_with_name(STREAM_WAIT_CALL, EventKind.RUNTIME)

    @cached_property
    def autograd(self) -> Bools:
        """Operators of PyTorch's autograd engine and of its nodes."""
        return self._kind_with_name(AUTOGRAD_OPERATOR, EventKind.CPU_OP)

    @cached_property
    def module_frame(self) -> Bools:
        """Python frames of a module's call."""
        return self._kind_with_name(MODULE_FRAME, EventKind.PYTHON_FUNCTION)

    @cached_property
    def loads_in_process(self) -> Bools:
        """Operators and annotations of a data loader without worker processes."""
        kinds = (EventKind.CPU_OP, EventKind.ANNOTATION)
        found = [self._kind_with_name(IN_PROCESS_LOADING, kind) for kind in kinds]
        return freeze(found[0] | found[1])

    @cached_property
    def own_frame(self) -> Bools:
        """Python frames of the program's own files and of libraries, not of PyTorch, which are no wrappers."""
        return freeze(self._kind_with_name(OWN_FRAME, EventKind.PYTHON_FUNCTION) & ~self.wrapper_frame)

    @cached_property
    def wrapper_frame(self) -> Bools:
        """Python frames that only call what they wrap."""
        return self._kind_with_name(WRAPPER_FRAME, EventKind.PYTHON_FUNCTION)

    @cached_property
    def optimizer_step(self) -> Bools:
        """Annotations of an optimizer's steps."""
        return self._kind_with_name(OPTIMIZER_STEP, EventKind.ANNOTATION)

    @cached_property
    def capture_call(self) -> Bools:
        """Calls from which on work is captured in a graph."""
        return self._kind_with_name(CAPTURE_CALL, EventKind.RUNTIME)

    @cached_property
    def capture_end_call(self) -> Bools:
        """Calls that end a capture."""
        return self._kind_with_name(CAPTURE_END_CALL, EventKind.RUNTIME)

    @cached_property
    def compiles(self) -> Bools:
        """Operators, annotations and Python frames while PyTorch or Triton compiles."""
        kinds = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)
        found = [self._kind_with_name(COMPILATION, kind) for kind in kinds]
        return freeze(found[0] | found[1] | found[2])

    @cached_property
    def collects_garbage(self) -> Bools:
        """Python frames and annotations of garbage collection."""
        kinds = (EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)
        found = [self._kind_with_name(GARBAGE_COLLECTION, kind) for kind in kinds]
        return freeze(found[0] | found[1])

    @cached_property
    def waits_in_system(self) -> Bools:
        """Calls of the operating system in which a thread waits, and times in which it did not run."""
        return self._kind_with_name(WAITING_OS_CALL, EventKind.OS_CALL)

    @cached_property
    def asks_to_collect(self) -> Bools:
        """Those of them that the program asked for itself."""
        return freeze(self.collects_garbage & self._trace.names_starting_with(COLLECT_CALL)[self._trace.events.name])

    @cached_property
    def reads_values(self) -> Bools:
        """Operators whose result the host needs before it can go on."""
        return self._kind_with_name(VALUE_READING_OPERATOR, EventKind.CPU_OP)

    @cached_property
    def pageable_upload(self) -> Bools:
        """Copies to a device from host memory that is not pinned."""
        return self._kind_with_name(PAGEABLE_UPLOAD, EventKind.MEMCPY)

    @cached_property
    def upload(self) -> Bools:
        """Copies to a device from the host."""
        return self._kind_with_name(UPLOAD, EventKind.MEMCPY)

    @cached_property
    def copies_to_host(self) -> Bools:
        """Copies from a device to the host."""
        return self._kind_with_name(COPY_TO_HOST, EventKind.MEMCPY)

    @cached_property
    def allocation_call(self) -> Bools:
        """Calls that take memory from the driver or give it back."""
        return self._kind_with_name(ALLOCATION_CALL, EventKind.RUNTIME)

    @cached_property
    def implicit_wait_call(self) -> Bools:
        """Calls that may wait for a device, which no record shows."""
        return self._kind_with_name(IMPLICIT_WAIT_CALL, EventKind.RUNTIME)

    @cached_property
    def lock_taking_call(self) -> Bools:
        """Calls that take the driver's lock."""
        return self._kind_with_name(LOCK_TAKING_CALL, EventKind.RUNTIME)

    @cached_property
    def stream_holding_call(self) -> Bools:
        """Calls that enqueue what holds a stream and leaves no row on it."""
        return self._kind_with_name(STREAM_HOLDING_CALL, EventKind.RUNTIME)

    @cached_property
    def sharing_call(self) -> Bools:
        """Calls with which processes share memory of GPUs."""
        return self._kind_with_name(SHARING_CALL, EventKind.RUNTIME)

    @cached_property
    def segment_call(self) -> Bools:
        """Calls that map memory into expandable segments, or out of them."""
        return self._kind_with_name(SEGMENT_CALL, EventKind.RUNTIME)

    @cached_property
    def host_allocation_call(self) -> Bools:
        """Calls that pin memory of the host, or release it."""
        return self._kind_with_name(HOST_ALLOCATION_CALL, EventKind.RUNTIME)

    @cached_property
    def release_call(self) -> Bools:
        """Calls that give memory back to the driver."""
        return self._kind_with_name(RELEASE_CALL, EventKind.RUNTIME)

    @cached_property
    def code_loading_call(self) -> Bools:
        """Calls that load code."""
        return self._kind_with_name(CODE_LOADING_CALL, EventKind.RUNTIME)

    @cached_property
    def amd_call(self) -> Bools:
        """Calls of AMD's runtime, whose recordings never hold records of synchronization."""
        return self._kind_with_name(AMD_CALL, EventKind.RUNTIME)

    @cached_property
    def communicates(self) -> Bools:
        """Kernels that talk to other ranks: by their recorded collective, by name, else by what launched them.

        A kernel of any name that the operator of a recorded collective launches itself does the collective's work;
        copies and additions around it have operators of their own. Copies do it where they are a collective's own.
        """
        events = self._trace.events
        talks = events.collective | self._trace.matching_names(COMMUNICATION_KERNEL, EventKind.KERNEL)[events.name]
        if (events.collective & (events.kind == EventKind.CPU_OP)).any():
            operator = self._launches.operator
            talks |= (operator >= 0) & events.collective[operator]
        by_copies = events.collective & (events.kind == EventKind.MEMCPY)
        return freeze((talks & (events.kind == EventKind.KERNEL)) | by_copies)

    @cached_property
    def eager_kernel(self) -> Bools:
        """Kernels of single operators of PyTorch that compilers fuse with their neighbors."""
        return self._kind_with_name(EAGER_KERNEL, EventKind.KERNEL)

    @cached_property
    def collective_operator(self) -> Bools:
        """Operators that start collectives, and wait for them."""
        return self._kind_with_name(COLLECTIVE_OPERATOR, EventKind.CPU_OP)

    @cached_property
    def gloo_collective(self) -> Bools:
        """Annotations of the collectives that Gloo runs on the CPU; it leaves no other rows."""
        return self._kind_with_name(GLOO_COLLECTIVE, EventKind.ANNOTATION)

    @cached_property
    def moves_memory(self) -> Bools:
        """Copies and sets, and the rows among an MTIA device's kernels that move memory."""
        kind = self._trace.events.kind
        copies = (kind == EventKind.MEMCPY) | (kind == EventKind.MEMSET)
        return freeze(copies | self._kind_with_name(DEVICE_COPY, EventKind.KERNEL))

    @cached_property
    def waits_on_device(self) -> Bools:
        """Rows in which a stream of an MTIA device waits for an event or marks one; it works on nothing."""
        return self._kind_with_name(DEVICE_WAIT, EventKind.KERNEL)

    @cached_property
    def gpu_work(self) -> Bools:
        """GPU activities that work on something: those of an MTIA device's streams that only wait are none."""
        return freeze(self._trace.is_gpu & ~self.waits_on_device)

    def loads_data(self, expressions: Sequence[str] = ()) -> Bools:
        """Mark the operators and annotations that mean data loading; without expressions those of PyTorch's loaders.

        Raises:
            PatternError: an expression is no regular one, or takes too long.
        """
        asked = tuple(expressions or ())
        if asked not in self._loading:
            events, names = self._trace.events, self._trace.names
            may_load = (events.kind == EventKind.CPU_OP) | (events.kind == EventKind.ANNOTATION)
            named = names_matching(asked, names) if asked else _names_of_loaders(names)
            self._loading[asked] = freeze(may_load & named[events.name])
        return self._loading[asked]

    def copy_kinds(self, rows: Ids) -> tuple[list[str], Ids]:
        """Name the kind of each copy or set (``Memcpy HtoD``): the kinds in order of name, and a code per row."""
        names, code = np.unique(self._trace.events.name[rows], return_inverse=True)
        kinds, kind = np.unique([_copy_kind(self._trace.names[name]) for name in names.tolist()], return_inverse=True)
        return kinds.tolist(), kind[code].astype(np.int32)
