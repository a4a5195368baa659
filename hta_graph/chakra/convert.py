"""Traces of all ranks → a folder of ``.et`` files that ASTRA-sim runs, checked before it is there.

    conversion = convert([RankInput(0, graph), RankInput(1, other_graph)], "workload")
    conversion.ranks[0].measured_ns, conversion.ranks[0].simulated_ns

The folder holds a ``PREFIX.<npu>.et`` for each rank, ``comm_groups.json`` (for ``--comm-group-configuration``) and
``group_names.json`` (which process groups and ranks the numbers stand for).

Every order is a data dependency: of threads, launches, streams, graphs, event waits, synchronisation, hand-offs between
threads, forward and backward, and one order of all collectives. A GPU node takes as long as its row did. A CPU node is
the work of a thread up to the next operator or launch (:mod:`hta_graph.chakra.nodes`), without the time in which it
waited. Time that no dependency explains (Python between operators, gaps between kernels, unexplained waits) is a node
``delay`` on the slot that idled (:mod:`hta_graph.chakra.replay_times`). So the replay takes as long as the recording,
and separates work from delays. Ranks begin as far apart as their recordings (by the ends of common collectives).
The profile ``gpu`` leaves operators out: host time between launches and waits is one delay, with the same dependencies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hta_graph.base.errors import HtaGraphError, Remedy, TraceError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.storage.output_paths import check_new_folder
from hta_graph.base.text.formatting import join_first, milliseconds
from hta_graph.chakra.astra_sim_executor import COMPUTE, CPU, Execution
from hta_graph.chakra.check import check
from hta_graph.chakra.comm_attributes import SimulatorIds
from hta_graph.chakra.communications import Communication, Group, GroupChannel, single_rank_group
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import (
    GROUPS_FILE,
    NAMES_FILE,
    EtFolder,
    check_prefix,
    check_target,
    length_prefixed,
    write_folder,
)
from hta_graph.chakra.et_nodes import metadata_message
from hta_graph.chakra.matched_communications import (
    CommonSchedule,
    MatchedWorkload,
    RecordedRank,
    common_schedule,
    matched_communications,
)
from hta_graph.chakra.rank_workload import RankInput, RankWorkload, ScheduledRank
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_ranks import missing_ranks
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import with_worker_groups


def early_notes(works: Sequence[RankWorkload]) -> list[str]:
    """Describe communication that was launched before the recording."""
    early = {
        work.rank: len(work.communications.before_recording) for work in works if work.communications.before_recording
    }
    if not early:
        return []
    listed = join_first([f"{count} on rank {rank}" for rank, count in early.items()])
    return [f"communication launched before the recording waits for no rank and keeps its recorded duration: {listed}"]


def unknown_line(work: RankWorkload) -> str:
    """Name a rank's first kernel whose communication is not known, and what is missing."""
    (kernel, why), count = work.unknown_kernels[0], len(work.unknown_kernels)
    index, name = work.graph.event_table.index[kernel], work.graph.name_of(kernel)[:120]
    more = f" (and {count - 1:,} more such kernels)" if count > 1 else ""
    return f"{work.graph.path}: event {index}, kernel {name!r}: {why}{more}"


def matching_notes(work: RankWorkload, matched: MatchedWorkload, *, as_recorded: bool) -> Iterator[str]:
    """Count communication that keeps its recorded duration, and communication without a partner."""
    rank, unmatched = work.rank, matched.unmatched[work.rank]
    on_cpu = {row for row in unmatched if work.on_cpu[row]}
    unknown = len(on_cpu & {row for row, _ in work.communications.unknown})
    if recorded := matched.recorded[rank]:
        yield f"rank {rank}: {recorded:,} communications synchronize their ranks and keep their recorded duration"
    if as_recorded and len(unmatched) > len(on_cpu):
        kernels = len(unmatched) - len(on_cpu)
        yield f"rank {rank}: {kernels:,} communication kernels have no partner; they keep their recorded duration"
    whose = "stay CPU time of the thread that waited for them"
    if unknown and not as_recorded:
        why = "with unknown size or group, or of a kind that ASTRA-sim does not support"
        kept = "as-recorded keeps their synchronization"
        yield f"rank {rank}: {unknown:,} communications on the CPU, {why}, {whose}; {kept}"
    if without := len(on_cpu) - (0 if as_recorded else unknown):
        yield f"rank {rank}: {without:,} communications on the CPU have no partner and {whose}"


def broadcast_notes(ranks: Sequence[RecordedRank]) -> list[str]:
    """Count broadcasts that a simulated rank runs on its own."""
    count = sum(item.kind == "BROADCAST" and not item.is_recorded for own in ranks for item in own.known)
    if not count:
        return []
    how = "keep their recorded duration and wait for no other rank, because ASTRA-sim runs them so"
    return [f"{count:,} broadcasts {how}; with unknown collectives as-recorded, ranks wait for the root"]


