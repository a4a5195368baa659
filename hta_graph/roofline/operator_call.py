"""A call of an operator as the profiler recorded it: shapes, types and values of its inputs, by position.

Besides what PyTorch makes of several tensors (the shape and type of a result), and the types in a kernel's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat, zip_longest
from typing import Any

from hta_graph.trace.profiler_names import element_bytes

MAX_ELEMENTS = 1 << 53
"""A larger tensor is taken for a broken number."""
MAX_DIMENSIONS = 64
"""PyTorch's tensors have no more dimensions."""
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
NON_TENSOR_TYPES = {
    "",
    "Scalar",
    "ScalarList",
    "TensorList",
    "GenericList",
    "Bool",
    "Int",
    "Double",
    "str",
    "Device",
    "None",
}
"""What the profiler writes as type of an input that is not one tensor; an optional one that was not given is empty."""


_known_width = lru_cache(maxsize=1 << 10)(element_bytes)


class NotRecordedError(Exception):
    """What a recording does not say of an operator's inputs, so that nothing is known of its work."""


@dataclass(frozen=True)
class Tensor:
    """A tensor as recorded; ``dtype`` in PyTorch's words without ``c10::``, in lower case, such as ``bfloat16``.

    ``strides`` are those of its dimensions in elements; ``None`` where they were not recorded.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """How many elements its shape has."""
        return math.prod(self.shape)

    @property
    def stored_elements(self) -> int:
        """How many different elements there are in memory: one that is expanded repeats them.

        >>> Tensor((4, 1024), "float", (0, 1)).stored_elements, Tensor((4, 1024), "float").stored_elements
        (1024, 4096)
        """
        if self.strides is None:
            return self.elements
        return math.prod(side for side, stride in zip(self.shape, self.strides, strict=True) if stride or not side)

    @property
    def width(self) -> int:
        """The bytes of an element.

        Raises:
            NotRecordedError: its type is not known.
        """
        if not (width := _known_width(self.dtype)):
            raise NotRecordedError(f"the size of {self.dtype or 'an unnamed type'}")
        return width

    @property
    def bytes(self) -> int:
        """How much memory it takes.

        Raises:
            NotRecordedError: its type is not known.
        """
        return self.stored_elements * self.width


@dataclass(frozen=True)
class OperatorCall:
    """An operator's name and inputs.

    ``inputs`` has by position a tensor, the tensors of a list, or ``None`` for what is no tensor; ``values`` the texts
    of what is none, as recorded: ``"1"``, ``"[1, 1]"``, ``"True"``; empty where not recorded. ``kernel`` is the name of
    the kernel that most of its time on the GPU is spent in: it may show types that the inputs do not. ``annotation`` is
    what the program said around the call, of operators whose work depends on it.
    """

    name: str
    inputs: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    values: tuple[str, ...] = ()
    kernel: str = ""
    annotation: str = ""

    def tensor(self, at: int) -> Tensor:
        """Return the tensor at a position.

        Raises:
            NotRecordedError: none was recorded there.
        """
        found = self.tensor_or_none(at)
        if found is None:
            raise NotRecordedError(f"the shape of input {at}")
        return found

    def tensor_or_none(self, at: int) -> Tensor | None:
        """Return the tensor at a position; ``None`` if there is none: an optional one may be left out."""
        found = self.inputs[at] if at < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def tensor_list(self, at: int) -> tuple[Tensor, ...]:
        """Return the tensors of the list at a position.

        Raises:
            NotRecordedError: no list was recorded there.
        """
        found = self.inputs[at] if at < len(self.inputs) else None
        if not isinstance(found, tuple):
            raise NotRecordedError(f"the shapes of list {at}")
        return found

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that are given singly, in order."""
        return tuple(found for found in self.inputs if isinstance(found, Tensor))

    def text(self, at: int) -> str:
        """Return the value at a position as recorded; empty if it was not, or not given."""
        return self.values[at] if at < len(self.values) else ""

    def integers(self, at: int) -> tuple[int, ...]:
        """Return a list of whole numbers.

        Raises:
            NotRecordedError: it was not recorded.
        """
        inner = self.text(at).strip("[]()").replace(" ", "")
        parts = inner.split(",") if inner else []
        if not self.text(at) or not all(INTEGER.fullmatch(part) for part in parts):
            raise NotRecordedError(f"the value of input {at}")
        return tuple(map(int, parts))

    def integer(self, at: int) -> int:
        """Return a whole number.

        Raises:
            NotRecordedError: it was not recorded.
        """
        found = self.integers(at)
        if len(found) != 1:
            raise NotRecordedError(f"the value of input {at}")
        return found[0]

    def boolean(self, at: int) -> bool | None:
        """Return a boolean; ``None`` where it was not recorded."""
        return {"True": True, "False": False}.get(self.text(at))


