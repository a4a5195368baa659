"""Which names are public, by the shapes that their makers give them; one table per kind of event.

A name that has none of these shapes is private. Shapes and not lists: libraries have thousands of kernels, and
each release brings more. Sources: the names in 332 public Kineto files from 2020 to 2026; PyTorch's
torch/csrc/autograd (nodes that PyTorch generates end in ``Backward`` and a digit, those of a program do not).
"""

from __future__ import annotations

import re
from functools import lru_cache

from hta_graph.model import EventKind
from hta_graph.trace.engine_steps import SGLANG_MODES, read_step_name
from hta_graph.trace.profiler_names import COPY_KERNEL, MARKER_KERNEL, PROCESS_GROUP_CALL, SET_KERNEL, STEP_NAME

OPTIMIZERS = (
    "Adadelta|Adafactor|Adagrad|Adam|AdamW|Adamax|ASGD|LBFGS|Muon|NAdam|RAdam|RMSprop|Rprop|SGD|SparseAdam"
    "|ZeroRedundancyOptimizer"
)
"""The classes of torch.optim."""

MODULES = (
    "(Lazy)?(Linear|Bilinear|Identity|Conv[123]d|ConvTranspose[123]d|BatchNorm[123]d|InstanceNorm[123]d)"
    "|(Adaptive)?(Avg|Max)Pool[123]d|LPPool[123]d|MaxUnpool[123]d|SyncBatchNorm|GroupNorm|LayerNorm|RMSNorm"
    "|Embedding(Bag)?|(Alpha|Feature)?(Alpha)?Dropout[123]?d?|ReLU6?|LeakyReLU|PReLU|RReLU|ELU|SELU|CELU|GELU|GLU|SiLU|Mish"
    "|Sigmoid|LogSigmoid|Hardsigmoid|Tanh|Hardtanh|Hardswish|Softmax|LogSoftmax|Softmin|Softplus|Softsign|Threshold"
    "|(RNN|LSTM|GRU)(Cell)?|Multihead[aA]ttention|Transformer((En|De)coder(Layer)?)?|Sequential|ModuleList|ModuleDict"
    "|Flatten|Unflatten|Upsample|PixelShuffle|PixelUnshuffle|Fold|Unfold|ZeroPad2d|ReflectionPad[123]d"
    "|(CrossEntropy|MSE|L1|SmoothL1|Huber|NLL|KLDiv|BCE|BCEWithLogits|CTC|CosineEmbedding)Loss|CosineSimilarity"
    "|DataParallel|DistributedDataParallel|FullyShardedDataParallel|OptimizedModule|GraphModule|ScriptModule"
)
"""The classes of torch.nn."""

COLLECTIVE_NAME = (
    r"_?(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|gather|scatter|barrier|send|recv)"
    r"(_(base|into_tensor|tensor|coalesced|single|any_source|oop|sparse|v))*_?"
)
NODE = (
    r"[A-Z]\w*Backward\d+|torch::autograd::(AccumulateGrad|CopySlices|CopyBackwards|GraphRoot|Error|UndefinedGrad)"
    r"|torch::jit::\(anonymous namespace\)::DifferentiableGraphBackward|CompiledFunctionBackward|_DDPSinkBackward"
)
LOADER = r"enumerate\(DataLoader\)#_(Multi|Single)Process(ing)?DataLoaderIter\.__next__"
OF_PYTORCH = (
    rf"{LOADER}|Optimizer\.(step|zero_grad)#({OPTIMIZERS})\.(step|zero_grad)"
    rf"|(nccl|gloo|mpi|ucc|xccl):{COLLECTIVE_NAME}( \d+(->|<-)\d+)?"
    r"|record_param_comms|(DistributedDataParallel|FullyShardedDataParallel)\.forward|Torch-Compiled Region: \d+/\d+"
    r"|TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue|CompiledFunction"
    r"|PythonSubclass"
    r"|<(forward|backward) op>|FSDP::[a-z_]+( \(\d+\)| for \d+)?"
)
OPERATOR = (
    r"(aten|c10d|_c10d_functional|c10d_functional|prims?|quantized|inductor|symm_mem|torchvision|torchaudio|fbgemm"
    r"|profiler|fsdp)::\w+(\.\w+)?|torch(::|\.)distributed(::|\.)(ddp\.)?reducer::\w+|detach_?"
    rf"|(autograd::engine::evaluate_function: )?({NODE})|{OF_PYTORCH}|_DDPSink"
)
CALL = (
    r"(cuda|cu|hip|musa|mu|mc)(Launch|Mem|Malloc|Free|Event|Stream|Device|Func|Graph|Get|Set|Host|Peek|Occupancy|Module|Ctx|Runtime"
    r"|Driver|Profiler|Pointer|Ipc|Thread|Choose|Array|Import|External|Kernel|Library|Init|Ext|Multicast|Tensor)\w{0,60}"
    r"|synchronize(Stream|Device|Event)?|recordEvent|enqueueCommand (waitOnEvent|memcpy\w{4,12})|INVALID"
    r"|ur(Enqueue|USM|Queue|Event|Kernel|Program|Context)\w{0,60}|ze(Command|Event|Fence|Kernel|Module|Mem)\w{0,60}"
    r"|syn(Launch|Device|Stream|Event|Mem)\w{0,60}|(AscendCL@)?aclrt\w{0,60}|cnrt\w{0,60}|pi(Queue|Events)\w{0,60}"
)
SYNC_RECORDS = "(Stream|Context|Device|Event) Sync|Stream Wait Event|Event Record"
MEMORY_KIND = r"(Device|Host|Pinned|Pageable|Managed|Array|Unified|Unknown|DEVICE|HOST|SYSTEM|SHARED)"
FRAME_OF_PYTORCH = r"(torch|triton)/[\w./]+\.py\(\d+\): [\w<>.]+"
FRAME_OF_PYTHON = (
    r"(threading|contextlib|queue|multiprocessing|concurrent|asyncio|selectors|socket|runpy|importlib|functools|inspect"
    r"|copy|abc|enum|dataclasses|typing|collections|warnings|weakref|logging|json|re|random|tempfile|shutil|subprocess"
    r"|pickle|traceback|linecache|tokenize|ast|types|os|posixpath|genericpath|string|textwrap|signal|time|datetime)"
    r"(/[\w/]+)?\.py\(\d+\): [\w<>.]+"
    r"|<frozen (os|runpy|posixpath|abc|_collections_abc|importlib\.\w+)>\(\d+\): [\w<>.]+"
)
BUILT_IN = (
    r"<built-in (function (len|isinstance|issubclass|hasattr|getattr|setattr|max|min|sum|abs|any|all|iter|next|id|hash"
    r"|print|sorted|repr|allocate_lock|exec|compile|open|callable|round|pow|divmod|ord|chr|range|zip|map|vars|dir)"
    r"|method \w+ of (type|Tensor|Parameter|dict|list|str|tuple|set|bytes|int|float|_thread\.lock)"
    r" object at 0x[0-9a-f]{1,16})>"
)

