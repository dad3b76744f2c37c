//! What a thread asks of the scheduler: to run soon after it wakes, at the price of short turns, or to
//! wait for its turn.
//!
//! A terminal's transaction is due at a moment; the thread that sends it sleeps until then. Linux's
//! fair scheduler lets whoever runs on that CPU finish a slice of about 3 ms first, unless the one
//! that wakes asked for a shorter slice (since Linux 6.12, through `sched_attr::sched_runtime`; see
//! `sched_setattr(2)`). Priorities would need a privilege and, as nice values, change shares of the CPU;
//! a slice changes neither.
//!
//! Where nothing is due at a moment, it is the other way about. A driver that interrupts a server process to
//! learn of one answer has it and what it sends then cost two more switches; a little later there
//! are several answers. Under `SCHED_BATCH` (`sched(7)`) a thread that wakes does not interrupt others, and
//! keeps its share of the CPU.

#![expect(unsafe_code, reason = "sched_setattr has no safe wrapper")]

use std::io::{Error, Result};

/// The shortest slice that the scheduler grants, nanoseconds.
const SLICE_NS: u64 = 100_000;

/// Asks for the shortest slices for the calling thread and those it will start; kernels before 6.12
/// take no notice. A thread under a real-time or idle policy, which is somebody's choice, is left as
/// it is.
///
/// [`drive`](crate::drive()) asks for its own threads where moments matter; this is for what must answer them at once.
///
/// # Errors
/// When the kernel refuses.
pub fn ask_for_short_slices() -> Result<()> {
    let mut attributes = current()?;
    if attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned() {
        attributes.sched_runtime = SLICE_NS;
        set(&attributes)?;
    }
    Ok(())
}

/// Asks that the calling thread does not interrupt others when it wakes. One under a real-time or idle
/// policy is left as it is.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn ask_to_wait_for_turns() -> Result<()> {
    let mut attributes = current()?;
    if attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned() {
        attributes.sched_policy = libc::SCHED_BATCH.cast_unsigned();
        set(&attributes)?;
    }
    Ok(())
}

/// Of the calling thread.
fn set(attributes: &libc::sched_attr) -> Result<()> {
    // SAFETY: the thread is the calling one, and `attributes` holds its own size.
    called(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) })
}

/// The calling thread's scheduling.
fn current() -> Result<libc::sched_attr> {
    #[expect(clippy::cast_possible_truncation, reason = "some fifty bytes")]
    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the thread is the calling one, and the kernel writes at most `SIZE` bytes to `attributes`.
    called(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) })?;
    Ok(attributes)
}

fn called(answer: libc::c_long) -> Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.12 and later answer with the slice that was asked for.
    fn slices_can_be_asked_for() -> bool {
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        let mut numbers = release
            .split('.')
            .map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(12))
    }

    #[test]
    fn asks_for_a_slice_and_leaves_the_rest() {
        let before = current().unwrap();
        ask_for_short_slices().unwrap();
        let after = current().unwrap();
        assert_eq!(
            (after.sched_policy, after.sched_nice),
            (before.sched_policy, before.sched_nice)
        );
        if slices_can_be_asked_for() {
            assert_eq!(after.sched_runtime, SLICE_NS);
        }
    }

    #[test]
    fn a_thread_that_waits_for_turns_keeps_its_share() {
        let asked = || {
            let before = current().unwrap();
            ask_to_wait_for_turns().unwrap();
            (before, current().unwrap())
        };
        // Of a thread of its own.
        let (before, after) = std::thread::spawn(asked).join().unwrap();
        assert_eq!(after.sched_policy, libc::SCHED_BATCH.cast_unsigned());
        assert_eq!(after.sched_nice, before.sched_nice);
    }
}
