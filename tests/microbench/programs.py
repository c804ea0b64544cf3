"""The microbenchmarks of the timing model, as PTX: each is a chain of one operation between two readings of the clock.

A program is made twice, with a short and a long body; the time of one operation is the difference of the two, divided by
the operations that one has more. So loops, clocks and cold caches don't count.

    latency     one warp; each operation needs the result of the one before
    throughput  a block of 1024 threads; four chains a warp: what the pipe takes
    chip        blocks on all SMs that read or write memory: bytes in a second, by the timer of the GPU. All blocks are
                resident at once: the time of a thread is that of the launch
    fetch       code of a certain size in a loop: cycles of an instruction
"""

SHORT, LONG = 32, 96
CHAINS = 4
# Of an H200.
SMS, BLOCKS_OF_SM = 132, 2

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.const .align 4 .b32 table[1024];
.visible .entry bench(.param .u64 out, .param .u64 data, .param .u32 rounds, .param .u32 stride) .maxntid THREADS, 1, 1 .minnctapersm RESIDENT
{
    .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<256>; .reg .f32 %f<256>; .reg .b64 %rd<32>; .reg .f64 %d<16>;
    .shared .align 1024 .b8 s[40960];
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [data];
    ld.param.u32 %r1, [rounds];
    ld.param.u32 %r2, [stride];
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, s;
    mad.lo.u32 %r7, %r4, %r5, %r3;
    mul.wide.u32 %rd3, %r7, 8;
    add.u64 %rd3, %rd1, %rd3;
    cvt.rn.f32.u32 %f1, %r3;
    cvt.f64.f32 %d1, %f1;
"""

TAIL = """
    st.global.u64 [%rd3], %rd9;
    ret;
}
"""


class Program:
    """`setup` runs once, `step(chain)` is one operation on a chain, `sink` uses the results."""

    def __init__(self, name, kind, setup, step, sink, threads=None, operations=1, blocks=1, stride=4, data=1 << 20, clock="clock64"):
        self.name, self.kind, self.setup, self.step, self.sink = name, kind, setup, step, sink
        self.chains = CHAINS if kind == "throughput" else 1
        self.threads = threads or (1024 if kind != "latency" else 32)
        self.operations, self.blocks, self.stride, self.data, self.clock = operations, blocks, stride, data, clock

    def ptx(self, steps):
        setup = "\n".join(self.setup(chain) for chain in range(self.chains))
        body = "\n".join(self.step(index % self.chains) for index in range(steps))
        sinks = "\n".join(self.sink(chain) for chain in range(self.chains))
        # What no thread stores must not be left out: the rounds are never this many.
        resident = BLOCKS_OF_SM if self.kind == "chip" else 1
        return f"""{HEAD.replace("THREADS", str(self.threads)).replace("RESIDENT", str(resident))}
{setup}
    bar.sync 0;
    mov.u64 %rd8, %{self.clock};
    mov.u32 %r8, 0;
LOOP:
{body}
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p1, %r8, %r1;
    @%p1 bra LOOP;
    bar.sync 0;
    mov.u64 %rd9, %{self.clock};
    sub.u64 %rd9, %rd9, %rd8;
    setp.ne.u32 %p2, %r1, 0xffffffff;
    @%p2 bra DONE;
{sinks}
DONE:{TAIL}"""


def unary(name, text, kind="f32"):
    """Latency and throughput of an operation on registers; `{0}` is the chain's register."""
    register = {"f32": "%f1{}", "s32": "%r1{}", "f64": "%d1{}", "b64": "%rd1{}"}[kind]
    start = {
        "f32": "add.f32 {0}, %f1, 0f3F800000;",
        "s32": "add.u32 {0}, %r3, 1;",
        "f64": "add.f64 {0}, %d1, 0d3FF0000000000000;",
        "b64": "cvt.u64.u32 {0}, %r3;",
    }[kind]
    store = {"f32": "st.global.f32", "s32": "st.global.u32", "f64": "st.global.f64", "b64": "st.global.u64"}[kind]
    at = lambda chain: register.format(chain)
    parts = (
        lambda chain: start.format(at(chain)),
        lambda chain: text.format(at(chain)),
        lambda chain: f"{store} [%rd1+{8 * chain}], {at(chain)};",
    )
    return [Program(f"{name}.latency", "latency", *parts), Program(f"{name}.throughput", "throughput", *parts)]


