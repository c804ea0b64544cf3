//! The CUDA driver, as far as running a kernel needs it. All unsafe code of the crate is here and in `library`.
//!
//! What holds:
//! * The library is opened at run time and never closed, so its functions stay valid.
//! * Handles live in types that borrow the `Device`: none outlives its context, none is used after it is
//!   freed. They hold raw pointers and so stay on their thread; every call makes the context current first.
//! * Every call is synchronous with respect to host memory: the driver keeps no slice after a call returns.
//! * The driver checks device addresses. What a kernel writes is beyond any checking here: where the GPU can
//!   reach host memory, a wrong kernel can damage this process. `gpu-run` therefore runs kernels in a process
//!   of their own.
#![allow(unsafe_code)]

use crate::library;
use crate::runline::{MAP_BYTES, Tensor};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

type Handle = *mut c_void;
type Address = u64;
type Code = c_uint;

/// Declares the functions that are taken from the library: `field = symbol(argument types)`. The types are
/// those of cuda.h 13.0; the suffix `_v2` is the header's own renaming.
macro_rules! driver_calls {
    ($($field:ident = $symbol:literal($($argument:ty),*);)*) => {
        struct Calls { $($field: unsafe extern "C" fn($($argument),*) -> Code,)* }

        impl Calls {
            fn find(library: *mut c_void) -> Result<Calls, Error> {
                Ok(Calls { $($field: {
                    type Function = unsafe extern "C" fn($($argument),*) -> Code;
                    let address = library::symbol(library, $symbol).map_err(Error::NoDriver)?;
                    // SAFETY: the address is that of the function with this name, whose type is given above.
                    unsafe { std::mem::transmute::<*mut c_void, Function>(address) }
                },)* })
            }
        }
    };
}

