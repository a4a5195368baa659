"""Which names everybody knows."""

from __future__ import annotations

import pytest

from hta_graph.export.anonymize.public_names import is_public
from hta_graph.model import EventKind

PUBLIC = [
    (EventKind.CPU_OP, "aten::_foreach_add_"),
    (EventKind.CPU_OP, "aten::add.Tensor"),
    (EventKind.CPU_OP, "c10d::allreduce_"),
    (EventKind.CPU_OP, "autograd::engine::evaluate_function: AddmmBackward0"),
    (EventKind.CPU_OP, "torch::autograd::AccumulateGrad"),
    (EventKind.CPU_OP, "record_param_comms"),
    (EventKind.CPU_OP, "nccl:all_reduce"),
    (EventKind.ANNOTATION, "ProfilerStep#7"),
    (EventKind.ANNOTATION, "Optimizer.step#SGD.step"),
    (EventKind.ANNOTATION, "gloo:all_reduce"),
    (EventKind.ANNOTATION, "nccl:send 0->1"),
    (EventKind.ANNOTATION, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    (EventKind.RUNTIME, "cudaLaunchKernelExC"),
    (EventKind.RUNTIME, "hipExtModuleLaunchKernel"),
    (EventKind.KERNEL, "ampere_sgemm_128x64_nn"),
    (EventKind.KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    (EventKind.KERNEL, "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>(float*)"),
    (EventKind.KERNEL, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(int)"),
    (EventKind.KERNEL, "void at::native::f<at::native::g(at::TensorIteratorBase&)::{lambda(float)#1}>(int)"),
    (EventKind.MEMCPY, "Memcpy HtoD (Pinned -> Device)"),
    (EventKind.PYTHON_FUNCTION, "torch/nn/modules/module.py(1501): _call_impl"),
    (EventKind.PYTHON_FUNCTION, "<built-in method linear of type object at 0x7f00>"),
    (EventKind.PYTHON_FUNCTION, "nn.Module: Linear_3"),
]

OWN = [
    (EventKind.CPU_OP, "acme::attention"),
    (EventKind.CPU_OP, "AcmeAttentionBackward"),
    (EventKind.CPU_OP, "aten::mm of acme"),
    (EventKind.CPU_OP, "autograd::engine::evaluate_function: AcmeBackward"),
    (EventKind.ANNOTATION, "forward of acme"),
    (EventKind.ANNOTATION, "Optimizer.step#AcmeOptimizer.step"),
    (EventKind.ANNOTATION, "nccl:acme"),
    (EventKind.RUNTIME, "acmeLaunchKernel"),
    (EventKind.KERNEL, "acme_gemm"),
    (EventKind.KERNEL, "void acme::fused<float>(float*)"),
    (EventKind.KERNEL, "void at::native::vectorized_elementwise_kernel<4, acme::Functor<float>>(int)"),
    (EventKind.KERNEL, "triton_poi_fused_acme_0"),
    (EventKind.KERNEL, "void"),
    (EventKind.MEMCPY, "Memcpy HtoD (Acme -> Device)"),
    (EventKind.PYTHON_FUNCTION, "/home/acme/torch/nn/modules/module.py(1): f"),
    (EventKind.PYTHON_FUNCTION, "train.py(12): fit"),
    (EventKind.PYTHON_FUNCTION, "<built-in method acme of PyCapsule object at 0x7f00>"),
    (EventKind.PYTHON_FUNCTION, "nn.Module: AcmeLayer_3"),
    (EventKind.OTHER, "aten::mm"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "name"), PUBLIC)
def test_names_of_public_libraries_are_public(kind: EventKind, name: str) -> None:
    assert is_public(kind, name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "name"), OWN)
def test_names_with_anything_else_in_them_are_somebodys_own(kind: EventKind, name: str) -> None:
    assert not is_public(kind, name)


def test_a_name_of_megabytes_is_not_looked_through() -> None:
    assert not is_public(EventKind.KERNEL, "void at::native::f<" + "float, " * 1_000_000 + "float>()")
