//! Linear filters and levels of mipmaps: the interpreter, and the simulator on our code, give every bit that an H200 gave at
//! 1024 places.
//!
//! A line of `filters.txt` is a case; its first lines say what it consists of.

use sim::Machine;
use sim::ops::hash;
use sim::ptx::{FaultKind, Launch};
use sim::texture::{Description, Image};

const CASES: &str = include_str!("../data/filters.txt");
const THREADS: u32 = 1024;
const BORDER: [f32; 4] = [0.5, 0.25, 2.0, 3.0];

struct Case {
    name: &'static str,
    channel: &'static str,
    channels: u32,
    sizes: Vec<u32>,
    levels: u32,
    data: &'static str,
    sampler: Vec<&'static str>,
    instruction: &'static str,
    recorded: &'static str,
}

impl Case {
    fn read(line: &'static str) -> Case {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, texels, sizes, levels, data, sampler, instruction, recorded] = fields[..] else {
            panic!("{line}")
        };
        let (channel, channels) = texels.split_once('x').expect(line);
        Case {
            name,
            channel,
            channels: channels.parse().expect(line),
            sizes: sizes.split_whitespace().map(|size| size.parse().expect(line)).collect(),
            levels: levels.parse().expect(line),
            data,
            sampler: sampler.split_whitespace().collect(),
            instruction,
            recorded,
        }
    }

    fn has(&self, word: &str) -> bool {
        self.sampler.contains(&word)
    }

    fn image(&self, address: u64) -> Image {
        let beyond = ["wrap", "clamp", "mirror", "border"].into_iter().find(|word| self.has(word));
        let description = Description {
            channel: self.channel,
            channels: self.channels,
            sizes: &self.sizes,
            layered: self.has("layered"),
            cube: false,
            levels: self.levels,
            beyond: beyond.expect(self.name),
            normalised: self.has("normalised"),
            linear: self.has("linear"),
            linear_levels: self.has("linear_levels"),
            as_integers: false,
        };
        let mut image = Image::new(address, &description).expect(self.name);
        image.sampler.border = BORDER;
        image
    }

    /// The texels of all levels.
    fn texels(&self) -> Vec<u8> {
        use ori::arith::{Flow, convert::float_to_float, float};
        let mut bytes = Vec::new();
        for level in 0..self.levels {
            let smaller = |(axis, size): (usize, &u32)| {
                if self.has("layered") && axis == 2 { *size } else { (size >> level).max(1) }
            };
            let count: u32 = self.sizes.iter().enumerate().map(smaller).product::<u32>() * self.channels;
            for i in 0..count {
                let seed = u64::from(i) + 1000 * u64::from(level) + 1;
                let random = ((seed * 2_654_435_761) >> 7) as u16;
                let value = match self.data {
                    "step" => f64::from(i & 1),
                    "level" => f64::from(level),
                    _ => f64::from(random) / 997.0 - 20.0,
                };
                match self.channel {
                    "f32" => bytes.extend((value as f32).to_le_bytes()),
                    "f16" => {
                        let half = float_to_float(float::F64, float::F16, Flow::NEAREST, value.to_bits());
                        bytes.extend((half as u16).to_le_bytes());
                    }
                    "u8" | "s8" => bytes.push(random as u8),
                    _ => bytes.extend(random.to_le_bytes()),
                }
            }
        }
        bytes
    }

    /// Places in the image and around it, and a level.
    fn inputs(&self) -> Vec<u8> {
        let place = |i: u32, axis: usize| {
            let size = f64::from(self.sizes.get(axis).copied().unwrap_or(1));
            let step = [37, 101, 53][axis];
            let part = f64::from(i * step % THREADS) / f64::from(THREADS);
            let texels = part * (size + 4.0) - 2.0 + f64::from(i) / f64::from(1 << (17 + axis));
            if self.has("normalised") { texels / size } else { texels }
        };
        let level = |i: u32| f64::from(i * 29 % THREADS) / f64::from(THREADS) * 7.0 - 1.0;
        let words = |i: u32| [place(i, 0), place(i, 1), place(i, 2), level(i)].map(|word| word as f32);
        (0..THREADS).flat_map(words).flat_map(f32::to_le_bytes).collect()
    }

    fn source(&self) -> String {
        let instruction = self.instruction.replace(" R,", " {%r10, %r11, %r12, %r13},");
        format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n\
             .visible .entry k(.param .u64 pin, .param .u64 pout, .param .u64 h) {{\n\
             .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<20>;\n\
             ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout]; ld.param.u64 %d3, [h]; mov.u32 %r4, %tid.x;\n\
             mul.wide.u32 %d4, %r4, 16; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4;\n\
             ld.global.v4.f32 {{%f5, %f6, %f7, %f8}}, [%d5]; mov.f32 %f13, 0f00000000; and.b32 %r9, %r4, 1;\n\
             {instruction}\n\
             st.global.v4.u32 [%d6], {{%r10, %r11, %r12, %r13}}; ret; }}\n"
        )
    }
}

/// The hash of what the threads get; `refused` if the machine says that it is not known, and else why it stops.
fn outcome(machine: &mut dyn Machine, case: &Case) -> String {
    let address = machine.allocate(case.texels());
    let handle = machine.add_image(case.image(address));
    let inputs = machine.allocate(case.inputs());
    let length = 16 * THREADS as usize;
    let results = machine.allocate(vec![0; length]);
    let parameters: Vec<u8> = [inputs, results, handle].into_iter().flat_map(u64::to_le_bytes).collect();
    match machine.run(&Launch::new("k", [1; 3], [THREADS, 1, 1], &parameters)) {
        Err(error) => {
            let kind = error.downcast_ref().map(|fault: &sim::ptx::Fault| &fault.kind);
            let kind = kind.or_else(|| error.downcast_ref().map(|fault: &sim::sass::Fault| &fault.kind));
            match kind {
                Some(FaultKind::Undefined { .. }) => "refused".into(),
                _ => error.to_string(),
            }
        }
        Ok(_) => format!("{:016x}", hash(machine.read(results, length).expect("memory").iter())),
    }
}

#[test]
fn filters_are_an_h200s() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in CASES.lines().filter(|line| !line.starts_with('#')).map(Case::read) {
        let source = case.source();
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.unwrap_or_else(|| panic!("{}: {:?}", case.name, parsed.diagnostics));
        let interpreted = sim::ptx::Program::new(&module, &source);
        let interpreted = outcome(&mut sim::ptx::Machine::new(&interpreted), &case);
        let options = sassafras::Options::new(module.target).with(|o| {
            o.level = 3;
        });
        let cubin = sassafras::compile_module(&module, &options).cubin.expect(case.name);
        let program = sim::sass::Program::new(&cubin).expect(case.name);
        let simulated = outcome(&mut sim::sass::Machine::new(&program), &case);
        let expected = if case.recorded == "-" { &interpreted } else { case.recorded };
        if interpreted != expected || simulated != expected {
            wrong.push(format!("{}: {interpreted}, {simulated}, not {}", case.name, case.recorded));
        }
        compared += usize::from(case.recorded.len() == 16);
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= 60, "{compared} recordings");
}
