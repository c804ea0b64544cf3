//! The rows of [`Target::ALL`].

use crate::{
    AliasWord, ClusterWords, Container, DeferBlocking, Isa, LaunchWords, ParamWindow, PtxTarget as Ptx,
    ReservedVariable, Suffix, Target, Windows, Word,
};

pub const ROWS: [Target; 12] =
    [SM_75, SM_80, SM_86, SM_87, SM_88, SM_89, SM_90, SM_100, SM_103, SM_110, SM_120, SM_121];

const SM_75: Target = Target {
    name: "sm_75",
    sm: 75,
    isa: Isa::Sm75,
    ptx: &[Ptx::new("sm_75", 75, Suffix::None, 6, 3)],
    urz: 63,
    last_debug_uniform: 61,
    threads_per_sm: 1024,
    blocks_per_sm: 16,
    shared_per_sm: 64 << 10,
    system_shared_per_block: 0,
    shared_unit: 256,
    nwarpid: Some(32),
    small_params: 0x160,
    large_params: 0x1a80,
    stack: 0x28,
    descriptor: None,
    windows: Windows {
        local: 0x20,
        shared: Some(0x18),
        constant: 0x50,
        params: ParamWindow::Bank { base: 0x40, size: 0x114 },
    },
    alias_word: None,
    image_tables: 0x70,
    launch: LaunchWords {
        ntid: 0x0,
        nctaid: 0xc,
        gridid: 0x30,
        nsmid: 0x10c,
        graph_exec: 0x120,
        dynamic_shared: Word::At(0x2c),
        system_shared: None,
        reserved_shared_end: Word::At(0x120),
        reserved_shared_1: Word::At(0x124),
        envregs: Word::At(0x88),
        late_envregs: Word::At(0x88),
        clusters: None,
    },
    shared_base: 0,
    reserved_shared: 0,
    reserved_variable: None,
    prefetch_padding: 0,
    wide_call_target: false,
    constant_operands: true,
    has_ldcu: false,
    splits_order: true,
    sleeps_by_warp: true,
    defer_blocking: DeferBlocking::Never,
    collects_unaligned_warps: false,
    barrier_drains_reads: true,
    stores_barriers: false,
    has_clusters: false,
    multicasts: false,
    settles_shared_memory: false,
    block16_scales: false,
    wants_ordered_metadata: false,
    uniform_handles: false,
    handle_offset: false,
    image_align: 4,
    samples_without_level: false,
    driver_has_gradients: false,
    container: Container::UpTo89,
    sw_war: Some(1),
    sw2861232_war: false,
    vrc_cta_init_count: false,
    fastpath_finalize: 0,
    sparse_mma_mask: false,
    ctaidz_used: true,
    unified_functions: false,
    reports_constant_banks: true,
    refuses_32bit_abi: false,
};

const SM_80: Target = Target {
    name: "sm_80",
    sm: 80,
    isa: Isa::Sm80,
    ptx: &[Ptx::new("sm_80", 80, Suffix::None, 7, 0)],
    threads_per_sm: 2048,
    blocks_per_sm: 32,
    shared_per_sm: 164 << 10,
    system_shared_per_block: 1 << 10,
    shared_unit: 128,
    nwarpid: Some(64),
    descriptor: Some(0x118),
    windows: Windows { params: ParamWindow::Bank { base: 0x40, size: 0x12c }, ..SM_75.windows },
    alias_word: Some(AliasWord { offset: 0x128, mask: -1 }),
    launch: LaunchWords { graph_exec: 0x130, system_shared: Some(0x114), ..SM_75.launch },
    prefetch_padding: 128,
    splits_order: false,
    sleeps_by_warp: false,
    defer_blocking: DeferBlocking::Aligned,
    barrier_drains_reads: false,
    sw_war: None,
    sw2861232_war: true,
    ..SM_75
};

const SM_86: Target = Target {
    name: "sm_86",
    sm: 86,
    isa: Isa::Sm86,
    ptx: &[Ptx::new("sm_86", 86, Suffix::None, 7, 1)],
    threads_per_sm: 1536,
    blocks_per_sm: 16,
    shared_per_sm: 100 << 10,
    nwarpid: Some(48),
    ..SM_80
};

const SM_87: Target = Target {
    name: "sm_87",
    sm: 87,
    ptx: &[Ptx::new("sm_87", 87, Suffix::None, 7, 4)],
    shared_per_sm: 164 << 10,
    // ptxas folds this number, though threads_per_sm is the 1536 of sm_86.
    nwarpid: Some(64),
    sw_war: Some(2),
    ..SM_86
};

const SM_88: Target =
    Target { name: "sm_88", sm: 88, ptx: &[Ptx::new("sm_88", 88, Suffix::None, 7, 3)], ..SM_86 };

const SM_89: Target = Target {
    name: "sm_89",
    sm: 89,
    isa: Isa::Sm89,
    ptx: &[Ptx::new("sm_89", 89, Suffix::None, 7, 8)],
    blocks_per_sm: 24,
    barrier_drains_reads: true,
    sw2861232_war: false,
    ..SM_86
};

