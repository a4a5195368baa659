"""chakra: workloads for the simulators of MLCommons Chakra and ASTRA-sim."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyses.arg_types import RANK, factor_text
from analyses.cli.command import Command, CommandGroup
from analyses.cli.options import add_inputs, add_jobs, add_json
from analyses.cli.outputs import write_json
from analyses.cli.path_args import InputFolder, InputTraces, OutputFile, OutputFolder
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.display.stderr import say
from hta_graph.chakra.convert_options import CHOICES
from hta_graph.errors import HtaGraphError, OutputError, UsageError
from hta_graph.storage.location import Location, expand_file_lists, resolve_location

if TYPE_CHECKING:
    from analyses.display.text_layout import Line
    from hta_graph.chakra.convert import Conversion
    from hta_graph.chakra.linked_trace import LinkedTrace
    from hta_graph.chakra.log_statistics import LogStatistics
    from hta_graph.chakra.rank_workload import RankInput
    from hta_graph.chakra.simulate import Simulation


def _add_link(parser: argparse.ArgumentParser) -> None:
    """Add the two traces of one rank and where the linked one goes; ``chakra_trace_link``'s names work too."""
    parser.add_argument(
        "--host-trace", "--chakra-host-trace", type=InputTraces, required=True, metavar="FILE",
        help="the host execution trace (torch.profiler.ExecutionTraceObserver)",
    )  # fmt: skip
    parser.add_argument(
        "--device-trace",
        "--chakra-device-trace",
        type=InputTraces,
        required=True,
        metavar="FILE",
        help="the device (Kineto) trace",
    )
    parser.add_argument("--rank", type=RANK, metavar="R", help="the rank of both; default: what the device trace says")
    parser.add_argument(
        "-o",
        "--output",
        "--output-file",
        type=OutputFile,
        required=True,
        metavar="FILE",
        help="the linked trace (- for standard output)",
    )
    parser.add_argument("--force", action="store_true", help="replace an output that exists")
    parser.add_argument("--any-process", action="store_true", help="link traces that name different processes")
    parser.add_argument(
        "--salvage", action="store_true", help="read the whole events of a device trace that breaks off"
    )
    parser.add_argument("--log-level", metavar="LEVEL", help=argparse.SUPPRESS)  # chakra_trace_link's, without effect


def _run_link(options: argparse.Namespace) -> None:
    """Link a host execution trace and a device trace of one rank, and say what was found."""
    from hta_graph.build import build_graph
    from hta_graph.chakra.host_trace import read_host_trace
    from hta_graph.chakra.linked_trace import link_traces, linked_json
    from hta_graph.storage.atomic_write import write_file
    from hta_graph.trace.read import read_trace

    _refuse_existing(options.output, force=options.force)
    host = read_host_trace(options.host_trace)
    trace = read_trace(options.device_trace, salvage=options.salvage)
    if trace.salvaged:
        say(f"{trace.path}: {trace.salvaged}")
    linked = link_traces(build_graph(trace), host, rank=options.rank, any_process=options.any_process)
    write_file(options.output, linked_json(linked))
    for line in _link_lines(linked):
        say(f"{options.output}: {line}")


LINK = Command(
    name="link",
    help="Link a host execution trace and a device trace of one rank, as chakra_trace_link does.",
    more="The host trace is that of torch.profiler.ExecutionTraceObserver, of the same run.",
    examples=("chakra link --host-trace host.json --device-trace device.json --output linked.json",),
    page="simulators.md",
    options=(_add_link,),
    run=_run_link,
)


def _refuse_existing(output: str, *, force: bool) -> None:
    """Refuse to replace a file that nobody said may go."""
    if output != "-" and not force and resolve_location(output).is_file():
        raise OutputError(f"{output}: exists; --force replaces it")


