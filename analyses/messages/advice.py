"""Advice: what to do in one imperative line, and the evidence for it in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted

OVERLAP = "These savings overlap; do not add them."


class Advice(NamedTuple):
    """What to do, without a period, and why."""

    action: str
    why: str


def on_rank(rank: int | None) -> str:
    """Name the rank, as the end of a clause."""
    return "" if rank is None else f" on rank {rank}"


def mostly_in(name: str | None) -> str:
    """Name the largest item, as the end of a clause."""
    return f", mostly in {quoted(name)}" if name else ""


def saving(confidence: str, most: str | None, replayed: str | None, doubt: str = "") -> str:
    """Say what advice saves, each amount with its share, and how sure that is; a bound only where it says more."""
    bound = [f"at most {most}"] if most and most != replayed else []
    amounts = [*([f"{replayed} by replay"] if replayed else []), *bound]
    saves = f"saves {', '.join(amounts)}; " if amounts else ""
    return f"[{saves}{confidence} confidence{f': {doubt}' if doubt else ''}]"


def saving_and_share(ns: int, whole_ns: int, *, of_iteration: bool) -> str:
    """Print a saving with its share of what savings are of; of what, where that is not the window in the headline.

    >>> saving_and_share(120_000, 1_000_000, of_iteration=True)
    '120.0 µs (12% of the iteration)'
    """
    of = " of the iteration" if of_iteration else ""
    return f"{brief_duration(ns)} ({brief_share(ns / max(whole_ns, 1))}{of})"


def more_advice(hidden: int) -> str:
    """Count the advice that is left out."""
    return f"--json FILE lists {counted(hidden, 'more finding')}."


# -- where nothing is suggested ----------------------------------------------------------------------------------------


def only_faster(what: str, share: float, whole: str) -> str:
    """Say that a window consists of work that only other kernels or operators make shorter."""
    return f"{what} is {brief_share(share)} of {whole}; only faster kernels or less work help."


ONLY_A_FASTER_HOST = "No GPU work is recorded; only less work of the host helps."


def no_remedy(what: str, saved: str) -> str:
    """Say that the largest cause is known and no rule has a remedy."""
    return f"No rule has a remedy for {what}, without which {saved} would be saved."


def too_little(least: float, whole: str, *, takes_both: bool = False) -> str:
    """Say that nothing saves a notable share, or nothing but what is faster on the host and on the GPU."""
    if takes_both:
        return f"No cause alone saves {brief_share(least)} of {whole}; less work for both the host and the GPU does."
    return f"No change saves {brief_share(least)} of {whole}; steps of one program differ by as much."


def unknown(why: str) -> str:
    """Say that replay does not show what would be gained."""
    return f"What changes would save is unknown, because {why}."


POLLING = "The host may be polling, so nothing about its own work is suggested."
NOT_REPLAYED = "No rule fires; run hta-graph what-if for estimated savings."


def candidates(said: Sequence[str]) -> str:
    """Name what saves most at twice its speed."""
    return f"Largest savings at 2x speed: {'; '.join(said)}."


def candidate(what: str, saved: str, *, at_most: bool) -> str:
    """Name one of them."""
    return f"{what}, {'at most ' * at_most}{saved}"


# -- the host ----------------------------------------------------------------------------------------------------------


def launch_bound(
    rank: int | None, per_launch_ns: int, launches: int, median_ns: int, waits: int, *, is_compiled: bool
) -> Advice:
    """The host launches more slowly than the GPU works; ``is_compiled``: torch.compile runs already."""
    remedy = 'CUDA graphs (torch.compile(mode="reduce-overhead"))' if is_compiled else "CUDA graphs or torch.compile"
    capture = f" Remove the host's {counted(waits, 'wait')} for the GPU before capturing a CUDA graph." if waits else ""
    return Advice(
        f"Use {remedy} to cut launch overhead{on_rank(rank)}",
        f"The GPU is launch-bound: the host takes {brief_duration(per_launch_ns)} per launch ({launches:,} launches), "
        f"and the launched work takes {brief_duration(median_ns)} (median). Larger batches, or fewer and larger "
        f"operators, also help.{capture}",
    )


def host_pauses(
    time: str, count: int, shortest_ns: int, longest_ns: int, name: str | None, *, stacks: bool, before: str | None
) -> Advice:
    """The host launches nothing for long while the GPU is idle; without a name ``before`` is what follows."""
    least = f"{brief_duration(shortest_ns)} to " if count > 1 else ""
    following = f", the longest before {quoted(before)}" if before else ""
    record = "" if stacks else "; record with_stack=True to see what Python does there"
    return Advice(
        f"Shorten the host's {counted(count, 'pause')}{mostly_in(name)}",
        f"For {time} the host works without a launch: {counted(count, 'pause')} of {least}"
        f"{brief_duration(longest_ns)}{following}. CUDA graphs and faster launches do not remove pauses. hta-graph "
        f"idle-time lists them{record}.",
    )


def python_bound(time: str, rank: int | None, name: str, largest_ns: int, *, is_most: bool) -> Advice:
    """Python between operators delays the GPU; one frame alone can be moved where it ``is_most`` of that."""
    action = f"Move {quoted(name)} out of the loop, or to another thread or process"
    return Advice(
        action if is_most else f"Run less Python between operators, first in {quoted(name)}",
        f"The path is in Python for {time}{on_rank(rank)}, mostly in {quoted(name)} ({brief_duration(largest_ns)}). "
        "Recording stacks slows Python down.",
    )


def tiny_kernels(count: int, longest_ns: int, time: str, between_ns: int) -> Advice:
    """Many short kernels follow each other."""
    return Advice(
        "Fuse small kernels (torch.compile, foreach or fused optimizers)",
        f"{counted(count, 'kernel')} shorter than {brief_duration(longest_ns)} take {time} of the path, including "
        f"{brief_duration(between_ns)} between them. Fusing them saves part of that.",
    )


class Waiting(NamedTuple):
    """A kind of wait of the host for the GPU: the action against it, and what the host does."""

    action: str
    does: str


VALUES_READ = Waiting(
    "Keep values on the GPU: use masks or torch.where instead of boolean indexing and nonzero(), and call .item() and "
    ".cpu() less often",
    "reads values from the GPU",
)
SYNCHRONIZES = Waiting(
    "Remove synchronization where no host code needs the result, or let streams wait for events",
    "synchronizes with the GPU",
)
UPLOADS = Waiting(
    "Copy to the GPU with non_blocking=True from pinned memory (pin_memory=True), before the data is needed",
    "waits for copies to the GPU",
)
WAITS = Waiting(
    "Read values less often, copy from pinned memory with non_blocking=True, and remove synchronization",
    "waits for the GPU",
)


def waiting(kind: Waiting, times: int, site: str, time: str | None, *, loads: bool) -> Advice:
    """The host waits, and so cannot launch ahead; ``loads``: nor load data meanwhile, which is not in ``time``."""
    often = "once" if times == 1 else f"{times:,} times"
    loading = " Data loading is not counted; without the wait it could overlap with GPU work." if loads else ""
    return Advice(
        kind.action,
        f"The host {kind.does} {often}{site} and cannot launch ahead"
        f"{f': afterwards the GPU waits {time} for the host' if time else ''}.{loading}",
    )


def synchronous_launches(blocked: int, launches: int, idle: str, *, is_setting: bool, on_amd: bool) -> Advice:
    """The host waits for each kernel."""
    setting = "HIP_LAUNCH_BLOCKING and AMD_SERIALIZE_KERNEL" if on_amd else "CUDA_LAUNCH_BLOCKING"
    if is_setting:
        return Advice(
            f"Unset {setting}",
            f"{blocked:,} of {counted(launches, 'launch call')} return only after their kernel has ended, so the host "
            f"cannot launch ahead: the GPU is idle for {idle}. A setting for debugging does this.",
        )
    return Advice(
        f"Do not synchronize after each launch (timers, debug hooks, {setting})",
        f"{blocked:,} of {counted(launches, 'launch call')} are followed by a synchronization before the next launch, "
        f"so the host cannot launch ahead: the GPU is idle for {idle}.",
    )


def site(sites: int, name: str, calls: int) -> str:
    """Name the place in the program with most of the time, as the end of a clause."""
    return f"{', mostly' if sites > 1 else ''} in {quoted(name)} ({counted(calls, 'call')})"


def pageable_copies(count: int, where: str, copying: str, idle: str) -> Advice:
    """Copies from pageable memory block the host."""
    return Advice(
        "Pin the memory and copy with non_blocking=True, or keep the data on the GPU",
        f"{counted(count, 'copy', 'copies')} to the GPU from pageable memory{where}: {copying} of copying. The host is "
        f"blocked meanwhile and cannot launch ahead: afterwards the GPU waits {idle} for the host.",
    )


def data_loading_exposed(time: str | None, rank: int | None, name: str, *, in_process: bool) -> Advice:
    """The path waits for data; without a ``time`` it does not, but what the host launches next is late."""
    workers = "Set num_workers > 0" if in_process else "Use more workers or prefetching (num_workers, prefetch_factor)"
    where = " It runs in the main process." if in_process else ""
    return Advice(
        f"{workers}, or make batch preparation cheaper",
        f"Data loading is on the path for {time}{on_rank(rank)}, mostly {quoted(name)}.{where}"
        if time
        else f"Data loading delays the host's next launches, mostly {quoted(name)}.{where}",
    )


def driver_allocations(
    time: str, rank: int | None, calls: int, name: str, releases: int, *, expands: bool, pins: bool
) -> Advice:
    """The allocator still calls the driver."""
    why = (
        f"Memory is allocated from the driver, or returned to it, after warm-up: {time}{on_rank(rank)} in "
        f"{counted(calls, 'call')}, mostly {quoted(name)}. "
    )
    if pins:
        action = "Pin host memory once and reuse it: keep buffers, and let the data loader pin (pin_memory=True)"
        return Advice(action, f"{why}Most of these calls pin memory of the host, or release it.")
    returned = f"{releases:,} of them {'returns' if releases == 1 else 'return'} memory. " if releases else ""
    if expands:
        action = "Run the largest shapes first, pad shapes to a few sizes, and do not call torch.cuda.empty_cache()"
        return Advice(action, f"{why}{returned}Expandable segments are in use: they still grow for each larger shape.")
    return Advice(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad shapes to a few sizes",
        f"{why}{returned}Varying shapes or fragmented memory cause this.",
    )


def code_loading(
    time: str, calls: int, name: str, longest_ns: int, work: str | None, usual_ns: int, *, on_amd: bool
) -> Advice:
    """The first launches of kernels load their code."""
    eager = "" if on_amd else ", or load code at the start (CUDA_MODULE_LOADING=EAGER)"
    launched = f" for {quoted(work)}" if work else ""
    usual = f"; a launch usually takes {brief_duration(usual_ns)}" if usual_ns else ""
    return Advice(
        f"Run the same work once before measuring or serving{eager}",
        f"Loading code takes {time} in {counted(calls, 'call')}: first launches of kernels, or calls that load code. "
        f"The longest is {quoted(name)}{launched} ({brief_duration(longest_ns)}{usual}). This happens once in a "
        "process.",
    )


def compilation(time: str, name: str) -> Advice:
    """Code is compiled in the window."""
    return Advice(
        "Run all shapes once before measuring or serving, or compile with dynamic=True",
        f"PyTorch compiles, tunes kernels or captures graphs for {time}, mostly in {quoted(name)}. Compiled code is "
        "reused until a shape or a guard changes; TORCH_LOGS=recompiles shows why it is compiled again.",
    )


def garbage_collection(time: str, count: int, longest_ns: int, *, is_asked: bool) -> Advice:
    """Python collects garbage in the loop."""
    action = (
        "Call gc.collect() less often, and outside of steps"
        if is_asked
        else "Collect garbage by hand: gc.freeze() and gc.disable() before the loop, gc.collect(1) every hundredth step"
    )
    return Advice(
        action,
        f"Python collects garbage for {time}: {counted(count, 'collection')}, the longest of "
        f"{brief_duration(longest_ns)}. No Python thread runs meanwhile. Let all ranks collect in the same step.",
    )


def idle_between_steps(time: str, name: str) -> Advice:
    """The GPU is idle before a step's first work."""
    return Advice(
        "Move logging, evaluation and preparation after the step's launches, or to another thread",
        f"The GPU is idle for {time} before its first work in this step, while the host is mostly in {quoted(name)}.",
    )