PUBLIC_SHAPES: dict[EventKind, str] = {
    EventKind.CPU_OP: OPERATOR,
    EventKind.ANNOTATION: f"{STEP_NAME.pattern}|{OF_PYTORCH}",
    EventKind.GPU_ANNOTATION: f"{STEP_NAME.pattern}|{OF_PYTORCH}",
    EventKind.RUNTIME: CALL,
    EventKind.MEMCPY: rf"Memcpy [A-Z](to|2)[A-Z]( \({MEMORY_KIND} -> {MEMORY_KIND}\))?|{COPY_KERNEL.pattern}"
    "|MEMORY_COPY_(HOST|DEVICE)_TO_(HOST|DEVICE)",
    EventKind.MEMSET: rf"Memset( \({MEMORY_KIND}\))?|{SET_KERNEL.pattern}",
    EventKind.OTHER: MARKER_KERNEL.pattern,
    EventKind.SYNC_RECORD: SYNC_RECORDS,
    EventKind.OVERHEAD: "Unrecognized|Command Buffer Full|Buffer Flush|Activity Buffer Request|Lazy Function Loading"
    "|(Runtime Triggered )?Module Loading|Instrumentation|Resource|UVM Activity Init",
    EventKind.MEMORY: r"\[memory\]",
    EventKind.GRAPH_HOST_NODE: "HostNode",
    EventKind.GRAPH_EVENT_NODE: "EventRecord",
    EventKind.PYTHON_FUNCTION: f"{FRAME_OF_PYTORCH}|{FRAME_OF_PYTHON}|{BUILT_IN}|nn\\.Module: ({MODULES})_\\d+",
}
"""What a public name of each kind looks like, all of it; kernels have tables of their own."""

PLAIN_KERNEL = re.compile(
    r"(kepler|maxwell|pascal|volta|turing|ampere|hopper|blackwell|sm\d+|cudnn|cudnn_infer|cudnn_train)_"
    r"\w*(gemm|scudnn|cudnn|conv|wgrad|dgrad|fprop)\w*"
    r"|nvjet_\w+|Cijk_\w+|igemm_(fwd|bwd|wrw)_\w+|__amd_rocclr_\w+|(nccl|rccl)(Dev)?Kernel\w*"
    r"|cutlass_(\d+_)?(tensorop|wmma|simt)_\w+|batched_transpose_\d+x\d+_\w+|MIOpen\w+|dma_request|event_(wait|record)|pe_exe"
)
"""Kernels of NVIDIA's and AMD's libraries whose names are one word, and the rows of MTIA's devices."""

LIBRARY_NAMESPACES = re.compile(
    r"at|c10|torch|cub|thrust|std|cuda|cute|cutlass\w*|cudnn\w*|cask_cudnn\w*|cublas\w*|cusparse\w*|cufft\w*|nccl\w*|rccl\w*"
    r"|pytorch_flash|flash(_fwd|_bwd)?\w*|at_cuda_detail|fbgemm_gpu|rocprim|hipcub|ck|ck_tile|PyTorchMemEffAttention|native"
)
"""Namespaces of public libraries, from which whole C++ names begin."""

