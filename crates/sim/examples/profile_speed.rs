//! How many instructions of warps the timing model takes in a minute, executing included.
//!
//! `cargo run --release -p sassafras-sim --example profile_speed`

use sim::Machine;
use sim::ptx::Launch;
use sim::timing::parameters::Parameters;
use sim::timing::{Options, profile};
use std::time::Instant;

const SOURCE: &str = r"
.version 8.0
.target sm_90
.address_size 64
.entry arithmetic(.param .u64 p) .maxntid 256, 1, 1
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
LOOP:
    add.u32 %r6, %r6, %r1;
    xor.b32 %r6, %r6, %r5;
    mad.lo.u32 %r6, %r6, 77, %r1;
    min.s32 %r8, %r6, %r5;
    add.u32 %r6, %r6, %r8;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 2000;
    @%p2 bra LOOP;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r6;
    ret;
}
.entry memory(.param .u64 p) .maxntid 256, 1, 1
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
    .shared .align 4 .b8 s[1024];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    mov.u32 %r5, 0;
    mov.u32 %r7, 0;
LOOP:
    ld.volatile.global.u32 %r6, [%rd3];
    st.volatile.shared.u32 [%r4], %r6;
    bar.sync 0;
    ld.volatile.shared.u32 %r8, [%r4];
    add.u32 %r7, %r7, %r8;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 1000;
    @%p2 bra LOOP;
    st.global.u32 [%rd3], %r7;
    ret;
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let module = ptx::parse(SOURCE, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
    let output = sassafras::compile_module(&module, &sassafras::Options::new(module.target));
    let program = sim::sass::Program::new(&output.cubin.ok_or("the kernels do not compile")?)?;
    for kernel in ["arithmetic", "memory"] {
        let mut machine = sim::sass::Machine::new(&program);
        let parameters = Machine::allocate(&mut machine, vec![0; 4096]).to_le_bytes();
        let launch = Launch::new(kernel, [132 * 32, 1, 1], [256, 1, 1], &parameters);
        let start = Instant::now();
        let report = profile(&mut machine, &launch, &Options::new(Parameters::standard()?))?;
        let seconds = start.elapsed().as_secs_f64();
        let millions = report.executed() as f64 / 1e6;
        let a_minute = millions / seconds * 60.0;
        println!("{kernel}: {millions:.2} M warp instructions in {seconds:.2} s: {a_minute:.0} M a minute");
    }
    Ok(())
}
