//! One monitor after another on the same sockets, without a service manager: the one that serves starts the
//! next, which takes over listening; then the first serves those who are in until they have left.
//!
//! Between the two is a channel of messages. The next says that it listens, and passes on requests to cancel
//! whose keys it does not know: they are for sessions of the one before.

use super::cancel::Asker;
use super::{OTHER, Serving};
use crate::log::{Level, line};
use crate::startup::KEY_LIMIT_BYTES;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{Errno, dup};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Child, Command};
use std::time::Duration;

/// Of the kind `OTHER`, the numbers of the channels to the next monitor and to the one before.
pub(super) const NEXT: u64 = 0xffff_fffd;
pub(super) const BEFORE: u64 = 0xffff_fffc;

/// How long a free server is kept by a monitor that others have come after.
const IDLE_LIMIT: Duration = Duration::from_secs(2);

/// How the next monitor is started: as this one was, by default.
pub type Successor = Box<dyn FnMut() -> Command + Send>;

/// What is handed over, in the environment: whose it is, the channel, the sockets.
pub(crate) const HANDED_OVER: &str = "TENBIN_HANDED_OVER";

/// The next monitor.
pub(super) struct NextMonitor {
    process: Child,
    channel: OwnedFd,
    listens: bool,
}

/// The monitor before this one, as long as it is there.
#[derive(Default)]
pub(super) struct PreviousMonitor {
    channel: Option<OwnedFd>,
    /// Requests to cancel that it has been given, by a number, and who wants to know.
    asked: HashMap<u64, Asker>,
    count: u64,
}

/// The monitors before and after this one.
#[derive(Default)]
pub(super) struct HandOver {
    /// How the next one is started, if that is known.
    successor: Option<Successor>,
    next: Option<NextMonitor>,
    before: PreviousMonitor,
    /// The next one listens: this one takes no further client.
    left: bool,
}

impl HandOver {
    pub(super) fn new(successor: Option<Successor>, before: Option<OwnedFd>) -> Self {
        Self {
            successor,
            before: PreviousMonitor {
                channel: before,
                ..PreviousMonitor::default()
            },
            ..Self::default()
        }
    }
}

/// A message on the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Notice {
    /// The next monitor listens.
    Listens,
    /// This session's work is to be cancelled; `number` names the request.
    Cancel {
        number: u64,
        process_id: u32,
        key: Vec<u8>,
    },
    /// That request has arrived, or there is no such session.
    Cancelled(u64),
}

impl Notice {
    fn write(&self) -> Vec<u8> {
        match self {
            Self::Listens => b"L".to_vec(),
            Self::Cancelled(number) => [b"D", &number.to_be_bytes()[..]].concat(),
            Self::Cancel {
                number,
                process_id,
                key,
            } => {
                let (number, process_id) = (number.to_be_bytes(), process_id.to_be_bytes());
                [b"C", &number[..], &process_id, key].concat()
            }
        }
    }

    fn read(message: &[u8]) -> Option<Self> {
        let (tag, rest) = message.split_first()?;
        match tag {
            b'L' if rest.is_empty() => Some(Self::Listens),
            b'D' => Some(Self::Cancelled(u64::from_be_bytes(rest.try_into().ok()?))),
            b'C' => {
                let (&number, rest) = rest.split_first_chunk()?;
                let (&process_id, key) = rest.split_first_chunk()?;
                Some(Self::Cancel {
                    number: u64::from_be_bytes(number),
                    process_id: u32::from_be_bytes(process_id),
                    key: key.to_vec(),
                })
            }
            _ => None,
        }
    }
}

fn tell(channel: &OwnedFd, what: &Notice) -> Result<(), Errno> {
    send(channel, &what.write(), SendFlags::NOSIGNAL).map(|_| ())
}

/// The next message: nothing for now, or why there will be none.
fn hear(channel: &OwnedFd) -> Result<Option<Notice>, String> {
    let mut message = [0; KEY_LIMIT_BYTES + 16];
    match recv(channel, &mut message, RecvFlags::empty()) {
        Ok((0, _)) => Err("it has ended".to_owned()),
        Ok((size, _)) => Notice::read(&message[..size])
            .map(Some)
            .ok_or_else(|| "it says what makes no sense".to_owned()),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(std::io::Error::from(errno).to_string()),
    }
}

impl Serving {
    /// Starts the next monitor on this one's sockets. It takes over once it listens.
    pub(super) fn start_next(&mut self) -> Result<(), String> {
        if self.ending.stopping.is_some() {
            return Err("the TP monitor is shutting down".to_owned());
        }
        if self.handover.next.is_some() {
            return Err("the next TP monitor has been started already".to_owned());
        }
        let Some(successor) = &mut self.handover.successor else {
            return Err("this TP monitor does not know how another is started".to_owned());
        };
        let mut command = successor();
        let next = self.spawn(&mut command);
        match next {
            Ok(next) => {
                let process = next.process.id();
                line(
                    Level::Info,
                    "the next TP monitor was started",
                    &[("pid", &process)],
                );
                self.handover.next = Some(next);
                Ok(())
            }
            Err(error) => {
                let error = format!("could not start the next TP monitor: {error}");
                line(Level::Error, &error, &[]);
                Err(error)
            }
        }
    }