driver_calls! {
    init              = c"cuInit"(c_uint);
    error_name        = c"cuGetErrorName"(c_uint, *mut *const c_char);
    error_text        = c"cuGetErrorString"(c_uint, *mut *const c_char);
    device_get        = c"cuDeviceGet"(*mut c_int, c_int);
    device_name       = c"cuDeviceGetName"(*mut c_char, c_int, c_int);
    device_attribute  = c"cuDeviceGetAttribute"(*mut c_int, c_int, c_int);
    context_retain    = c"cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    context_release   = c"cuDevicePrimaryCtxRelease_v2"(c_int);
    context_set       = c"cuCtxSetCurrent"(Handle);
    synchronize       = c"cuCtxSynchronize"();
    module_load       = c"cuModuleLoadData"(*mut Handle, *const c_void);
    module_unload     = c"cuModuleUnload"(Handle);
    module_function   = c"cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    function_set      = c"cuFuncSetAttribute"(Handle, c_int, c_int);
    launch            = c"cuLaunchKernelEx"(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
    memory_allocate   = c"cuMemAlloc_v2"(*mut Address, usize);
    memory_free       = c"cuMemFree_v2"(Address);
    copy_to_device    = c"cuMemcpyHtoD_v2"(Address, *const c_void, usize);
    copy_from_device  = c"cuMemcpyDtoH_v2"(*mut c_void, Address, usize);
    encode_tensor     = c"cuTensorMapEncodeTiled"(*mut c_void, c_uint, c_uint, Address, *const u64, *const u64,
                                                  *const u32, *const u32, c_uint, c_uint, c_uint, c_uint);
    event_create      = c"cuEventCreate"(*mut Handle, c_uint);
    event_destroy     = c"cuEventDestroy_v2"(Handle);
    event_record      = c"cuEventRecord"(Handle, Handle);
    event_synchronize = c"cuEventSynchronize"(Handle);
    event_elapsed     = c"cuEventElapsedTime"(*mut f32, Handle, Handle);
}

const ATTRIBUTE_MULTIPROCESSORS: c_int = 16;
const ATTRIBUTE_MAJOR: c_int = 75;
const ATTRIBUTE_MINOR: c_int = 76;
const ATTRIBUTE_MOST_SHARED: c_int = 97;
const FUNCTION_MAX_DYNAMIC_SHARED: c_int = 8;
const FUNCTION_SHARED_CARVEOUT: c_int = 9;
const ALL_OF_IT: c_int = 100;
const LAUNCH_PARAM_END: usize = 0;
const LAUNCH_PARAM_BUFFER: usize = 1;
const LAUNCH_PARAM_SIZE: usize = 2;

/// The types of elements in the order of `CUtensorMapDataType`.
const TENSOR_ELEMENTS: [&str; 12] =
    ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32"];

/// A tensor map must be at a multiple of 64.
#[repr(align(64))]
struct Aligned([u8; MAP_BYTES]);

/// Errors after which the process can't use the GPU any more. Of each, cuda.h says that "the process must
/// be terminated and relaunched" or, of 710, that the context is of no more use; of 999 it says nothing at
/// all, so the worst is assumed.
const STICKY: [u32; 12] = [
    700, // ILLEGAL_ADDRESS
    702, // LAUNCH_TIMEOUT
    710, // ASSERT
    714, // HARDWARE_STACK_ERROR
    715, // ILLEGAL_INSTRUCTION
    716, // MISALIGNED_ADDRESS
    717, // INVALID_ADDRESS_SPACE
    718, // INVALID_PC
    719, // LAUNCH_FAILED
    721, // TENSOR_MEMORY_LEAK
    810, // MPS_CLIENT_TERMINATED
    999, // UNKNOWN
];

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The driver library can't be opened, or is not one.
    NoDriver(String),
    /// The bytes are not a whole cubin; the driver has not seen them.
    BadImage(String),
    /// A name that can't be a kernel's.
    BadName(String),
    /// The launch gives the kernel more or fewer bytes of parameters than it takes.
    WrongParameters { kernel: String, takes: usize, given: usize },
    /// A run line with an image or with memory of several devices: those are for the interpreter and the simulator.
    NoImages,
    /// A copy that is longer than the buffer.
    OutsideBuffer { bytes: usize, buffer: usize },
    /// The driver refused a call, or an earlier kernel failed.
    Driver { call: &'static str, code: u32, name: String, text: String },
}

impl Error {
    /// Whether every later call in this process will fail too.
    pub fn is_sticky(&self) -> bool {
        matches!(self, Error::Driver { code, .. } if STICKY.contains(code))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoDriver(reason) => write!(f, "no CUDA driver: {reason}"),
            Error::BadImage(reason) => write!(f, "not a cubin: {reason}"),
            Error::BadName(name) => write!(f, "{name:?} can't be the name of a kernel"),
            Error::WrongParameters { kernel, takes, given } => {
                write!(f, "{kernel} takes {takes} bytes of parameters, not {given}")
            }
            Error::NoImages => write!(f, "images and multicast memory of run lines are not made on a GPU"),
            Error::OutsideBuffer { bytes, buffer } => {
                write!(f, "a copy of {bytes} bytes does not fit a buffer of {buffer}")
            }
            Error::Driver { call, code, name, text } => {
                write!(f, "{call}: {name} ({code}): {text}")?;
                if self.is_sticky() { write!(f, "; the GPU is lost to this process") } else { Ok(()) }
            }
        }
    }
}

impl std::error::Error for Error {}