def operator_call(
    name: str, shapes: Any, types: Any, values: Any = None, strides: Any = None, kernel: str = "", annotation: str = ""
) -> OperatorCall:
    """Make a call of what the profiler wrote: ``Input Dims``, ``Input type``, ``Concrete Inputs``, ``Input Strides``.

    What is not as PyTorch writes it counts as not recorded.

    >>> operator_call("aten::mm", [[8, 3], [3, 5]], ["c10::BFloat16", "float"]).inputs
    (Tensor(shape=(8, 3), dtype='bfloat16', strides=None), Tensor(shape=(3, 5), dtype='float', strides=None))
    >>> operator_call("aten::add", [[4], []], ["float", "Scalar"], ["", "1"]).values
    ('', '1')
    """
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        return OperatorCall(name, (), kernel=kernel, annotation=annotation)
    steps = strides if isinstance(strides, list) and len(strides) == len(shapes) else [None] * len(shapes)
    inputs = tuple(_decode_input(*one) for one in zip(shapes, types, steps, strict=True))
    has_values = isinstance(values, list) and len(values) == len(shapes)
    return OperatorCall(name, inputs, tuple(map(str, values)) if has_values else (), kernel, annotation)


def _decode_input(shape: Any, kind: Any, strides: Any) -> Tensor | tuple[Tensor, ...] | None:
    """Return what one input is; the type of a list's tensors is not recorded."""
    if not isinstance(shape, list) or not isinstance(kind, str):
        return None
    if kind == "TensorList":
        fits = isinstance(strides, list) and len(strides) == len(shape)
        members = [_decode_tensor(*one) for one in zip(shape, repeat(""), strides if fits else repeat(None))]
        return tuple(one for one in members if one is not None) if all(members) and members else None
    return None if kind in NON_TENSOR_TYPES else _decode_tensor(shape, kind, strides)


def _decode_tensor(shape: Any, kind: str, strides: Any) -> Tensor | None:
    """Return a tensor, if its shape is one."""
    if not _are_lengths(shape) or math.prod(shape) > MAX_ELEMENTS:
        return None
    fits = _are_lengths(strides) and len(strides) == len(shape)
    return Tensor(tuple(shape), kind.removeprefix("c10::").lower(), tuple(strides) if fits else None)


def _are_lengths(found: Any) -> bool:
    """Return whether something is a list of lengths."""
    return (
        isinstance(found, list) and len(found) <= MAX_DIMENSIONS and all(type(one) is int and one >= 0 for one in found)
    )


def total_elements(tensors: Sequence[Tensor]) -> int:
    """Add up the elements of some tensors."""
    return sum(tensor.elements for tensor in tensors)


def total_bytes(*tensors: Tensor | None) -> int:
    """Add up the memory of tensors; one that is not given takes none.

    Raises:
        NotRecordedError: the type of one is not known.
    """
    return sum(tensor.bytes for tensor in tensors if tensor is not None)


CATEGORY = {
    "bool": 0, "byte": 1, "char": 1, "unsigned char": 1, "signed char": 1, "short": 1, "short int": 1, "int": 1,
    "unsigned int": 1, "long": 1, "long int": 1, "uint16": 1, "uint32": 1, "uint64": 1, "half": 2, "bfloat16": 2,
    "float": 2, "double": 2, "complex<float>": 3, "complex<double>": 3,
}  # fmt: skip
"""Types by what they can hold: truth, whole numbers, real ones, complex ones."""
REAL = 2
TYPE_OF_CODE = {
    "0": "unsigned char", "1": "signed char", "2": "short int", "3": "int", "4": "long int", "5": "half", "6": "float",
    "7": "double", "9": "complex<float>", "10": "complex<double>", "11": "bool", "15": "bfloat16", "23": "float8_e5m2",
    "24": "float8_e4m3fn", "25": "float8_e5m2fnuz", "26": "float8_e4m3fnuz", "27": "uint16", "28": "uint32",
    "29": "uint64", "44": "float8_e8m0fnu", "45": "float4_e2m1fn_x2",
}  # fmt: skip
"""PyTorch's numbers of its types, ``c10::ScalarType``."""
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
NAMED_TYPE = re.compile(r"\b(c10::BFloat16|__nv_bfloat16|c10::Half|__half|float|double)\b")
SHORT_TYPE = {"c10::BFloat16": "bfloat16", "__nv_bfloat16": "bfloat16", "c10::Half": "half", "__half": "half"}


