"""What can be broken in a function: each operator tells, for a node of its tree, what may stand there instead.

The places of an operator in a function are counted from 1 in the order of the tree, so that names do not matter.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

Operator = Callable[[ast.AST], Iterator[ast.AST]]

BOUNDARIES = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
OPPOSITES = ((ast.Lt, ast.GtE), (ast.Gt, ast.LtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
ARITHMETIC = (
    (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.Div, ast.Mult), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or),
)  # fmt: skip
COUNTERPARTS = (
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("sum", "max"), ("start", "end"),
    ("first_of_runs", "last_of_runs"), ("start_point", "end_point"), ("source", "target"), ("left", "right"),
    ("start_ns", "end_ns"), ("add", "maximum"), ("mean", "median"), ("partition", "rpartition"), (True, False),
)  # fmt: skip
Pairs = Sequence[tuple[object, object]]


def never(node: ast.AST) -> Iterator[ast.AST]:
    """Let a condition never hold."""
    yield from _decided(node, holds=False)


def always(node: ast.AST) -> Iterator[ast.AST]:
    """Let a condition always hold."""
    yield from _decided(node, holds=True)


def _decided(node: ast.AST, *, holds: bool) -> Iterator[ast.AST]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield _with(node, test=ast.Constant(holds))
    elif isinstance(node, ast.comprehension):
        for at in range(len(node.ifs)):
            yield _with(node, ifs=_replaced(node.ifs, at, ast.Constant(holds)))


def boundary(node: ast.AST) -> Iterator[ast.AST]:
    """Let a comparison include what it excludes."""
    yield from _compared(node, BOUNDARIES)


def opposite(node: ast.AST) -> Iterator[ast.AST]:
    """Let a comparison hold where it does not."""
    yield from _compared(node, OPPOSITES)


def _compared(node: ast.AST, pairs: Pairs) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for at, known in enumerate(node.ops):
            for other in _others(type(known), pairs):
                yield _with(node, ops=_replaced(node.ops, at, other()))


def arithmetic(node: ast.AST) -> Iterator[ast.AST]:
    """Subtract what is to be added, or where one of two conditions is enough, ask for both."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        for other in _others(type(node.op), ARITHMETIC):
            yield _with(node, op=other())


def other(node: ast.AST) -> Iterator[ast.AST]:
    """Name the counterpart: the maximum for the minimum, the end for the start."""
    for field in ("id", "attr", "value"):
        known = getattr(node, field, None)
        if isinstance(known, (str, bool)):
            for counterpart in _others(known, COUNTERPARTS):
                yield _with(node, **{field: counterpart})


def drop(node: ast.AST) -> Iterator[ast.AST]:
    """Leave out a term of a condition, a sum or a product."""
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            left = _replaced(node.values, at)
            yield left[0] if len(left) == 1 else _with(node, values=left)
    elif isinstance(node, ast.BinOp):
        yield node.right
        yield node.left
    elif isinstance(node, ast.Compare) and len(node.ops) > 1:
        yield _with(node, left=node.comparators[0], ops=node.ops[1:], comparators=node.comparators[1:])
        yield _with(node, ops=node.ops[:-1], comparators=node.comparators[:-1])


def bare(node: ast.AST) -> Iterator[ast.AST]:
    """Take one of the things that a call, an index, a sign or a choice is made of for the whole."""
    if isinstance(node, ast.Call):
        yield from [node.func.value] if isinstance(node.func, ast.Attribute) else []
        yield from (argument for argument in node.args if not isinstance(argument, ast.Starred))
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.UnaryOp):
        yield node.operand


def without(node: ast.AST) -> Iterator[ast.AST]:
    """Leave out an argument, or an item of a display."""
    if isinstance(node, ast.Dict):
        for at in range(len(node.keys)):
            yield _with(node, keys=[*node.keys[:at], *node.keys[at + 1 :]], values=_replaced(node.values, at))
    for field in ("args", "keywords") if isinstance(node, ast.Call) else ("elts",):
        items = [] if isinstance(getattr(node, "ctx", None), ast.Store) else getattr(node, field, [])
        for at in range(len(items)):
            yield _with(node, **{field: _replaced(items, at)})


def exchange(node: ast.AST) -> Iterator[ast.AST]:
    """Exchange two neighbours: arguments, or items of a display."""
    for field in ("args", "elts", "values") if isinstance(node, (ast.Call, ast.Tuple, ast.List, ast.Dict)) else ():
        items = getattr(node, field, [])
        for one, next_one in pairwise(range(len(items))):
            yield _with(node, **{field: [*items[:one], items[next_one], items[one], *items[next_one + 1 :]]})
    if isinstance(node, ast.Call):
        for known, following in pairwise(node.keywords):
            swapped = {known.arg: following.value, following.arg: known.value}
            yield _with(node, keywords=[_with(item, value=swapped.get(item.arg, item.value)) for item in node.keywords])


def skip(node: ast.AST) -> Iterator[ast.AST]:
    """Do nothing where something is done."""
    if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.Return)) and not _is_text(node):
        yield ast.Pass()


def constant(value: ast.expr) -> Operator:
    """Take another constant."""

    def of(node: ast.AST) -> Iterator[ast.AST]:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.Constant) or (name.isupper() and isinstance(node.ctx, ast.Load)):  # type: ignore[attr-defined]
            yield value

    return of


def returns(value: ast.expr) -> Operator:
    """Return another value."""

    def of(node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Return):
            yield _with(node, value=value)

    return of


PLAIN = {
    made.__name__: made
    for made in (never, always, boundary, opposite, arithmetic, other, drop, bare, without, exchange, skip)
}
WITH_VALUE = {made.__name__: made for made in (constant, returns)}


class _Rewriting(ast.NodeTransformer):
    """What an operator makes of the n-th of its places."""

    def __init__(self, operator: Operator, place: int) -> None:
        self._operator = operator
        self.left = place

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the node, or go on below it."""
        for mutant in self._operator(node):
            self.left -= 1
            if self.left == 0:
                return mutant
        if isinstance(node, ast.JoinedStr):
            values = [self.visit(item) if isinstance(item, ast.FormattedValue) else item for item in node.values]
            return _with(node, values=values)
        return node if isinstance(node, ast.arg) or _is_text(node) else self.generic_visit(node)


def rewritten(tree: ast.AST, operator: Operator, place: int) -> ast.AST | None:
    """Break the n-th place of an operator in a tree (which is used up), if there are as many."""
    rewriting = _Rewriting(operator, place)
    mutant = rewriting.visit(tree)
    return ast.fix_missing_locations(mutant) if rewriting.left <= 0 else None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _replaced(items: Sequence[ast.AST], at: int, *by: ast.AST) -> list[ast.AST]:
    return [*items[:at], *by, *items[at + 1 :]]


def _others(known: object, pairs: Pairs) -> list[Any]:
    return [two if one == known else one for one, two in pairs if known in (one, two)][:1]
