//! The one place where errors become exit codes.

use postgres::error::{DbError, SqlState};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tenbin_lab::{Error as LabError, Refusal};
use tenbin_record::RecordError;
use tenbin_rte::DriveError;
use tenbin_workload::check::CheckError;
use tenbin_workload::load::LoadError;
use tenbin_workload::tpch::age::AgeError;
use tenbin_workload::tpch::refresh::RefreshError;
use tenbin_workload::tpch::test::TestError;

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
    /// The data do not answer the question: exit 5.
    NotDecided,
}

/// Whose turn it is to mend an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The load itself failed: exit 1.
    Failed,
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

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
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

/// The table: errors of a library that tell, and what each of them is.
macro_rules! told_apart {
    ($($error:ty: $($pattern:pat $(if $guard:expr)? => $class:ident),+;)+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let class = match &error {
                    $($pattern $(if $guard)? => Class::$class),+
                };
                Self::new(class, error)
            }
        }
    )+};
}

told_apart! {
    RecordError:
        RecordError::Io { .. } | RecordError::CutShort { .. } => Environment,
        _ => BadInput;
    LoadError:
        LoadError::Options(_)
        | LoadError::Unsupported { .. }
        | LoadError::Space { .. }
        | LoadError::Complete { .. }
        | LoadError::Partial { .. }
        | LoadError::Foreign { .. } => BadInput,
        LoadError::Stopped(_) => Interrupted,
        _ => Environment;
    CheckError:
        CheckError::Threads(_) | CheckError::NotLoaded { .. } => BadInput,
        CheckError::Stopped => Interrupted,
        CheckError::Connect(_) | CheckError::Server { .. } => Environment;
    DriveError:
        DriveError::Options(_) => BadInput,
        _ => Environment;
    TestError:
        TestError::Streams(_) | TestError::NotLoaded { .. } | TestError::UsedUp { .. } => BadInput,
        TestError::Stopped => Interrupted,
        TestError::Query { answer, .. }
        | TestError::Refresh(RefreshError::Server { answer, .. }) if refuses(answer) => Failed,
        TestError::Query { .. } | TestError::Refresh(_) | TestError::Server { .. } => Environment;
    AgeError:
        AgeError::Share(_) | AgeError::NotLoaded { .. } | AgeError::UsedUp { .. } => BadInput,
        AgeError::Stopped { .. } => Interrupted,
        AgeError::Refresh { .. } | AgeError::Server { .. } => Environment;
    tenbin_pgbench::Error:
        _ => BadInput;
}

impl From<tenbin_server::Error> for Failure {
    fn from(error: tenbin_server::Error) -> Self {
        let class = match error.class() {
            tenbin_server::Class::BadInput => Class::BadInput,
            tenbin_server::Class::Environment => Class::Environment,
        };
        Self::new(class, error)
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let class = match error {
            LabError::Server(error) => return error.into(),
            LabError::Postgres(error) => return error.into(),
            LabError::Load(error) => return error.into(),
            LabError::Check(error) => return error.into(),
            LabError::Drive(error) => return error.into(),
            LabError::Test(error) => return error.into(),
            LabError::Script(error) => return error.into(),
            LabError::Record(error) => return error.into(),
            LabError::Observe(error) => return error.into(),
            LabError::Age(error) => return error.into(),
            LabError::Trace(error) => return error.into(),
            LabError::Io(error) => return error.into(),
            LabError::Interrupted => Class::Interrupted,
            LabError::Refused(_)
            | LabError::OtherData(_)
            | LabError::NotLoaded(_)
            | LabError::ForeignTablespaces
            | LabError::NeverStopped
            | LabError::NoSchema(_)
            | LabError::NoAddress
            | LabError::StartUpParameter(_) => Class::BadInput,
            _ => Class::Environment,
        };
        match advice(&error) {
            Some(advice) => Self::new(class, anyhow::Error::msg(format!("{error}; {advice}"))),
            None => Self::new(class, error),
        }
    }
}

