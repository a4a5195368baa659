"""What PyTorch programs do, as short bodies of statements; both generators are built of these."""

from tests.simulator.program import (
    Annotation,
    Body,
    Call,
    Copy,
    Frame,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Launch,
    Op,
    Poll,
    QueryEvent,
    Record,
    Set,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    ThreadProgram,
    Wait,
)

COMPUTE = Stream(7)
COPIES = Stream(20)
COLLECTIVES = Stream(24)
SIDE = Stream(28)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
DISPATCH = "void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def step(number: int, body: Body) -> Annotation:
    """A profiler step."""
    return Annotation(f"ProfilerStep#{number}", body)


def load_data(ns: int) -> Body:
    """Host work under a data loader's name."""
    return (Op(LOADER, (Gap(ns),)),)


def prefetch(event: int, ns: int) -> Body:
    """A batch copied on a stream of its own, for which the compute stream waits."""
    copy = Op("aten::copy_", (Copy(COPIES, ns),))
    return Op("aten::to", (copy,)), Record(event, COPIES), Wait(COMPUTE, event)


def forward(sequence: int, ns: int, overlap_ns: int = 0, stream: Stream = COMPUTE) -> Body:
    """A layer: nested operators that share an autograd number, and Python between layers."""
    kernel = Launch(stream, ns, "ampere_sgemm_128x64_nn", overlap_ns=overlap_ns)
    linear = Op("aten::linear", (Op("aten::addmm", (kernel,), sequence),), sequence)
    return Frame("nn.Module: Linear_0", (linear,)), Gap(2_000)


def dispatch(ns: int, before_end_ns: int) -> Body:
    """Tokens sent to the ranks of their experts: the host spins until the kernel has told how many come."""
    return Launch(COMPUTE, ns, DISPATCH), Poll(COMPUTE, before_end_ns)


def backward(sequence: int, ns: int, stream: Stream = COMPUTE) -> Op:
    """The autograd engine's call of a layer's backward node."""
    products = Op("aten::mm", (Launch(stream, ns, "ampere_sgemm_64x32_tn"),)), Op("aten::t")
    node = Op("AddmmBackward0", products, sequence)
    return Op("autograd::engine::evaluate_function: AddmmBackward0", (node,), sequence)


def all_reduce(event: int, ns: int) -> Op:
    """A bucket's reduction: the collective stream waits for compute, and an event marks its end."""
    kernel = Annotation("nccl:all_reduce", (Launch(COLLECTIVES, ns, ALL_REDUCE),))
    ready, done = Record(event, COMPUTE), Record(event + 1, COLLECTIVES)
    return Op("c10d::allreduce_", (ready, Wait(COLLECTIVES, event), kernel, done))


def item(ns: int) -> Body:
    """Read a number back: a pageable copy that blocks, then a stream sync."""
    read = Op("aten::_local_scalar_dense", (Copy(COMPUTE, ns, "DtoH", "pageable"), SyncStream(COMPUTE)))
    return (Op("aten::item", (read,)),)


def to_device(ns: int) -> Body:
    """Copy from pageable memory, staged."""
    return (Op("aten::to", (Op("aten::copy_", (Copy(COMPUTE, ns, host="pageable"),)),)),)


def across(event: int, source: Stream, target: Stream, ns: int) -> Body:
    """A copy to another device: the source waits until the target may be written, the target until it is."""
    free = Record(event, target), Wait(source, event)
    copied = Record(event + 1, source), Wait(target, event + 1)
    return (Op("aten::to", (Op("aten::copy_", (*free, Copy(source, ns, "PtoP"), *copied)),)),)


def side_stream(event: int, ns: int) -> Body:
    """Work forked to a side stream and joined again."""
    fork = Record(event, COMPUTE), Wait(SIDE, event)
    join = Record(event + 1, SIDE), Wait(COMPUTE, event + 1)
    return *fork, Op("aten::index_select", (Launch(SIDE, ns, "index_select_kernel"),)), *join


def optimizer(count: int, ns: int) -> Body:
    """An optimizer's step: a few kernels over all parameters."""
    update = Op("aten::_foreach_add_", tuple(Launch(COMPUTE, ns, "multi_tensor_apply") for _ in range(count)))
    return (Annotation("Optimizer.step#SGD.step", (update,)),)


def clear(ns: int) -> Body:
    """Set gradients to zero."""
    return (Op("aten::zero_", (Set(COMPUTE, ns),)),)


def allocate(ns: int) -> Body:
    """Ask the driver for memory."""
    return (Op("aten::empty", (Call("cudaMalloc", ns, locked=True),)),)


def time_kernels(event: int) -> Body:
    """Wait for an event on the host."""
    return Record(event, COMPUTE), SyncEvent(event)


def finish() -> Body:
    """`torch.cuda.synchronize()`."""
    return Gap(1_000), SyncDevice()


def replay() -> Body:
    """Replay the first graph."""
    return Annotation("## Call CompiledFxGraph ##", (GraphLaunch(0, COMPUTE),)), Gap(3_000)


def branched_graph(ns: int, width: int, captured: bool) -> Graph:
    """A graph that forks into branches and joins again."""
    forks = tuple(GraphNode(ns, branch, (0,)) for branch in range(1, width))
    return Graph((GraphNode(ns), *forks, GraphNode(ns, 0, tuple(range(1, width)))), captured)


def watchdog(event: int, polls: int, period_ns: int) -> ThreadProgram:
    """A thread that feeds nothing: it polls a collective's event, also after the end."""
    return ThreadProgram((Gap(period_ns), QueryEvent(event)) * polls, "watchdog", 50_000)


def pin_memory(batches: int, ns: int) -> ThreadProgram:
    """A thread whose host allocations contend for the driver's lock."""
    allocation = Call("cudaHostAlloc", ns, locked=True)
    return ThreadProgram((Gap(4 * ns), allocation) * batches, "pin_memory", 10_000)
