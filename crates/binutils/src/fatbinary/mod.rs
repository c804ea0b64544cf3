//! `fatbinary`: cubins and PTX in one file, for the driver or for a host compiler.

mod ptx;

use crate::Answer;
use crate::options::{Row, Words, flag, value};
use cubin::Flags;
use cubin::fatbin::{self, Image, ImageKind, flags};
use cubin::raw::File;
use std::fmt::Write;

/// How it is called.
pub const USAGE: &str = "\
usage: sassafras fatbinary OPTIONS

Puts cubins and PTX into one file, as fatbinary of CUDA 13.0 does. nvcc and clang call it.

  --image3=kind=KIND,sm=SM,file=FILE  an image: KIND is elf or ptx, SM a number with an optional a or f
  --create=FILE                       write the fat binary
  --embedded-fatbin=FILE              write C source that holds it
  -c, --device-c                      it is still to be linked
  -link                               it was linked
  -g, --debug                         it was compiled for debuggers
  --ident=NAME                        the source file
  --cmdline=OPTIONS                   ptxas's options
  --compress=BOOL, --compress-all, --compress-mode=MODE
                                      what is compressed; the modes are all Zstandard here, but for none
  -64                                 accepted; -V, --version; -h, --help
";

static OPTIONS: &[Row] = &[
    flag("32", "32"),
    flag("64", "64"),
    value("cicc-cmdline", "cicc-cmdline"),
    value("cmdline", "cmdline"),
    value("compress", "compress"),
    flag("compress-all", "compress-all"),
    value("compress-mode", "compress-mode"),
    value("create", "create"),
    flag("debug", "g"),
    flag("device-c", "c"),
    value("embedded-fatbin", "fatbin"),
    flag("help", "h"),
    value("ident", "ident"),
    value("image2", "image2"),
    value("image3", "image3"),
    flag("link", "link"),
    flag("no-asm", "no-asm"),
    value("options-file", "optf"),
    flag("version", "V"),
];

const VERSION: &str = "\
fatbinary: NVIDIA (R) fatbinary compatible: Sassafras
Cuda compilation tools, release 13.0, V13.0.88
";

/// The command.
pub fn run(words: &[String]) -> Result<Answer, String> {
    let fail = |error: String| format!("fatbinary fatal   : {error}");
    let words = Words::parse(OPTIONS, words).map_err(fail)?;
    if words.has("help") {
        return Ok(Answer { text: USAGE.into(), code: 0 });
    }
    if words.has("version") {
        return Ok(Answer { text: VERSION.into(), code: 0 });
    }
    for mode in ["32", "image2", "no-asm"] {
        if words.has(mode) {
            return Err(fail(format!("--{mode} is not supported")));
        }
    }
    if let Some(word) = words.files.first() {
        return Err(fail(format!("'{word}' is no option")));
    }
    let images: Vec<Image> =
        words.each("image3").map(|spec| image(spec, &words)).collect::<Result<_, _>>().map_err(fail)?;
    let bytes = fatbin::write(&images).map_err(fail)?;
    let put = |path: &str, bytes: &[u8]| {
        std::fs::write(path, bytes).map_err(|error| fail(format!("{path}: {error}")))
    };
    if let Some(path) = words.get("create") {
        put(path, &bytes)?;
    }
    if let Some(path) = words.get("embedded-fatbin") {
        put(path, source(&bytes, words.has("device-c"), words.has("link")).as_bytes())?;
    }
    Ok(Answer::default())
}

/// `kind=elf,sm=90a,file=PATH`
fn image(spec: &str, words: &Words) -> Result<Image, String> {
    let (mut kind, mut sm, mut file) = (None, None, None);
    let mut rest = spec;
    while !rest.is_empty() {
        // A path may have commas; it comes last.
        let (part, behind) = match rest.split_once(',').filter(|_| !rest.starts_with("file=")) {
            Some((part, behind)) => (part, behind),
            None => (rest, ""),
        };
        rest = behind;
        match part.split_once('=') {
            Some(("kind", word)) => kind = Some(word),
            Some(("sm", word)) => sm = Some(word),
            Some(("file", word)) => file = Some(word),
            _ => return Err(format!("'{part}' of image3 is not known")),
        }
    }
    let sm = sm.ok_or("Missing sm in image3")?;
    let path = file.ok_or("Missing file in image3")?;
    let number = sm.trim_end_matches(['a', 'f']).parse().map_err(|_| format!("'{sm}' is no target"))?;
    let bytes =
        std::fs::read(path).map_err(|error| format!("Could not open input file '{path}': {error}"))?;
    let mut image = match kind {
        Some("elf") => elf(bytes).map_err(|error| format!("{path}: {error}"))?,
        Some("ptx") => ptx_image(&bytes, words).map_err(|error| format!("{path}: {error}"))?,
        kind => return Err(format!("images of kind '{}' are not supported", kind.unwrap_or(""))),
    };
    image.sm = number;
    image.identifier = words.get("ident").unwrap_or("").to_string();
    image.flags |= flags::ADDRESS_64;
    image.flags |= FORMAT;
    for (given, flag) in [
        (sm.ends_with('a'), flags::SPECIFIC),
        (sm.ends_with('f'), flags::FAMILY),
        (words.has("debug"), flags::DEBUG),
        (compresses(words, image.kind)?, flags::ZSTD),
    ] {
        image.flags |= if given { flag } else { 0 };
    }
    Ok(image)
}