def _link_lines(linked: LinkedTrace) -> list[str]:
    """Tell how the traces were matched, what was added, and what could not be."""
    waits = (
        f"{len(linked.sync):,} on synchronised GPU work, {len(linked.thread):,} between threads, "
        f"{len(linked.gpu):,} between streams"
    )
    lines = [f"rank {linked.rank}, {linked.matching}", f"{len(linked.activity):,} GPU nodes; dependencies: {waits}"]
    left_out = {
        "GPU activities without a node: launched before the recording, or under no matched operator": linked.unplaced,
        "dependencies without a node at one end": linked.waits_without_node,
        "dependencies left out because they go back in time": linked.waits_back_in_time,
    }
    return lines + [f"{count:,} {what}" for what, count in left_out.items() if count]


def _add_convert(parser: argparse.ArgumentParser) -> None:
    """Add what a workload is made of, how, and where it goes."""
    parser.add_argument(
        "--host-trace", type=InputTraces, nargs="+", default=[], metavar="FILE",
        help="host execution traces of the ranks: they add tensors and dependencies by them",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=OutputFolder, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--prefix", default="trace", metavar="NAME", help="the files are NAME.<npu>.et (trace)")
    parser.add_argument(
        "--profile", choices=CHOICES["profile"], default="full",
        help="gpu: leave operators out; the host's time between launches and waits is one delay (full)",
    )  # fmt: skip
    parser.add_argument(
        "--overlap", choices=CHOICES["overlap"], default="keep",
        help="a simulated rank does one thing at a time; rows that ran beside others keep their durations and run "
        "after them, or share the time in which any of them ran (keep)",
    )  # fmt: skip
    parser.add_argument(
        "--unknown-collectives", choices=CHOICES["unknown"], default="error",
        help="what becomes of communication whose type, size or group is not known, or that ASTRA-sim does not run: "
        "as-recorded lets the ranks wait for each other and the recorded transfer pass (of broadcasts too), as-compute "
        "makes compute nodes; of the CPU's only as-recorded makes nodes (error)",
    )  # fmt: skip
    parser.add_argument(
        "--missing-ranks", choices=CHOICES["missing"], default="error",
        help="ranks without a trace: copy lets them do what the lowest given one does; communication with them takes "
        "as long as it did (as-recorded) or becomes compute nodes (as-compute); on the CPU it is time of the thread "
        "that waited (error)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a workload that exists")


def _run_convert(options: argparse.Namespace) -> None:
    """Write a folder of ``.et`` files, and say what became of the traces."""
    from hta_graph.chakra.convert import conversion_document
    from hta_graph.chakra.convert import convert as write_workload
    from hta_graph.chakra.convert_options import ConvertOptions
    from hta_graph.chakra.et_files import check_target

    target = resolve_location(options.output)
    check_target(target, force=options.force)
    asked = ConvertOptions(
        options.profile,
        options.prefix,
        options.unknown_collectives,
        options.missing_ranks,
        options.overlap,
        force=options.force,
    )
    conversion = write_workload(_rank_inputs(options), target, asked)
    for note in conversion.notes:
        say(f"{target}: {note}")
    if options.json:
        write_json(options.json, conversion_document(conversion), options.left_out)
    else:
        print_lines(_conversion_lines(conversion), wide=options.wide)


CONVERT = Command(
    name="convert",
    help="Write .et files of all ranks for ASTRA-sim, from device traces (and host traces) or linked ones.",
    more="What it writes is checked before it is there.",
    examples=("chakra convert job --output workload", "chakra convert job --profile gpu --output gpu_only"),
    page="simulators.md",
    options=(add_inputs, add_jobs, _add_convert, add_json),
    run=_run_convert,
)


def _add_check(parser: argparse.ArgumentParser) -> None:
    """Add the workload to look at."""
    parser.add_argument("folder", type=InputFolder, metavar="DIR", help="a folder of .et files and comm_groups.json")


def _run_check(options: argparse.Namespace) -> None:
    """Print what ASTRA-sim would stumble over, one line each; with findings the exit status is 1."""
    from hta_graph.chakra.check import check as look_at
    from hta_graph.chakra.check import check_document
    from hta_graph.chakra.et_files import read_folder

    result = look_at(read_folder(options.folder))
    if options.json:
        write_json(options.json, check_document(result), options.left_out)
    for note in result.notes:
        say(f"{options.folder}: note: {note}")
    if result.findings and not options.json:
        print_lines([str(finding) for finding in result.findings])
    if result.findings:
        raise HtaGraphError(f"{options.folder}: ASTRA-sim would not run this; findings: {len(result.findings):,}")
    if not options.json:
        nodes = sum(len(program) for program in result.programs.values())
        print_lines([f"{options.folder}: nothing found; ranks: {len(result.programs)}, nodes: {nodes:,}"])


CHECK = Command(
    name="check",
    help="Find what ASTRA-sim would abort on, stall at in silence, or simulate wrongly.",
    more="It exits with 1 where ASTRA-sim would not run the workload.",
    examples=("chakra convert job --output workload", "chakra check workload"),
    page="simulators.md",
    options=(_add_check, add_json),
    run=_run_check,
)


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    """Add the workload to execute, and what to write."""
    _add_check(parser)
    parser.add_argument(
        "--nodes", type=OutputFile, metavar="FILE", help="write when each node started and ended as CSV"
    )


def _run_simulate(options: argparse.Namespace) -> None:
    """Execute a workload, print how long each rank took, and where it stalls."""
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.simulate import nodes_csv, simulation_document
    from hta_graph.chakra.simulate import simulate as execute
    from hta_graph.storage.atomic_write import write_file

    result = execute(read_folder(options.folder))
    if options.json:
        write_json(options.json, simulation_document(result), options.left_out)
    if options.nodes:
        write_file(options.nodes, nodes_csv(result))
    if not options.json and options.nodes != "-":
        print_lines([*_simulation_lines(result), *result.stalls], wide=options.wide)
    if result.stalls:
        raise HtaGraphError(f"{options.folder}: stalls: {result.stalls[0]}")


SIMULATE = Command(
    name="simulate",
    help="Execute .et files by ASTRA-sim's rules, beside what was measured.",
    more="Each rank's simulated end stands beside its measured span.",
    examples=("chakra convert job --output workload", "chakra simulate workload"),
    page="simulators.md",
    options=(_add_simulate, add_json),
    run=_run_simulate,
)


def _add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the workload to scale, by how much, and where the scaled one goes."""
    _add_check(parser)
    parser.add_argument(
        "--gpu", type=factor_text, default="1", metavar="FACTOR",
        help="durations of compute nodes of the GPU become so many times as long: 0.5 is a GPU twice as fast (1)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", type=factor_text, default="1", metavar="FACTOR",
        help="the same for the CPU's work: operators and, in the profile gpu, its delays (1)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=OutputFolder, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--force", action="store_true", help="replace a workload that exists")


def _run_scale(options: argparse.Namespace) -> None:
    """Write a workload whose compute nodes take longer or shorter, and say what changed."""
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.scale import scale_factor, scale_workload

    factors = scale_factor(options.gpu), scale_factor(options.cpu)
    changed = scale_workload(
        read_folder(options.folder), resolve_location(options.output), *factors, force=options.force
    )
    say(f"{options.output}: nodes scaled: {changed.gpu:,} of the GPU, {changed.cpu:,} of the CPU")


SCALE = Command(
    name="scale",
    help="Write a workload again for a faster or slower GPU or CPU.",
    more="Durations of computation change; communication and what depends on what stay.",
    examples=("chakra convert job --output workload", "chakra scale workload --gpu 0.5 --output faster"),
    page="simulators.md",
    options=(_add_scale,),
    run=_run_scale,
)


def _add_statistics(parser: argparse.ArgumentParser) -> None:
    """Add the log of a run, and the workload that was run."""
    parser.add_argument(
        "log", type=InputFolder, metavar="LOG", help='ASTRA-sim\'s logging folder (its system says "trace-enabled": 1)'
    )
    parser.add_argument(
        "--workload",
        type=InputFolder,
        metavar="DIR",
        help="what was run: it says which nodes are work of the CPU, and how many there are",
    )


def _run_statistics(options: argparse.Namespace) -> None:
    """Print what a log of ASTRA-sim says of each rank."""
    from hta_graph.chakra.astra_sim_executor import rank_programs
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.log_statistics import log_statistics, read_log, statistics_document

    log = read_log(options.log)
    found = log_statistics(log, rank_programs(read_folder(options.workload)) if options.workload else None)
    for note in found.notes:
        say(f"{options.log}: note: {note}")
    if options.json:
        write_json(options.json, statistics_document(found), options.left_out)
    else:
        print_lines(_statistics_lines(found), wide=options.wide)
    if options.workload and not all(one.may_be_complete if found.is_lost else one.is_complete for one in found.ranks):
        raise HtaGraphError(f"{options.log}: ASTRA-sim did not run all nodes to their end")


STATISTICS = Command(
    name="statistics",
    help="How long each rank computed and communicated in a run of ASTRA-sim, by its log.",
    more="ASTRA-sim writes the log where its system file says trace-enabled.",
    examples=("chakra statistics log --workload workload",),
    page="simulators.md",
    options=(_add_statistics, add_json),
    run=_run_statistics,
)


def _rank_inputs(options: argparse.Namespace) -> Iterator[RankInput]:
    """Read the ranks: linked traces, or device traces and perhaps host traces."""
    from hta_graph.chakra.linked_trace_reader import has_chakra_schema, is_linked_trace
    from hta_graph.chakra.rank_workload import RankInput
    from hta_graph.trace.rank_files import expand_inputs

    hosts = {path.absolute() for path in expand_inputs(expand_file_lists(options.host_trace))}
    paths = [path for path in expand_inputs(expand_file_lists(options.inputs)) if path.absolute() not in hosts]
    if not paths:
        raise UsageError("every input is a host trace too, after --host-trace; name the files apart")
    # A workload is made of one form of input: linked traces, or device traces with or without host traces.
    linked = [path for path in paths if has_chakra_schema(path)]
    if len(linked) == len(paths):
        if hosts:
            raise UsageError("linked traces hold their host traces already; leave --host-trace out")
        yield from _linked_inputs(linked, options.rank)
        return
    if both := [path for path in linked if is_linked_trace(path)]:
        raise UsageError(f"{both[0]} is a linked trace, others are device traces; give all ranks in one form")
    # A workload lacks no rank: simulators wait for it for ever.
    ranks = replace(RankInputs.of(options), inputs=paths, all_needed=True)
    devices = [RankInput(*found) for found in ranks.graphs_by_rank()]
    yield from _with_host_traces(options, devices)


def _linked_inputs(paths: Sequence[Location], only: int | None) -> Iterator[RankInput]:
    """Read linked traces, each rank once."""
    from hta_graph.build import build_graph
    from hta_graph.chakra.host_tensors import HostTensors
    from hta_graph.chakra.linked_trace_reader import read_linked
    from hta_graph.chakra.rank_workload import RankInput
    from hta_graph.dependencies.rules import DEFAULT_RULES
    from hta_graph.errors import TraceError

    seen: dict[int, Location] = {}
    for at, path in enumerate(paths):
        linked = read_linked(path)
        # A linked file need not know its rank: then the order of the files does.
        rank = at if linked.trace.rank is None else linked.trace.rank
        if rank in seen:
            raise TraceError(path, f"claims rank {rank}, as {seen[rank]} does", "give one file per rank")
        seen[rank] = path
        if only in (None, rank):
            graph = build_graph(linked.trace, (*DEFAULT_RULES, linked.waits))
            yield RankInput(rank, graph, HostTensors(graph, linked, linked.node), linked.details)
    if only is not None and only not in seen:
        raise TraceError(paths[0], f"rank {only} is not there", f"there are: {', '.join(map(str, sorted(seen)))}")


def _with_host_traces(options: argparse.Namespace, devices: Sequence[RankInput]) -> Iterator[RankInput]:
    """Match host traces: by the rank in their names, else in their order."""
    from hta_graph.chakra.host_matching import check_rank, match_host_trace
    from hta_graph.chakra.host_tensors import HostTensors
    from hta_graph.chakra.host_trace import read_host_trace

    named = _host_traces_by_rank(options.host_trace, [device.rank for device in devices], options.rank)
    for device in devices:
        if not (path := named.get(device.rank)):
            if named:
                say(f"rank {device.rank} has no host trace")
            yield device
            continue
        host = read_host_trace(path)
        check_rank(host, device.rank)
        matching = match_host_trace(device.graph, host)
        say(f"{path}: rank {device.rank}, {matching}")
        yield replace(device, tensors=HostTensors(device.graph, host, matching.node))


def _host_traces_by_rank(given: Sequence[str], ranks: Sequence[int], only: int | None) -> dict[int, Location]:
    """Return each rank's host trace; where one rank was asked for, those of others are left out.

    Raises:
        UsageError: names tell a rank that is not there, or do not tell enough.
    """
    from hta_graph.trace.rank_files import expand_inputs, rank_in_name

    paths = expand_inputs(expand_file_lists(given))
    named = {rank: path for path in paths if (rank := rank_in_name(path)) is not None}
    # Without ranks in their names, host traces belong to the device traces in order, if there is one for each.
    if not named and len(paths) in (0, len(ranks)):
        return dict(zip(ranks, paths, strict=False))
    if not named:
        raise UsageError(f"there are {len(ranks)} ranks and {len(paths)} host traces without a rank in their names")
    if len(named) < len(paths):
        other = next(path for path in paths if path not in named.values())
        raise UsageError(f"{other}: has no rank of its own in its name; name host traces such as host_rank0.json")
    if only is None and (others := sorted(named.keys() - set(ranks))):
        raise UsageError(
            f"{named[others[0]]}: is the host trace of rank {others[0]}; there are device traces of "
            f"{', '.join(map(str, ranks[:16]))}"
        )
    return named


def _conversion_lines(conversion: Conversion) -> list[Line]:
    """Tell how long each rank is, as measured and as simulated."""
    from analyses.display.text_layout import duration_text, table

    rows = [
        [
            str(found.npu), str(found.rank), f"{found.nodes:,}",
            "" if found.measured_ns is None else duration_text(found.measured_ns),
            duration_text(found.simulated_ns), _relative_difference(found.simulated_ns, found.measured_ns),
            duration_text(found.cpu_delay_ns), duration_text(found.gpu_delay_ns),
        ]
        for found in conversion.ranks
    ]  # fmt: skip
    return table(rows, ("npu", "rank", "nodes", "measured", "simulated", "apart", "CPU delays", "GPU delays"))


def _simulation_lines(result: Simulation) -> list[Line]:
    """Tell how much each rank executed, and how long that took."""
    from analyses.display.text_layout import duration_text, table

    rows = [
        [
            str(found.npu), "" if found.rank is None else str(found.rank), f"{found.executed:,} of {found.nodes:,}",
            "" if found.measured_ns is None else duration_text(found.measured_ns), duration_text(found.simulated_ns),
            _relative_difference(found.simulated_ns, found.measured_ns),
        ]
        for found in result.ranks
    ]  # fmt: skip
    return table(rows, ("npu", "rank", "executed", "measured", "simulated", "apart"))


def _statistics_lines(found: LogStatistics) -> list[Line]:
    """Tell how long each rank did what (ms)."""
    from analyses.display.text_layout import table
    from hta_graph.text.formatting import milliseconds

    rows = [
        [
            str(rank.npu),
            "" if rank.rank is None else str(rank.rank),
            f"{rank.called_back:,}" + ("" if rank.nodes in (None, rank.called_back) else f"/{rank.nodes:,}"),
            *("" if time is None else milliseconds(time) for time in (
                rank.end_ns, rank.gpu_ns, rank.memory_ns, rank.communication_ns, rank.overlap_ns,
                rank.exposed_communication_ns, rank.idle_ns, rank.cpu_ns, rank.delay_ns,
            )),
        ]
        for rank in found.ranks
    ]  # fmt: skip
    times = ("end", "GPU", "memory", "comm", "overlap", "exposed", "idle", "CPU", "delays")
    return table(rows, ("npu", "rank", "nodes", *(f"{name} ms" for name in times)))


def _relative_difference(simulated: int, measured: int | None) -> str:
    """Print how far apart two lengths are."""
    return f"{simulated / measured - 1:+.2%}" if measured else ""


CHAKRA = CommandGroup(
    name="chakra",
    help="Workloads for the simulators of MLCommons Chakra and ASTRA-sim.",
    commands=(LINK, CONVERT, CHECK, SIMULATE, SCALE, STATISTICS),
)
