//! The compiler: PTX in, cubin out.
