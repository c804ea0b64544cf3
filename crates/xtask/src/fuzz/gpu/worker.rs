//! The side of `fuzz gpu` that touches the GPU.
//!
//! It reads `NUMBER WAY END` from its input, runs the programs from NUMBER to END, the first of them from a way on, and
//! writes a line for each thing that its supervisor should know:
//!
//! | line | means |
//! |---|---|
//! | `begin NUMBER WAY` | now this runs |
//! | `wrong NUMBER WAY what` | memory differs, or there was nothing to run |
//! | `lost NUMBER WAY what` | the same, and this process can't use the GPU any more |
//! | `reducing` | still at it |
//! | `done` | the chunk is |

use super::super::Campaign;
use super::super::ptxas::Ptxas;
use super::super::subject::{Failure, Simulated, Subject, WAYS, difference, parse};
use crate::{Error, Result, shell};
use gpu::{Buffer, Device, Launch, Module};
use sim::generate::{self, Program};
use std::io::BufRead;

/// Differences that a worker reduces; of the others the seeds are enough.
const REDUCED: u32 = 2;

/// Most bytes of memory that a program has.
const MEMORY: usize = 1 << 20;

/// What is wrong with a run.
struct Trouble {
    what: String,
    /// It ran, and left other memory.
    differs: bool,
    /// This process can't use the GPU any more.
    lost: bool,
}

impl Trouble {
    fn new(what: impl Into<String>) -> Trouble {
        Trouble { what: what.into(), differs: false, lost: false }
    }
}

impl From<gpu::Error> for Trouble {
    fn from(error: gpu::Error) -> Trouble {
        Trouble { lost: error.is_sticky(), ..Trouble::new(error.to_string()) }
    }
}

/// Memory after a cubin has run.
type Execute<'e> = dyn Fn(&Subject, &[u8]) -> std::result::Result<Vec<u8>, Trouble> + 'e;

pub fn work(campaign: &Campaign, simulator: bool) -> Result<()> {
    if simulator {
        return Worker::new(campaign, &on_simulator)?.chunks();
    }
    let device = Device::open(0)?;
    let memory = Buffer::new(&device, MEMORY)?;
    Worker::new(campaign, &|subject, cubin| on_gpu(&device, &memory, subject, cubin))?.chunks()
}

fn on_gpu(
    device: &Device,
    memory: &Buffer,
    subject: &Subject,
    cubin: &[u8],
) -> std::result::Result<Vec<u8>, Trouble> {
    let module = Module::load(device, cubin)?;
    let kernel = module.kernel(&subject.program.name())?;
    memory.write(subject.image())?;
    let (grid, block) = ([subject.program.grid, 1, 1], [subject.program.block, 1, 1]);
    kernel.launch(
        Launch { grid, block, shared: 0, in_clusters: false },
        &generate::parameters(memory.address()),
    )?;
    device.synchronize()?;
    let mut bytes = vec![0; subject.program.memory_bytes()];
    memory.read(&mut bytes)?;
    Ok(bytes)
}

/// In place of a GPU, to try everything else.
fn on_simulator(subject: &Subject, cubin: &[u8]) -> std::result::Result<Vec<u8>, Trouble> {
    match subject.simulate(cubin, "simulator", false) {
        Ok(Simulated::Memory(bytes)) => Ok(bytes),
        Ok(Simulated::Hasty(what) | Simulated::Unknown(what)) => Err(Trouble::new(what)),
        Err(failure) => Err(Trouble::new(failure.what)),
    }
}

struct Worker<'w> {
    campaign: &'w Campaign,
    ptxas: Option<Ptxas>,
    execute: &'w Execute<'w>,
    reduced: u32,
}

