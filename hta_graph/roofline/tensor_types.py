"""What PyTorch makes of several tensors: the shape and type of a result; and the types that a kernel's name tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from hta_graph.roofline.operator_call import NotRecordedError, Tensor, total_bytes

__all__ = [
    "TYPE_OF_CODE",
    "broadcast",
    "element_type_in",
    "known_bytes",
    "magnitude_type",
    "output_bytes",
    "promoted_type",
    "real_type",
    "result_type",
    "sum_type",
    "type_of_code",
]  # fmt: skip

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
    """Return the type that a number stands for where PyTorch is asked for one, such as ``sum(dtype=...)``.

    >>> type_of_code("15")
    'bfloat16'

    Raises:
        NotRecordedError: it is no such number.
    """
    if code not in TYPE_OF_CODE:
        raise NotRecordedError(f"the type {code or 'that was asked for'}")
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
        NotRecordedError: the tensors' types do not tell it, or a number does and was not recorded.
    """
    kind = result_type(tensors)
    if any(tensor.shape for tensor in tensors) and all(_has_lower_category(one, kind) for one in tensors if one.shape):
        kind = {"double": "float", "complex<double>": "complex<float>"}.get(kind, kind)
    for number in numbers:
        kind = _promoted_by_number(kind, number)
    return kind


def _has_lower_category(tensor: Tensor, kind: str) -> bool:
    """Tell whether a tensor cannot hold what a type can."""
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
