"""What a finding of a judgement asks for, done to simulated programs.

That is the remedy of a rule, a cause without time, or an operator or kernel at twice its speed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from analyses.judgement.findings import WindowFinding
from analyses.judgement.pricing import HOST_WORK
from hta_graph.model import BoundBy
from tests.advice_accuracy import CHANGES
from tests.simulator.calls import COPY_NAMES
from tests.simulator.changes import Edit, Subject, host_free, inside, loading_free, on_gpu
from tests.simulator.program import Copy, Lagging, Launch, Op, Set, Statement
from tests.simulator.pytorch_idioms import ALL_REDUCE, DISPATCH
from tests.simulator.ranks.arguments import kernel_name
from tests.simulator.ranks.communication_statements import Meet
from tests.simulator.rewriting import Around, Change

NO_TIME_NS = 10
"""What calls take of a host that takes no time."""


def _one(change: Callable[[Statement], Statement]) -> Change:
    return lambda own, _: (change(own),)


def _is_transfer(own: Statement) -> bool:
    return isinstance(own, Meet) or (isinstance(own, Launch) and own.name in (ALL_REDUCE, DISPATCH))


def _without_transfers(own: Statement) -> Statement:
    return replace(own, ns=0) if _is_transfer(own) else own  # type: ignore[call-overload, no-any-return]


def _without_copies(own: Statement) -> Statement:
    return replace(own, ns=0) if isinstance(own, Copy | Set) else own


def _twice_as_fast(own: Statement) -> Statement:
    return own if _is_transfer(own) else on_gpu(own, 0.5)


def _without_lags(*names: str) -> Callable[[Statement], Statement]:
    def change(own: Statement) -> Statement:
        if not isinstance(own, Lagging):
            return own
        return replace(own, latencies=replace(own.latencies, **dict.fromkeys(names, 0)))

    return change


def _host_free(subject: Subject, *lags: str) -> Edit | None:
    """Let the host take next to no time, nor some lags: rows need some, so that a call is in one step and no other."""
    edit, at_once = host_free(subject, random.Random(0)), _without_lags(*lags)
    if edit is None:
        return None

    def change(own: Statement, around: Around) -> tuple[Statement, ...]:
        return tuple(_takes_some_time(at_once(one)) for one in edit.change(own, around))

    return replace(edit, change=change)


def _takes_some_time(own: Statement) -> Statement:
    names = [name for name in ("call_ns", "scope_ns") if getattr(own, name, None) == 0]
    return replace(own, **dict.fromkeys(names, NO_TIME_NS)) if names else own  # type: ignore[type-var]


CAUSES: dict[str, Callable[[Subject], Edit | None]] = {
    HOST_WORK: lambda subject: _host_free(subject, "sync_return", "queue_return"),
    BoundBy.DATA_LOADING.label: lambda subject: loading_free(subject, random.Random(0)),
    BoundBy.GPU_COMMUNICATION_BOUND.label: lambda _: Edit(_one(_without_transfers), ()),
    BoundBy.GPU_MEMORY_BOUND.label: lambda _: Edit(_one(_without_copies), ()),
    BoundBy.GPU_COMPUTE_BOUND.label: lambda _: Edit(_one(_twice_as_fast), (), graph_factor=0.5),
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: lambda _: Edit(_one(_without_lags("stream", "graph", "wait")), ()),
}
"""How a program is changed that lacks a cause, or is twice as fast in what it consists of."""


def _by_rule(rule: str, subject: Subject) -> Edit | None:
    if rule == "launch_bound":
        return _host_free(subject)
    if rule == "exposed_communication":
        return Edit(_one(_without_transfers), ())
    change = CHANGES.get(rule)
    if change is None:
        return None

    def of_scopes(own: Statement, around: Around) -> tuple[Statement, ...]:
        found = change(own, tuple(getattr(scope, "name", "") for scope in around))
        return () if found is None else (found,)

    return Edit(of_scopes, ())


def _of_item(kind: str, name: str) -> Edit | None:
    if kind == "operator":
        return Edit(inside(Op, name, 0.5), ())

    def change(own: Statement) -> Statement:
        match own:
            case Launch() if own.name == name:
                return on_gpu(own, 0.5)
            case Meet() if name in (kernel_name(own.kind), f"gloo:{own.kind}"):
                return replace(own, ns=own.ns // 2)
            case Copy() if COPY_NAMES[own.direction].format(host=own.host.title()) == name:
                return replace(own, ns=own.ns // 2)
            case Set() if name.startswith("Memset"):
                return replace(own, ns=own.ns // 2)
            case _:
                return own

    return Edit(_one(change), (), graph_factor=0.5 if name == "graph_kernel" else 1.0)


def followed(finding: WindowFinding, subject: Subject) -> Edit | None:
    """Return how programs are changed that follow a finding; None where that is not known."""
    kind, _, name = finding.id.partition(":")
    if kind == "item":
        return _of_item(*name.split(":", 1))
    if kind == "cause" and name in CAUSES:
        return CAUSES[name](subject)
    return _by_rule(name, subject)
