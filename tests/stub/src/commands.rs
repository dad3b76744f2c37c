//! What the owner asks of the stub's thread.

use crate::table::Answer;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) enum Command {
    Pause,
    Resume,
    Answer(String, Answer),
    Send(Vec<u8>),
    Drop,
    Stop,
}

/// Commands on their way, and what wakes the thread up for them.
#[derive(Debug)]
pub(crate) struct Commands {
    queue: Mutex<VecDeque<(Command, Sender<()>)>>,
    pub(crate) wake: OwnedFd,
}

impl Commands {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            queue: Mutex::default(),
            wake,
        })
    }

    /// `done` is dropped once the command has taken effect.
    pub(crate) fn push(&self, command: Command, done: Sender<()>) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back((command, done));
        // The counter of an eventfd cannot overflow by ones.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(crate) fn pop(&self) -> Option<(Command, Sender<()>)> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    /// Makes the eventfd quiet again.
    pub(crate) fn acknowledge(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}