def shared(name, width, words, store=False):
    """Loads of shared memory, each thread `stride` bytes from the one before."""
    where = "mul.lo.u32 %r20, %r3, %r2; and.b32 %r20, %r20, 32767; add.u32 %r20, %r20, %r6;"
    names = [[f"%r{30 + 4 * chain + word}" for word in range(words)] for chain in range(CHAINS)]
    listed = lambda chain: names[chain][0] if words == 1 else "{" + ", ".join(names[chain]) + "}"
    vector = {1: "", 2: ".v2", 4: ".v4"}[words]
    # So that no load is left out.
    summed = lambda chain: " ".join(f"xor.b32 %r{50 + chain}, %r{50 + chain}, {register};" for register in names[chain])
    operation = (
        (lambda chain: f"st.volatile.shared{vector}.u32 [%r20], {listed(chain)};")
        if store
        else (lambda chain: f"ld.volatile.shared{vector}.u32 {listed(chain)}, [%r20]; {summed(chain)}")
    )
    first = lambda chain: where + " ".join(f"mov.u32 {register}, %r3;" for register in [*names[chain], f"%r{50 + chain}"])
    sink = lambda chain: f"st.global.u32 [%rd1+{8 * chain}], %r{50 + chain};"
    return Program(name, "throughput", first, operation, sink, stride=width)


def chase(name, load, first="", data=1 << 20, stride=128):
    """Loads whose addresses are what was loaded: the memory holds offsets of the next place."""
    setup = f"{first} mov.u64 %rd10, 0;"
    step = f"add.u64 %rd11, %rd2, %rd10; {load}.u64 %rd10, [%rd11];"
    return Program(name, "latency", lambda _: setup, lambda _: step, lambda _: "st.global.u64 [%rd1], %rd10;", data=data, stride=stride)


def chip(name, step, data, blocks=SMS * BLOCKS_OF_SM):
    """Threads of all blocks go through memory, 16 bytes each, all side by side."""
    setup = """
    mul.wide.u32 %rd10, %r7, 16; mov.u32 %r21, %nctaid.x; mul.lo.u32 %r21, %r21, %r5; mul.wide.u32 %rd11, %r21, 16;
    mov.u32 %r30, %r3; mov.u32 %r31, 0; mov.u32 %r32, 0; mov.u32 %r33, 0;"""
    # Of as much memory as the machine that runs it gives.
    begin = lambda _: f"{setup} and.b64 %rd10, %rd10, {program.data - 1};"
    advance = lambda: f" add.u64 %rd10, %rd10, %rd11; and.b64 %rd10, %rd10, {program.data - 1};"
    sink = "xor.b32 %r30, %r30, %r31; xor.b32 %r32, %r32, %r33; xor.b32 %r30, %r30, %r32; st.global.u32 [%rd1], %r30;"
    program = Program(name, "chip", begin, lambda _: step + advance(), lambda _: sink, operations=16, blocks=blocks, data=data, clock="globaltimer")
    return program


READ = """
    add.u64 %rd12, %rd2, %rd10; ld.global{}.v4.u32 {{%r40, %r41, %r42, %r43}}, [%rd12];
    xor.b32 %r30, %r30, %r40; xor.b32 %r31, %r31, %r41; xor.b32 %r32, %r32, %r42; xor.b32 %r33, %r33, %r43;"""
WRITE = "add.u64 %rd12, %rd2, %rd10; st.global.v4.u32 [%rd12], {%r30, %r31, %r32, %r33};"


