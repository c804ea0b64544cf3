//! Textures and surfaces: the interpreter and the simulator on our code give the same for each instruction, image and
//! sampler, and what an H200 gave where that was recorded.
//!
//! A line of `textures.txt` is a case: a name, an image, the kind of coordinates, the sampler's and the surface's
//! properties, the instruction, and the hash of what came out (the results, or the image after stores). Cases with
//! properties that are not there (`query`) must be refused as such.

use sim::Machine;
use sim::ops::hash;
use sim::ptx::{FaultKind, Launch};
use sim::texture::{Beyond, Channel, Image, Planes, Sampler};
use std::collections::BTreeSet;

const CASES: &str = include_str!("../data/textures.txt");
const THREADS: usize = 64;
const BORDER: [f32; 4] = [0.5, 0.25, 2.0, 3.0];

struct Shape {
    name: &'static str,
    sizes: [u32; 3],
    layered: bool,
    channel: Channel,
    channels: u32,
}

#[rustfmt::skip]
const SHAPES: [Shape; 14] = [
    Shape { name: "1d",    sizes: [13, 1, 1], layered: false, channel: Channel::F32, channels: 1 },
    Shape { name: "1du",   sizes: [13, 1, 1], layered: false, channel: Channel::U32, channels: 4 },
    Shape { name: "2d",    sizes: [8, 6, 1],  layered: false, channel: Channel::F32, channels: 4 },
    Shape { name: "2du",   sizes: [8, 6, 1],  layered: false, channel: Channel::U32, channels: 1 },
    Shape { name: "2ds16", sizes: [8, 6, 1],  layered: false, channel: Channel::S16, channels: 2 },
    Shape { name: "2du8",  sizes: [8, 6, 1],  layered: false, channel: Channel::U8,  channels: 4 },
    Shape { name: "2df16", sizes: [8, 6, 1],  layered: false, channel: Channel::F16, channels: 4 },
    Shape { name: "2ds8",  sizes: [8, 6, 1],  layered: false, channel: Channel::S8,  channels: 1 },
    Shape { name: "2du16", sizes: [8, 6, 1],  layered: false, channel: Channel::U16, channels: 1 },
    Shape { name: "3d",    sizes: [5, 4, 3],  layered: false, channel: Channel::F32, channels: 1 },
    Shape { name: "3du",   sizes: [5, 4, 3],  layered: false, channel: Channel::U32, channels: 2 },
    Shape { name: "a1d",   sizes: [13, 1, 3], layered: true,  channel: Channel::F32, channels: 2 },
    Shape { name: "a2d",   sizes: [8, 6, 3],  layered: true,  channel: Channel::F32, channels: 1 },
    Shape { name: "a2du",  sizes: [8, 6, 3],  layered: true,  channel: Channel::U32, channels: 1 },
];

struct Case {
    name: &'static str,
    shape: &'static Shape,
    coordinates: &'static str,
    properties: BTreeSet<&'static str>,
    body: &'static str,
    /// On an H200.
    recorded: Option<u64>,
}

impl Case {
    fn read(line: &'static str) -> Case {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, image, coordinates, properties, body, recorded] = fields[..] else { panic!("{line}") };
        let shape = SHAPES.iter().find(|shape| shape.name == image).expect(image);
        let properties = properties.split_whitespace().collect();
        let recorded = match recorded {
            "-" => None,
            hash => Some(u64::from_str_radix(hash, 16).expect(line)),
        };
        Case { name, shape, coordinates, properties, body, recorded }
    }

    fn has(&self, property: &str) -> bool {
        self.properties.contains(property)
    }

    fn is_there(&self) -> bool {
        !self.has("query")
    }

    fn sampler(&self) -> Sampler {
        let beyond = match () {
            () if self.has("wrap") => Beyond::Wrap,
            () if self.has("mirror") => Beyond::Mirror,
            () if self.has("border") => Beyond::Border,
            () => Beyond::Clamp,
        };
        Sampler {
            beyond,
            normalised: self.has("normalised"),
            linear: self.has("linear"),
            linear_levels: false,
            border: BORDER,
            as_integers: self.has("integers"),
        }
    }

