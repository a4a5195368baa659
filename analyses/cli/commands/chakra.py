"""chakra: workloads for the simulators of MLCommons Chakra and ASTRA-sim."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyses.cli.command import Command, CommandGroup
from analyses.cli.options import OUTPUT, add_alias, add_answer, add_inputs, add_jobs, add_json, add_salvage, heading
from analyses.cli.outputs import write_output
from analyses.cli.path_args import InputFolder, InputTraces, OutputFile, OutputFolder
from analyses.cli.rank_inputs import RankInputs
from analyses.declare.arg_types import RANK, factor_text
from analyses.display.stderr import say
from hta_graph.base.errors import HtaGraphError, OutputError, UsageError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, expand_file_lists, resolve_location
from hta_graph.chakra.convert_options import CHOICES

if TYPE_CHECKING:
    from analyses.display.text_layout import Line
    from hta_graph.chakra.convert import Conversion
    from hta_graph.chakra.linked_trace import LinkedTrace
    from hta_graph.chakra.log_statistics import LogStatistics
    from hta_graph.chakra.rank_workload import RankInput
    from hta_graph.chakra.simulate import Simulation


def _add_link(parser: argparse.ArgumentParser) -> None:
    """Add the two traces of one rank and the linked one; the option names of ``chakra_trace_link`` work too."""
    host = parser.add_argument(
        "--host-trace",
        type=InputTraces,
        required=True,
        metavar="FILE",
        help="host execution trace (torch.profiler.ExecutionTraceObserver)",
    )
    device = parser.add_argument(
        "--device-trace", type=InputTraces, required=True, metavar="FILE", help="device (Kineto) trace"
    )
    add_alias(parser, host, "--chakra-host-trace")
    add_alias(parser, device, "--chakra-device-trace")
    parser.add_argument("--rank", type=RANK, metavar="N", help="rank of both (default: that of the device trace)")
    parser.add_argument("--any-process", action="store_true", help="link traces of different processes")
    add_salvage(parser)
    output = heading(parser, OUTPUT).add_argument(
        "-o",
        "--output",
        type=OutputFile,
        required=True,
        metavar="FILE",
        help="linked trace to write (- for standard output)",
    )
    add_alias(parser, output, "--output-file")
    _add_force(parser, "file")
    parser.add_argument("--log-level", metavar="LEVEL", help=argparse.SUPPRESS)  # chakra_trace_link's, without effect


def _run_link(options: argparse.Namespace) -> None:
    """Link a host execution trace and a device trace of one rank, and print what was found."""
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.build.from_trace import build_graph
    from hta_graph.chakra.host_trace import read_host_trace
    from hta_graph.chakra.linked_trace import link_traces, linked_json
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
    help="Link host and device traces, like chakra_trace_link",
    more="Both traces must be from the same rank and run; record the host trace with ExecutionTraceObserver.",
    examples=("chakra link --host-trace host.json --device-trace device.json --output linked.json",),
    page="simulators.md",
    options=(_add_link,),
    run=_run_link,
)


def _refuse_existing(output: str, *, force: bool) -> None:
    """Refuse to replace a file without ``--force``."""
    if output != "-" and not force and resolve_location(output).is_file():
        raise OutputError(f"{output}: already exists; use --force to replace it")


def _link_lines(linked: LinkedTrace) -> list[str]:
    """Describe how the traces were matched, what was added, and what was left out."""
    waits = (
        f"{len(linked.sync):,} on synchronized GPU work, {len(linked.thread):,} between threads, "
        f"{len(linked.gpu):,} between streams"
    )
    lines = [f"rank {linked.rank}, {linked.matching}", f"{len(linked.activity):,} GPU nodes; dependencies: {waits}"]
    left_out = {
        "GPU activities without a node (launched before the recording, or by no matched operator)": linked.unplaced,
        "dependencies left out because one end has no node": linked.waits_without_node,
        "dependencies left out because they go back in time": linked.waits_back_in_time,
    }
    return lines + [f"{count:,} {what}" for what, count in left_out.items() if count]


def _add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the workload."""
    heading(parser, OUTPUT).add_argument(
        "-o", "--output", type=OutputFolder, required=True, metavar="DIR", help="folder to write"
    )


