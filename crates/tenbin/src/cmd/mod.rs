//! One file per subcommand.

pub(crate) mod age;
pub(crate) mod bench;
pub(crate) mod bound;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod load;
pub(crate) mod model;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod study;
pub(crate) mod tpmonitor;
pub(crate) mod trace;
pub(crate) mod weigh;
