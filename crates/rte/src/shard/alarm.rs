//! Wakes the event loop at a moment, to the precision of the kernel's clock:
//! `epoll_wait` itself counts in milliseconds before Linux 5.11.

use crate::clock::Clock;
use rustix::event::epoll;
use rustix::io::Result;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// What its events carry; no connection has this number.
const DATA: u64 = u64::MAX;

/// A timer that the loop waits for beside its sockets. Edge-triggered, so it is never read.
pub(super) struct Alarm {
    timer: OwnedFd,
    set_ns: Cell<u64>,
}

impl Alarm {
    pub(super) fn new(epoll: &OwnedFd) -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let watched = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(epoll, &timer, epoll::EventData::new_u64(DATA), watched)?;
        Ok(Self {
            timer,
            set_ns: Cell::new(u64::MAX),
        })
    }

    /// Its event has come.
    pub(super) fn went_off(&self) {
        self.set_ns.set(u64::MAX);
    }

    /// Sets it to `due_ns`. False, and nothing is set, when that is not in the future.
    pub(super) fn set(&self, due_ns: u64, clock: Clock) -> Result<bool> {
        if self.set_ns.get() != due_ns {
            let pause_ns = due_ns.saturating_sub(clock.now_ns());
            if pause_ns == 0 {
                return Ok(false);
            }
            self.set_ns.set(due_ns);
            let never = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let once = Itimerspec {
                it_interval: never,
                it_value: Timespec {
                    tv_sec: (pause_ns / 1_000_000_000).cast_signed(),
                    tv_nsec: (pause_ns % 1_000_000_000).cast_signed(),
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        }
        Ok(true)
    }
}
