"""A workload for another GPU or CPU: nodes that compute take longer or shorter, what they wait for stays.

ASTRA-sim's own ``--compute-scale`` is accepted and does nothing to recorded durations. Of a scaled node
``duration_micros`` is the new duration and ``scaled_nanos`` the same exactly; ``duration_nanos`` and ``start_nanos``
stay what was recorded. Delays stay too, but for the profile ``gpu``, where the delays of the CPU are its work.
Communication is the network's. The metadata say ``gpu_factor`` and ``cpu_factor`` (of several scalings the product),
and ``unscaled_nanos`` instead of ``measured_nanos``: nobody measured this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hta_graph.errors import HtaGraphError, OutputError
from hta_graph.export.chakra.files.et_file import EtFile, attributes, framed
from hta_graph.export.chakra.files.et_folder import (
    GROUPS_FILE,
    NAMES_FILE,
    EtFolder,
    check_target,
    write_folder,
)
from hta_graph.export.chakra.files.schema import NODE_TYPES, GlobalMetadata
from hta_graph.export.chakra.simulator.check import check
from hta_graph.export.chakra.simulator.simulated import DELAY

__all__ = ["ScaleError", "ScaledNodes", "scale_factor", "scale_workload"]

COMPUTATION = NODE_TYPES["COMP_NODE"]
LONGEST_NS = 10**18
"""About 30 years; simulators count nanoseconds in 64 bits."""


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
    scales_delays: bool


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
        raise ScaleError(f"{text!r} is no factor; give a number from 0, such as 0.5")
    return Fraction(repr(number))


def scale_workload(folder: EtFolder, target: Path, gpu: Fraction, cpu: Fraction, *, force: bool = False) -> ScaledNodes:
    """Write a workload again, with longer or shorter compute nodes.

    Args:
        folder: the workload.
        target: the folder to write, whole or not at all.
        gpu: the factor of the GPU's compute nodes.
        cpu: the factor of the CPU's work.
        force: an earlier workload there is replaced.

    Raises:
        OutputError: the target cannot be written, or is the workload itself.
        ScaleError: a node would take too long, or ASTRA-sim would not run the result.
    """
    check_target(target, force=force)
    if target.exists() and target.samefile(folder.path):
        raise OutputError(f"{target}: is the workload to scale, which is never overwritten; name another folder")
    changed = ScaledNodes()
    files: dict[str, Iterable[bytes]] = {
        f"{folder.prefix}.{rank}.et": framed(_scaled_messages(file, gpu, cpu, changed))
        for rank, file in folder.files.items()
    }
    kept = {name: folder.path / name for name in (GROUPS_FILE, NAMES_FILE)}
    files |= {name: [path.read_bytes()] for name, path in kept.items() if path.is_file()}
    write_folder(target, files, {}, _check_scaled)
    return changed


def _check_scaled(folder: EtFolder) -> None:
    findings = check(folder).findings
    if findings:
        raise ScaleError(f"{folder.path}: ASTRA-sim would not run this: {findings[0]}")


def _scaled_messages(file: EtFile, gpu: Fraction, cpu: Fraction, changed: ScaledNodes) -> Iterator[bytes]:
    factors = _Factors(gpu, cpu, scales_delays=file.metadata.get("profile") == "gpu")
    yield _scaled_metadata(file.messages[0], factors)
    for message, node in zip(file.messages[1:], file.nodes(), strict=True):
        known = {name: value for name, _, value in attributes(node)}
        on_cpu = bool(known.get("is_cpu_op"))
        is_kept = node.name == DELAY and not (on_cpu and factors.scales_delays)
        factor = factors.cpu if on_cpu else factors.gpu
        if node.type != COMPUTATION or is_kept or factor == 1:
            yield message
            continue
        changed.cpu += on_cpu
        changed.gpu += not on_cpu
        _scale_node(file, node, known, factor)
        yield node.SerializeToString()


def _scale_node(file: EtFile, node: Any, known: dict[str, Any], factor: Fraction) -> None:
    scaled = round(_exact_duration(node, known) * factor)
    if scaled > LONGEST_NS:
        raise ScaleError(f"{file.path}: node {node.id} would take more than 30 years; give a smaller factor")
    node.duration_micros = (scaled + 500) // 1000
    for attribute in node.attr:
        if attribute.name == "scaled_nanos":
            attribute.int64_val = scaled
            return
    node.attr.add(name="scaled_nanos", int64_val=scaled)


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