    fn source(&self) -> String {
        format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n\
             .visible .entry k(.param .u64 pin, .param .u64 pout, .param .u64 ph) {{\n\
             .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .f32 %f<20>;\n\
             ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout]; ld.param.u64 %d3, [ph]; mov.u32 %r4, %tid.x;\n\
             mul.wide.u32 %d4, %r4, 16; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4;\n\
             ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%d5];\n\
             mov.b32 %f5, %r5; mov.b32 %f6, %r6; mov.b32 %f7, %r7;\n\
             mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;\n\
             mov.b64 %d10, 0; mov.b16 %h1, 0;\n{}\n\
             st.global.v4.u32 [%d6], {{%r10, %r11, %r12, %r13}};\nret; }}\n",
            self.body
        )
    }

    /// Four words for each thread: coordinates inside of the image and around it, and a layer.
    fn inputs(&self) -> Vec<u32> {
        let [w, h, d] = self.shape.sizes;
        let texel = self.shape.channel.bytes() * self.shape.channels;
        let around = |i: u32, step: u32, size: u32| (i * step % (size + 4)).wrapping_sub(2);
        let place = |i: u32, step: u32, limit: u32, parts: f32, before: f32| {
            ((i * step % limit) as f32 / parts - before).to_bits()
        };
        let words = |i: u32| match self.coordinates {
            "s32" => [
                around(i, 5, w),
                around(i, 3, h),
                around(i, 7, d),
                (i % 5).wrapping_sub(u32::from(!self.has("surface"))),
            ],
            "bytes" => {
                let layer = if self.shape.layered { i % d } else { i % 5 };
                [around(i, 5, w).wrapping_mul(texel), around(i, 3, h), around(i, 7, d), layer]
            }
            "f32" if self.has("normalised") => [
                place(i, 37, 211, 64.0, 1.0),
                place(i, 53, 199, 64.0, 1.0),
                place(i, 29, 191, 64.0, 1.0),
                i % d,
            ],
            "f32" => [
                place(i, 37, 16 * w + 64, 16.0, 2.0),
                place(i, 53, 16 * h + 64, 16.0, 2.0),
                place(i, 29, 16 * d + 64, 16.0, 2.0),
                i % d,
            ],
            // A texel for each thread.
            _ => {
                let step = if self.has("format") { 1 } else { texel };
                [i % w * step, i / w % h, i / (w * h) % d, i / (w * h) % d]
            }
        };
        (0..self.threads() as u32).flat_map(words).collect()
    }

    fn threads(&self) -> usize {
        let texels: u32 = self.shape.sizes.iter().product();
        if self.coordinates == "own" { THREADS.min(texels as usize) } else { THREADS }
    }
}

/// The texels of an image.
fn texels(shape: &Shape) -> Vec<u8> {
    use ori::arith::{Flow, convert::float_to_float, float};
    let values = shape.sizes.iter().product::<u32>() * shape.channels;
    let number = |i: u32| f64::from(i % 97) * 0.37 - 5.0 + f64::from(i) * 0.0625;
    match shape.channel {
        Channel::F32 => (0..values).flat_map(|i| (number(i) as f32).to_le_bytes()).collect(),
        Channel::F16 => {
            let half = |i| float_to_float(float::F64, float::F16, Flow::NEAREST, number(i).to_bits()) as u16;
            (0..values).flat_map(|i| half(i).to_le_bytes()).collect()
        }
        other => (0..values * other.bytes()).map(|i| ((i * 167 + 13) ^ (i >> 3)) as u8).collect(),
    }
}

/// What comes out: the results, or the image.
fn outcome(machine: &mut dyn Machine, case: &Case) -> Result<u64, FaultKind> {
    let Shape { sizes, layered, channel, channels, .. } = *case.shape;
    let data = texels(case.shape);
    let length = data.len();
    let address = machine.allocate(data);
    let sampler = case.sampler();
    let planes = if layered { Planes::Layers } else { Planes::Depth };
    let image = Image { address, sizes, planes, levels: 1, channel, channels, sampler };
    let handle = machine.add_image(image);
    let inputs = machine.allocate(case.inputs().into_iter().flat_map(u32::to_le_bytes).collect());
    let results = machine.allocate(vec![0; 16 * case.threads()]);
    let parameters: Vec<u8> = [inputs, results, handle].into_iter().flat_map(u64::to_le_bytes).collect();
    let launch = Launch::new("k", [1; 3], [case.threads() as u32, 1, 1], &parameters);
    machine.run(&launch).map_err(|fault| {
        let interpreted = fault.downcast_ref::<sim::ptx::Fault>().map(|fault| fault.kind.clone());
        let simulated = fault.downcast_ref::<sim::sass::Fault>().map(|fault| fault.kind.clone());
        interpreted.or(simulated).expect("a fault")
    })?;
    let (from, length) = if case.has("store") { (address, length) } else { (results, 16 * case.threads()) };
    Ok(hash(machine.read(from, length).expect("memory").iter()))
}

#[test]
fn all_give_the_same() {
    let cases: Vec<Case> = CASES.lines().filter(|line| !line.starts_with('#')).map(Case::read).collect();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in &cases {
        let source = case.source();
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.unwrap_or_else(|| panic!("{}: {:?}", case.name, parsed.diagnostics));
        let interpreted = sim::ptx::Program::new(&module, &source);
        let expected = outcome(&mut sim::ptx::Machine::new(&interpreted), case);
        let mut check = |who: &str, got: &Result<u64, FaultKind>| match (&expected, got) {
            (Ok(expected), Ok(got)) if case.is_there() && expected == got => compared += 1,
            (Err(_), Err(_)) if !case.is_there() => {}
            _ => wrong.push(format!("{}, {who}: {got:x?}, not {expected:x?}", case.name)),
        };
        if let Some(recorded) = case.recorded.filter(|_| case.is_there()) {
            check("H200", &Ok(recorded));
        }
        for level in [0, 3] {
            let options = sassafras::Options::new(module.target).with(|o| {
                o.level = level;
            });
            let cubin = sassafras::compile_module(&module, &options).cubin.expect(case.name);
            let program = sim::sass::Program::new(&cubin).expect(case.name);
            check(&format!("-O{level}"), &outcome(&mut sim::sass::Machine::new(&program), case));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= 300, "{compared} results");
}
