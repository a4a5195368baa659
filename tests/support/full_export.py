"""An export of Nsight Systems with a row in each table that may be there."""

from __future__ import annotations

from tests.support.made_nsys import CONTEXT_SYNC, STREAM_SYNC, STREAM_WAIT, NsysBuilder


def full_export(steps: int = 12, schema: str = "3.25") -> NsysBuilder:
    """Build an export with a row in each table that may be there."""
    made = NsysBuilder(schema=schema)
    made.process()
    made.gpu()
    made.null_stream()
    made.thread("python3")
    made.environment(RANK="1", WORLD_SIZE="2")
    made.system("Hostname", "node7")
    for at in range(steps):
        time, number = 1_000 + 100_000 * at, 10 * at + 1
        made.op("aten::mm", time, time + 90_000, op_id=number, seq=at, sizes=[[2, 3], []])
        made.launch("void gemm<float>(float*)", (time + 1_000, time + 5_000), (time + 10_000, time + 60_000), number)
        made.call("cudaStreamSynchronize_v3020", time + 6_000, time + 70_000, number + 1)
        made.sync(STREAM_SYNC, time + 6_000, time + 65_000, number + 1, stream=7)
        made.os_call("pthread_cond_wait", time + 91_000, time + 99_000)
    made.copy("DtoH", 2_000_000, 2_001_000, 901, target="Pinned")
    made.memset(2_001_000, 2_002_000, 902)
    made.call("cudaEventRecord_v3020", 2_002_000, 2_002_500, 903)
    made.cuda_event(903, 5, 6)
    made.call("cudaStreamWaitEvent_v3020", 2_003_000, 2_003_500, 904)
    made.sync(STREAM_WAIT, 2_003_000, 2_003_500, 904, stream=8, event=5, event_sync=6)
    made.call("cudaDeviceSynchronize_v3020", 2_004_000, 2_005_000, 905)
    made.sync(CONTEXT_SYNC, 2_004_000, 2_005_000, 905)
    made.nccl("ncclAllReduce", 2_006_000, 2_007_000, "reduce", 7, 4096, 0)
    made.overhead("cuLibraryLoad", 2_008_000, 2_009_000)
    made.graph_node(2_009_000, 3)
    made.whole_graph(2_010_000, 2_020_000, 906)
    made.page_faults(2_021_000, 2_022_000)
    made.migration("HtoD", 2_022_000, 2_023_000)
    made.scheduled(2_024_000, on=False, state=2)
    made.sample(2_025_000, "PyEval_EvalFrame")
    return made