# -- the GPU -----------------------------------------------------------------------------------------------------------

COMMUNICATION_CAUSES: Mapping[str, str] = {
    "computation": "Most of it starts after the computation it depends on, so nothing is left to overlap with.",
    "communication": "Most of it is queued behind other communication.",
    "host": "Most of it is launched late by the host.",
}
"""What most of the communication on the path comes right after."""


def exposed_communication(
    on_path: str, exposed_ns: int, name: str, calls: int, rank: int | None, cause: str | None, *,
    is_exposed: bool, in_job: bool, counts_more: bool,
) -> Advice:  # fmt: skip
    """No computation hides communication."""
    exposed = "all of it exposed" if is_exposed else f"{brief_duration(exposed_ns)} of it exposed"
    waits = (
        "Waiting for other ranks is not included."
        if in_job
        else "It may include waiting for other ranks; run hta-graph stragglers on all ranks to separate the two."
    )
    largest = f"{quoted(name)} ({counted(calls, 'call')}){on_rank(rank)}"
    said = [
        f"Communication takes {on_path} of the path, {exposed} (no computation overlaps it), mostly {largest}.",
        *([COMMUNICATION_CAUSES[cause]] if cause else []),
        waits,
        *(["The bound includes communication that is not on the path."] if counts_more else []),
    ]
    return Advice("Start communication earlier, or make it smaller", " ".join(said))


