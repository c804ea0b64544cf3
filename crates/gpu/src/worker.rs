//! Executes runs on the GPU and prints one line for each.

use std::process::ExitCode;

use gpu::{Device, Failure, Module, execute, shortest_time};

use crate::{GPU_LOST, Job, Options};

/// Launches of which the shortest time is shown.
const TIMED_LAUNCHES: usize = 10;

/// Executes `jobs` until the end, or until the GPU is lost.
pub fn work(options: &Options, jobs: &[Job]) -> Result<ExitCode, String> {
    let device = Device::open(options.device).map_err(|error| error.to_string())?;
    // Runs of one file stand together, so that one module is enough.
    for jobs in jobs.chunk_by(|a, b| std::ptr::eq(a.pair, b.pair)) {
        let Some(Job { pair, .. }) = jobs.first() else { continue };
        let image = std::fs::read(&pair.cubin).map_err(|error| format!("{}: {error}", pair.cubin.display()));
        let module = image.and_then(|image| Module::load(&device, &image).map_err(|error| error.to_string()));
        for job in jobs {
            let outcome = match &module {
                Ok(module) => run(&device, module, job, options.time),
                Err(message) => Err(Trouble { message: message.clone(), gpu_lost: false }),
            };
            match outcome {
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

/// What to say beside "pass".
fn run(device: &Device, module: &Module, job: &Job, time: bool) -> Result<String, Trouble> {
    execute(device, module, &job.run)?;
    if !time {
        return Ok(String::new());
    }
    let shortest = shortest_time(device, module, &job.run, TIMED_LAUNCHES).map_err(Failure::from)?;
    Ok(format!(" {:.1} us", shortest * 1000.0))
}
