//! What everything has in common that loads programs into the kernel.

use aya::maps::MapError;
use rustix::io::Errno;
use std::error::Error;

/// Whether the kernel refused for want of a right: EPERM. (EACCES is the verifier's answer.)
pub(crate) fn is_forbidden(error: &(dyn Error + 'static)) -> bool {
    holds(error, Errno::PERM)
}

/// Whether an error or one of its causes is this one of the system's.
pub(crate) fn holds(error: &(dyn Error + 'static), wanted: Errno) -> bool {
    let mut cause = Some(error);
    while let Some(one) = cause {
        let io = one.downcast_ref::<std::io::Error>();
        if io.and_then(std::io::Error::raw_os_error) == Some(wanted.raw_os_error()) {
            return true;
        }
        cause = one.source();
    }
    false
}

/// That a part which the object must have is not in it.
pub(crate) fn missing(name: &str) -> MapError {
    MapError::InvalidName { name: name.into() }
}