def serial_communication(count: int, time: str, hidden_ns: int, median_ns: int, *, are_small: bool) -> Advice:
    """Collectives and computation take turns."""
    hidden = f"only {brief_duration(hidden_ns)} of them overlap" if hidden_ns else "none of them overlaps"
    small = " Merge small ones into buckets: each costs the same time to start." if are_small else ""
    return Advice(
        "Overlap collectives with computation: start them with async_op=True or in DDP or FSDP buckets, and wait late",
        f"{counted(count, 'collective')} of {brief_duration(median_ns)} (median) take {time}, and {hidden} with "
        f"computation: the GPU does one or the other.{small} Collectives whose result the next operator needs (tensor "
        "parallelism) overlap only with another micro-batch, or in fused kernels.",
    )


def unbucketed_collectives(count: int, median_ns: int, time: str, buckets: int) -> Advice:
    """Gradients are reduced one by one."""
    return Advice(
        "Reduce gradients in buckets (DDP, FSDP, or one flat tensor), not one by one",
        f"The backward pass starts {counted(count, 'collective')} of {brief_duration(median_ns)} (median). Starting "
        f"and awaiting them takes the host {time} of the path. The saving assumes {buckets} buckets a step.",
    )


def gloo_communication(time: str, name: str) -> Advice:
    """A thread is silent while a Gloo collective runs."""
    return Advice(
        "Start this communication earlier, make it smaller, or use GPUs (NCCL)",
        f"No operator is open on the path's thread for {time} while {quoted(name)} runs on another thread: the path "
        "most likely waits for it. This may include waiting for other ranks; run hta-graph stragglers on all ranks.",
    )


