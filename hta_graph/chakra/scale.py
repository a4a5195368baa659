"""A workload for another GPU or CPU: nodes that compute take longer or shorter, dependencies stay.

ASTRA-sim's own ``--compute-scale`` is accepted and does nothing to recorded durations. Of a scaled node
``scaled_nanos`` is the new duration exactly and ``duration_micros`` the same, rounded so that the sums along threads
and streams stay right; ``duration_nanos`` and ``start_nanos`` stay what was recorded. Delays stay too; of the host time
of profile ``gpu`` the part that is idle (``idle_nanos``) stays, the rest is work. Communication is the network's; what
was taken as compute is the GPU's. The metadata say ``gpu_factor`` and ``cpu_factor`` (of several scalings the product),
and ``unscaled_nanos`` instead of ``measured_nanos``, since it was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.storage.location import Location
from hta_graph.base.storage.output_paths import check_new_folder
from hta_graph.chakra.astra_sim_executor import COMPUTATION, is_delay
from hta_graph.chakra.check import MAX_NODE_NS, check
from hta_graph.chakra.et_files import (
    GROUPS_FILE,
    NAMES_FILE,
    EtFile,
    EtFolder,
    attributes,
    check_target,
    length_prefixed,
    write_folder,
)
from hta_graph.chakra.replay_times import rounded_microseconds
from hta_graph.chakra.schema import GlobalMetadata

LaneKey = tuple[object, ...]
"""A node's thread or stream, in its numbers."""


class ScaleError(HtaGraphError):
    """A workload cannot be scaled so."""


@dataclass
class ScaledNodes:
    """How many nodes were scaled."""

    gpu: int = 0
    cpu: int = 0


@dataclass(frozen=True)
class _Factors:
    gpu: Fraction
    cpu: Fraction

    def of(self, node: Any, known: dict[str, Any]) -> Fraction:
        """Return by how much a node's work is multiplied."""
        is_idle = is_delay(node) and "idle_nanos" not in known
        if node.type != COMPUTATION or is_idle:
            return Fraction(1)
        return self.cpu if known.get("is_cpu_op") else self.gpu


def scale_factor(text: str) -> Fraction:
    """Read a factor.

    Raises:
        ScaleError: it is no finite number from 0.

    >>> scale_factor("0.1")
    Fraction(1, 10)
    """
    try:
        # As a float first: a fraction of "1e999999999" would be written out.
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ScaleError(f"{text!r} is not a factor; use a number of at least 0, such as 0.5")
    return Fraction(repr(number))


def scale_workload(
    folder: EtFolder, target: Location, gpu: Fraction, cpu: Fraction, *, force: bool = False
) -> ScaledNodes:
    """Write a workload again, with longer or shorter compute nodes.

    Args:
        folder: the workload.
        target: the folder to write, whole or not at all.
        gpu: the factor of the GPU's compute nodes.
        cpu: the factor of the CPU's work.
        force: an earlier workload there is replaced.

    Raises:
        OutputError: the target cannot be written, or is the workload itself.
        ScaleError: a node would take too long, nothing would change, or ASTRA-sim would not run the result.
    """
    if gpu == cpu == 1:
        raise ScaleError("nothing would change; use a factor other than 1, such as --gpu 0.5")
    check_target(target, force=force)
    check_new_folder(target, folder.path.iterdir())
    changed = ScaledNodes()
    files: dict[str, Iterable[bytes]] = {
        f"{folder.prefix}.{rank}.et": length_prefixed(_scaled_messages(file, _Factors(gpu, cpu), changed))
        for rank, file in folder.files.items()
    }
    kept = {name: folder.path / name for name in (GROUPS_FILE, NAMES_FILE)}
    files |= {name: [path.read_bytes()] for name, path in kept.items() if path.is_file()}
    write_folder(target, files, {}, _check_scaled, force=force)
    return changed


def _check_scaled(folder: EtFolder) -> None:
    findings = check(folder).findings
    if findings:
        raise ScaleError(f"{folder.path}: ASTRA-sim cannot run this: {findings[0]}")


def _scaled_messages(file: EtFile, factors: _Factors, changed: ScaledNodes) -> Iterator[bytes]:
    scaled = list(_scaled_durations(file, factors, changed))
    micros = rounded_microseconds(
        np.array([lane for lane, _ in scaled], np.int64), np.array([ns for _, ns in scaled], np.int64)
    ).tolist()
    yield _scaled_metadata(file.messages[0], factors)
    for message, node, (lane, ns), rounded in zip(file.messages[1:], file.nodes(), scaled, micros, strict=True):
        if lane < 0:
            yield message
            continue
        _set_duration(node, rounded, ns)
        yield node.SerializeToString()


def _scaled_durations(file: EtFile, factors: _Factors, changed: ScaledNodes) -> Iterator[tuple[int, int]]:
    """Yield each node's thread or stream as a number, and its new duration (ns); -1 and 0 where it stays."""
    lanes: dict[LaneKey, int] = {}
    for node in file.nodes():
        known = {name: value for name, _, value in attributes(node)}
        factor = factors.of(node, known)
        if factor == 1:
            yield -1, 0
            continue
        exact = _exact_duration(node, known)
        idle = known.get("idle_nanos", 0)
        idle = min(max(idle, 0), exact) if isinstance(idle, int) else 0
        scaled = idle + round((exact - idle) * factor)
        if scaled > MAX_NODE_NS:
            raise ScaleError(
                f"{file.path}: node {node.id} would take more than 104 days, the most that ASTRA-sim supports; "
                "use a smaller factor"
            )
        if known.get("is_cpu_op"):
            changed.cpu += 1
        else:
            changed.gpu += 1
        lane = tuple(known.get(name) for name in ("is_cpu_op", "tid", "device", "stream"))
        yield lanes.setdefault(lane, len(lanes)), scaled


def _set_duration(node: Any, micros: int, ns: int) -> None:
    node.duration_micros = micros
    for attribute in node.attr:
        if attribute.name == "scaled_nanos":
            attribute.int64_val = ns
            return
    node.attr.add(name="scaled_nanos", int64_val=ns)


def _exact_duration(node: Any, known: dict[str, Any]) -> int:
    """Return a node's duration (ns): in nanoseconds where these are the same duration, else the microseconds."""
    micros: int = node.duration_micros
    for name in ("scaled_nanos", "duration_nanos"):
        exact = known.get(name)
        if isinstance(exact, int) and abs(exact - 1000 * micros) < 1000:
            return exact
    return 1000 * micros


def _scaled_metadata(message: bytes, factors: _Factors) -> bytes:
    metadata = GlobalMetadata.FromString(message)
    known = {attribute.name: attribute for attribute in metadata.attr}
    if "measured_nanos" in known:
        known["measured_nanos"].name = "unscaled_nanos"
    for name, factor in (("gpu_factor", factors.gpu), ("cpu_factor", factors.cpu)):
        if name in known:
            known[name].double_val *= float(factor)
        else:
            metadata.attr.add(name=name, double_val=float(factor))
    return bytes(metadata.SerializeToString())
