//! Loading as callers see it.

use crate::{Event, Lab, Result, System};
use tenbin_workload::load::{LoadError, Loaded, Progress};

/// Free bytes where a server on this machine keeps its data.
#[must_use]
pub fn available_bytes(sut: &System) -> Option<u64> {
    let data = sut.server.data_directory.as_deref();
    data.filter(|_| sut.server.postmaster_pid.is_some())
        .and_then(|path| tenbin_server::space::available_bytes(path).ok())
}

/// Does `load`, and tells how it goes.
pub(crate) fn shown<M>(
    lab: &Lab,
    what: &str,
    load: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<Loaded<M>, LoadError>,
) -> Result<M> {
    let loaded = load(&mut |progress| lab.tell(Event::Loading { what, progress }));
    lab.tell(Event::Done);
    let loaded = loaded?;
    lab.tell(Event::Loaded {
        what,
        progress: &loaded.progress,
    });
    Ok(loaded.meta)
}

/// Connections for loading and checking: one a core.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(2, |cores| u32::try_from(cores.get()).unwrap_or(2))
}
