//! The stub in a process of its own; see [`tenbin_stub::StubProcess`].

use std::process::ExitCode;

fn main() -> ExitCode {
    match tenbin_stub::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenbin-stub: {error}");
            ExitCode::FAILURE
        }
    }
}
