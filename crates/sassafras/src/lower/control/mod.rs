pub mod call;
pub mod cfg;
pub mod special_registers;
