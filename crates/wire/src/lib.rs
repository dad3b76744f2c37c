//! `PostgreSQL` protocol 3 as tenbin's terminals and its TP monitor speak it.
//!
//! A [`Session`] is one connection on a non-blocking socket. Its methods are
//! `async`, but there is no runtime behind them: a future that cannot go on
//! returns `Poll::Pending`, and whoever owns the event loop polls it again
//! when the socket has moved. That keeps a round trip at two system calls and
//! no allocation. [`Blocking`] is the smallest such event loop.
//!
//! The loop watches every socket by edge-triggered epoll, in one of two ways:
//! - `IN | OUT`, with [`Waker::noop`](std::task::Waker::noop). Simple; but on a Unix socket the
//!   server's reading of a request counts as an `OUT` edge, and costs a needless wake-up.
//! - `IN`, with a waker that takes note. Wakers say one thing only: the future just polled waits
//!   for room to *write* (a connection in progress, a request larger than the socket's buffer), so
//!   its socket is to be watched for `OUT` too until the future is polled again.
//!
//! Administration (loading, checks, settings) uses the `postgres` crate; this
//! crate serves the paths where the cost of a transaction is the measurement.

pub mod conninfo;
pub mod frames;
pub mod session;
pub mod target;

mod blocking;
mod cancel;
mod environment;
mod error;
mod outbox;
mod replies;
mod requests;
mod socket;
mod startup;
mod timer;
mod values;

pub use blocking::Blocking;
pub use cancel::Canceller;
pub use error::Error;
pub use outbox::{Outbox, Recalled};
pub use replies::{Replies, Reply};
pub use session::{Session, TransactionStatus};
pub use target::{Address, Target, TargetError};
pub use timer::Timer;
pub use values::{Param, Row};