def fetch(kilobytes):
    """Instructions without results that depend on each other, as much as fits in so many KB."""
    count = kilobytes * 1024 // 16
    at = iter(range(1 << 30))

    def step(_):
        register = 10 + next(at) % 64
        return f"fma.rn.f32 %f{register}, %f{register}, %f1, %f1;"

    setup = lambda _: "\n".join(f"mov.f32 %f{10 + index}, %f1;" for index in range(64))
    sink = lambda _: "\n".join(f"st.global.f32 [%rd1+{4 * index}], %f{10 + index};" for index in range(64))
    program = Program(f"fetch.{kilobytes}k", "fetch", setup, step, sink, threads=32)
    program.count = count
    return program


def mma(name, shape, kinds, a, b):
    """Products of one warp: sums of one chain depend on each other."""
    names = lambda first, count: "{" + ", ".join(f"%r{first + index}" for index in range(count)) + "}"
    sums = lambda chain: "{" + ", ".join(f"%f{20 + 4 * chain + index}" for index in range(4)) + "}"
    setup = lambda chain: " ".join(f"mov.f32 %f{20 + 4 * chain + index}, %f1;" for index in range(4)) + " ".join(
        f"mov.u32 %r{60 + index}, %r3;" for index in range(8)
    )
    step = lambda chain: (
        f"mma.sync.aligned.{shape}.row.col.f32.{kinds}.{kinds}.f32 {sums(chain)}, {names(60, a)}, {names(64, b)}, {sums(chain)};"
    )
    sink = lambda chain: " ".join(f"st.global.f32 [%rd1+{16 * chain + 4 * index}], %f{20 + 4 * chain + index};" for index in range(4))
    return [Program(f"{name}.{kind}", kind, setup, step, sink) for kind in ["latency", "throughput"]]


