//! Ctrl-C and SIGTERM: the first asks for a clean end, the second gives up on results but not on cleaning up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first SIGINT or SIGTERM; whoever does long work watches it.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// An end by a signal, before there was a result.
pub(crate) fn interrupted(what: &str) -> crate::exit::Failure {
    crate::exit::Failure::new(
        crate::exit::Class::Interrupted,
        anyhow::Error::msg(format!("interrupted {what}")),
    )
}