def far_from_limit(name: str, inputs: str, time: str, calls: int, share: float, bound: str | None, device: str) -> str:
    """An operator is far below what the GPU could do."""
    return (
        f"{quoted(name)} ({quoted(inputs)}) takes {time} of the path in {counted(calls, 'call')} and reaches "
        f"{brief_share(share)} of the {'memory' if bound == 'memory' else 'compute'} limit of {device}"
    )


def far_by_layout(name: str, why: str) -> Advice:
    """What is no matrix product can be fused."""
    action = f"Fuse {quoted(name)} with its neighbors (torch.compile), or check the layout of its inputs"
    return Advice(action, f"{why}.")


def far_by_small_side(name: str, why: str, side: str, size: int) -> Advice:
    """A short side leaves matrix units empty."""
    action = f"Batch more of {quoted(name)}, or merge the products"
    return Advice(action, f"{why}: {side} = {size} leaves most of the GPU's matrix units unused.")


def far_by_odd_side(name: str, why: str, side: str, size: int, multiple: int) -> Advice:
    """A side that does not fit slows reading down."""
    action = f"Pad {side} of {quoted(name)} to a multiple of {multiple}"
    return Advice(action, f"{why}: {side} = {size} is not a multiple of {multiple}, so its rows are not aligned.")


