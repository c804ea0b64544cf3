"""An open PTX compiler: PTX in, a cubin out, without a GPU and without the CUDA toolkit.

compile      PTX to a cubin
disassemble  the machine code of a cubin as text
inspect      what is in a cubin, a fat binary or a host program
verify       proves that the waits in a cubin cover every dependence
run          runs a kernel without a GPU, on NumPy arrays

use_with_triton makes Triton and torch.compile call this compiler.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from ._native import __version__

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "CompileError",
    "CompileWarning",
    "Diagnostic",
    "Fault",
    "compile",
    "disassemble",
    "inspect",
    "run",
    "use_with_triton",
    "verify",
    "__version__",
]

Dimensions = Union[int, Tuple[int, ...]]
Argument = Union[int, float, bytes, "np.ndarray", "np.generic"]


class Diagnostic(NamedTuple):
    """Something to say about PTX: severity is "info", "warning", "error" or "fatal"."""

    severity: str
    line: Optional[int]
    message: str


class CompileError(ValueError):
    """PTX that is not compiled. `diagnostics` has everything that was said about it."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()):
        super().__init__(message)
        self.diagnostics = list(diagnostics)


class CompileWarning(UserWarning):
    """PTX that compiles, and is worth a look."""


class Fault(RuntimeError):
    """A kernel did what it must not do: a bad address, a race, a barrier that can't complete."""


def compile(
    ptx: Union[str, bytes],
    arch: Optional[str] = None,
    *,
    opt_level: int = 3,
    debug: bool = False,
    line_info: bool = False,
    relocatable: bool = False,
    fmad: bool = True,
    max_registers: Optional[int] = None,
    threads: Optional[int] = None,
    time_limit: Optional[float] = None,
    memory_limit: Optional[int] = None,
) -> bytes:
    """Compiles PTX to a cubin, for `arch` ("sm_90", "sm_90a", ...) or for the target that the PTX names.

    debug makes code for a debugger, line_info a line table, relocatable an object for the linker; fmad contracts
    products and sums. max_registers limits registers, threads the processors in use, time_limit (seconds) and
    memory_limit (bytes) the compilation. The bytes depend on the PTX and the options alone.

    Raises CompileError; warnings are CompileWarning.
    """
    request = {
        "arch": arch,
        "opt_level": opt_level,
        "debug": debug,
        "line_info": line_info,
        "relocatable": relocatable,
        "fmad": fmad,
        "max_registers": max_registers,
        "threads": threads,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
    }
    cubin, problem, said = _native.compile(_text(ptx), request)
    diagnostics = [Diagnostic(*each) for each in said]
    if cubin is None:
        raise CompileError(problem, diagnostics)
    for diagnostic in diagnostics:
        if diagnostic.severity == "warning":
            where = "" if diagnostic.line is None else f"line {diagnostic.line}: "
            warnings.warn(where + diagnostic.message, CompileWarning, stacklevel=2)
    return cubin


def disassemble(cubin: bytes, style: Literal["plain", "life", "nvdisasm", "json"] = "plain") -> str:
    """The machine code of a cubin: with control codes and labels, with live registers too ("life"), as `nvdisasm -c`
    prints it, or as JSON."""
    return _native.disassemble(bytes(cubin), style)


def inspect(data: bytes) -> dict[str, Any]:
    """What is in a cubin, a fat binary, or a program of the host with device code in it: kernels, registers,
    parameters, symbols."""
    found: dict[str, Any] = json.loads(_native.inspect(bytes(data)))
    return found


def verify(cubin: bytes) -> list[str]:
    """Where stall counts and scoreboards don't cover a dependence; an empty list is a proof that they do everywhere."""
    return _native.verify(bytes(cubin))


def run(
    program: Union[str, bytes],
    kernel: str,
    *,
    grid: Dimensions = 1,
    block: Dimensions = 1,
    args: Sequence[Argument] = (),
    shared: int = 0,
    opt_level: Optional[int] = None,
    races: bool = False,
    weak: Optional[int] = None,
    max_steps: Optional[int] = None,
) -> None:
    """Runs a kernel of PTX in the interpreter, or of a cubin in the simulator; no GPU is needed.

    args has one value for each parameter: a NumPy array is memory that the kernel gets the address of, and has what
    the kernel leaves there afterwards (the same array twice is the same memory; views are copies of their own); ints, floats, NumPy scalars and bytes are passed by value. With opt_level, PTX
    is compiled at that level and the code is simulated. races finds data races in shared memory, weak orders threads
    and memory adversely by a seed. Raises Fault for what a kernel must not do.
    """
    data = program.encode() if isinstance(program, str) else bytes(program)
    parameters = _native.parameters(data, kernel)
    if len(parameters) != len(args):
        raise TypeError(f"{kernel} has {len(parameters)} parameters, not {len(args)}")
    launch = {
        "kernel": kernel,
        "grid": _dimensions(grid),
        "block": _dimensions(block),
        "shared": shared,
        "opt_level": opt_level,
        "races": races,
        "weak": weak,
        "max_steps": max_steps,
    }
    arrays: list[Any] = []
    placed = [_placed(arg, arrays, *parameter) for arg, parameter in zip(args, parameters)]
    try:
        results = _native.run(data, launch, placed)
    except RuntimeError as error:
        raise Fault(str(error)) from None
    for array, result in zip(arrays, results):
        if array.flags.writeable:
            import numpy as np

            array[...] = np.frombuffer(result, dtype=array.dtype).reshape(array.shape)


def use_with_triton() -> str:
    """Makes Triton, and torch.compile through it, call this compiler in place of ptxas: from now on in this process and
    in those that it starts. Returns the path that Triton calls. Kernels in Triton's cache stay as they are."""
    from ._launcher import ptxas_path

    path = ptxas_path()
    os.environ["TRITON_PTXAS_PATH"] = path
    os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = path
    return path


def _text(ptx: Union[str, bytes]) -> str:
    return ptx if isinstance(ptx, str) else bytes(ptx).rstrip(b"\0").decode()


def _dimensions(value: Dimensions) -> list[int]:
    values = [value] if isinstance(value, int) else [int(each) for each in value]
    if not 1 <= len(values) <= 3:
        raise ValueError("one to three dimensions")
    return values + [1] * (3 - len(values))


def _is_array(value: Argument) -> bool:
    return hasattr(value, "__array_interface__") and hasattr(value, "flags") and getattr(value, "ndim", 0) > 0


def _placed(
    value: Any, arrays: list[Any], offset: int, size: int, is_float: bool
) -> tuple[int, bytes, Optional[int]]:
    """The offset and bytes of an argument, and the index of its array. One that comes twice is the same memory."""
    import struct

    if _is_array(value):
        if size != 8:
            raise TypeError(f"an array for a parameter of {size} bytes")
        for index, array in enumerate(arrays):
            if array is value:
                return offset, b"", index
        arrays.append(value)
        return offset, value.tobytes(), len(arrays) - 1
    if isinstance(value, float) or (is_float and isinstance(value, int)):
        data = struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], value)
    elif isinstance(value, int):
        data = (value % (1 << 8 * size)).to_bytes(size, "little")
    else:
        data = value.tobytes() if hasattr(value, "tobytes") else bytes(value)
    if len(data) != size:
        raise TypeError(f"{len(data)} bytes for a parameter of {size}")
    return offset, data, None
