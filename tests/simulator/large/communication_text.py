"""What communications say of themselves, as text: the same for all members but for places and messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.simulator.large.mesh import Axis
from tests.simulator.large.scripts import LargeJob
from tests.simulator.ranks import Group
from tests.simulator.ranks.arguments import header_entry, kernel_arguments, operator_arguments, shown_list
from tests.simulator.ranks.communication_statements import MESSAGES, Meet
from tests.simulator.ranks.recorded_job import IDS

PLACE = "@place@"
Texts = tuple[str, str]


class Said:
    """Texts of kernels and operators, each made once per group."""

    def __init__(self, job: LargeJob) -> None:
        self.job = job
        self.known: dict[tuple[object, ...], Texts] = {}
        self.entries: dict[str, str] = {}

    def texts(self, meets: Iterable[Meet], rank: int) -> list[str]:
        """Return what a rank's kernels say and then what its operators do, each in the order of communications."""
        counted: Counter[object] = Counter()
        found: list[Texts] = []
        for meet in meets:
            axis: Axis = meet.group  # type: ignore[assignment]
            line = axis.name, meet.kind in MESSAGES
            counted[line] += 1
            found.append(self._of_member(meet, axis, rank, counted[line]))
        return [kernel for kernel, _ in found] + [operator for _, operator in found]

    def header(self, rank: int) -> str:
        """Return what the header says about the job, as the text of a value."""
        axes = self.job.mesh.axes.values()
        shown = {
            "backend": "nccl",
            "rank": rank,
            "world_size": self.job.shape.ranks,
            "pg_count": sum(len(axis.rows) for axis in axes),
        }
        entries = ",".join(self._entry(axis.group(rank)) for axis in axes)
        return f'{json.dumps(shown)[:-1]}, "pg_config": [{entries}]}}'

    def _of_member(self, meet: Meet, axis: Axis, rank: int, sequence: int) -> Texts:
        group, place = axis.group(rank), int(axis.place[rank])
        if meet.other is not None:
            own = replace(meet, group=group, other=group.ranks[place + meet.other])
            return self._text(kernel_arguments(own, sequence)), self._text(operator_arguments(own, sequence, rank))
        key = group.name, meet.kind, meet.elements, sequence if self.job.shape.ids else 0
        if key not in self.known:
            self.known[key] = self._of_group(replace(meet, group=group), sequence)
        kernel, operator = self.known[key]
        return kernel, operator.replace(f'"{PLACE}"', str(place), 1).replace(PLACE, str(place))

    def _of_group(self, meet: Meet, sequence: int) -> Texts:
        operator = operator_arguments(meet, sequence, meet.group.ranks[0])
        inputs = list(operator["Concrete Inputs"])
        inputs[3] = PLACE
        marked = operator | {"Rank": PLACE, "Concrete Inputs": inputs}
        return self._text(kernel_arguments(meet, sequence)), self._text(marked)

    def _text(self, arguments: dict[str, Any]) -> str:
        kept = arguments if self.job.shape.ids else {key: own for key, own in arguments.items() if key not in IDS}
        return json.dumps(kept, separators=(",", ":"))[1:-1]

    def _entry(self, group: Group) -> str:
        if group.name not in self.entries:
            entry = header_entry(group) | {"backend_config": "cuda:nccl"}
            if self.job.shape.cuts_groups:
                entry["ranks"] = shown_list(group.ranks)
            self.entries[group.name] = json.dumps(entry)
        return self.entries[group.name]