def overlap_notes(ranks: Sequence[ScheduledRank], overlap: str) -> list[str]:
    """Describe work that overlapped other work on its slot; a simulated rank runs one node at a time."""
    found = {
        rank.work.rank: ", ".join(f"{milliseconds(ns)} ms on the {slot}" for slot, ns in rank.overlaps.items() if ns)
        for rank in ranks
    }
    listed = join_first([f"rank {rank}: {said}" for rank, said in found.items() if said], "; ")
    if not listed:
        return []
    done = "was subtracted from durations" if overlap == "share" else "runs afterwards in the simulator"
    slots = "slots: CPU, compute, communication; each runs one node at a time"
    return [f"work that overlapped other work on its slot {done} ({slots}): {listed}"]


SCHEMA = "hta-graph/chakra-et/1"

COPY_REMEDY = Remedy("missing='as-compute' has fewer requirements", "--missing-ranks as-compute has fewer requirements")
PROFILE_REMEDY = Remedy("profile='full' simulates its CPU work", "--profile full simulates its CPU work")
UNKNOWN_REMEDY = Remedy(
    "unknown='as-recorded' keeps the synchronization of ranks and its duration, 'as-compute' only the duration",
    "--unknown-collectives as-recorded keeps the synchronization of ranks and its duration, as-compute only the "
    "duration",
)
MISSING_REMEDY = Remedy(
    "pass all traces, or continue with missing='as-recorded' (communication with them keeps its recorded duration), "
    "'as-compute' (write compute nodes for it) or 'copy' (repeat the lowest rank that is present)",
    "pass all traces, or continue with --missing-ranks as-recorded (communication with them keeps its recorded "
    "duration), as-compute (write compute nodes for it) or copy (repeat the lowest rank that is present)",
)


class ConversionError(HtaGraphError):
    """Traces cannot become a workload."""


@dataclass(frozen=True)
class ConvertedRank:
    """A rank's file: its number for the simulator, its own number, how many nodes it has, and times in ns.

    ``measured_ns`` lasts from the beginning of the first recording to the end of this rank's (``None``: it is a copy of
    another one). Delays are times at which the CPU or compute slot idles without a recorded reason.
    """

    npu: int
    rank: int
    nodes: int
    measured_ns: int | None
    simulated_ns: int
    cpu_delay_ns: int
    gpu_delay_ns: int


@dataclass(frozen=True)
class Conversion:
    """What became of the traces; ``notes`` are lines for the user."""

    ranks: list[ConvertedRank]
    notes: list[str]


def convert(inputs: Iterable[RankInput], target: str | Location, options: ConvertOptions | None = None) -> Conversion:
    """Write a workload for simulators.

    Args:
        inputs: all ranks.
        target: the folder to write.
        options: profile, prefix, and what to do where something is not known.

    Raises:
        OutputError: the folder exists, or it or the prefix cannot be written.
        CollectiveError: what the ranks did together does not fit.
        ConversionError: a communication is not known, ranks are missing, or ASTRA-sim would not run the result.
    """
    target, options = resolve_location(target), options or ConvertOptions()
    check_target(target, force=options.force)
    check_prefix(options.prefix)
    listed = sorted(inputs, key=lambda item: item.rank)
    check_new_folder(target, [item.graph.path for item in listed])
    begin_stage("writing the workload")
    ranks = [item.rank for item in listed]
    if not ranks or len(set(ranks)) < len(ranks):
        raise ConversionError("pass each rank once" if ranks else "pass at least one rank")
    members = with_worker_groups({item.rank: read_communications(item.graph) for item in listed})
    works = [RankWorkload(item, members[item.rank], ranks) for item in listed]
    workload = _Workload(works, options)
    copies = {
        workload.name(rank): (workload.name(ranks[0]), workload.copied_metadata(rank)) for rank in workload.copied
    }
    # The folder is looked at, and run, before it is put in its place.
    seen: list[Execution] = []
    write_folder(
        target,
        workload.files(),
        copies,
        lambda folder: seen.append(_check_and_run(folder, options)),
        force=options.force,
    )
    return Conversion(list(workload.converted(seen[0])), workload.notes)


def conversion_document(conversion: Conversion) -> dict[str, Any]:
    """Return what became of the traces as a document of schema ``hta-graph/chakra-convert/1``."""
    ranks = [asdict(rank) for rank in conversion.ranks]
    return {"schema": "hta-graph/chakra-convert/1", "ranks": ranks, "notes": conversion.notes}