def _add_force(parser: argparse.ArgumentParser, what: str) -> None:
    """Add whether an existing output is replaced."""
    heading(parser, OUTPUT).add_argument("--force", action="store_true", help=f"replace an existing {what}")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    """Add the host traces, the conversion and the output."""
    parser.add_argument(
        "--host-trace", type=InputTraces, nargs="+", default=[], metavar="FILE",
        help="host execution traces of the ranks; they add tensors and their dependencies",
    )  # fmt: skip
    _add_folder(parser)
    parser.add_argument("--prefix", default="trace", metavar="NAME", help="write files NAME.<npu>.et (default: trace)")
    parser.add_argument(
        "--profile", choices=CHOICES["profile"], default="full",
        help="gpu: without operators; host time between launches and waits is one delay (default: full)",
    )  # fmt: skip
    parser.add_argument(
        "--overlap", choices=CHOICES["overlap"], default="keep",
        help="what overlapping events do; a simulated rank runs one event at a time: they keep their durations, or "
        "share the time that they take together (default: keep)",
    )  # fmt: skip
    parser.add_argument(
        "--unknown-collectives", choices=CHOICES["unknown"],
        help="communication of unknown type, size or group; or that ASTRA-sim does not support: as-recorded keeps the "
        "waiting between ranks and the recorded transfer time, also for broadcasts; as-compute writes compute nodes; "
        "CPU communication becomes nodes only with as-recorded (default: error; of an Nsight Systems export, which has "
        "no sizes, as-recorded)",
    )  # fmt: skip
    parser.add_argument(
        "--missing-ranks", choices=CHOICES["missing"], default="error",
        help="ranks without a trace: copy repeats the lowest rank; as-recorded keeps the measured communication time "
        "with them; as-compute writes compute nodes for it; CPU communication counts as time of the waiting thread "
        "(default: error)",
    )  # fmt: skip
    _add_force(parser, "workload")


def _run_convert(options: argparse.Namespace) -> None:
    """Write a folder of ``.et`` files, and describe the conversion."""
    from hta_graph.chakra.convert import conversion_document
    from hta_graph.chakra.convert import convert as write_workload
    from hta_graph.chakra.convert_options import ConvertOptions
    from hta_graph.chakra.et_files import check_target

    target = resolve_location(options.output)
    check_target(target, force=options.force)
    ranks = list(_rank_inputs(options))
    # Nobody recorded what an export lacks: its communication waits for its ranks, and takes as long as it did.
    is_export = bool(ranks) and all(own.graph.trace.settings.get("recorder") for own in ranks)
    asked = ConvertOptions(
        options.profile,
        options.prefix,
        options.unknown_collectives or ("as-recorded" if is_export else "error"),
        options.missing_ranks,
        options.overlap,
        force=options.force,
    )
    conversion = write_workload(ranks, target, asked)
    lines = [_conversion_verdict(conversion, target), "", *_conversion_lines(conversion)]
    write_output(options, lambda: conversion_document(conversion), lambda: lines)
    for note in conversion.notes:
        say(f"{target}: {note}")


CONVERT = Command(
    name="convert",
    help="Convert traces of all ranks to .et files for ASTRA-sim",
    more="Inputs are device traces, with or without host traces, or linked traces. The result is checked as with "
    "hta-graph chakra check.",
    examples=("chakra convert job --output workload", "chakra convert job --profile gpu --output gpu_only"),
    page="simulators.md",
    options=(add_inputs, add_jobs, _add_convert, add_json),
    run=_run_convert,
)


def _add_check(parser: argparse.ArgumentParser) -> None:
    """Add the workload to check."""
    parser.add_argument("folder", type=InputFolder, metavar="DIR", help="folder of .et files and comm_groups.json")


