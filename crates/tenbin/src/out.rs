//! What is printed, to readers who may have gone.
//!
//! The standard library's macros panic where the reader of a pipe has gone (`tenbin report a | head`), and
//! where the disk that standard output is sent to is full. Here the first is no error: the command goes on
//! and ends as it would have. The second is one, said at the end.

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Result, Write as _, stderr, stdout};
use std::sync::Mutex;

/// Why standard output was not taken, the first time.
static REFUSED: Mutex<Option<Error>> = Mutex::new(None);

/// In place of the macros of the same names, in all modules that come after this one.
macro_rules! print {
    ($($text:tt)*) => { $crate::out::say(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => { $crate::out::say(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::out::tell(format_args!($($text)*)) };
}
macro_rules! eprintln {
    () => { $crate::out::tell(format_args!("\n")) };
    ($($text:tt)*) => { $crate::out::tell(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard output.
pub(crate) fn say(text: Arguments<'_>) {
    keep(stdout().write_fmt(text));
}

/// Prints to standard error; there is nowhere to tell that it could not be.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = stderr().write_fmt(text);
}

/// Why not all that was printed has been taken by somebody who is still there.
pub(crate) fn refused() -> Option<Error> {
    keep(stdout().flush());
    REFUSED.lock().ok()?.take()
}

fn keep(printed: Result<()>) {
    if let Err(error) = printed
        && error.kind() != ErrorKind::BrokenPipe
        && let Ok(mut refused) = REFUSED.lock()
    {
        refused.get_or_insert(error);
    }
}