def _check_and_run(folder: EtFolder, options: ConvertOptions) -> Execution:
    """Check what was written, and run it.

    Raises:
        ConversionError: ASTRA-sim would not run it.
    """
    result = check(folder)
    if result.execution is None or result.findings:
        first, count = result.findings[0], len(result.findings)
        others = f" (the first of {count} findings)" if count > 1 else ""
        says = f"{folder.path}: ASTRA-sim cannot run this{others}: {first}"
        raise ConversionError(says, COPY_REMEDY if options.missing == "copy" else "")
    return result.execution


class _Workload:
    """All ranks, brought together; ``copied`` are the ranks without a trace that do what the lowest given one does."""

    def __init__(self, works: Sequence[RankWorkload], options: ConvertOptions) -> None:
        self._options = options
        self.notes: list[str] = []
        self.copied: list[int] = []
        self._clocks: JobClocks | None = None
        # What waits for nobody and takes as long as it did, by rank.
        self._standalone: dict[int, set[int]] = {work.rank: set(work.communications.before_recording) for work in works}
        recorded = self._recorded_ranks(works)
        schedule = common_schedule(recorded, self._clocks)
        self.notes += [*early_notes(works), *schedule.notes, *broadcast_notes(recorded)]
        self._npu = self._rank_numbers(works)
        self._groups = self._group_numbers(recorded, schedule)
        ids = SimulatorIds(self._groups, self._npu)
        self._scheduled = [
            work.scheduled(own, schedule, options, ids, self._standalone[work.rank])
            for work, own in zip(works, recorded, strict=True)
        ]
        for rank in self._scheduled:
            if not len(rank.nodes):
                raise TraceError(rank.work.graph.path, "holds nothing to simulate but communication without a partner")
        self.notes += overlap_notes(self._scheduled, options.overlap)

    def _recorded_ranks(self, works: Sequence[RankWorkload]) -> list[RecordedRank]:
        """Return the communications of each rank that the workload has, with their times."""
        known = self._communications(works)
        recorded = [work.recorded(known[work.rank]) for work in works]
        # What has no partner is not known any more; but whose trace is not given is missing there too.
        found = [work.recorded(work.communications.known) for work in works] if self._clocks is not None else recorded
        missing = missing_ranks(own.record for own in found)
        self.copied = sorted(missing) if self._options.missing == "copy" else []
        return self._with_missing(works, recorded, missing) if missing else recorded

    def _rank_numbers(self, works: Sequence[RankWorkload]) -> dict[int, int]:
        """Number the ranks: ASTRA-sim wants them from 0 without gaps; those that were recorded may have any numbers."""
        numbers = {rank: npu for npu, rank in enumerate(sorted([work.rank for work in works] + self.copied))}
        if any(rank != npu for rank, npu in numbers.items()):
            self.notes.append(f"ranks are renumbered from 0 for the simulator; {NAMES_FILE} lists both numbers")
        return numbers

    def _group_numbers(self, recorded: Sequence[RecordedRank], schedule: CommonSchedule) -> dict[Group, str]:
        """Number the groups from 1, as ASTRA-sim knows them, in the order in which the ranks use them."""
        used = [
            item.group for own in recorded for at, item in enumerate(own.known) if (own.rank, at) in schedule.number
        ]
        used += [
            single_rank_group(own.rank)
            for own in recorded
            if self._standalone[own.rank] or schedule.cut[own.rank] or any(item.match >= 0 for item in own.known)
        ]
        return {group: str(key) for key, group in enumerate(dict.fromkeys(used), start=1)}

    def _communications(self, works: Sequence[RankWorkload]) -> dict[int, list[Communication]]:
        """Return each rank's communications, and note the unknown ones.

        Raises:
            ConversionError: there are some, and no option covers them.
        """
        as_recorded = self._options.unknown == "as-recorded"
        for work in works:
            self._refuse_empty(work)
            if single_rank := int(np.count_nonzero(~work.on_cpu[work.communications.single_rank])):
                self.notes.append(
                    f"rank {work.rank}: {single_rank:,} collectives of single-rank groups stay compute nodes"
                )
            if work.unknown_kernels and self._options.unknown == "error":
                raise ConversionError(unknown_line(work), UNKNOWN_REMEDY)
            if work.unknown_kernels and not as_recorded:
                self.notes.append(f"{unknown_line(work)}; treated as compute")
        matched = self._match_by_job(works, as_recorded=as_recorded)
        if matched is None:
            return {work.rank: work.communications.known for work in works}
        self._clocks = matched.clocks
        if as_recorded:
            for work in works:
                self._standalone[work.rank] |= matched.unmatched[work.rank]
        self.notes += [note for work in works for note in matching_notes(work, matched, as_recorded=as_recorded)]
        return matched.known

    def _match_by_job(self, works: Sequence[RankWorkload], *, as_recorded: bool) -> MatchedWorkload | None:
        """Ask the job's matcher where order and contents are ambiguous."""
        if not any(
            work.on_cpu.any() or (as_recorded and (work.communications.unknown or work.communications.broadcasts))
            for work in works
        ):
            return None
        found, members = ({work.rank: getattr(work, name) for work in works} for name in ("communications", "members"))
        return matched_communications(found, members, as_recorded=as_recorded)

    def _refuse_empty(self, work: RankWorkload) -> None:
        if not len(work.nodes):
            nothing = "holds nothing to simulate: no operators, launch calls, waits or GPU activities"
            raise TraceError(work.graph.path, nothing)
        if self._options.profile == "gpu" and not work.graph.is_gpu.any():
            raise TraceError(work.graph.path, "holds no GPU activity", PROFILE_REMEDY)

    def _with_missing(
        self, works: Sequence[RankWorkload], recorded: Sequence[RecordedRank], missing: Mapping[int, GroupChannel]
    ) -> list[RecordedRank]:
        """Leave out what goes to missing ranks, or let these be copies.

        Raises:
            ConversionError: no option covers them.
        """
        rank, channel = next(iter(missing.items()))
        listed = join_first(list(map(str, sorted(missing))))
        if self._options.missing == "copy" and (on_cpu := self._on_cpu_with(missing, works)):
            raise ConversionError(
                f"{on_cpu.graph.path}: communicates on the CPU with missing ranks ({listed}), and the arrival "
                "time of a copy is unknown",
                COPY_REMEDY,
            )
        if self._options.missing == "copy":
            self.notes.append(f"without a trace: {listed}; they repeat rank {works[0].rank}")
            return list(recorded)
        if self._options.missing == "error":
            raise ConversionError(
                f"{works[0].graph.path}: missing ranks: {listed}; rank {rank} is in {channel}", MISSING_REMEDY
            )
        as_recorded = self._options.missing == "as-recorded"
        becomes = "keeps its recorded duration" if as_recorded else "becomes compute nodes"
        if any(work.on_cpu.any() for work in works):
            becomes += ", on the CPU time of the thread that waited for it"
        self.notes.append(f"without a trace: {listed}; communication with them {becomes}")
        if as_recorded:
            for own in recorded:
                self._standalone[own.rank] |= {item.event for item in own.known if missing.keys() & item.partners}
        kept = [[item for item in own.known if not missing.keys() & item.partners] for own in recorded]
        return [work.recorded(items) for work, items in zip(works, kept, strict=True)]

    @staticmethod
    def _on_cpu_with(missing: Mapping[int, GroupChannel], works: Sequence[RankWorkload]) -> RankWorkload | None:
        """Return a rank that communicates on the CPU with missing ones, if any does."""
        for work in works:
            if any(item.on_cpu and missing.keys() & item.partners for item in work.communications.known):
                return work
        return None

    def copied_metadata(self, rank: int) -> bytes:
        """Return the metadata of a rank without a trace: its duration was not measured."""
        lowest = self._scheduled[0].work
        return metadata_message(rank=rank, copy_of=lowest.rank, **self._known())

    def _known(self) -> dict[str, str | int]:
        return {"schema": SCHEMA, "profile": self._options.profile, "world_size": len(self._npu)}

    def name(self, rank: int) -> str:
        """Return the name of a rank's file."""
        return f"{self._options.prefix}.{self._npu[rank]}.et"

    def files(self) -> dict[str, Iterable[bytes]]:
        """Return the files by name, as pieces."""
        files: dict[str, Iterable[bytes]] = {
            self.name(rank.work.rank): length_prefixed(rank.messages(**self._known())) for rank in self._scheduled
        }
        files[GROUPS_FILE] = [
            _json_bytes(
                {
                    # Of a group with missing ranks only messages between others are left.
                    key: [self._npu[rank] for rank in group.ranks if rank in self._npu]
                    for group, key in self._groups.items()
                }
            )
        ]
        names = {key: {"name": group.name, "ranks": list(group.ranks)} for group, key in self._groups.items()}
        npus = {str(npu): rank for rank, npu in self._npu.items()}
        files[NAMES_FILE] = [_json_bytes({"schema": "hta-graph/chakra-groups/1", "groups": names, "rank_of_npu": npus})]
        return files

    def converted(self, execution: Execution) -> Iterator[ConvertedRank]:
        """Describe how each rank ran."""
        by_rank = {rank.work.rank: rank for rank in self._scheduled}
        lowest = self._scheduled[0]
        for rank, npu in self._npu.items():
            # A rank without a trace is a copy of the lowest one.
            own: ScheduledRank = by_rank.get(rank, lowest)
            ends, measured = execution.end[npu], own.measured_ns if rank in by_rank else None
            yield ConvertedRank(npu, rank, len(ends), measured, max(ends), own.delay_ns(CPU), own.delay_ns(COMPUTE))


def _json_bytes(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"
