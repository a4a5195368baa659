"""Peaks that somebody gives: devices by name, files by their keys, and one line for all that is neither."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hta_graph.base.errors import HtaGraphError, UsageError
from hta_graph.roofline.demand import Unit
from hta_graph.roofline.devices import known_devices, resolve_peaks

OWN: dict[str, Any] = {
    "name": "mine", "matrix_tflops": {"bfloat16": 100.5, "float": 10}, "vector_tflops": {"float": 9},
    "memory_gb_per_s": 1000, "link_gb_per_s": 50,
}  # fmt: skip


def written(folder: Path, content: object) -> str:
    path = folder / "peaks.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["MI300X", "mi300x", " MI300X", "AMD Instinct MI300X"])
def test_a_device_is_given_by_its_name(name: str) -> None:
    assert resolve_peaks(name).name == "MI300X"


def test_every_device_can_be_given_by_the_name_in_the_table() -> None:
    assert [resolve_peaks(device.name) for device in known_devices()] == list(known_devices())


def test_a_file_describes_a_device(tmp_path: Path) -> None:
    found = resolve_peaks(written(tmp_path, OWN))
    assert found.name == "mine"
    assert found.peak_flops(Unit.MATRIX, "bfloat16") == 100_500_000_000_000
    assert found.peak_flops(Unit.VECTOR, "half") == 9_000_000_000_000
    assert (found.memory_bytes_per_s, found.link_gb_per_s) == (1_000_000_000_000, 50)
    assert found.peak_flops(Unit.MATRIX, "half") is None


def test_a_url_and_a_packed_file_are_files(tmp_path: Path) -> None:
    written(tmp_path, OWN)
    assert resolve_peaks(f"file://{tmp_path}/peaks.json").name == "mine"
    packed = tmp_path / "peaks.json.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(OWN).encode()))
    assert resolve_peaks(str(packed)).name == "mine"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("left_out", OWN)
def test_any_part_may_be_absent(tmp_path: Path, left_out: str) -> None:
    found = resolve_peaks(written(tmp_path, {key: value for key, value in OWN.items() if key != left_out}))
    assert found.name == ("given peaks" if left_out == "name" else "mine")


def test_what_a_file_says_can_be_shown(tmp_path: Path) -> None:
    assert resolve_peaks(written(tmp_path, {"name": "a\x1b[2J\n b\ud800"})).name == "a\ufffd[2J b\ufffd"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("no", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"memory_gb_per_s": ' + "9" * 5_000 + "}", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("3", "is not a JSON object"),
        ('{"name": "a", "name": "b"}', "has a duplicate key"),
        ('{"matrix_tflops": {"half": 1, "half": 2}}', "has a duplicate key"),
        ({"memory": 3}, "memory is not a known key; use one of: matrix_tflops, vector_tflops, memory_gb_per_s"),
        ({"recorded": ["x"]}, "recorded is not a known key"),
        (
            {"matrix_tflops": {"bf16": 3}},
            "matrix_tflops.bf16 is not a known key; use one of: double, float, tf32",
        ),
        ({"matrix_tflops": 3}, "matrix_tflops is not an object"),
        ({"vector_tflops": None}, "vector_tflops is not an object"),
        ({"vector_tflops": {"float": "fast"}}, "vector_tflops.float is not a number above 0"),
        ({"name": 3}, "name is not a text"),
        ({"name": "x" * 1_000}, "name is not a text"),
        ({"x" * 10_000: 1}, "is not a known key"),
        *(
            ({"memory_gb_per_s": value}, "memory_gb_per_s is not a number above 0")
            for value in (0, -1, True, None, [], "3")
        ),
        *(
            (f'{{"link_gb_per_s": {value}}}', "link_gb_per_s is not a number above 0")
            for value in ("NaN", "Infinity", "-Infinity", "1e400", "1e12", "-0.0", "9" * 400)
        ),
        (" " * (1 << 20) + "{}", "holds more than"),
    ],
)
def test_what_is_no_device_is_refused_in_one_line(tmp_path: Path, content: object, said: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        resolve_peaks(path)
    assert caught.value.exit_status == 2
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "record the trace" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("given", ["MI999X", "", ".", "/nowhere/peaks.json", "a\x00b", "x" * 5_000, "gs3://x/y"])
def test_what_is_neither_a_device_nor_a_file_is_refused(given: str) -> None:
    with pytest.raises(HtaGraphError):
        resolve_peaks(given)


def test_who_misspells_a_device_learns_what_to_give() -> None:
    with pytest.raises(UsageError, match="MI999X: no such file; give a device name"):
        resolve_peaks("MI999X")


def test_a_packed_file_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "peaks.json"
    path.write_bytes(gzip.compress(json.dumps(OWN).encode())[:-12])
    with pytest.raises(UsageError, match=r"peaks\.json: the gzip data"):
        resolve_peaks(str(path))
