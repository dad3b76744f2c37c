//! Hands rows to the sink on a thread of its own, in chunks that come back.

use crate::control::Control;
use crate::error::RunError;
use crate::sink::{DeferredRow, RowSink};
use crate::usage;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tenbin_record::TransactionRow;

/// Rows in a chunk: 128 KiB.
pub(crate) const CHUNK: usize = 4096;
/// Chunks that may wait for the sink, for each thread.
const WAITING: usize = 8;

enum Parcel<O> {
    Rows(Vec<TransactionRow>),
    Deferred(Vec<DeferredRow<O>>),
}

type Spare = Arc<Mutex<Vec<Vec<TransactionRow>>>>;

/// A thread's way to the sink.
pub(crate) struct Recorder<O> {
    sender: SyncSender<Parcel<O>>,
    spare: Spare,
}

impl<O> Clone for Recorder<O> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            spare: Arc::clone(&self.spare),
        }
    }
}

/// The sink's side.
pub(crate) struct Inbox<O> {
    receiver: Receiver<Parcel<O>>,
    spare: Spare,
}

pub(crate) fn recorder<O>(threads: usize) -> (Recorder<O>, Inbox<O>) {
    let (sender, receiver) = sync_channel(threads * WAITING);
    let spare = Spare::default();
    let inbox = Inbox {
        receiver,
        spare: Arc::clone(&spare),
    };
    (Recorder { sender, spare }, inbox)
}

impl<O> Recorder<O> {
    /// Hands over a chunk and replaces it by an empty one. True when it had to wait for the sink.
    pub(crate) fn rows(&self, chunk: &mut Vec<TransactionRow>) -> bool {
        let empty = lock(&self.spare).pop();
        let full = std::mem::replace(chunk, empty.unwrap_or_else(|| Vec::with_capacity(CHUNK)));
        self.send(Parcel::Rows(full))
    }

    /// Hands over deferred rows. True when it had to wait for the sink.
    pub(crate) fn deferred(&self, rows: Vec<DeferredRow<O>>) -> bool {
        self.send(Parcel::Deferred(rows))
    }

    /// The inbox outlives all senders: it is read until they are gone.
    fn send(&self, parcel: Parcel<O>) -> bool {
        match self.sender.try_send(parcel) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(parcel)) => {
                let _ = self.sender.send(parcel);
                true
            }
        }
    }
}

impl<O> Inbox<O> {
    /// Feeds the sink until every recorder is gone; returns the CPU time that took, seconds.
    pub(crate) fn feed(self, sink: &mut dyn RowSink<O>, control: &Control) -> f64 {
        let mut sound = true;
        for (number, parcel) in self.receiver.iter().enumerate() {
            if number == 0 {
                sink.begins(control.started_at());
            }
            let taken = match &parcel {
                _ if !sound => Ok(()),
                Parcel::Rows(rows) => sink.rows(rows),
                Parcel::Deferred(rows) => sink.deferred(rows),
            };
            if let Err(error) = taken {
                sound = false;
                control.fail(RunError::Recording(error));
            }
            if let Parcel::Rows(mut rows) = parcel {
                rows.clear();
                lock(&self.spare).push(rows);
            }
        }
        usage::thread_cpu_s()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