def far_without_reason(name: str, why: str) -> Advice:
    """The shape explains nothing."""
    return Advice(f"Try another shape or another kernel for {quoted(name)}", f"{why}.")


def unfused_chains(
    chains: int, kernels: int, time: str, moved: int, least: int, operators: Sequence[str], times: int
) -> Advice:
    """Operators of a chain each read and write memory."""
    names = [name.removeprefix("aten::") for name in operators]
    shown = " > ".join(names if len(names) <= MOST_OPERATORS else [*names[:MOST_OPERATORS], "…"])
    return Advice(
        "Fuse chains of elementwise and normalization operators (torch.compile, or fused kernels)",
        f"{counted(kernels, 'kernel')} in {counted(chains, 'chain')} take {time} of the path and move "
        f"{gigabytes(moved)}; fused, they need to move {gigabytes(least)}. Largest chain: {quoted(shown)} "
        f"({counted(times, 'time')}). Which tensors are shared is inferred from shapes.",
    )


MOST_OPERATORS = 8
"""How many operators of a chain are named."""


def gigabytes(count: int) -> str:
    """Print a number of bytes.

    >>> gigabytes(77_910_000_000), gigabytes(3_300_000)
    ('77.9 GB', '3.3 MB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def unfused_kernels(kernels: int, time: str) -> Advice:
    """Kernels of single operators follow each other, and no shapes are recorded."""
    return Advice(
        "Fuse elementwise and normalization operators (torch.compile, or fused kernels)",
        f"{counted(kernels, 'kernel')} of single operators directly follow each other and take {time} of the path. "
        "Record with record_shapes=True to see how much fusing them saves.",
    )


def float32_products(time: str, device: str, times: float) -> Advice:
    """Float32 products could use TF32."""
    return Advice(
        'Use TF32 if its precision is sufficient: torch.set_float32_matmul_precision("high"), or torch.autocast',
        f"Float32 matrix products take {time} of the path. {device} computes them {times:.0f} times as fast in TF32. "
        "For convolutions, set torch.backends.cudnn.allow_tf32.",
    )


# -- ranks -------------------------------------------------------------------------------------------------------------


def slow_gpu(rank: int, ratio: float, longer: int, names: int) -> Advice:
    """The same kernels take longer on one rank."""
    return Advice(
        f"Check the GPU of rank {rank}: throttling (nvidia-smi -q -d PERFORMANCE), other programs, larger inputs",
        f"The same kernels take {ratio:.2f} times as long there as on any other rank ({longer} of {names} "
        "kernel names take longer).",
    )


def slow_host(rank: int, ratio: float, longer: int, names: int) -> Advice:
    """The same operators take longer on one rank."""
    return Advice(
        f"Check the host of rank {rank}: throttling, too few cores, other programs, larger inputs",
        f"The same operators take {ratio:.2f} times as long there as on any other rank ({longer} of {names} "
        "operator names take longer).",
    )


# -- the recording -----------------------------------------------------------------------------------------------------


def no_python_stacks(time: str, name: str | None) -> Advice:
    """Time outside of operators, and no stacks."""
    under = f", mostly under {quoted(name)}" if name else ""
    return Advice(
        "Record with with_stack=True",
        f"No operator is open for {time}{under}, and the trace has no Python stacks. Stacks show whether that time is "
        "Python, the framework or a wait.",
    )


def no_sync_records(time: str) -> Advice:
    """Waits without records."""
    return Advice(
        "Record with enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)",
        f"Calls wait {time} for work that the trace does not identify.",
    )


def begun_too_late(time: str) -> Advice:
    """Work from before the recording."""
    return Advice(
        "Start the profiler on an idle GPU (call torch.cuda.synchronize() first), or analyze a later window",
        f"For {time}, the window probably waits for work that was enqueued before the recording started.",
    )


HOW_TO_RECORD: Mapping[str, str] = {
    "before_recording": "Start the profilers of all ranks before the same step",
    "missing_graph_node": "Record again, for fewer steps: the profiler dropped nodes of CUDA graphs",
    "wait_without_record": "Record with with_stack=True to see which code waits",
    "other_rank": "Record all ranks and analyze them together",
    "clock_fault": "Record again: timestamps contradict each other",
    "unknown": "Record with with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)",
}
"""By reason for being unexplained what the next trace should hold."""


NSIGHT_STACKS = "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree"
IN_NSIGHT: Mapping[str, str] = {
    "with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": NSIGHT_STACKS,
    "with_stack=True": NSIGHT_STACKS,
    "enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": "nsys profile --cuda-event-trace=true",
    "ProfilerActivity.CUDA and without hardware counters": "nsys profile --trace=cuda,nvtx",
    "pass schedule(wait=…, warmup=…) to the profiler and call prof.step()": "nsys profile "
    "--capture-range=cudaProfilerApi, and torch.cuda.profiler.start() in the program",
    "has no Python stacks": "has no samples, OS runtime calls or Python stacks",
}
"""How to record with PyTorch's profiler → with Nsight Systems, as parts of sentences."""


def in_words_of_nsight(said: Advice) -> Advice:
    """Say how to record with Nsight Systems what is said of PyTorch's profiler."""
    action, why = said
    for torch, nsight in IN_NSIGHT.items():
        action, why = action.replace(torch, nsight), why.replace(torch, nsight)
    return Advice(action, why)


def causes_not_recorded(reason: str, time: str) -> Advice:
    """Much time is unexplained."""
    return Advice(
        HOW_TO_RECORD[reason],
        f"{time} of the path has no recorded cause, so any of the causes that are known could be the wrong one to fix.",
    )


def no_gpu_rows(calls: int) -> Advice:
    """Launches without GPU activity."""
    return Advice(
        "Record with ProfilerActivity.CUDA and without hardware counters",
        f"The host makes {counted(calls, 'launch call')}, but the trace has no GPU activity. Without it, there are no "
        "results about the GPU.",
    )


def start_up_recorded(time: str, name: str, largest_ns: int) -> Advice:
    """Start-up is in the recording."""
    return Advice(
        "Record later: pass schedule(wait=…, warmup=…) to the profiler and call prof.step()",
        f"One-time start-up takes {time}, mostly {quoted(name)} ({brief_duration(largest_ns)}).",
    )