def _run_check(options: argparse.Namespace) -> None:
    """Print each problem for ASTRA-sim on a line; with problems the exit status is 1."""
    from hta_graph.chakra.check import check as look_at
    from hta_graph.chakra.check import check_document
    from hta_graph.chakra.et_files import read_folder

    result = look_at(read_folder(options.folder))
    count = len(result.findings)
    problems = f"{count:,} problem{'s' if count > 1 else ''}"
    nodes = sum(len(program) for program in result.programs.values())
    sound = f"no problems; ranks: {len(result.programs)}, nodes: {nodes:,}"
    lines = [f"{options.folder}: {problems if count else sound}", *map(str, result.findings)]
    write_output(options, lambda: check_document(result), lambda: lines)
    for note in result.notes:
        say(f"{options.folder}: note: {note}")
    if count:
        raise HtaGraphError(f"{options.folder}: ASTRA-sim cannot run this workload; {problems}")


CHECK = Command(
    name="check",
    help="Check that ASTRA-sim can run a workload correctly",
    more="Reports anything that makes ASTRA-sim abort, hang or give wrong results; the exit status is then 1.",
    examples=("chakra convert job --output workload", "chakra check workload"),
    page="simulators.md",
    options=(_add_check, add_answer),
    run=_run_check,
)


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    """Add the workload to simulate, and the table of nodes."""
    _add_check(parser)
    heading(parser, OUTPUT).add_argument(
        "--nodes", type=OutputFile, metavar="FILE", help="write the start and end of each node as CSV"
    )


def _run_simulate(options: argparse.Namespace) -> None:
    """Simulate a workload; print the time of each rank, and where it stalls."""
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.simulate import nodes_csv, simulation_document
    from hta_graph.chakra.simulate import simulate as execute

    begin_stage("simulating")
    result = execute(read_folder(options.folder))
    if options.nodes:
        write_file(options.nodes, nodes_csv(result))
    if options.json or options.nodes != "-":
        lines = [_simulation_verdict(result), "", *_simulation_lines(result), *result.stalls]
        write_output(options, lambda: simulation_document(result), lambda: lines)
    if result.stalls:
        raise HtaGraphError(f"{options.folder}: stalls: {result.stalls[0]}")


SIMULATE = Command(
    name="simulate",
    help="Simulate a workload by ASTRA-sim's rules",
    more="Compares the simulated time of each rank with the measured one.",
    examples=("chakra convert job --output workload", "chakra simulate workload"),
    page="simulators.md",
    options=(_add_simulate, add_answer),
    run=_run_simulate,
)


