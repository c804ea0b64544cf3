//! What is in cubins, fat binaries and host programs, with cuobjdump as the judge.

use cubin::fatbin::{self, Container, ImageKind};
use cubin::module::{Function, Kernel, Module};
use cubin::{Binding, Body, Object, Section, SectionType, Target, inspect};

use crate::support::{Scratch, ptx, run};

/// Makes a fat binary of a cubin and a PTX file with the given options of `fatbinary`.
fn fat_binary(scratch: &Scratch, options: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let cubin = scratch.path("code.cubin");
    run("ptxas", &["-arch", "sm_90", &ptx("variables"), "-o", &cubin]).unwrap();
    let fat = scratch.path("fat.fatbin");
    let create = format!("--create={fat}");
    let image = format!("--image3=kind=elf,sm=90,file={cubin}");
    let text = format!("--image3=kind=ptx,sm=75,file={}", ptx("variables"));
    run("fatbinary", &[&[create.as_str(), "--64", &image, &text], options].concat()).unwrap();
    (std::fs::read(&fat).unwrap(), std::fs::read(&cubin).unwrap())
}

#[test]
fn images_come_out_of_every_compression() {
    let scratch = Scratch::new("fatbin");
    let cases: [(&[&str], [&str; 2]); 6] = [
        (&["--compress=false"], ["none", "none"]),
        (&[], ["none", "zstd"]),
        (&["--compress-all"], ["zstd", "zstd"]),
        (&["--compress-all", "--compress-mode=size"], ["zstd", "zstd"]),
        (&["--compress-all", "--compress-mode=speed"], ["lz4", "lz4"]),
        (&["-g", "--ident=some.cu", "--cmdline=-O1 --flag"], ["zstd", "zstd"]),
    ];
    for (options, compression) in cases {
        let (fat, cubin) = fat_binary(&scratch, options);
        assert_eq!(fatbin::container(&fat).unwrap(), Container::FatBinary);
        let images = fatbin::images(&fat).unwrap();
        assert_eq!(
            images.iter().map(|image| image.compression()).collect::<Vec<_>>(),
            compression,
            "{options:?}"
        );
        assert_eq!((images[0].kind, images[0].sm), (ImageKind::Cubin, 90));
        assert!(images[0].bytes == cubin, "{options:?}");
        assert_eq!((images[1].kind, images[1].sm, images[1].version), (ImageKind::Ptx, 75, (8, 0)));
        // fatbinary strips comments, so the judge is cuobjdump.
        let listing = run("cuobjdump", &["-ptx", &scratch.path("fat.fatbin")]).unwrap();
        let text = String::from_utf8(images[1].bytes.clone()).unwrap();
        assert!(text.len() > 1000 && listing.contains(text.trim()), "{options:?}");
        let named = options.contains(&"--ident=some.cu");
        assert_eq!(images[1].identifier, if named { "some.cu" } else { "" });
        assert_eq!(images[1].options, if named { "-O1 --flag" } else { "" });
    }
}

/// A host program is an ELF file for another machine with the fat binary in a section.
fn host_program(fat: &[u8]) -> Vec<u8> {
    let mut object = Module::new(Target { sm: 90, accelerated: false }, 90).to_object().unwrap();
    let padded = [fat, &[0; 24], fat].concat();
    object.sections.push(Section::new(".nv_fatbin", SectionType::PROGBITS, 8, Body::Bytes(padded)));
    let mut bytes = object.write().unwrap();
    bytes[18..20].copy_from_slice(&62u16.to_le_bytes());
    bytes
}

#[test]
fn host_programs_hold_fat_binaries() {
    let scratch = Scratch::new("host");
    let (fat, cubin) = fat_binary(&scratch, &[]);
    let inspection = inspect(&host_program(&fat)).unwrap();
    assert_eq!((inspection.container, inspection.images.len()), (Container::Host, 4));
    let images = fatbin::images(&host_program(&fat)).unwrap();
    assert!(images[2].bytes == cubin && images[2].file_name(3) == "3.sm_90.cubin");
    assert!(inspection.to_string().starts_with("host program, 4 images\nimage 1: cubin for sm_90, "));
    let without = host_program(&[]);
    assert_eq!(inspect(&without).unwrap().images, []);
}

