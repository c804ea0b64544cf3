//! How many instructions of lanes the interpreter and the simulator execute in a second.
//!
//! `cargo run --release -p sassafras-sim --example speed`; `cargo xtask bench simulator` reads the lines and has a bar for them.

use sim::Machine;
use sim::ptx::Launch;
use std::time::Instant;

const SOURCE: &str = r"
.version 8.0
.target sm_90
.address_size 64
.entry mixed(.param .u64 p)
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
    .shared .align 4 .b8 s[4096];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    mov.u32 %r5, 0;
    cvt.rn.f32.u32 %f1, %r1;
    mov.f32 %f2, 0f3F800000;
LOOP:
    ld.shared.u32 %r6, [%r4];
    mad.lo.u32 %r7, %r6, 1664525, %r5;
    xor.b32 %r8, %r7, %r1;
    st.shared.u32 [%r4], %r8;
    fma.rn.f32 %f2, %f2, 0f3F7FFF00, %f1;
    and.b32 %r9, %r8, 1;
    setp.ne.u32 %p1, %r9, 0;
    @%p1 bra SKIP;
    add.u32 %r5, %r5, 1;
SKIP:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 20000;
    @%p2 bra LOOP;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f2;
    ret;
}
.entry straight(.param .u64 p)
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
LOOP:
    add.u32 %r6, %r6, %r1;
    xor.b32 %r6, %r6, %r5;
    shl.b32 %r7, %r6, 3;
    mad.lo.u32 %r6, %r7, 77, %r6;
    min.s32 %r8, %r6, %r7;
    add.u32 %r6, %r6, %r8;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 20000;
    @%p2 bra LOOP;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r6;
    ret;
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let module = ptx::parse(SOURCE, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
    let interpreted = sim::ptx::Program::new(&module, SOURCE);
    let output = sassafras::compile_module(&module, &sassafras::Options::new(module.target));
    let simulated = sim::sass::Program::new(&output.cubin.ok_or("the kernels do not compile")?)?;
    for kernel in interpreted.kernels() {
        time("interpreter", kernel, &mut sim::ptx::Machine::new(&interpreted))?;
        time("simulator", kernel, &mut sim::sass::Machine::new(&simulated))?;
    }
    Ok(())
}

fn time(who: &str, kernel: &str, machine: &mut dyn Machine) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = machine.allocate(vec![0; 4096]).to_le_bytes();
    let start = Instant::now();
    let steps = machine.run(&Launch::new(kernel, [1; 3], [128, 1, 1], &parameters))?.lane_steps;
    let seconds = start.elapsed().as_secs_f64();
    let millions = steps as f64 / seconds / 1e6;
    println!("{who} {kernel}: {steps} lane instructions in {seconds:.2} s: {millions:.1} M/s");
    Ok(())
}
