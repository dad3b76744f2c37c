//! Ctrl-C, SIGTERM and SIGHUP: the first asks for a clean end, the second gives up on results but not on cleaning up.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first SIGINT, SIGTERM or SIGHUP; whoever does long work watches it.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail with an error that is told, instead of ending the process.
pub(crate) fn survive_file_limit() -> std::io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}