/// # Safety
/// `text` is null or a string that ends with a zero.
unsafe fn text_at(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promises the rest.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Calls {
    /// Turns what a driver call returned into a result with the driver's own words.
    fn check(&self, call: &'static str, code: Code) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        let (mut name, mut text) = (null(), null());
        // SAFETY: both calls write a pointer to a constant string, or null for a code that they do not know.
        let (name, text) = unsafe {
            (self.error_name)(code, &mut name);
            (self.error_text)(code, &mut text);
            (text_at(name), text_at(text))
        };
        let name = name.unwrap_or_else(|| "an error without a name".into());
        Err(Error::Driver { call, code, name, text: text.unwrap_or_default() })
    }
}

/// A GPU with its primary context.
pub struct Device {
    calls: Calls,
    ordinal: c_int,
    context: Handle,
}

impl Device {
    /// Opens the driver and the GPU with this number.
    pub fn open(ordinal: u32) -> Result<Device, Error> {
        let calls = Calls::find(library::open().map_err(Error::NoDriver)?)?;
        let wanted = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        let (mut ordinal, mut context) = (0, null_mut());
        // SAFETY: the pointers are to locals of the types that the calls write.
        unsafe {
            calls.check("cuInit", (calls.init)(0))?;
            calls.check("cuDeviceGet", (calls.device_get)(&mut ordinal, wanted))?;
            calls.check("cuDevicePrimaryCtxRetain", (calls.context_retain)(&mut context, ordinal))?;
        }
        Ok(Device { calls, ordinal, context })
    }

    /// As the driver calls it, for example "NVIDIA H200".
    pub fn name(&self) -> Result<String, Error> {
        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most the given number of bytes, the last of them a zero.
        let code =
            unsafe { (self.calls.device_name)(name.as_mut_ptr().cast(), name.len() as c_int, self.ordinal) };
        self.calls.check("cuDeviceGetName", code)?;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Ok(String::from_utf8_lossy(&name[..length]).into_owned())
    }

    /// A tensor map for elements at an address.
    pub fn encode(&self, tensor: &Tensor, address: u64) -> Result<[u8; MAP_BYTES], Error> {
        let code_of = |names: &[&str], name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
        let element = code_of(&TENSOR_ELEMENTS, tensor.element) as c_uint;
        let number_of = |list: &[u32], bytes: u32| list.iter().position(|known| *known == bytes).unwrap_or(0);
        let swizzle = number_of(&[0, 32, 64, 128], tensor.swizzle) as c_uint;
        let interleave = number_of(&[0, 16, 32], tensor.interleave) as c_uint;
        let sizes: Vec<u64> = tensor.sizes.iter().map(|size| u64::from(*size)).collect();
        // At least one of each, so that the pointers are good.
        let strides = [&tensor.strides[..], &[0]].concat();
        let mut map = Aligned([0; MAP_BYTES]);
        let no_promotion = 0;
        // SAFETY: the map is as large and aligned as the call asks for; each list has as many elements as there are
        // axes, the strides one less.
        let code = unsafe {
            (self.calls.encode_tensor)(
                (&raw mut map.0).cast(),
                element,
                tensor.sizes.len() as c_uint,
                address,
                sizes.as_ptr(),
                strides.as_ptr(),
                tensor.boxes.as_ptr(),
                tensor.steps.as_ptr(),
                interleave,
                swizzle,
                no_promotion,
                tensor.fills_nan.into(),
            )
        };
        self.calls.check("cuTensorMapEncodeTiled", code)?;
        Ok(map.0)
    }

    /// The SM number: 90 for a GPU that runs sm_90 code.
    pub fn sm(&self) -> Result<u32, Error> {
        Ok(10 * self.attribute(ATTRIBUTE_MAJOR)? + self.attribute(ATTRIBUTE_MINOR)?)
    }

    /// How many multiprocessors there are.
    pub fn multiprocessors(&self) -> Result<u32, Error> {
        self.attribute(ATTRIBUTE_MULTIPROCESSORS)
    }

    /// The most shared memory, in bytes, that a block can have.
    pub fn most_shared(&self) -> Result<u32, Error> {
        self.attribute(ATTRIBUTE_MOST_SHARED)
    }

    fn attribute(&self, number: c_int) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: the pointer is to a local of the type that the call writes.
        let code = unsafe { (self.calls.device_attribute)(&mut value, number, self.ordinal) };
        self.calls.check("cuDeviceGetAttribute", code).map(|()| value.unsigned_abs())
    }

    /// Waits until all kernels have ended. A kernel's failure comes out here, or in any later call.
    pub fn synchronize(&self) -> Result<(), Error> {
        let calls = self.enter()?;
        // SAFETY: takes no pointers.
        calls.check("cuCtxSynchronize", unsafe { (calls.synchronize)() })
    }

    /// The driver's functions, with this device's context current.
    fn enter(&self) -> Result<&Calls, Error> {
        // SAFETY: the context is retained until the device is dropped.
        self.calls.check("cuCtxSetCurrent", unsafe { (self.calls.context_set)(self.context) })?;
        Ok(&self.calls)
    }

    /// Gives something back. There is no caller to tell about a failure: after a sticky error all of these fail.
    fn release(&self, give_back: impl FnOnce(&Calls) -> Code) {
        if let Ok(calls) = self.enter() {
            give_back(calls);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: pairs with the retain in `open`; everything that uses the context borrows the device.
        unsafe { (self.calls.context_release)(self.ordinal) };
    }
}

/// A cubin in the GPU's memory.
pub struct Module<'d> {
    device: &'d Device,
    handle: Handle,
    object: cubin::Object,
}