def wgmma(columns):
    """Products of a warpgroup, sixteen in flight, of zeros in shared memory."""
    sums = "{" + ", ".join(f"%f{100 + index}" for index in range(columns // 2)) + "}"
    setup = " ".join(f"mov.f32 %f{100 + index}, %f1;" for index in range(columns // 2))
    # No swizzle; 128 and 256 bytes between parts: any part of shared memory will do.
    setup += " cvt.u64.u32 %rd10, %r6; shr.u64 %rd10, %rd10, 4; or.b64 %rd10, %rd10, 0x0000001000080000;"
    step = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {sums}, %rd10, %rd10, 1, 1, 1, 0, 0;"
    fenced = lambda _: f"wgmma.fence.sync.aligned;\n{step}\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;"
    sink = lambda _: " ".join(f"st.global.f32 [%rd1+{4 * index}], %f{100 + index};" for index in range(columns // 2))
    return Program(f"wgmma.n{columns}", "latency", lambda _: setup, fenced, sink, threads=128)


def atomics(name, space, base, where):
    setup = lambda chain: f"{where} mov.u32 %r{30 + chain}, 1;"
    # An exchange: compilers add up what lanes add to one address.
    step = lambda chain: f"atom.{space}.exch.b32 %r{30 + chain}, [{base}], %r{30 + chain};"
    parts = (setup, step, lambda chain: f"st.global.u32 [%rd1+{8 * chain}], %r{30 + chain};")
    return [Program(f"{name}.latency", "latency", *parts), Program(f"{name}.throughput", "throughput", *parts)]


def programs():
    """All of them."""
    out = []
    for name, text, kind in [
        ("fadd", "add.rn.f32 {0}, {0}, %f1;", "f32"),
        ("ffma", "fma.rn.f32 {0}, {0}, %f1, %f1;", "f32"),
        ("mufu", "ex2.approx.ftz.f32 {0}, {0};", "f32"),
        ("shuffle", "shfl.sync.bfly.b32 {0}, {0}, 1, 0x1f, 0xffffffff;", "s32"),
        ("shift", "shf.l.wrap.b32 {0}, {0}, %r3, %r5;", "s32"),
        ("lop3", "lop3.b32 {0}, {0}, %r3, %r5, 0x96;", "s32"),
        ("imad", "mad.lo.u32 {0}, {0}, %r3, %r5;", "s32"),
        ("popc", "popc.b32 {0}, {0};", "s32"),
        ("redux", "redux.sync.add.u32 {0}, {0}, 0xffffffff;", "s32"),
        ("dfma", "fma.rn.f64 {0}, {0}, %d1, %d1;", "f64"),
        ("convert", "cvt.rn.f32.s32 %f2, {0}; cvt.rzi.s32.f32 {0}, %f2;", "s32"),
        ("hfma2", "fma.rn.f16x2 {0}, {0}, %r3, %r5;", "s32"),
        ("imad_wide", "cvt.u32.u64 %r9, {0}; mad.wide.u32 {0}, %r9, %r3, {0};", "b64"),
        ("constant", "and.b32 {0}, {0}, 1020; cvt.u64.u32 %rd7, {0}; mov.u64 %rd6, table; add.u64 %rd6, %rd6, %rd7; ld.const.u32 {0}, [%rd6];", "s32"),
    ]:  # fmt: skip
        out += unary(name, text, kind)
    out += [chase("shared.latency", "ld.volatile.shared", "cvt.u64.u32 %rd2, %r6; mov.u64 %rd5, 0; st.shared.u64 [%r6], %rd5;")]
    # The short run of 64 rounds goes through what the L2 shall hold once; the long one does not come back to a place in
    # memory that it has read.
    out += [chase("l1.latency", "ld.global.ca", data=16 << 10), chase("l2.latency", "ld.global.cg", data=256 << 10)]
    out += [chase("dram.latency", "ld.global.cg", data=1 << 30, stride=(128 << 10) + 128)]
    for stride in [4, 8, 16, 32, 64, 128]:
        out.append(shared(f"shared.load.stride{stride}", stride, 1))
    out += [shared("shared.load64", 8, 2), shared("shared.load128", 16, 4), shared("shared.store", 4, 1, store=True)]
    out += [shared("shared.load64.stride128", 128, 2), shared("shared.load128.stride32", 32, 4)]
    same, own = "", "shl.b32 %r20, %r3, 2; and.b32 %r20, %r20, 16383; add.u32 %r20, %r20, %r6;"
    out += atomics("atomic.shared.same", "shared", "%r6", same) + atomics("atomic.shared.own", "shared", "%r20", own)
    own = "mul.wide.u32 %rd10, %r3, 4; add.u64 %rd10, %rd2, %rd10;"
    out += atomics("atomic.global.same", "global", "%rd2", same) + atomics("atomic.global.own", "global", "%rd10", own)
    nothing = lambda _: ""
    out += [Program("barrier.latency", "latency", nothing, lambda _: "bar.sync 0;", nothing, threads=threads) for threads in [64]]
    out += [Program("barrier.1024", "latency", nothing, lambda _: "bar.sync 0;", nothing, threads=1024)]
    out += [Program("membar.latency", "latency", nothing, lambda _: "st.global.u32 [%rd3], %r8; fence.acq_rel.gpu;", nothing)]
    out += mma("mma.m16n8k16", "m16n8k16", "bf16", 4, 2) + mma("mma.m16n8k8", "m16n8k8", "bf16", 2, 1)
    out += [wgmma(columns) for columns in [64, 128, 256]]
    line = "mul.wide.u32 %rd10, %r3, 4; add.u64 %rd10, %rd2, %rd10; mov.u32 %r30, 0;"
    load = "ld.volatile.global.u32 %r31, [%rd10]; xor.b32 %r30, %r30, %r31;"
    out += [Program("l2.load.line", "throughput", lambda _: line, lambda _: load, lambda _: "st.global.u32 [%rd1], %r30;")]
    out += [chip("l2.read.chip", READ.format(".cg"), 16 << 20), chip("l2.read.sm", READ.format(".cg"), 16 << 20, blocks=1)]
    out += [chip("dram.read", READ.format(".cg"), 1 << 30), chip("dram.write", WRITE, 1 << 30), chip("l2.write", WRITE, 16 << 20)]
    out += [fetch(kilobytes) for kilobytes in [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]]
    return out