/// Set in the flags of every image.
const FORMAT: u64 = 0x10;

fn compresses(words: &Words, kind: ImageKind) -> Result<bool, String> {
    let is_off = match words.get("compress") {
        None | Some("true" | "1") => false,
        Some("false" | "0") => true,
        Some(word) => return Err(format!("'{word}' is neither true nor false")),
    };
    let never = match words.get("compress-mode") {
        None | Some("default" | "size" | "speed" | "balance") => false,
        Some("none") => true,
        Some(word) => return Err(format!("compression mode '{word}' is not known")),
    };
    let by_default =
        kind == ImageKind::Ptx || words.has("debug") || words.has("device-c") || words.has("compress-all");
    Ok(by_default && !is_off && !never)
}

fn elf(bytes: Vec<u8>) -> Result<Image, String> {
    let file = File::read(&bytes).map_err(|error| error.to_string())?;
    let has_capsule = file.header.flags.kind() & Flags::CAPSULE != 0 && file.section(".nv.compat").is_some();
    let version = (1, file.header.abi.version.into());
    let mut image = Image::of_cubin(bytes);
    image.version = version;
    image.flags = if has_capsule { flags::COMPAT } else { 0 };
    Ok(image)
}

fn ptx_image(bytes: &[u8], words: &Words) -> Result<Image, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "PTX is text".to_string())?;
    let mut image = Image::of_cubin(Vec::new());
    image.kind = ImageKind::Ptx;
    image.version = ptx::version(text).ok_or("there is no .version")?;
    image.options = words.get("cmdline").unwrap_or("").to_string();
    image.flags = 0;
    image.bytes = ptx::stripped(text.trim_end_matches('\0')).into_bytes();
    Ok(image)
}

/// C source with the bytes in a section of the host's object file.
fn source(bytes: &[u8], device_c: bool, link: bool) -> String {
    let section = if device_c { "__nv_relfatbin" } else { ".nv_fatbin" };
    let (words, _) = bytes.as_chunks::<8>();
    let mut out = format!(
        "#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS\n#include \"fatbinary_section.h\"\n#endif\n\
         #define __CUDAFATBINSECTION  \".nvFatBinSegment\"\n#define __CUDAFATBINDATASECTION  \"{section}\"\n\
         asm(\n\".section {section}, \\\"a\\\"\\n\"\n\".align 8\\n\"\n\"fatbinData:\\n\"\n"
    );
    for line in words.chunks(4) {
        let line: Vec<String> =
            line.iter().map(|word| format!("{:#018x}", u64::from_le_bytes(*word))).collect();
        let comma = if line.len() == 4 { "," } else { ", " };
        let _ = writeln!(out, "\".quad {}\\n\"", line.join(comma));
    }
    out.push_str("\".text\\n\");\n");
    cplusplus(&mut out, &format!("extern const unsigned long long fatbinData[{}];\n", words.len()));
    let place = "__attribute__ ((aligned (8))) __attribute__ ((section (__CUDAFATBINSECTION)))= \n";
    let wrapper = match (device_c, link) {
        (true, _) => format!(
            "#undef __FATIDNAME_CORE\n#undef __FATIDNAME\n#define __FATIDNAME_CORE(x) __fatbinwrap##x\n\
             #define __FATIDNAME(x) __FATIDNAME_CORE(x)\n\
             extern const __fatBinC_Wrapper_t __FATIDNAME(__NV_MODULE_ID) {place}\t{{ 0x466243b1, 1, fatbinData, 0 }};\n"
        ),
        (false, true) => format!(
            "static const __fatBinC_Wrapper_t __fatDeviceText {place}\t{{ 0x466243b1, 2, fatbinData, (void**)__cudaPrelinkedFatbins }};\n"
        ),
        (false, false) => format!(
            "static const __fatBinC_Wrapper_t __fatDeviceText {place}\t{{ 0x466243b1, 1, fatbinData, 0 }};\n"
        ),
    };
    cplusplus(&mut out, &wrapper);
    out
}

fn cplusplus(out: &mut String, text: &str) {
    let _ =
        write!(out, "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{text}#ifdef __cplusplus\n}}\n#endif\n");
}
