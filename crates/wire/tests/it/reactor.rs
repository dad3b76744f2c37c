//! An event loop that watches for reading alone, and for writing only when a future asks for it.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// Set by a future that waits for room to write.
#[derive(Default)]
struct WantsRoom(AtomicBool);

impl Wake for WantsRoom {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Task<'a> {
    future: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    /// A descriptor of the loop's own for the session's socket: it can be watched otherwise at any time.
    socket: Rc<RefCell<Option<OwnedFd>>>,
    watched_for_room: bool,
}

/// Runs many sessions on one thread.
pub(crate) struct Reactor<'a> {
    epoll: Rc<OwnedFd>,
    tasks: Vec<Task<'a>>,
    /// Times that a future was polled.
    pub(crate) polls: u64,
}

impl<'a> Reactor<'a> {
    pub(crate) fn new() -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll instance");
        Self {
            epoll: Rc::new(epoll),
            tasks: Vec::new(),
            polls: 0,
        }
    }

    /// Takes on what `make` makes, which is given what `Session::connect` wants.
    pub(crate) fn spawn<F, R>(&mut self, make: F)
    where
        F: FnOnce(Box<dyn FnMut(BorrowedFd<'_>) -> io::Result<()>>) -> R,
        R: Future<Output = ()> + 'a,
    {
        let mut task = Task::default();
        let (epoll, kept) = (Rc::clone(&self.epoll), Rc::clone(&task.socket));
        let data = EventData::new_u64(self.tasks.len() as u64);
        task.future = Some(Box::pin(make(Box::new(move |socket| {
            let socket = socket.try_clone_to_owned()?;
            epoll::add(&*epoll, &socket, data, EventFlags::IN | EventFlags::ET)?;
            *kept.borrow_mut() = Some(socket);
            Ok(())
        }))));
        self.tasks.push(task);
    }

    /// Runs every task to its end.
    pub(crate) fn run(&mut self) {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 64];
        let wants_room = Arc::new(WantsRoom::default());
        let waker = Waker::from(Arc::clone(&wants_room));
        for index in 0..self.tasks.len() {
            self.poll(index, &waker, &wants_room);
        }
        while self.tasks.iter().any(|task| task.future.is_some()) {
            let Ok(count) = epoll::wait(&*self.epoll, &mut events, None) else {
                continue;
            };
            for event in &events[..count] {
                let index = usize::try_from({ event.data }.u64()).expect("an index");
                self.poll(index, &waker, &wants_room);
            }
        }
    }

    fn poll(&mut self, index: usize, waker: &Waker, wants_room: &WantsRoom) {
        let task = &mut self.tasks[index];
        let Some(future) = &mut task.future else {
            return;
        };
        self.polls += 1;
        if future
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
        {
            *task = Task::default();
            return;
        }
        let wanted = wants_room.0.swap(false, Ordering::Relaxed);
        if wanted != task.watched_for_room
            && let Some(socket) = &*task.socket.borrow()
        {
            let room = if wanted {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
            let data = EventData::new_u64(index as u64);
            epoll::modify(
                &*self.epoll,
                socket,
                data,
                EventFlags::IN | EventFlags::ET | room,
            )
            .expect("a watched socket");
            task.watched_for_room = wanted;
        }
    }
}