const SM_90: Target = Target {
    name: "sm_90",
    sm: 90,
    isa: Isa::Sm90,
    ptx: &[Ptx::new("sm_90", 90, Suffix::None, 7, 8), Ptx::new("sm_90a", 90, Suffix::Arch, 8, 0)],
    threads_per_sm: 2048,
    blocks_per_sm: 32,
    shared_per_sm: 228 << 10,
    nwarpid: None,
    small_params: 0x210,
    large_params: 0x210,
    descriptor: Some(0x208),
    windows: Windows {
        local: 0x20,
        shared: None,
        constant: 0xd0,
        params: ParamWindow::Range { first: 0x198, last: 0x1a0 },
    },
    alias_word: Some(AliasWord { offset: 0x18c, mask: 1 }),
    image_tables: 0xf0,
    launch: LaunchWords {
        graph_exec: 0x190,
        reserved_shared_end: Word::At(0x68),
        reserved_shared_1: Word::At(0x6c),
        envregs: Word::At(0x40),
        late_envregs: Word::At(0x40),
        clusters: Some(ClusterWords {
            is_explicit: 0x140,
            sizes: Word::At(0x144),
            reciprocals: Word::At(0x150),
            counts: Word::At(0x15c),
            blocks: Word::At(0x188),
            largest_shared: Word::At(0x13c),
        }),
        ..SM_80.launch
    },
    shared_base: 0x400,
    wide_call_target: true,
    constant_operands: false,
    defer_blocking: DeferBlocking::Always,
    collects_unaligned_warps: true,
    barrier_drains_reads: false,
    has_clusters: true,
    multicasts: true,
    settles_shared_memory: true,
    uniform_handles: true,
    handle_offset: true,
    driver_has_gradients: true,
    container: Container::Since90,
    sw_war: Some(8),
    sw2861232_war: false,
    sparse_mma_mask: true,
    ctaidz_used: false,
    unified_functions: true,
    reports_constant_banks: false,
    refuses_32bit_abi: true,
    ..SM_80
};

const SM_100: Target = Target {
    name: "sm_100",
    sm: 100,
    isa: Isa::Sm100,
    ptx: &[
        Ptx::new("sm_100", 100, Suffix::None, 8, 6).in_family(100),
        Ptx::new("sm_100a", 100, Suffix::Arch, 8, 6).in_family(100),
        Ptx::new("sm_100f", 100, Suffix::Family, 8, 8).in_family(100),
    ],
    urz: 255,
    last_debug_uniform: 77,
    small_params: 0x380,
    large_params: 0x380,
    stack: 0x37c,
    descriptor: Some(0x358),
    windows: Windows {
        local: 0x2f8,
        shared: None,
        constant: 0x120,
        params: ParamWindow::Range { first: 0x348, last: 0x350 },
    },
    alias_word: Some(AliasWord { offset: 0x2d8, mask: 1 }),
    image_tables: 0x150,
    launch: LaunchWords {
        ntid: 0x360,
        nctaid: 0x370,
        gridid: 0x140,
        nsmid: 0x2d0,
        graph_exec: 0x2e8,
        dynamic_shared: Word::BelowCluster(0x2ac),
        system_shared: Some(0x16c),
        reserved_shared_end: Word::BelowCluster(0x278),
        reserved_shared_1: Word::BelowCluster(0x27c),
        envregs: Word::BelowCluster(0x250),
        late_envregs: Word::At(0x90),
        clusters: Some(ClusterWords {
            is_explicit: 0x36c,
            sizes: Word::BelowCluster(0x2a0),
            reciprocals: Word::BelowCluster(0x2b0),
            counts: Word::BelowCluster(0x2c0),
            blocks: Word::BelowCluster(0x2cc),
            largest_shared: Word::BelowCluster(0x2bc),
        }),
    },
    reserved_shared: 0x40,
    has_ldcu: true,
    stores_barriers: true,
    wants_ordered_metadata: true,
    handle_offset: false,
    image_align: 16,
    vrc_cta_init_count: true,
    fastpath_finalize: 9,
    ..SM_90
};

const SM_103: Target = Target {
    name: "sm_103",
    sm: 103,
    isa: Isa::Sm103,
    ptx: &[
        Ptx::new("sm_103", 103, Suffix::None, 8, 8).in_family(100),
        Ptx::new("sm_103a", 103, Suffix::Arch, 8, 8).in_family(100),
        Ptx::new("sm_103f", 103, Suffix::Family, 8, 8).in_family(100),
    ],
    block16_scales: true,
    fastpath_finalize: 0,
    ..SM_100
};

const SM_110: Target = Target {
    name: "sm_110",
    sm: 110,
    isa: Isa::Sm110,
    ptx: &[
        Ptx::new("sm_110", 110, Suffix::None, 9, 0).in_family(101),
        Ptx::new("sm_110a", 110, Suffix::Arch, 9, 0).in_family(101),
        Ptx::new("sm_110f", 110, Suffix::Family, 9, 0).in_family(101),
    ],
    threads_per_sm: 1536,
    blocks_per_sm: 24,
    reserved_variable: Some(ReservedVariable {
        name: "__nv_reservedSMEM_gb10b_war_var",
        size: 0x80,
        align: 16,
    }),
    fastpath_finalize: 0,
    ..SM_100
};

const SM_120: Target = Target {
    name: "sm_120",
    sm: 120,
    isa: Isa::Sm120,
    ptx: &[
        Ptx::new("sm_120", 120, Suffix::None, 8, 7).in_family(120),
        Ptx::new("sm_120a", 120, Suffix::Arch, 8, 7).in_family(120),
        Ptx::new("sm_120f", 120, Suffix::Family, 8, 8).in_family(120),
    ],
    threads_per_sm: 1536,
    blocks_per_sm: 24,
    shared_per_sm: 100 << 10,
    multicasts: false,
    samples_without_level: true,
    sw_war: Some(0),
    fastpath_finalize: 0x50,
    ..SM_100
};

const SM_121: Target = Target {
    name: "sm_121",
    sm: 121,
    ptx: &[
        Ptx::new("sm_121", 121, Suffix::None, 8, 8).in_family(120),
        Ptx::new("sm_121a", 121, Suffix::Arch, 8, 8).in_family(120),
        Ptx::new("sm_121f", 121, Suffix::Family, 8, 8).in_family(120),
    ],
    fastpath_finalize: 0,
    ..SM_120
};
