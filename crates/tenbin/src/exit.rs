//! The one place where errors become exit codes.

use std::io::IsTerminal as _;
use std::process::ExitCode;

/// How a command ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, or yes: exit 0.
    Yes,
    /// An audit or a check failed, or a loss went beyond the limit: exit 1.
    No,
    /// The server was lost, with what was measured until then: exit 3.
    Lost,
    /// Stopped by a signal, with what was measured until then: exit 4.
    Interrupted,
}

/// Whose turn it is to mend an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Exit 2.
    BadInput,
    /// Exit 3.
    Environment,
    /// Exit 4.
    Interrupted,
}

/// An error with its class.
#[derive(Debug)]
pub(crate) struct Failure {
    class: Class,
    error: anyhow::Error,
}

pub(crate) type Result<T = Answer> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(class: Class, error: impl Into<anyhow::Error>) -> Self {
        Self {
            class,
            error: error.into(),
        }
    }

    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self::new(Class::BadInput, anyhow::Error::msg(message.into()))
    }
}

/// Errors that are always the environment's.
macro_rules! environment {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(Class::Environment, error)
            }
        }
    )+};
}

environment!(
    anyhow::Error,
    std::io::Error,
    postgres::Error,
    serde_json::Error,
    tenbin_observe::Error
);

impl From<tenbin_record::RecordError> for Failure {
    fn from(error: tenbin_record::RecordError) -> Self {
        let class = match error {
            tenbin_record::RecordError::Io { .. } => Class::Environment,
            _ => Class::BadInput,
        };
        Self::new(class, error)
    }
}

/// Prints what went wrong, cause by cause, and gives the exit code.
pub(crate) fn finish(result: Result) -> ExitCode {
    let printed = crate::out::refused().map_or(Ok(()), |error| {
        let context = "could not write to standard output";
        Err(anyhow::Error::new(error).context(context).into())
    });
    let failure = match result.and_then(|answer| printed.map(|()| answer)) {
        Ok(Answer::Yes) => return ExitCode::SUCCESS,
        Ok(Answer::No) => return ExitCode::from(1),
        Ok(Answer::Lost) => return ExitCode::from(3),
        Ok(Answer::Interrupted) => return ExitCode::from(4),
        Err(failure) => failure,
    };
    let (red, plain) = if std::io::stderr().is_terminal() {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut said = failure.error.to_string();
    eprintln!("{red}error{plain}: {said}");
    for cause in failure.error.chain().skip(1) {
        let cause = cause.to_string();
        // A library's message often repeats its source: say each thing once.
        if !said.contains(&cause) {
            eprintln!("  because: {cause}");
            said.push_str(&cause);
        }
    }
    ExitCode::from(match failure.class {
        Class::BadInput => 2,
        Class::Environment => 3,
        Class::Interrupted => 4,
    })
}
