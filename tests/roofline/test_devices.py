"""The table of devices: names as traces record them, peaks by unit and type, and that its numbers fit each other."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from hta_graph.roofline.demand import Unit
from hta_graph.roofline.devices import TYPES, Device, find_device, known_devices

MATRIX, VECTOR = Unit.MATRIX, Unit.VECTOR
every_device = pytest.mark.parametrize("device", known_devices(), ids=lambda device: device.name)


def known(name: str) -> Device:
    found = find_device(name)
    assert found is not None, name
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA GH200 480GB", "GH200 96 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40 GB"),
        ("A100-SXM4-80GB", "A100 SXM 80 GB"),
        ("NVIDIA A100-PG509-200", "A100 SXM 40 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("NVIDIA B200", "B200"),
        ("GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon Instinct MI50", "MI50"),
        ("AMD Instinct MI250X / MI250", "MI250X or MI250"),
    ],
)
def test_a_device_is_known_by_the_name_that_a_trace_records(recorded: str, name: str) -> None:
    assert known(recorded).name == name


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    ["", " ", "unnamed", "NVIDIA", "NVIDIA H100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100", "ARTEMIS", "H1000",
     "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A10M",
     "AMD Instinct MI60 / MI50", "AMD Instinct MI308X", "NVIDIA H200 80GB HBM3", "\x00", "NVIDIA " * 10_000],
)  # fmt: skip
def test_a_name_that_is_not_wholly_known_is_unknown(name: str) -> None:
    assert find_device(name) is None


def test_no_name_is_that_of_two_devices() -> None:
    words = [name.lower() for device in known_devices() for name in (device.name, *device.recorded)]
    of_one = [name for device in known_devices() for name in {device.name.lower(), *map(str.lower, device.recorded)}]
    assert [name for name, count in Counter(of_one).items() if count > 1] == []
    assert all(name == " ".join(name.split()) for name in words)
    assert all(known(name) is device for device in known_devices() for name in device.recorded)


@every_device
def test_a_device_names_its_source_and_has_sound_numbers(device: Device) -> None:
    assert device.source
    assert any(year in device.source for year in map(str, range(2016, 2027)))
    assert device.link
    numbers = [*device.matrix_tflops.values(), *device.vector_tflops.values(), device.memory_gb_per_s or 0]
    assert all(0 < number < 20_000 for number in numbers)
    assert {*device.matrix_tflops, *device.vector_tflops} <= set(TYPES)
    assert {*device.vector_tflops} <= {"double", "float", "half", "bfloat16"}
    assert device.link_gb_per_s is None or 0 < device.link_gb_per_s < (device.memory_gb_per_s or 0)


@every_device
def test_numbers_of_narrower_types_are_not_smaller(device: Device) -> None:
    order = [device.matrix_tflops[name] for name in ("float", "tf32", "half", "float8") if name in device.matrix_tflops]
    assert order == sorted(order)
    pairs = [("float8", "float6"), ("float6", "float4"), ("double", "float")]
    for wide, narrow in pairs:
        if {wide, narrow} <= {*device.matrix_tflops}:
            assert device.matrix_tflops[wide] <= device.matrix_tflops[narrow]
    for name, value in device.vector_tflops.items():
        assert value <= device.matrix_tflops.get(name, math.inf)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "clock_mhz", "per_clock", "unit", "dtype"),
    [
        # multiplications with additions per clock and multiprocessor or compute unit × their number, from white papers
        ("NVIDIA H100 80GB HBM3", 1830, 132 * 2048, MATRIX, "bfloat16"),
        ("NVIDIA H100 80GB HBM3", 1830, 132 * 4096, MATRIX, "float8_e4m3fn"),
        ("NVIDIA H100 80GB HBM3", 1980, 132 * 128, VECTOR, "float"),
        ("NVIDIA A100-SXM4-40GB", 1410, 108 * 1024, MATRIX, "half"),
        ("NVIDIA A100-SXM4-40GB", 1410, 108 * 2048, MATRIX, "signed char"),
        ("NVIDIA A100-SXM4-40GB", 1410, 108 * 64, VECTOR, "bfloat16"),
        ("NVIDIA A100-SXM4-40GB", 1410, 108 * 32, VECTOR, "double"),
        ("Tesla V100-SXM2-16GB", 1530, 80 * 512, MATRIX, "half"),
        ("Tesla V100-SXM2-16GB", 1530, 80 * 64, MATRIX, "float"),
        ("NVIDIA GeForce RTX 4090", 2520, 128 * 256, MATRIX, "half"),
        ("AMD Instinct MI300X", 2100, 304 * 1024, MATRIX, "bfloat16"),
        ("AMD Instinct MI300X", 2100, 304 * 128, VECTOR, "float"),
        ("AMD Instinct MI355X", 2400, 256 * 8192, MATRIX, "float4_e2m1fn_x2"),
        ("AMD Instinct MI350X", 2200, 256 * 2048, MATRIX, "half"),
        ("AMD Instinct MI250X", 1700, 110 * 512, MATRIX, "half"),
    ],
)  # fmt: skip
def test_peaks_are_what_units_and_clocks_make(
    name: str, clock_mhz: int, per_clock: int, unit: Unit, dtype: str
) -> None:
    assert known(name).peak_flops(unit, dtype) == pytest.approx(2 * per_clock * clock_mhz * 1e6, rel=0.006)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "tflops"),
    [
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4", 156),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>", 156),
        ("ampere_sgemm_128x64_nn", 19.5),
        ("triton_tem_fused_mm_0", 19.5),
        ("", 19.5),
    ],
)
def test_a_product_of_floats_has_the_peak_of_tf32_where_the_kernel_says_so(kernel: str, tflops: float) -> None:
    a100 = known("NVIDIA A100-SXM4-40GB")
    assert a100.peak_flops(MATRIX, "float", kernel) == tflops * 10**12
    assert a100.peak_flops(VECTOR, "float", kernel) == 19.5 * 10**12
    assert a100.peak_flops(MATRIX, "bfloat16", kernel) == 312 * 10**12


def test_what_a_device_has_no_number_for_has_no_peak() -> None:
    v100 = known("Tesla V100-SXM2-16GB")
    unknown = ["bfloat16", "float8_e5m2", "signed char", "complex<float>", "bool", "", "float16", "int"]
    assert [v100.peak_flops(MATRIX, dtype) for dtype in unknown] == [None] * len(unknown)
    assert v100.peak_flops(MATRIX, "float", "some_tf32_kernel") is None
    nothing = Device("nothing")
    assert (nothing.peak_flops(VECTOR, "float"), nothing.memory_bytes_per_s) == (None, None)


def test_other_work_has_the_rate_of_floats_but_for_doubles() -> None:
    h100 = known("NVIDIA H100 80GB HBM3")
    for dtype in ("float", "bfloat16", "half", "long int", "bool", "complex<float>", "float8_e4m3fn", "made up"):
        assert h100.peak_flops(VECTOR, dtype) == 66.9 * 10**12
    assert h100.peak_flops(VECTOR, "double") == h100.peak_flops(VECTOR, "complex<double>") == 33.5 * 10**12
    assert known("Tesla T4").peak_flops(VECTOR, "double") is None


def test_bandwidths_are_bytes_per_second() -> None:
    h100 = known("NVIDIA H100 80GB HBM3")
    assert (h100.memory_bytes_per_s, h100.link_gb_per_s) == (3_352_000_000_000, 450)
    assert known("NVIDIA A100-PCIE-40GB").link_gb_per_s is None