impl<'w> Worker<'w> {
    fn new(campaign: &'w Campaign, execute: &'w Execute<'w>) -> Result<Worker<'w>> {
        let ptxas = if campaign.reference { Some(Ptxas::find()?) } else { None };
        std::panic::set_hook(Box::new(|_| {}));
        Ok(Worker { campaign, ptxas, execute, reduced: 0 })
    }

    fn chunks(&mut self) -> Result<()> {
        for line in std::io::stdin().lock().lines() {
            let numbers = line?.split(' ').map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
            let [first, way, end] = numbers[..] else { return Err("not a chunk".into()) };
            if !self.chunk(first, way as usize, end) {
                return Ok(());
            }
            println!("done");
        }
        Ok(())
    }

    /// False if the GPU is lost.
    fn chunk(&mut self, first: u64, first_way: usize, end: u64) -> bool {
        let programs: Vec<Program> = (first..end).map(|number| self.campaign.program(number)).collect();
        let reference = self.ptxas.as_ref().map(|ptxas| ptxas.compile(&generate::module(&programs)));
        (first..end).zip(&programs).all(|(number, program)| {
            let from = if number == first { first_way } else { 0 };
            self.program(number, program, from, reference.as_ref())
        })
    }

    fn program(
        &mut self,
        number: u64,
        program: &Program,
        from: usize,
        reference: Option<&Result<Vec<u8>>>,
    ) -> bool {
        let wanted = |way: &usize| WAYS.get(*way).is_none_or(|way| self.campaign.has(way));
        for way in (from..WAYS.len() + usize::from(reference.is_some())).filter(wanted) {
            println!("begin {number} {way}");
            let Err(trouble) = self.run(program, way, reference) else { continue };
            let (word, what) = (if trouble.lost { "lost" } else { "wrong" }, trouble.what.replace('\n', " "));
            println!("{word} {number} {way} {what}");
            if trouble.lost {
                return false;
            }
            if trouble.differs && way < WAYS.len() && self.reduced < REDUCED {
                self.reduced += 1;
                match self.reduce(program, way) {
                    Ok(text) => println!("  {text}"),
                    Err(error) => println!("  not reduced: {error}"),
                }
            }
        }
        true
    }

    /// Does a program leave the memory that it should?
    fn run(
        &self,
        program: &Program,
        way: usize,
        reference: Option<&Result<Vec<u8>>>,
    ) -> std::result::Result<(), Trouble> {
        let other = |failure: Failure| Trouble::new(failure.what);
        let source = generate::module(std::slice::from_ref(program));
        let module = parse(&source).map_err(other)?;
        let subject = Subject { program, source: &source, module: &module, weak: None };
        let expected = subject.interpret_plain().map_err(other)?;
        let got = match (WAYS.get(way), reference) {
            (Some(way), _) => {
                let cubin = subject.compile(way).map_err(other)?;
                (self.execute)(&subject, &cubin)?
            }
            (None, Some(Ok(cubin))) => (self.execute)(&subject, cubin)?,
            (None, Some(Err(error))) => return Err(Trouble::new(error.to_string())),
            (None, None) => return Ok(()),
        };
        difference(&expected, &got)
            .map_or(Ok(()), |what| Err(Trouble { differs: true, ..Trouble::new(what) }))
    }

    /// Keeps the smallest program that differs; says where it is. A GPU that is lost ends the search.
    fn reduce(&self, program: &Program, way: usize) -> Result<String> {
        let mut lost: Option<Error> = None;
        let small = program.reduce(|candidate| {
            println!("reducing");
            match (self.run(candidate, way, None), &lost) {
                (Err(trouble), None) if trouble.lost => {
                    lost = Some(trouble.what.into());
                    false
                }
                (Err(trouble), None) => trouble.differs,
                _ => false,
            }
        });
        if let Some(error) = lost {
            return Err(error);
        }
        shell::create_dir(&self.campaign.keep)?;
        let path = self.campaign.keep.join(format!("{}-{}.ptx", small.name(), super::way_name(way)));
        shell::write(&path, generate::module(std::slice::from_ref(&small)))?;
        Ok(format!("{} statements of {} left in {}", small.size(), program.size(), path.display()))
    }
}
