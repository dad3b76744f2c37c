//! `study.json` of the study S2-aging: what replacing nearly all rows does to the way queries read.
//!
//! The source (S2) is C. Kato, Y. Hayamizu, K. Goda and M. Kitsuregawa, "An observation of input and
//! output behavior of PostgreSQL using a kernel tracer and its analysis" (2015): TPC-H at scale 100 on
//! PostgreSQL 9.4, once as loaded and once with 90 % of its rows replaced by the refresh functions.
//! Here both databases hold the same rows, so that nothing but their places in the files differs.

use crate::run::{Host, Server, Tenbin};
use crate::trace::{Device, Flow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What [`Aging::schema`] says in this version.
pub const AGING_SCHEMA: &str = "tenbin.study-aging/1";
/// The source's scale factor.
pub const SOURCE_SCALE: u64 = 100;
/// The study's name, as the command takes it.
pub const NAME: &str = "S2-aging";

/// The study: `study.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aging {
    /// `tenbin.study-aging/1`.
    #[schemars(extend("const" = AGING_SCHEMA))]
    pub schema: String,
    /// The program that measured.
    pub tenbin: Tenbin,
    /// When, and how far.
    pub study: StudyInfo,
    /// What was compared.
    pub databases: Databases,
    /// How the caches were emptied before each trial.
    pub caches: Caches,
    /// The server.
    pub server: Server,
    /// The machine.
    pub host: Host,
    /// Settings of the disks that were read: without them a number of reads means nothing.
    pub devices: BTreeMap<String, Device>,
    /// Every trial of a finished pair, in the order in which they ran.
    pub trials: Vec<AgingTrial>,
    /// Aged beside fresh, figure by figure.
    pub effects: Vec<Effect>,
    /// The same by relation: means over the trials.
    pub relations: Vec<RelationEffect>,
    /// What to know before believing any of it.
    pub warnings: Vec<String>,
}

/// When, and how far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudyInfo {
    /// `S2-aging`.
    pub name: String,
    /// Short random name of this study.
    pub id: String,
    /// Its start, RFC 3339 in UTC.
    pub started_at: String,
    /// Its length, seconds.
    pub duration_s: f64,
    /// Pairs asked for.
    pub pairs: u32,
    /// Whether it ended before all of them.
    pub interrupted: bool,
    /// The command as given, program name first; passwords are replaced by `***`.
    pub command_line: Vec<String>,
}

/// The two databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Databases {
    /// Scale factor.
    pub scale: f64,
    /// Share of the orders that was replaced.
    pub share: f64,
    /// Refresh pairs that did it.
    pub sets: u64,
    /// Query (B) reads the lines of orders below this key: the source's 1,024,000 at scale 100, scaled.
    pub orderkey_below: u64,
    /// Tables and indexes of ORDERS, LINEITEM and PART by name: bytes when fresh, and when aged.
    pub sizes_bytes: BTreeMap<String, [u64; 2]>,
}

/// How caches were emptied; the server's own by stopping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caches {
    /// The kernel's by `/proc/sys/vm/drop_caches`.
    DropCaches,
    /// The kernel's by `posix_fadvise` on every file of the server: without root the file system's own
    /// blocks stay.
    Fadvise,
}

/// Which database.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// In the order of the keys.
    Fresh,
    /// As the refresh functions left it.
    Aged,
}

impl Side {
    /// Its name, also that of its database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Aged => "aged",
        }
    }
}

/// Which query of the source.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// A sum over all of LINEITEM: a sequential scan.
    A,
    /// A sum over some of it joined with PART: index scans and a nested loop.
    B,
}

impl Query {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// `(A)`, as the source writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "(A)",
            Self::B => "(B)",
        }
    }

    /// What it does.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::A => "scan of lineitem",
            Self::B => "lineitem and part by their indexes, nested loop",
        }
    }

    /// Its text; `below` bounds the orders of (B).
    #[must_use]
    pub fn text(self, below: u64) -> String {
        match self {
            Self::A => "SELECT SUM(l_extendedprice) FROM lineitem".to_owned(),
            Self::B => format!(
                "SELECT SUM(l_extendedprice) FROM part JOIN lineitem ON p_partkey = l_partkey \
                 WHERE l_orderkey < {below}"
            ),
        }
    }
}

/// Whether a query may use several processes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One, as in the source's day.
    Serial,
    /// As many as today's defaults allow.
    Parallel,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Serial, Self::Parallel];

    /// For people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Serial => "parallel query off, as in the source",
            Self::Parallel => "parallel query as by default today",
        }
    }
}

/// One query on one database with empty caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgingTrial {
    /// From 1.
    pub pair: u32,
    /// Which query.
    pub query: Query,
    /// With how many processes.
    pub mode: Mode,
    /// On which database.
    pub side: Side,
    /// From sending the query to its last reply, seconds.
    pub time_s: f64,
    /// Reads of the server's files and of the file system's own blocks, in the order of issue.
    pub reads: Flow,
    /// The same by relation, and by purpose in brackets for what is none.
    pub relations: BTreeMap<String, Flow>,
    /// Other reads meanwhile of the disks that the server read: count and bytes.
    pub elsewhere: Flow,
    /// The server's answer.
    pub answer: String,
    /// The plan: nodes from the outside in.
    pub plan: String,
    /// The trace, within the study's directory.
    pub trace: String,
}

/// What is compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Seconds.
    Time,
    /// Requests to read.
    ReadIos,
    /// Bytes.
    ReadBytes,
    /// Sectors of 512 bytes.
    SeekDistance,
}

impl Figure {
    /// All, in the order of the source's figure 5.
    pub const ALL: [Self; 4] = [
        Self::Time,
        Self::ReadIos,
        Self::ReadBytes,
        Self::SeekDistance,
    ];

    /// Its value in a trial.
    #[must_use]
    pub fn of(self, trial: &AgingTrial) -> f64 {
        match self {
            Self::Time => trial.time_s,
            Self::ReadIos => trial.reads.count as f64,
            Self::ReadBytes => trial.reads.bytes as f64,
            Self::SeekDistance => trial.reads.seek_sectors as f64,
        }
    }
}

/// One figure, aged beside fresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Of which query.
    pub query: Query,
    /// With how many processes.
    pub mode: Mode,
    /// What.
    pub figure: Figure,
    /// Pairs behind it.
    pub pairs: u32,
    /// Geometric mean of the fresh trials.
    pub fresh: f64,
    /// Geometric mean of the aged ones.
    pub aged: f64,
    /// Aged over fresh: geometric mean of the pairs' ratios; none where one is 0.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval; none below two pairs.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// What the source found.
    pub source: Published,
}

/// A row of the source's results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// Fresh.
    pub fresh: f64,
    /// Aged.
    pub aged: f64,
    /// Aged over fresh, as printed there; of the times, which it prints no ratio of, their quotient.
    pub ratio: f64,
}

/// A relation's reads, aged beside fresh: means over the trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationEffect {
    /// By which query.
    pub query: Query,
    /// With how many processes.
    pub mode: Mode,
    /// Its name, or a purpose in brackets.
    pub relation: String,
    /// Fresh.
    pub fresh: MeanReads,
    /// Aged.
    pub aged: MeanReads,
}

/// Reads of one trial, on average.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MeanReads {
    /// Requests.
    pub count: f64,
    /// Bytes.
    pub bytes: f64,
    /// Sum of |start − end of the one before|, sectors, among the relation's own.
    pub seek_sectors: f64,
}