def broadcast(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape of an operation element by element on tensors of some shapes.

    >>> broadcast([(8, 1, 3), (4, 3), ()])
    (8, 4, 3)

    Raises:
        NotRecordedError: they do not fit each other.
    """
    found: list[int] = []
    for sides in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = set(sides) - {1}
        if len(wide) > 1:
            raise NotRecordedError("shapes that fit each other")
        found.append(wide.pop() if wide else 1)
    return tuple(reversed(found))


def result_type(tensors: Sequence[Tensor]) -> str:
    """Return the type of an operation on some tensors, as PyTorch promotes them.

    One without dimensions raises the type only where it can hold what the others cannot.

    >>> result_type([Tensor((4,), "bfloat16"), Tensor((), "double")])
    'bfloat16'
    >>> result_type([Tensor((4,), "int"), Tensor((), "half")])
    'half'

    Raises:
        NotRecordedError: there is none, or one has a type that is not promoted.
    """
    if any(tensor.dtype not in CATEGORY for tensor in tensors):
        kinds = {tensor.dtype for tensor in tensors}
        if len(kinds) != 1:
            raise NotRecordedError("the type of the result")
        return kinds.pop()
    wide = [tensor for tensor in tensors if tensor.shape]
    zero = [tensor for tensor in tensors if not tensor.shape]
    ranked = [_widest_type(group) for group in (wide, zero) if group]
    if not ranked:
        raise NotRecordedError("the type of the result")
    return max(ranked, key=lambda kind: CATEGORY[kind])  # of equals the first: that with dimensions


def _widest_type(tensors: Sequence[Tensor]) -> str:
    """Return the type that holds those of all: the highest category, in it the widest; two kinds of 16 bits make 32."""
    if len(kinds := {tensor.dtype for tensor in tensors}) == 1:
        return kinds.pop()
    top = max(CATEGORY[tensor.dtype] for tensor in tensors)
    among = {tensor.dtype: tensor.width for tensor in tensors if CATEGORY[tensor.dtype] == top}
    if {"half", "bfloat16"} <= among.keys():
        among["float"] = 4
    return max(among, key=lambda kind: (among[kind], kind))


def output_bytes(shape: Sequence[int], dtype: str) -> int:
    """Return the memory of a result.

    Raises:
        NotRecordedError: its type is not known.
    """
    return Tensor(tuple(shape), dtype).bytes


def known_bytes(*tensors: Tensor | None) -> int | None:
    """Add up the memory of tensors, as :func:`total_bytes` does; ``None`` where the type of one is not known."""
    try:
        return total_bytes(*tensors)
    except NotRecordedError:
        return None


def element_type_in(kernel: str) -> str:
    """Return the one floating type in the arguments of a kernel's template; empty where there is none or are several.

    >>> element_type_in("void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float, 2> >(int)")
    'float'
    >>> element_type_in("void kernel<c10::BFloat16, float>()")
    ''
    """
    found = {SHORT_TYPE.get(name, name) for name in NAMED_TYPE.findall(kernel)}
    return found.pop() if len(found) == 1 else ""


def type_of_code(code: str) -> str:
    """Return the type that a number stands for where a call gives one, such as ``sum(dtype=...)``.

    >>> type_of_code("15")
    'bfloat16'

    Raises:
        NotRecordedError: it is no such number.
    """
    if code not in TYPE_OF_CODE:
        raise NotRecordedError(f"the type {code or 'that was requested'}")
    return TYPE_OF_CODE[code]


def real_type(dtype: str) -> str:
    """Return the type of a function's result, such as that of ``sqrt``: whole numbers become ``float``, the default."""
    return "float" if CATEGORY.get(dtype, REAL) < REAL else dtype


def sum_type(dtype: str) -> str:
    """Return the type that sums of a type have: whole numbers and truths add up to ``long int``."""
    return "long int" if CATEGORY.get(dtype, REAL) < REAL else dtype


def magnitude_type(dtype: str) -> str:
    """Return the type of how large a number is: a complex one's magnitude is real."""
    return dtype.removeprefix("complex<").removesuffix(">")


def promoted_type(tensors: Sequence[Tensor], numbers: Sequence[str] = ()) -> str:
    """Return the type of an operation on some tensors and on numbers as recorded: ``"1"``, ``"0.5"``, ``"True"``.

    A number of Python's is often recorded as a tensor without dimensions, of type ``double``; it makes whole numbers
    ``float``.

    >>> promoted_type([Tensor((4,), "long int"), Tensor((), "double")])
    'float'
    >>> promoted_type([Tensor((4,), "bool")], ["2"])
    'long int'

    Raises:
        NotRecordedError: the tensors' types do not give it, or a number does and was not recorded.
    """
    kind = result_type(tensors)
    if any(tensor.shape for tensor in tensors) and all(_has_lower_category(one, kind) for one in tensors if one.shape):
        kind = {"double": "float", "complex<double>": "complex<float>"}.get(kind, kind)
    for number in numbers:
        kind = _promoted_by_number(kind, number)
    return kind


def _has_lower_category(tensor: Tensor, kind: str) -> bool:
    """Return whether a tensor cannot hold what a type can."""
    return CATEGORY.get(tensor.dtype, REAL) < CATEGORY.get(kind, REAL)


def _promoted_by_number(kind: str, number: str) -> str:
    """Return the type of an operation on a tensor of some type and a number."""
    if CATEGORY.get(kind, REAL) >= REAL or number in {"True", "False"}:
        return kind
    if WHOLE_NUMBER.fullmatch(number):
        return "long int" if kind == "bool" else kind
    try:
        float(number)
    except ValueError:
        raise NotRecordedError("the value of a number") from None
    return "float"
