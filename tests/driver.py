"""The CUDA driver library, for the scripts of the folders beside. Needs no package."""

import ctypes
import sys

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class Driver:
    """The first device. A result that isn't 0 ends the process."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        if result := getattr(self.library, name)(*arguments):
            sys.exit(f"{name} gives error {result}")

    def copy_in(self, data):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def copy_out(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def launch(self, cubin, kernel, grid, threads, shared, values):
        """Runs a kernel of a cubin to its end; values are of types of ctypes."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self.call("cuLaunchKernel", function, *grid, threads, 1, 1, shared, None, pointers, None)
        self.call("cuCtxSynchronize")
        self.call("cuModuleUnload", module)