def _add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the workload to scale, the factors and the output."""
    _add_check(parser)
    parser.add_argument(
        "--gpu", type=factor_text, default="1", metavar="FACTOR",
        help="multiply durations of GPU compute nodes; 0.5 is a GPU twice as fast (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", type=factor_text, default="1", metavar="FACTOR",
        help="multiply durations of CPU work: operators, or delays with --profile gpu (default: 1)",
    )  # fmt: skip
    _add_folder(parser)
    _add_force(parser, "workload")


def _run_scale(options: argparse.Namespace) -> None:
    """Write a workload with scaled compute nodes, and print how many changed."""
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.scale import scale_factor, scale_workload

    factors = scale_factor(options.gpu), scale_factor(options.cpu)
    changed = scale_workload(
        read_folder(options.folder), resolve_location(options.output), *factors, force=options.force
    )
    say(f"{options.output}: scaled nodes: {changed.gpu:,} of the GPU, {changed.cpu:,} of the CPU")


SCALE = Command(
    name="scale",
    help="Scale a workload to a faster or slower GPU or CPU",
    more="Changes durations of computation; communication and dependencies stay the same.",
    examples=("chakra convert job --output workload", "chakra scale workload --gpu 0.5 --output faster"),
    page="simulators.md",
    options=(_add_scale,),
    run=_run_scale,
)


def _add_statistics(parser: argparse.ArgumentParser) -> None:
    """Add the log of a run, and its workload."""
    parser.add_argument(
        "log",
        type=InputFolder,
        metavar="LOG",
        help='ASTRA-sim logging folder (set "trace-enabled": 1 in the system file)',
    )
    parser.add_argument(
        "--workload",
        type=InputFolder,
        metavar="DIR",
        help="workload of the run, which identifies CPU nodes and their number",
    )


def _run_statistics(options: argparse.Namespace) -> None:
    """Print the times of each rank in a log of ASTRA-sim."""
    from hta_graph.chakra.astra_sim_executor import rank_programs
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.log_statistics import log_statistics, read_log, statistics_document

    log = read_log(options.log)
    found = log_statistics(log, rank_programs(read_folder(options.workload)) if options.workload else None)
    for note in found.notes:
        say(f"{options.log}: note: {note}")
    write_output(options, lambda: statistics_document(found), lambda: _statistics_lines(found))
    if options.workload and not all(one.may_be_complete if found.is_lost else one.is_complete for one in found.ranks):
        raise HtaGraphError(f"{options.log}: ASTRA-sim did not complete all nodes")


STATISTICS = Command(
    name="statistics",
    help="Summarize an ASTRA-sim run by rank from its log",
    more="Reports compute and communication time. ASTRA-sim writes the log if its system file sets trace-enabled.",
    examples=("chakra statistics log --workload workload",),
    page="simulators.md",
    options=(_add_statistics, add_answer),
    run=_run_statistics,
)


def _rank_inputs(options: argparse.Namespace) -> Iterator[RankInput]:
    """Read the ranks: linked traces, or device traces with or without host traces."""
    from hta_graph.chakra.linked_trace_reader import has_chakra_schema, is_linked_trace
    from hta_graph.chakra.rank_workload import RankInput
    from hta_graph.trace.rank_files import expand_inputs

    hosts = {path.absolute() for path in expand_inputs(expand_file_lists(options.host_trace))}
    expanded = expand_inputs(expand_file_lists(options.inputs))
    paths = [path for path in expanded if path.absolute() not in hosts]
    if not paths:
        raise UsageError("all inputs are also named by --host-trace; name device traces as inputs")
    # A workload has one form of input: linked traces, or device traces with or without host traces.
    linked = [path for path in paths if has_chakra_schema(path)]
    if len(linked) == len(paths):
        if hosts:
            raise UsageError("linked traces contain their host traces; omit --host-trace")
        yield from _linked_inputs(linked, options.rank)
        return
    if both := [path for path in linked if is_linked_trace(path)]:
        raise UsageError(f"{both[0]}: is a linked trace, others are device traces; use one form for all ranks")
    # A workload needs all ranks: simulators would wait forever for a missing one.
    inputs = options.inputs if len(paths) == len(expanded) else paths
    ranks = replace(RankInputs.of(options), inputs=inputs, report=None)
    devices = [RankInput(graph.rank or 0, graph) for graph in ranks.graphs()]
    yield from _with_host_traces(options, devices)


def _linked_inputs(paths: Sequence[Location], only: int | None) -> Iterator[RankInput]:
    """Read linked traces, each rank once."""
    from hta_graph.base.errors import TraceError
    from hta_graph.build.from_trace import DEFAULT_RULES, build_graph
    from hta_graph.chakra.host_tensors import HostTensors
    from hta_graph.chakra.linked_trace_reader import read_linked
    from hta_graph.chakra.rank_workload import RankInput

    seen: dict[int, Location] = {}
    for at, path in enumerate(paths):
        linked = read_linked(path)
        # A linked file can lack its rank: then the order of the files gives it.
        rank = at if linked.trace.rank is None else linked.trace.rank
        if rank in seen:
            raise TraceError(path, f"claims rank {rank}, as {seen[rank]} does", "give one file per rank")
        seen[rank] = path
        if only in (None, rank):
            graph = build_graph(linked.trace, (*DEFAULT_RULES, linked.waits))
            yield RankInput(rank, graph, HostTensors(graph, linked, linked.node), linked.details)
    if only is not None and only not in seen:
        raise TraceError(paths[0], f"rank {only} not found", f"available: {', '.join(map(str, sorted(seen)))}")


def _with_host_traces(options: argparse.Namespace, devices: Sequence[RankInput]) -> Iterator[RankInput]:
    """Match host traces by the rank in their names, else in order."""
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
    """Return each rank's host trace; with ``--rank``, only that one.

    Raises:
        UsageError: a name contains a missing rank, or names do not identify the ranks.
    """
    from hta_graph.trace.rank_files import expand_inputs, rank_in_name

    paths = expand_inputs(expand_file_lists(given))
    named = {rank: path for path in paths if (rank := rank_in_name(path)) is not None}
    # Without ranks in their names, host traces belong to the device traces in order, if there is one for each.
    if not named and len(paths) in (0, len(ranks)):
        return dict(zip(ranks, paths, strict=False))
    if not named:
        raise UsageError(
            f"--host-trace: {len(paths)} files without a rank in their names, for {len(ranks)} ranks; name one per rank"
        )
    if len(named) < len(paths):
        other = next(path for path in paths if path not in named.values())
        raise UsageError(f"{other}: no distinct rank in its name; rename it, such as host_rank0.json")
    if only is None and (others := sorted(named.keys() - set(ranks))):
        raise UsageError(
            f"{named[others[0]]}: rank {others[0]} has no device trace; device traces are of ranks "
            f"{', '.join(map(str, ranks[:16]))}"
        )
    return named


NPU = "npu: number of the rank in the simulator"
DELAYS = "delays: idle time of the CPU or GPU without a recorded cause"
"""Meanings of columns."""


def _conversion_verdict(conversion: Conversion, target: Location) -> str:
    """State what was written, and how close a simulation comes to the recording."""
    ranks, nodes = len(conversion.ranks), sum(found.nodes for found in conversion.ranks)
    written = f"wrote {ranks:,} rank{'s' if ranks > 1 else ''}, {nodes:,} nodes to {target}"
    times = [(found.simulated_ns, found.measured_ns) for found in conversion.ranks if found.measured_ns]
    if not times:
        return written
    most = max(abs(simulated / measured - 1) for simulated, measured in times)
    return f"{written}; simulated times are within {most:.2%} of the measured times"


def _conversion_lines(conversion: Conversion) -> list[Line]:
    """Compare the measured and simulated time of each rank."""
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
    header = ("npu", "rank", "nodes", "measured", "simulated", "difference", "CPU delays", "GPU delays")
    return table(rows, header, caption=f"{NPU}; {DELAYS}")


def _simulation_verdict(result: Simulation) -> str:
    """Name the rank that finishes last, or state that the simulation hangs."""
    executed, nodes = (sum(getattr(found, name) for found in result.ranks) for name in ("executed", "nodes"))
    if result.stalls:
        return f"The simulation hangs after {executed:,} of {nodes:,} nodes."
    from analyses.display.text_layout import duration_text

    last = max(result.ranks, key=lambda found: found.simulated_ns)
    who = f"npu {last.npu}" if last.rank is None else f"rank {last.rank}"
    difference = _relative_difference(last.simulated_ns, last.measured_ns)
    than = f" ({difference} against the measured {duration_text(last.measured_ns)})" if last.measured_ns else ""
    return f"{who} finishes last, after {duration_text(last.simulated_ns)}{than}"


def _simulation_lines(result: Simulation) -> list[Line]:
    """Show how many nodes each rank executed, and its times."""
    from analyses.display.text_layout import duration_text, table

    rows = [
        [
            str(found.npu), "" if found.rank is None else str(found.rank), f"{found.executed:,} of {found.nodes:,}",
            "" if found.measured_ns is None else duration_text(found.measured_ns), duration_text(found.simulated_ns),
            _relative_difference(found.simulated_ns, found.measured_ns),
        ]
        for found in result.ranks
    ]  # fmt: skip
    header = ("npu", "rank", "executed", "measured", "simulated", "difference")
    return table(rows, header, caption=NPU)


def _statistics_lines(found: LogStatistics) -> list[Line]:
    """Show the times of each rank (ms)."""
    from analyses.display.text_layout import table
    from hta_graph.base.text.formatting import milliseconds

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
    return table(rows, ("npu", "rank", "nodes", *(f"{name} ms" for name in times)), caption=NPU)


def _relative_difference(simulated: int, measured: int | None) -> str:
    """Return the relative difference of two times."""
    return f"{simulated / measured - 1:+.2%}" if measured else ""


CHAKRA = CommandGroup(
    name="chakra",
    help="Write, check and simulate Chakra / ASTRA-sim workloads",
    commands=(LINK, CONVERT, CHECK, SIMULATE, SCALE, STATISTICS),
)