impl<'d> Module<'d> {
    /// Loads the bytes of a cubin.
    pub fn load(device: &'d Device, image: &[u8]) -> Result<Module<'d>, Error> {
        let object = whole_cubin(image)?;
        let calls = device.enter()?;
        let mut handle = null_mut();
        // SAFETY: the driver takes the image's length from its headers; `whole_cubin` has seen that all
        // that they point to is within the slice. The driver copies what it keeps.
        let code = unsafe { (calls.module_load)(&mut handle, image.as_ptr().cast()) };
        calls.check("cuModuleLoadData", code)?;
        Ok(Module { device, handle, object })
    }

    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, Error> {
        let text = CString::new(name).map_err(|_| Error::BadName(name.to_string()))?;
        let calls = self.device.enter()?;
        let mut handle = null_mut();
        // SAFETY: the module is loaded, the name ends with a zero, the pointer is to a local.
        let code = unsafe { (calls.module_function)(&mut handle, self.handle, text.as_ptr()) };
        calls.check("cuModuleGetFunction", code)?;
        Ok(Kernel { module: self, handle, name: name.to_string() })
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`, unloaded once; kernels borrow the module.
        self.device.release(|calls| unsafe { (calls.module_unload)(self.handle) });
    }
}

/// A kernel of a loaded module.
pub struct Kernel<'m> {
    module: &'m Module<'m>,
    handle: Handle,
    name: String,
}

/// CUlaunchConfig.
#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const LaunchAttribute,
    attribute_count: c_uint,
}

/// CUlaunchAttribute: 64 bytes of value after its number and its padding.
#[repr(C, align(8))]
struct LaunchAttribute {
    number: c_uint,
    padding: c_uint,
    value: [u32; 16],
}

impl LaunchAttribute {
    /// CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION.
    const CLUSTER: c_uint = 4;

    fn cluster([x, y, z]: [u32; 3]) -> LaunchAttribute {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        LaunchAttribute { number: LaunchAttribute::CLUSTER, padding: 0, value }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Each block is a cluster, which a launch without a word about clusters has none of: an H200 takes `st.async` and
    /// `red.async` for illegal instructions there, even where they write to the block's own memory.
    pub in_clusters: bool,
}

impl Kernel<'_> {
    /// Starts the kernel; `Device::synchronize` waits for its end. `parameters` are the bytes of all
    /// parameters as the kernel sees them in memory, from the first one on.
    pub fn launch(&self, launch: Launch, parameters: &[u8]) -> Result<(), Error> {
        let parameters = [&vec![0; self.module.object.first_parameter(&self.name)], parameters].concat();
        self.check_parameters(parameters.len())?;
        let calls = self.module.device.enter()?;
        self.allow_shared(calls, launch.shared)?;
        let mut size = parameters.len();
        let mut extra: [*mut c_void; 5] = [
            LAUNCH_PARAM_BUFFER as *mut c_void,
            parameters.as_ptr().cast_mut().cast(),
            LAUNCH_PARAM_SIZE as *mut c_void,
            (&raw mut size).cast(),
            LAUNCH_PARAM_END as *mut c_void,
        ];
        let cluster_of_one = LaunchAttribute::cluster([1; 3]);
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            stream: null_mut(),
            attributes: &raw const cluster_of_one,
            attribute_count: launch.in_clusters.into(),
        };
        // SAFETY: the function belongs to a loaded module; `config` and `extra` are what cuLaunchKernelEx describes,
        // and the driver copies the parameters before it returns and does not write them.
        let code = unsafe { (calls.launch)(&raw const config, self.handle, null_mut(), extra.as_mut_ptr()) };
        calls.check("cuLaunchKernelEx", code)
    }

    /// Launching with the wrong number of bytes would be an error at best and garbage in a parameter at
    /// worst. A cubin that does not say how many there are is left to the driver.
    fn check_parameters(&self, given: usize) -> Result<(), Error> {
        match parameter_bytes(&self.module.object, &self.name) {
            Some(takes) if takes != given => {
                Err(Error::WrongParameters { kernel: self.name.clone(), takes, given })
            }
            _ => Ok(()),
        }
    }

    /// More dynamic shared memory than 48 KiB must be asked for.
    fn allow_shared(&self, calls: &Calls, bytes: u32) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.set(calls, FUNCTION_MAX_DYNAMIC_SHARED, c_int::try_from(bytes).unwrap_or(c_int::MAX))
    }

    /// Asks for as much shared memory as a multiprocessor can have, whatever the kernel needs. Kernels that all do so
    /// find in it what the one before has left.
    pub fn prefer_shared(&self) -> Result<(), Error> {
        self.set(self.module.device.enter()?, FUNCTION_SHARED_CARVEOUT, ALL_OF_IT)
    }

    fn set(&self, calls: &Calls, attribute: c_int, value: c_int) -> Result<(), Error> {
        // SAFETY: the function belongs to a loaded module; no pointers beside it.
        let code = unsafe { (calls.function_set)(self.handle, attribute, value) };
        calls.check("cuFuncSetAttribute", code)
    }
}

/// Memory of the GPU.
pub struct Buffer<'d> {
    device: &'d Device,
    address: Address,
    size: usize,
}

impl<'d> Buffer<'d> {
    /// Allocates `size` bytes, aligned to 256, of whatever contents.
    pub fn new(device: &'d Device, size: usize) -> Result<Buffer<'d>, Error> {
        let calls = device.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        calls.check("cuMemAlloc", unsafe { (calls.memory_allocate)(&mut address, size) })?;
        Ok(Buffer { device, address, size })
    }

    /// Where kernels find it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies `data` to the start of the buffer.
    pub fn write(&self, data: &[u8]) -> Result<(), Error> {
        self.check_size(data.len())?;
        let calls = self.device.enter()?;
        // SAFETY: the driver reads no more than the slice.
        let code = unsafe { (calls.copy_to_device)(self.address, data.as_ptr().cast(), data.len()) };
        calls.check("cuMemcpyHtoD", code)
    }

    /// Copies the start of the buffer to `data`, after all kernels launched before.
    pub fn read(&self, data: &mut [u8]) -> Result<(), Error> {
        self.check_size(data.len())?;
        let calls = self.device.enter()?;
        // SAFETY: the driver writes no more than the slice, and is done when it returns.
        let code = unsafe { (calls.copy_from_device)(data.as_mut_ptr().cast(), self.address, data.len()) };
        calls.check("cuMemcpyDtoH", code)
    }

    fn check_size(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.size { Err(Error::OutsideBuffer { bytes, buffer: self.size }) } else { Ok(()) }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once.
        self.device.release(|calls| unsafe { (calls.memory_free)(self.address) });
    }
}

/// A point in the GPU's work, to measure time from and to.
pub struct Event<'d> {
    device: &'d Device,
    handle: Handle,
}

impl<'d> Event<'d> {
    /// The point after all work so far.
    pub fn record(device: &'d Device) -> Result<Event<'d>, Error> {
        let calls = device.enter()?;
        let mut handle = null_mut();
        // SAFETY: the pointer is to a local.
        calls.check("cuEventCreate", unsafe { (calls.event_create)(&mut handle, 0) })?;
        let event = Event { device, handle };
        // SAFETY: the event was just made; a null stream is the default one.
        calls.check("cuEventRecord", unsafe { (calls.event_record)(event.handle, null_mut()) })?;
        Ok(event)
    }

    /// Waits for this point and gives the time since an earlier one, in milliseconds.
    pub fn since(&self, start: &Event) -> Result<f32, Error> {
        let calls = self.device.enter()?;
        let mut time = 0.0;
        // SAFETY: both events were recorded; the pointer is to a local.
        unsafe {
            calls.check("cuEventSynchronize", (calls.event_synchronize)(self.handle))?;
            calls.check("cuEventElapsedTime", (calls.event_elapsed)(&mut time, start.handle, self.handle))?;
        }
        Ok(time)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `record`, destroyed once.
        self.device.release(|calls| unsafe { (calls.event_destroy)(self.handle) });
    }
}

/// Reads a cubin and makes sure that nothing that its headers name is outside of `image`.
fn whole_cubin(image: &[u8]) -> Result<cubin::Object, Error> {
    let object = cubin::Object::read(image).map_err(|error| Error::BadImage(error.to_string()))?;
    let outside = object.segments.iter().any(|segment| match segment.extent {
        cubin::Extent::Fixed { offset, file_size, .. } => {
            offset.checked_add(file_size).is_none_or(|end| end > image.len() as u64)
        }
        _ => false,
    });
    if outside { Err(Error::BadImage("a segment lies outside of the file".into())) } else { Ok(object) }
}

/// How many bytes of parameters a kernel takes, as `EIATTR_CBANK_PARAM_SIZE` says.
fn parameter_bytes(object: &cubin::Object, kernel: &str) -> Option<usize> {
    object.attributes(&format!(".nv.info.{kernel}")).iter().find_map(|attribute| match attribute {
        cubin::attr::Attr {
            code: cubin::attr::Code::CBANK_PARAM_SIZE,
            value: cubin::attr::Value::Half(bytes),
        } => Some(usize::from(*bytes)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cubin::attr;

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        // Whether there is a driver or not.
        let error = Device::open(u32::MAX).err().unwrap();
        assert!(matches!(error, Error::NoDriver(_) | Error::Driver { .. }), "{error}");
    }

    #[test]
    fn a_lost_gpu_is_told_from_a_refused_call() {
        let error = |code, name: &str, text: &str| Error::Driver {
            call: "cuCtxSynchronize",
            code,
            name: name.into(),
            text: text.into(),
        };
        let sticky = error(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered");
        assert!(sticky.is_sticky());
        assert_eq!(
            sticky.to_string(),
            "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; \
             the GPU is lost to this process"
        );
        let refused = error(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument");
        assert!(!refused.is_sticky());
        assert_eq!(refused.to_string(), "cuCtxSynchronize: CUDA_ERROR_INVALID_VALUE (1): invalid argument");
    }

    fn object(sections: Vec<cubin::Section>, segments: Vec<cubin::Segment>) -> cubin::Object {
        let header = cubin::Header {
            file_type: cubin::FileType(2),
            abi: cubin::Abi::CURRENT,
            version: 1,
            flags: cubin::Flags::new(cubin::Flags::SASS, 90, 0),
            section_names: 1,
            segment_header_size: 56,
        };
        cubin::Object { header, sections, segments }
    }

    #[test]
    fn the_cubin_says_what_a_kernel_takes() {
        let parameter = |ordinal, offset, size| attr::Attr {
            code: attr::Code::KPARAM_INFO_V2,
            value: attr::Value::ParamV2(attr::ParamInfoV2 { index: 0, ordinal, offset, size }),
        };
        let attributes = vec![
            attr::Attr::half(attr::Code::MAXREG_COUNT, 255),
            attr::Attr::half(attr::Code::CBANK_PARAM_SIZE, 184),
            parameter(1, 176, 8),
            parameter(0, 48, 128),
        ];
        let info = cubin::Section::new(
            ".nv.info.k",
            cubin::SectionType::CUDA_INFO,
            4,
            cubin::Body::Info(attributes),
        );
        let object = object(vec![info], vec![]);
        assert_eq!((object.first_parameter("k"), parameter_bytes(&object, "k")), (48, Some(184)));
        assert_eq!((object.first_parameter("other"), parameter_bytes(&object, "other")), (0, None));
    }

    #[test]
    fn an_image_that_points_outside_of_itself_is_refused() {
        assert!(matches!(whole_cubin(b"\x7fELF"), Err(Error::BadImage(_))));
        let segment = |file_size| cubin::Segment {
            kind: cubin::SegmentType(1),
            flags: 5,
            extent: cubin::Extent::Fixed { offset: 16, file_size, memory_size: file_size },
            align: 8,
        };
        let sections = || {
            let null = cubin::Section::new("", cubin::SectionType(0), 0, cubin::Body::Bytes(vec![]));
            let names = cubin::Body::Strings(cubin::StringTable::new());
            vec![null, cubin::Section::new("", cubin::SectionType(3), 1, names)]
        };
        let image = |file_size| object(sections(), vec![segment(file_size)]).write().unwrap();
        assert!(whole_cubin(&image(8)).is_ok());
        for file_size in [1 << 20, u64::MAX] {
            assert_eq!(
                whole_cubin(&image(file_size)).err(),
                Some(Error::BadImage("a segment lies outside of the file".into()))
            );
        }
    }
}
