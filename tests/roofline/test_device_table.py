"""The manual's table of devices is that of the package."""

from __future__ import annotations

import json
import re

from hta_graph.roofline.devices import MAKERS, TYPES, device_from_entry, is_tf32
from tests.device_table import PART
from tests.support.manual_pages import DOCS

TEXT = PART.path.read_text(encoding="utf-8")
GUIDE = (DOCS / "reference" / "roofline.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_of_the_package() -> None:
    assert PART.renewed(TEXT) == TEXT, "python -m tests.device_table writes it anew"
    assert TEXT.count("MI355X") > 1


def test_the_page_names_the_types_and_the_makers() -> None:
    assert all(f"`{name}`" in GUIDE for name in TYPES)
    assert all(f"`{name}`".lower() in GUIDE.lower() for name in MAKERS)


def test_the_example_is_one() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    assert device_from_entry(json.loads(example)).name == "half a MI300X"


def test_the_marks_of_kernels_are_those_that_count() -> None:
    assert [is_tf32(f"x_{mark}_y") for mark in ("tf32", "xf32", "tensorop_s1688")] == [True] * 3
    assert [is_tf32(f"x_{mark}_y") for mark in ("sgemm", "scudnn", "ffma", "simt", "gemm_f32f32_f32f32_f32")] == [
        False
    ] * 5