    fn spawn(&self, command: &mut Command) -> std::io::Result<NextMonitor> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (channel, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let token = EventData::new_u64((OTHER << 32) | NEXT);
        // Copies are inherited under their numbers, which originals are not; they are closed here when the
        // process has been started.
        let theirs = dup(theirs)?;
        let mut sockets = Vec::new();
        for listener in &self.listening.listeners {
            sockets.push((dup(&listener.fd)?, listener.held));
        }
        let listed: Vec<String> = sockets
            .iter()
            .map(|(fd, held)| format!("{}{}", fd.as_raw_fd(), if *held { "h" } else { "" }))
            .collect();
        let handed = format!(
            "{}:{}:{}",
            std::process::id(),
            theirs.as_raw_fd(),
            listed.join(",")
        );
        // A watchdog that is named for this process is for the next from now on.
        command.env(HANDED_OVER, handed).env_remove("WATCHDOG_PID");
        let process = command.spawn()?;
        epoll::add(&self.epoll, &channel, token, EventFlags::IN)?;
        Ok(NextMonitor {
            process,
            channel,
            listens: false,
        })
    }

    /// Hears what the next monitor says.
    pub(super) fn next_event(&mut self) {
        while let Some(next) = &mut self.handover.next {
            match hear(&next.channel) {
                Ok(None) => return,
                Ok(Some(Notice::Listens)) => {
                    next.listens = true;
                    let process = next.process.id();
                    self.leave_listening(process);
                }
                Ok(Some(Notice::Cancel {
                    number,
                    process_id,
                    key,
                })) => {
                    let asker = Asker::Next(number);
                    if self.cancel(asker, process_id, &key) {
                        self.conclude(asker);
                    }
                }
                Ok(Some(Notice::Cancelled(_))) => {}
                Err(why) => return self.next_lost(&why),
            }
        }
    }

    fn next_lost(&mut self, why: &str) {
        let Some(mut next) = self.handover.next.take() else {
            return;
        };
        if !next.listens {
            line(
                Level::Error,
                "the next TP monitor does not serve, this one goes on",
                &[("why", &why)],
            );
            let _ = next.process.kill();
        }
        // It is gone, or is about to be.
        let _ = next.process.wait();
    }

    /// The next monitor listens: this one does not any more, and ends with the last of its clients.
    fn leave_listening(&mut self, process: u32) {
        let clients = self.clients.len();
        line(
            Level::Info,
            "the next TP monitor listens; this one serves its clients until they leave",
            &[("pid", &process), ("clients", &clients)],
        );
        self.service.tell(&format!("MAINPID={process}"));
        for listener in self.listening.listeners.drain(..) {
            // The next holds the same sockets: closing them here ends no watch of them.
            let _ = epoll::delete(&self.epoll, &listener.fd);
        }
        self.flush_queue_log();
        self.queue_log = None;
        self.handover.left = true;
        self.timing.next_tick = self.now;
    }

    /// Ends when the last client has left, and keeps no server longer than it is needed.
    pub(super) fn check_handover(&mut self) {
        if !self.handover.left {
            return;
        }
        let unused = |id: &super::Id| {
            let server = self.servers.get(*id);
            let since = server.map(|server| self.now.saturating_duration_since(server.used_at));
            since.is_some_and(|since| since > IDLE_LIMIT)
        };
        let idle = self.pools.iter().flat_map(|pool| &pool.idle);
        let unused: Vec<super::Id> = idle.copied().filter(unused).collect();
        for server in unused {
            self.close_server(server, "the next TP monitor serves");
        }
        self.ending.done |= self.clients.len() == 0;
    }

    /// Tells the monitor before this one that it may leave listening to this one.
    pub(super) fn take_over(&mut self) {
        let Some(channel) = &self.handover.before.channel else {
            return;
        };
        let token = EventData::new_u64((OTHER << 32) | BEFORE);
        let told = epoll::add(&self.epoll, channel, token, EventFlags::IN)
            .and_then(|()| tell(channel, &Notice::Listens));
        if let Err(errno) = told {
            let error = std::io::Error::from(errno);
            line(
                Level::Error,
                "the TP monitor before was not told",
                &[("error", &error)],
            );
            self.handover.before.channel = None;
        }
    }

    /// Passes a request to cancel on to the monitor before this one; false when there is none.
    pub(super) fn ask_before(&mut self, asker: Asker, process_id: u32, key: &[u8]) -> bool {
        let before = &mut self.handover.before;
        let Some(channel) = &before.channel else {
            return false;
        };
        before.count += 1;
        let number = before.count;
        let request = Notice::Cancel {
            number,
            process_id,
            key: key.to_vec(),
        };
        let told = tell(channel, &request).is_ok();
        if told {
            before.asked.insert(number, asker);
        }
        told
    }

    /// Hears what the monitor before this one says.
    pub(super) fn before_event(&mut self) {
        while let Some(channel) = &self.handover.before.channel {
            match hear(channel) {
                Ok(None) => return,
                Ok(Some(Notice::Cancelled(number))) => {
                    if let Some(asker) = self.handover.before.asked.remove(&number) {
                        self.conclude(asker);
                    }
                }
                Ok(Some(_)) => {}
                Err(_) => {
                    self.handover.before.channel = None;
                    for (_, asker) in std::mem::take(&mut self.handover.before.asked) {
                        self.conclude(asker);
                    }
                }
            }
        }
    }

    /// A request to cancel has arrived, or there is nothing that it is for.
    pub(super) fn conclude(&mut self, asker: Asker) {
        match asker {
            Asker::Client(id) => self.drop_client(id),
            Asker::Next(number) => {
                if let Some(next) = &self.handover.next {
                    // One that is gone has nobody left who waits for it.
                    let _ = tell(&next.channel, &Notice::Cancelled(number));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_said_is_heard(number: u64, process_id: u32, key in prop::collection::vec(any::<u8>(), 0..KEY_LIMIT_BYTES)) {
            for said in [
                Notice::Listens,
                Notice::Cancelled(number),
                Notice::Cancel { number, process_id, key },
            ] {
                prop_assert_eq!(Notice::read(&said.write()), Some(said));
            }
        }

        #[test]
        fn any_message_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Notice::read(&bytes);
        }
    }
}
