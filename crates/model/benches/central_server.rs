//! Completions per CPU second of the simulation on one thread, with intervals: the closed central-server network
//! (one processor and eight disks of 10 ms each, 200 requests, 1 s of think time; X = 92.9964/s).
//!
//! `cargo bench -p tenbin-model`

use std::fmt::Write as _;
use tenbin_model::{Network, SimulateOptions, simulate};

/// CPU time of this process in seconds: other programs on the machine do not change it.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.unwrap_or(f64::NAN) * 1e-9
}

fn main() {
    let mut text = "[[class]]\nname = 'a'\npopulation = 200\nthink_time = 1\n[[station]]\nname = 'cpu'\nservice = 0.01\n".to_owned();
    for disk in 1..=8 {
        let _ = write!(
            text,
            "[[station]]\nname = 'disk{disk}'\nscheduling = 'fcfs'\nservice = 0.01\n"
        );
    }
    let network = match Network::parse(&text, "bench") {
        Ok(network) => network,
        Err(error) => return eprintln!("{error}"),
    };
    for seed in 1..=5 {
        let options = SimulateOptions {
            seed,
            precision: 0.000_1,
            max_completions: 20_000_000,
        };
        let start = cpu_s();
        match simulate(&network, &options) {
            Ok(found) => println!(
                "seed {seed}: {:.2} million completions a CPU second; X = {:.4} ± {:.4}",
                found.completions as f64 / (cpu_s() - start) / 1e6,
                found.classes[0].throughput_per_s.mean,
                found.classes[0].throughput_per_s.half_width,
            ),
            Err(error) => eprintln!("{error}"),
        }
    }
}
