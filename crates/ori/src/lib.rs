//! The IR: machine-level SSA on virtual registers, its text form, verifier, analyses and the one semantics of each operation.