/// Which option changes what the laboratory refuses.
fn advice(error: &LabError) -> Option<String> {
    let refusal = match error {
        LabError::NotLoaded(workload) => {
            return Some(format!("load it first: tenbin load {workload} --dsn …"));
        }
        LabError::ForeignTablespaces => {
            return Some("set up an existing server (--dsn) yourself, then run again".to_owned());
        }
        LabError::NeverStopped => return Some("leave out --dsn".to_owned()),
        LabError::NoAddress => return Some("leave out --via".to_owned()),
        LabError::StartUpParameter(_) => {
            return Some(
                "set it for the user (ALTER ROLE … SET …), or use --via tpmonitor".to_owned(),
            );
        }
        LabError::NoPgBouncer => {
            return Some(
                "install it (Debian: apt install pgbouncer), or use --via tpmonitor".to_owned(),
            );
        }
        LabError::OtherPlan { .. } => {
            return Some("leave out --set, or take another --scale or --pg".to_owned());
        }
        LabError::WarmCaches { .. } => {
            return Some(
                "give --data-dir on another disk (`tenbin doctor` tells whether tracing works)"
                    .to_owned(),
            );
        }
        LabError::Refused(refusal) => refusal,
        _ => return None,
    };
    Some(match refusal {
        Refusal::NoConnections => "give --connections 1 or more".to_owned(),
        Refusal::IdleConnections { terminals, .. } => {
            format!("give --connections {terminals} or less")
        }
        Refusal::FewTerminals { warehouses, .. } => {
            format!("give --terminals {warehouses} or more")
        }
        Refusal::FewAccounts { .. } => {
            "give fewer --terminals, a larger --scale, or --contend".to_owned()
        }
        Refusal::Differs { setting, own, .. } => {
            let option = match *setting {
                "ratio" => "tpca-ratio".to_owned(),
                setting => setting.replace('_', "-"),
            };
            let replace = if *own {
                "reload with --replace"
            } else {
                "use another schema: tenbin did not create these tables and does not drop them"
            };
            format!("leave out --{option} to use what is loaded, or {replace}")
        }
        Refusal::ExistingTables(setting) => {
            format!("give --{} together with -i", setting.replace('_', "-"))
        }
        Refusal::Pairs(_) => "give another --pairs".to_owned(),
        Refusal::Share(_) => "give another --share".to_owned(),
        Refusal::Space { .. } => {
            "take a smaller --scale, or give --data-dir with more room".to_owned()
        }
        Refusal::NoPgbenchTables => {
            "create pgbench's tables first: tenbin bench -i -s SCALE --dsn …".to_owned()
        }
        _ => return None,
    })
}

/// Whether the server answered a statement with an error, and did not end the session.
fn refuses(answer: &postgres::Error) -> bool {
    let code = answer.code().map(SqlState::code);
    code.is_some_and(|code| !code.starts_with("57P"))
}

/// What went wrong, cause by cause, each thing once: a library's message often repeats its source.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain() {
        let said = match cause.downcast_ref::<postgres::Error>() {
            // Of itself it says "db error".
            Some(answer) => answer
                .as_db_error()
                .map_or_else(|| answer.to_string(), server_said),
            None => cause.to_string(),
        };
        if !causes.iter().any(|before| before.contains(&said)) {
            causes.push(said);
        }
    }
    causes
}

/// What the server refused, and what to do where that follows from its code.
fn server_said(answer: &DbError) -> String {
    let next = match answer.code() {
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            "; connect as a user who has this privilege, or have it granted"
        }
        _ => "",
    };
    // In the words of its own text, so that the source that follows is not repeated.
    format!("{answer}{next}")
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
        Ok(Answer::NotDecided) => return ExitCode::from(5),
        Err(failure) => failure,
    };
    let (red, plain) = if std::io::stderr().is_terminal() {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let causes = causes(&failure.error);
    let mut begins = format!("{red}error{plain}");
    for cause in causes {
        eprintln!("{begins}: {cause}");
        "  because".clone_into(&mut begins);
    }
    ExitCode::from(match failure.class {
        Class::Failed => 1,
        Class::BadInput => 2,
        Class::Environment => 3,
        Class::Interrupted => 4,
    })
}
