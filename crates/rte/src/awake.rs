//! Keeps processors from sleeping while moments matter.
//!
//! A processor with nothing to do sleeps, and takes its time to wake; that of a virtual machine is given
//! back to its host, which may take milliseconds to return it. A request for no latency at
//! `/dev/cpu_dma_latency` has Linux idle awake instead (`Documentation/power/pm_qos_interface.rst`). It
//! ends with the file, even for a process that is killed.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};

const REQUESTS: &str = "/dev/cpu_dma_latency";

/// Keeps all processors of the machine awake until it is dropped.
pub(crate) struct Awake(#[expect(dead_code, reason = "held open")] File);

impl Awake {
    /// # Errors
    /// When the request may not be made: it is root's.
    pub(crate) fn keep() -> Result<Self> {
        let mut request = OpenOptions::new().write(true).open(REQUESTS)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self(request))
    }
}