#[test]
fn kernels_are_described_as_cuobjdump_does() {
    let scratch = Scratch::new("inspect");
    for sm in ["75", "90", "120"] {
        let path = scratch.path("code.cubin");
        run("ptxas", &["-arch", &format!("sm_{sm}"), &ptx("variables"), "-o", &path]).unwrap();
        let inspection = inspect(&std::fs::read(&path).unwrap()).unwrap();
        let cubin = inspection.images[0].cubin.as_ref().unwrap();
        let kernel = &cubin.kernels[0];
        let usage = run("cuobjdump", &["-res-usage", &path]).unwrap();
        // On sm_90 and later cuobjdump counts the 1 KiB that the system reserves.
        let reserved = if sm == "75" { 0 } else { 1024 };
        let registers = kernel.registers.unwrap();
        let expected = format!(
            "REG:{registers} STACK:{} SHARED:{} ",
            kernel.local_bytes.unwrap(),
            kernel.shared_bytes + reserved
        );
        assert!(usage.contains(&expected), "{expected} in {usage}");
        assert_eq!((kernel.name.as_str(), kernel.barriers), ("mix", 4));
        let params: Vec<_> = kernel.params.iter().map(|param| (param.offset, param.size)).collect();
        assert_eq!(params, [(0, 8), (8, 24), (32, 8)]);
        assert_eq!(cubin.virtual_sm, Some(75));
        assert!(cubin.symbols.iter().any(|symbol| symbol.name == "weak_word" && symbol.binding == "WEAK"));
        assert!(cubin.relocs.iter().any(|reloc| reloc.kind == "R_CUDA_G64" && reloc.addend == 8));
    }
}

#[test]
fn reports_are_stable() {
    let kernel = Function {
        registers: 8,
        exits: vec![0],
        kernel: Some(Kernel::default()),
        ..Function::new("quote\"d", Binding::GLOBAL, vec![0; 128])
    };
    let module = Module { functions: vec![kernel], ..Module::new(Target { sm: 89, accelerated: false }, 80) };
    let bytes = module.to_object().unwrap().write().unwrap();
    let inspection = inspect(&bytes).unwrap();
    let text = "EXEC for sm_89 from PTX for sm_80, by   with \n\nkernel quote\"d\n  code       128 bytes\n  registers  8\n  shared     0 bytes\n  local      0 bytes\n  barriers   0\n  CUDA_API_VERSION 0x82\n  MAXREG_COUNT 0xff\n  MERCURY_ISA_VERSION 0x0\n  EXIT_INSTR_OFFSETS 0x0\n\nsymbols\n       0x0     0x80 FUNC         GLOBAL .text.quote\"d quote\"d\n\nrelocations\n  .debug_frame+0x44 R_CUDA_64 quote\"d+0x0\n";
    assert_eq!(inspection.to_string(), text);
    let json = inspection.to_json();
    assert!(json.contains("\"name\": \"quote\\\"d\",\n"), "{json}");
    assert!(json.contains("\"storage\": null"), "{json}");
    assert_eq!(json.matches(['{', '[']).count(), json.matches(['}', ']']).count());
}

#[test]
fn other_files_are_refused() {
    let message = |bytes: &[u8]| inspect(bytes).unwrap_err().to_string();
    let nothing = "at offset 0x0: this is no cubin, no fat binary and no 64-bit ELF file";
    assert_eq!(message(b""), nothing);
    assert_eq!(message(b"#!/bin/sh"), nothing);
    let header = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 64, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(message(&header), "at offset 0x10: 64 bytes are needed, 0 are left");
    let mut image = [&header[..], &[2, 0, 1, 1], &[0; 60]].concat();
    assert_eq!(message(&image), "at offset 0x14: an image header of 0 bytes is too small");
    image[20] = 64;
    image[16 + 41] = 0x80;
    image[16 + 57] = 0x80;
    assert_eq!(message(&image), "at offset 0x50: 0 bytes do not expand to 32768");
    let bytes = Module::new(Target { sm: 90, accelerated: true }, 90).to_object().unwrap().write().unwrap();
    assert_eq!(inspect(&bytes).unwrap().images[0].cubin.as_ref().unwrap().accelerated, Some(true));
    assert!(Object::read(&bytes).is_ok());
}
