//! Executes runs on the GPU and prints one line for each.

use std::path::Path;
use std::process::ExitCode;

use gpu::{Device, Failure, Module, execute, shortest_time};

use crate::{GPU_LOST, Job, Options};

/// Launches of which the shortest time is shown.
const TIMED_LAUNCHES: usize = 10;

/// Executes `jobs` until the end, or until the GPU is lost.
pub fn work(options: &Options, jobs: &[Job]) -> Result<ExitCode, String> {
    let device = Device::open(options.device).map_err(|error| error.to_string())?;
    if options.worker == Some(0) {
        eprintln!("{}", describe(&device).map_err(|error| error.to_string())?);
    }
    // Runs of one file are adjacent, so that one module is enough.
    for jobs in jobs.chunk_by(|a, b| std::ptr::eq(a.pair, b.pair)) {
        let Some(Job { pair, .. }) = jobs.first() else { continue };
        let module = load(&device, &pair.cubin);
        for job in jobs {
            let outcome = module.as_ref().map_err(Trouble::clone);
            match outcome.and_then(|module| run(&device, module, job, options.time)) {
                Ok(note) => println!("pass {job}{note}"),
                Err(trouble) => {
                    println!("FAIL {job}: {}", trouble.message);
                    if trouble.gpu_lost {
                        return Ok(ExitCode::from(GPU_LOST));
                    }
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(device: &Device) -> Result<String, gpu::Error> {
    Ok(format!("gpu-run: on {} (sm_{})", device.name()?, device.sm()?))
}

#[derive(Clone)]
struct Trouble {
    message: String,
    gpu_lost: bool,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        let gpu_lost = matches!(&failure, Failure::Driver(error) if error.is_sticky());
        Trouble { message: failure.to_string(), gpu_lost }
    }
}

fn load<'d>(device: &'d Device, cubin: &Path) -> Result<Module<'d>, Trouble> {
    let unreadable = |error| Trouble { message: format!("{}: {error}", cubin.display()), gpu_lost: false };
    let image = std::fs::read(cubin).map_err(unreadable)?;
    Module::load(device, &image).map_err(|error| Failure::from(error).into())
}

/// What to say beside "pass".
fn run(device: &Device, module: &Module, job: &Job, time: bool) -> Result<String, Trouble> {
    execute(device, module, &job.run)?;
    if !time {
        return Ok(String::new());
    }
    let shortest = shortest_time(device, module, &job.run, TIMED_LAUNCHES).map_err(Failure::from)?;
    Ok(format!(" {:.1} us", shortest * 1000.0))
}
