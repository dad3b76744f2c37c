//! The smallest event loop that keeps the contract: one thread, one future at a time.

use rustix::event::epoll;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Runs this crate's futures to completion on the calling thread, for tools and tests.
#[derive(Debug, Clone)]
pub struct Blocking {
    epoll: Arc<OwnedFd>,
}

impl Blocking {
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            epoll: Arc::new(epoll),
        })
    }

    /// What [`Session::connect`](crate::Session::connect) takes to have its socket watched here.
    pub fn register(&self) -> impl FnMut(BorrowedFd<'_>) -> io::Result<()> + use<> {
        let epoll = Arc::clone(&self.epoll);
        move |socket| {
            let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            Ok(epoll::add(
                &*epoll,
                socket,
                epoll::EventData::new_u64(0),
                both,
            )?)
        }
    }

    /// Polls `future` whenever one of the registered sockets has moved, until it is done.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 16];
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            // An interrupted wait is one more poll, which does no harm.
            let _ = epoll::wait(&*self.epoll, &mut events, None);
        }
    }
}