CPP_WORDS = re.compile(
    r"void|bool|char|short|int|long|float|double|half|unsigned|signed|const|volatile|true|false|nullptr|decltype|lambda"
    r"|operator|enum|struct|class|u?int(8|16|32|64)?_t|size_t|__half2?|__nv_bfloat162?|__hip_bfloat16|hip_bfloat16"
    r"|(float|double|int|uint|half|char|long|short)\d|type|instance|(DefaultPtr|RestrictPtr)Traits"
    # What PyTorch, cuDNN and cuBLAS put outside any namespace of their own.
    r"|TrivialOffsetCalculator|OffsetCalculator|softmax_warp_(forward|backward)|elementwise_kernel_with_index"
    r"|cunn_\w+|indexSelect(Large|Small)Index|(wgrad|dgrad|fprop)_\w*(alg|engine)\w*|(im|ex)plicit_convolve_sgemm"
    r"|precomputed_convolve_sgemm|winograd\w*|fft[12]d_[rc]2[rc]_\w+|gemv\w*|gemmSN_\w+|gemmk1_kernel|splitKreduce_kernel"
    r"|dot_kernel|reduce_1Block_kernel|im2col4d_kernel|(folded)?(nchwToNhwc|nhwcToNchw|NhwcToNhwc|NhwcToNchw)Kernel|op_generic_tensor_kernel"
    r"|kernel_(grad|conv)_params|transpose_readWrite_alignment_kernel|scal_kernel|batch_norm_\w+_kernel|Params"
)
"""Words of C++, and names of libraries that stand in no namespace."""

UNNAMED = re.compile(r"\(anonymous namespace\)::|\{lambda\([^{}]*\)#\d+\}|\{unnamed\w*#\d+\}")
IDENTIFIERS = re.compile(r"(?<![\w:])[A-Za-z_]\w*(?:::~?\w+)*")
LONGEST_NAME = 20_000
"""Characters: a longer name is not examined and counts as private."""

_COMPILED = {kind: re.compile(shape) for kind, shape in PUBLIC_SHAPES.items()}


@lru_cache(maxsize=1 << 16)
def is_public(kind: EventKind, name: str) -> bool:
    """Return whether a name of a kind of event is one that everybody can know.

    >>> is_public(EventKind.CPU_OP, "aten::mm"), is_public(EventKind.CPU_OP, "acme::secret_attention")
    (True, False)
    >>> is_public(EventKind.KERNEL, "void at::native::vectorized_elementwise_kernel<4, acme::Functor>(int)")
    False
    """
    if len(name) > LONGEST_NAME or not name.isascii():
        return False
    if kind is EventKind.KERNEL:
        return PLAIN_KERNEL.fullmatch(name) is not None or _is_public_cpp(name)
    if kind in (EventKind.ANNOTATION, EventKind.GPU_ANNOTATION) and is_engine_step(name):
        return True
    return name in PROCESS_GROUP_CALL or (kind in _COMPILED and _COMPILED[kind].fullmatch(name) is not None)


STEP_WORDS = re.compile(
    r"execute|context|generation|new|cached|sq|sk|sqsq|sqsk|step|bs|toks?|eager|prefill|decode|diffusion|[xcgpd]|ctx"
    r"|spec|forward|id"
)
"""The words of inference engines' names for their steps, but for the modes of SGLang."""


def is_engine_step(name: str) -> bool:
    """Return whether a name is that of an inference engine's step and says nothing but numbers.

    >>> is_engine_step("execute_context_2(6144)_generation_3(3)"), is_engine_step("step[DECODE bs=32]")
    (True, True)
    >>> is_engine_step("step[DECODE bs=32 for=acme]"), is_engine_step("forward")
    (False, False)
    """
    if read_step_name(name) is None:
        return False
    modes = {word for mode in SGLANG_MODES for word in mode.split("_")}
    return all(word in modes or STEP_WORDS.fullmatch(word) for word in re.findall(r"[^\W\d_]+", name))


def _is_public_cpp(name: str) -> bool:
    """Return whether every identifier of a C++ name is that of a public library or of the language.

    >>> _is_public_cpp("void at::native::(anonymous namespace)::Cat<float, 4ul>(float*, at::Tensor const&)")
    True
    >>> _is_public_cpp("void fused_attention<float>(float*)"), _is_public_cpp("float")
    (False, False)
    """
    plain = UNNAMED.sub("", name.replace("(anonymous namespace)::", ""))
    found = IDENTIFIERS.findall(plain)
    known = [word for word in found if CPP_WORDS.fullmatch(word) or _is_of_library(word)]
    # A word of the language alone is no kernel's name.
    return len(known) == len(found) and any(character in name for character in "<(")


def _is_of_library(word: str) -> bool:
    root = word.split("::", 1)[0]
    return LIBRARY_NAMESPACES.fullmatch(root) is not None or PLAIN_KERNEL.fullmatch(root) is not None
