"""The table of devices in the manual: ``python -m tests.device_table`` writes it anew from ``devices.json``."""

from __future__ import annotations

from collections.abc import Iterator

from hta_graph.roofline.devices import TYPES, Device, known_devices
from tests.support.generated_section import GeneratedSection

SHOWN = {"float8": "8-bit", "float6": "6-bit", "float4": "4-bit", "bfloat16": "bf16", "double": "fp64", "float": "fp32",
         "half": "fp16"}  # fmt: skip
"""Types as the heads of the columns call them."""
HEAD = ("device", "recorded as", *(SHOWN.get(name, name) for name in TYPES), "vector fp32", "fp64", "memory", "link")


def table() -> str:
    """Return the table of numbers, and below it the notes."""
    rows = [HEAD, ("---",) * len(HEAD), *map(cells, known_devices())]
    numbers = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"\n{numbers}\n\n" + "\n".join(notes()) + "\n\n"


def cells(device: Device) -> tuple[str, ...]:
    """Return a device's row."""
    vector = device.vector_tflops
    link = " ".join((number(device.link_gb_per_s), device.link.partition(":")[0])).strip()
    return (
        device.name,
        ", ".join(f"`{name}`" for name in device.recorded),
        *(number(device.matrix_tflops.get(name)) for name in TYPES),
        number(vector.get("float")),
        number(vector.get("double")),
        number(device.memory_gb_per_s),
        link,
    )


def number(value: float | None) -> str:
    """Return a number as people read it; nothing of one that is not known.

    >>> number(9227.5), number(450), number(None)
    ('9,227.5', '450', '')
    """
    return "" if value is None else f"{value:,}"


def notes() -> Iterator[str]:
    """Yield a line for the devices of one note: what is to be known of their numbers."""
    alike: dict[str, list[str]] = {}
    for device in known_devices():
        if device.note:
            alike.setdefault(device.note, []).append(device.name)
    yield from (f"- **{', '.join(names)}**: {note}" for note, names in alike.items())


PART = GeneratedSection("reference/devices.md", "devices", table)


if __name__ == "__main__":
    PART.write()
