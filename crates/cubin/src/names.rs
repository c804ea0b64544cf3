//! The numbers of the container that have names: section types, symbol types, relocations, and so on.
//!
//! Each is a newtype over the stored number, so that a number without a name survives a round trip.
//! A number was named by patching it into a real cubin and reading what `cuobjdump -elf` calls it.

/// Declares a newtype over a stored number with named constants; `name` gives the name back.
macro_rules! named_numbers {
    ($(#[$doc:meta])* $type:ident($repr:ty) { $($value:literal $constant:ident $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub $repr);

        impl $type {
            $(
                #[allow(missing_docs, reason = "the names are NVIDIA's")]
                pub const $constant: $type = $type($value);
            )*

            /// The name that NVIDIA's tools print, if the number has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($name),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => f.pad(&format!("{:#x}", self.0)),
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use named_numbers;

named_numbers! {
    /// `e_type`: what the file is for.
    FileType(u16) {
        1      RELOCATABLE   "REL",
        2      EXECUTABLE    "EXEC",
        0xff00 WHOLE_PROGRAM "EWP",
    }
}

named_numbers! {
    /// `sh_type`.
    SectionType(u32) {
        0x0        NULL                 "NULL",
        0x1        PROGBITS             "PROGBITS",
        0x2        SYMTAB               "SYMTAB",
        0x3        STRTAB               "STRTAB",
        0x4        RELA                 "RELA",
        0x7        NOTE                 "NOTE",
        0x8        NOBITS               "NOBITS",
        0x9        REL                  "REL",
        0x12       SYMTAB_SHNDX         "SYMTAB_SHNDX",
        0x70000000 CUDA_INFO            "CUDA_INFO",
        0x70000001 CUDA_CALLGRAPH       "CUDA_CALLGRAPH",
        0x70000002 CUDA_PROTOTYPE       "CUDA_PROTOTYPE",
        0x70000003 CUDA_RESOLVED_RELA   "CUDA_RESOLVED_RELA",
        0x70000004 CUDA_METADATA        "CUDA_METADATA",
        0x70000006 CUDA_CONSTANT        "CUDA_CONSTANT",
        0x70000007 CUDA_GLOBAL          "CUDA_GLOBAL",
        0x70000008 CUDA_GLOBAL_INIT     "CUDA_GLOBAL_INIT",
        0x70000009 CUDA_LOCAL           "CUDA_LOCAL",
        0x7000000a CUDA_SHARED          "CUDA_SHARED",
        0x7000000b CUDA_RELOCINFO       "CUDA_RELOCINFO",
        0x7000000c CUDA_MERCURY         "CUDA_MERCURY",
        0x7000000d MERCURY_SASS_MAP     "CUDA_MERCURY_SASS_MAP",
        0x7000000e CUDA_UFT             "CUDA_UFT",
        0x70000010 CUDA_UFT_INDEX       "CUDA_UIDX",
        0x70000011 CUDA_UFT_ENTRY       "CUDA_UFT_ENTRY",
        0x70000012 CUDA_UDT             "CUDA_UDT",
        0x70000014 CUDA_UDT_ENTRY       "CUDA_UDT_ENTRY",
        0x70000015 CUDA_RESERVED_SHARED "CUDA_RESERVED_SHARED",
        0x70000016 CUDA_CAPMERC         "CUDA_CAPMERC",
        0x70000064 CUDA_CONSTANT_B0     "CUDA_CONSTANT_B0",
        0x70000065 CUDA_CONSTANT_B1     "CUDA_CONSTANT_B1",
        0x70000066 CUDA_CONSTANT_B2     "CUDA_CONSTANT_B2",
        0x70000067 CUDA_CONSTANT_B3     "CUDA_CONSTANT_B3",
        0x70000068 CUDA_CONSTANT_B4     "CUDA_CONSTANT_B4",
        0x70000069 CUDA_CONSTANT_B5     "CUDA_CONSTANT_B5",
        0x7000006a CUDA_CONSTANT_B6     "CUDA_CONSTANT_B6",
        0x7000006b CUDA_CONSTANT_B7     "CUDA_CONSTANT_B7",
        0x70000078 MERCURY_PARAMS       "CUDA_MERCURY_CONSTANT_PARAMS",
        0x70000079 MERCURY_IMGHDR       "CUDA_MERCURY_CONSTANT_IMGHDR",
        0x7000007a MERCURY_DRIVER       "CUDA_MERCURY_CONSTANT_DRIVER",
        0x7000007b MERCURY_OPT          "CUDA_MERCURY_CONSTANT_OPT",
        0x7000007c MERCURY_USER         "CUDA_MERCURY_CONSTANT_USER",
        0x7000007d MERCURY_PIC          "CUDA_MERCURY_CONSTANT_PIC",
        0x7000007e MERCURY_TOOLS        "CUDA_MERCURY_CONSTANT_TOOLS",
        0x70000082 MERCURY_RELA         "RELA",
        0x70000083 MERCURY_INFO         "CUDA_INFO",
        0x70000084 MERCURY_OPT_2        "CUDA_MERCURY_CONSTANT_OPT",
        0x70000085 MERCURY_SYMTAB       "SYMTAB",
        0x70000086 CUDA_COMPAT_INFO     "CUDA_COMPAT_INFO",
        0x70000087 EMBEDDED_HOST        "CUDA_EMBEDDED_HOST",
        0x70000088 MERCURY_RESOLVED     "CUDA_MERCURY_RESOLVED_RELA",
    }
}

named_numbers! {
    /// The low half of `st_info`.
    SymbolType(u8) {
        0  NONE         "NOTYPE",
        1  OBJECT       "OBJECT",
        2  FUNCTION     "FUNC",
        3  SECTION      "SECTION",
        4  FILE         "FILE",
        10 CUDA_TEXTURE "CUDA_TEXTURE",
        11 CUDA_SAMPLER "CUDA_SAMPLER",
        12 CUDA_SURFACE "CUDA_SURFACE",
        13 CUDA_OBJECT  "CUDA_OBJECT",
    }
}

named_numbers! {
    /// The high half of `st_info`.
    Binding(u8) {
        0 LOCAL  "LOCAL",
        1 GLOBAL "GLOBAL",
        2 WEAK   "WEAK",
    }
}

named_numbers! {
    /// Bits 5–7 of `st_other`: the memory a variable lives in. Set in relocatable files only.
    MemorySpace(u8) {
        0 NONE            "none",
        1 GLOBAL          "global",
        2 SHARED          "shared",
        3 LOCAL           "local",
        4 CONSTANT        "constant",
        5 RESERVED_SHARED "reserved shared",
    }
}

named_numbers! {
    /// `p_type`.
    SegmentType(u32) {
        1 LOAD "LOAD",
        6 PHDR "PHDR",
    }
}

named_numbers! {
    /// A relocation. The name tells the field: `ABS32_LO_32` puts the low 32 bits of the address at bit 32.
    /// Relocations of data (`R_CUDA_64`) have `DATA_` before the digits here.
    RelocType(u32) {
        1   DATA_32              "R_CUDA_32",
        2   DATA_64              "R_CUDA_64",
        3   G32                  "R_CUDA_G32",
        4   G64                  "R_CUDA_G64",
        5   ABS32_26             "R_CUDA_ABS32_26",
        6   TEX_HEADER_INDEX     "R_CUDA_TEX_HEADER_INDEX",
        7   SAMP_HEADER_INDEX    "R_CUDA_SAMP_HEADER_INDEX",
        8   SURF_HW_DESC         "R_CUDA_SURF_HW_DESC",
        9   SURF_HW_SW_DESC      "R_CUDA_SURF_HW_SW_DESC",
        10  ABS32_LO_26          "R_CUDA_ABS32_LO_26",
        11  ABS32_HI_26          "R_CUDA_ABS32_HI_26",
        12  ABS32_23             "R_CUDA_ABS32_23",
        13  ABS32_LO_23          "R_CUDA_ABS32_LO_23",
        14  ABS32_HI_23          "R_CUDA_ABS32_HI_23",
        15  ABS24_26             "R_CUDA_ABS24_26",
        16  ABS24_23             "R_CUDA_ABS24_23",
        17  ABS16_26             "R_CUDA_ABS16_26",
        18  ABS16_23             "R_CUDA_ABS16_23",
        19  TEX_SLOT             "R_CUDA_TEX_SLOT",
        20  SAMP_SLOT            "R_CUDA_SAMP_SLOT",
        21  SURF_SLOT            "R_CUDA_SURF_SLOT",
        22  TEX_BINDLESSOFF13_32 "R_CUDA_TEX_BINDLESSOFF13_32",
        23  TEX_BINDLESSOFF13_47 "R_CUDA_TEX_BINDLESSOFF13_47",
        24  CONST_FIELD19_28     "R_CUDA_CONST_FIELD19_28",
        25  CONST_FIELD19_23     "R_CUDA_CONST_FIELD19_23",
        26  TEX_SLOT9_49         "R_CUDA_TEX_SLOT9_49",
        27  DATA_6_31            "R_CUDA_6_31",
        28  DATA_2_47            "R_CUDA_2_47",
        29  TEX_BINDLESSOFF13_41 "R_CUDA_TEX_BINDLESSOFF13_41",
        30  TEX_BINDLESSOFF13_45 "R_CUDA_TEX_BINDLESSOFF13_45",
        31  FUNC_DESC32_23       "R_CUDA_FUNC_DESC32_23",
        32  FUNC_DESC32_LO_23    "R_CUDA_FUNC_DESC32_LO_23",
        33  FUNC_DESC32_HI_23    "R_CUDA_FUNC_DESC32_HI_23",
        34  FUNC_DESC_32         "R_CUDA_FUNC_DESC_32",
        35  FUNC_DESC_64         "R_CUDA_FUNC_DESC_64",
        36  CONST_FIELD21_26     "R_CUDA_CONST_FIELD21_26",
        37  QUERY_DESC21_37      "R_CUDA_QUERY_DESC21_37",
        38  CONST_FIELD19_26     "R_CUDA_CONST_FIELD19_26",
        39  CONST_FIELD21_23     "R_CUDA_CONST_FIELD21_23",
        40  PCREL_IMM24_26       "R_CUDA_PCREL_IMM24_26",
        41  PCREL_IMM24_23       "R_CUDA_PCREL_IMM24_23",
        42  ABS32_20             "R_CUDA_ABS32_20",
        43  ABS32_LO_20          "R_CUDA_ABS32_LO_20",
        44  ABS32_HI_20          "R_CUDA_ABS32_HI_20",
        45  ABS24_20             "R_CUDA_ABS24_20",
        46  ABS16_20             "R_CUDA_ABS16_20",
        47  FUNC_DESC32_20       "R_CUDA_FUNC_DESC32_20",
        48  FUNC_DESC32_LO_20    "R_CUDA_FUNC_DESC32_LO_20",
        49  FUNC_DESC32_HI_20    "R_CUDA_FUNC_DESC32_HI_20",
        50  CONST_FIELD19_20     "R_CUDA_CONST_FIELD19_20",
        51  BINDLESSOFF13_36     "R_CUDA_BINDLESSOFF13_36",
        52  SURF_HEADER_INDEX    "R_CUDA_SURF_HEADER_INDEX",
        53  INSTRUCTION64        "R_CUDA_INSTRUCTION64",
        54  CONST_FIELD21_20     "R_CUDA_CONST_FIELD21_20",
        55  ABS32_32             "R_CUDA_ABS32_32",
        56  ABS32_LO_32          "R_CUDA_ABS32_LO_32",
        57  ABS32_HI_32          "R_CUDA_ABS32_HI_32",
        58  ABS47_34             "R_CUDA_ABS47_34",
        59  ABS16_32             "R_CUDA_ABS16_32",
        60  ABS24_32             "R_CUDA_ABS24_32",
        61  FUNC_DESC32_32       "R_CUDA_FUNC_DESC32_32",
        62  FUNC_DESC32_LO_32    "R_CUDA_FUNC_DESC32_LO_32",
        63  FUNC_DESC32_HI_32    "R_CUDA_FUNC_DESC32_HI_32",
        64  CONST_FIELD19_40     "R_CUDA_CONST_FIELD19_40",
        65  BINDLESSOFF14_40     "R_CUDA_BINDLESSOFF14_40",
        66  CONST_FIELD21_38     "R_CUDA_CONST_FIELD21_38",
        67  INSTRUCTION128       "R_CUDA_INSTRUCTION128",
        68  YIELD_OPCODE9_0      "R_CUDA_YIELD_OPCODE9_0",
        69  YIELD_CLEAR_PRED4_87 "R_CUDA_YIELD_CLEAR_PRED4_87",
        70  DATA_32_LO           "R_CUDA_32_LO",
        71  DATA_32_HI           "R_CUDA_32_HI",
        72  UNUSED_CLEAR32       "R_CUDA_UNUSED_CLEAR32",
        73  UNUSED_CLEAR64       "R_CUDA_UNUSED_CLEAR64",
        74  ABS24_40             "R_CUDA_ABS24_40",
        75  ABS55_16_34          "R_CUDA_ABS55_16_34",
        76  DATA_8_0             "R_CUDA_8_0",
        77  DATA_8_8             "R_CUDA_8_8",
        78  DATA_8_16            "R_CUDA_8_16",
        79  DATA_8_24            "R_CUDA_8_24",
        80  DATA_8_32            "R_CUDA_8_32",
        81  DATA_8_40            "R_CUDA_8_40",
        82  DATA_8_48            "R_CUDA_8_48",
        83  DATA_8_56            "R_CUDA_8_56",
        84  G8_0                 "R_CUDA_G8_0",
        85  G8_8                 "R_CUDA_G8_8",
        86  G8_16                "R_CUDA_G8_16",
        87  G8_24                "R_CUDA_G8_24",
        88  G8_32                "R_CUDA_G8_32",
        89  G8_40                "R_CUDA_G8_40",
        90  G8_48                "R_CUDA_G8_48",
        91  G8_56                "R_CUDA_G8_56",
        92  FUNC_DESC_8_0        "R_CUDA_FUNC_DESC_8_0",
        93  FUNC_DESC_8_8        "R_CUDA_FUNC_DESC_8_8",
        94  FUNC_DESC_8_16       "R_CUDA_FUNC_DESC_8_16",
        95  FUNC_DESC_8_24       "R_CUDA_FUNC_DESC_8_24",
        96  FUNC_DESC_8_32       "R_CUDA_FUNC_DESC_8_32",
        97  FUNC_DESC_8_40       "R_CUDA_FUNC_DESC_8_40",
        98  FUNC_DESC_8_48       "R_CUDA_FUNC_DESC_8_48",
        99  FUNC_DESC_8_56       "R_CUDA_FUNC_DESC_8_56",
        100 ABS20_44             "R_CUDA_ABS20_44",
        101 SAMP_HEADER_INDEX_0  "R_CUDA_SAMP_HEADER_INDEX_0",
        102 UNIFIED              "R_CUDA_UNIFIED",
        103 UNIFIED_32           "R_CUDA_UNIFIED_32",
        104 UNIFIED_8_0          "R_CUDA_UNIFIED_8_0",
        105 UNIFIED_8_8          "R_CUDA_UNIFIED_8_8",
        106 UNIFIED_8_16         "R_CUDA_UNIFIED_8_16",
        107 UNIFIED_8_24         "R_CUDA_UNIFIED_8_24",
        108 UNIFIED_8_32         "R_CUDA_UNIFIED_8_32",
        109 UNIFIED_8_40         "R_CUDA_UNIFIED_8_40",
        110 UNIFIED_8_48         "R_CUDA_UNIFIED_8_48",
        111 UNIFIED_8_56         "R_CUDA_UNIFIED_8_56",
        112 UNIFIED32_LO_32      "R_CUDA_UNIFIED32_LO_32",
        113 UNIFIED32_HI_32      "R_CUDA_UNIFIED32_HI_32",
        114 ABS56_16_34          "R_CUDA_ABS56_16_34",
        115 CONST_FIELD22_37     "R_CUDA_CONST_FIELD22_37",
    }
}
