//! The study S2-aging: two databases made, trials interleaved, a study directory left.

mod caches;
mod databases;
mod plan;
mod trials;
mod waiting;

use crate::exit::{Answer, Class, Failure, Result};
use crate::live::Live;
use crate::screen::{Screen, lab};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};
use tenbin_lab::{EmbeddedSpec, Needs, ServerSpec, System};
use tenbin_record::directory::STUDY_JSON;
use tenbin_record::run::Tenbin;
use tenbin_record::{RunWriter, TraceDir, time};
use tenbin_study::aging::{
    AGING_SCHEMA, Aging, Caches, Databases, Mode, NAME, Query, SOURCE_SCALE, Side, StudyInfo,
    Trial, effects, relations,
};
use tenbin_workload::tpch::Scale;
use trials::{Bench, Measured};

/// The source's bound of query (B), at its scale.
const SOURCE_ORDERKEY_BELOW: u64 = 1_024_000;

/// What PostgreSQL itself would choose, which the source left as it was; tenbin's own servers are set up
/// for the machine otherwise.
const SOURCE_SETTINGS: [(&str, &str, &str); 5] = [
    ("shared_buffers", "128MB", SOURCE_DEFAULT),
    ("effective_cache_size", "4GB", SOURCE_DEFAULT),
    ("work_mem", "4MB", SOURCE_DEFAULT),
    ("random_page_cost", "4", SOURCE_DEFAULT),
    // How often it comes depends on the time that the replacing takes, and so would the result.
    (
        "autovacuum",
        "off",
        "the source's table grew by as much as was replaced: nothing was freed before the end",
    ),
];
const SOURCE_DEFAULT: &str = "PostgreSQL's own default, which the source left as it was";

/// What to do.
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    pub(crate) share: f64,
    pub(crate) pairs: u32,
    pub(crate) server: EmbeddedSpec,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
}

impl Plan {
    /// Query (B)'s bound on the order keys, which follow the scale.
    fn orderkey_below(&self) -> u64 {
        SOURCE_ORDERKEY_BELOW * u64::from(self.scale.thousandths()) / (1_000 * SOURCE_SCALE)
    }

    /// With the source's settings, and over them the user's.
    fn server(&self) -> ServerSpec {
        let mut server = self.server.clone();
        for (name, value, _) in SOURCE_SETTINGS {
            let settings = server.settings.entry(name.to_owned());
            settings.or_insert_with(|| value.to_owned());
        }
        ServerSpec::Embedded(server)
    }
}

/// The study, where it is kept, and the answer.
pub(crate) struct Done {
    pub(crate) study: Aging,
    pub(crate) directory: PathBuf,
    pub(crate) answer: Answer,
}

/// Makes the databases, measures, keeps what was found.
pub(crate) fn run(plan: &Plan) -> Result<Done> {
    let lab = lab(Screen::of_run(plan.quiet))?;
    let stop = &lab.stop;
    // Before anything is loaded: without the tracer there is nothing to measure.
    tenbin_iotrace::probe()?;
    let (begun, at, id) = (Instant::now(), SystemTime::now(), tenbin_record::new_id());
    let out = plan.out.clone();
    let out = out.unwrap_or_else(|| tenbin_record::default_path(NAME, at, &id));
    let mut writer = RunWriter::create(&out)?;
    let mut sut = lab.open(&plan.server(), Needs::default())?;
    databases::refuse_space(&sut, plan)?;
    let mut live = Live::new(plan.quiet);
    let databases = databases::make(&lab, &mut sut, plan, &mut live)?;
    let mut bench = Bench {
        sut: &mut sut,
        plan,
        databases: &databases,
        directory: writer.path(),
        live: &mut live,
        stop,
    };
    let measured = bench.run()?;
    live.clear();
    let info = StudyInfo {
        name: NAME.to_owned(),
        id,
        started_at: time::rfc3339(at),
        duration_s: begun.elapsed().as_secs_f64(),
        pairs: plan.pairs,
        interrupted: stop.load(Ordering::Relaxed),
        command_line: crate::args::command_line(),
    };
    let study = tell(plan, &sut, writer.path(), info, databases, measured)?;
    keep(&mut writer, &study)?;
    let directory = writer.finish()?;
    sut.close()?;
    Ok(Done {
        answer: answer(&study, stop),
        study,
        directory,
    })
}

/// Puts together what `study.json` says.
fn tell(
    plan: &Plan,
    sut: &System,
    directory: &Path,
    study: StudyInfo,
    databases: Databases,
    measured: Measured,
) -> Result<Aging> {
    let Some(caches) = measured.caches.filter(|_| !measured.trials.is_empty()) else {
        return Err(waiting::stopped());
    };
    let mut server = sut.record();
    for (name, _, why) in SOURCE_SETTINGS {
        let ours = !plan.server.settings.contains_key(name);
        if let Some(setting) = server.settings.get_mut(name).filter(|_| ours) {
            setting.reason = Some(why.to_owned());
        }
    }
    let mut used = vec![("study directory".to_owned(), directory.to_owned())];
    let data = sut.server.data_directory.iter();
    used.extend(data.map(|data| ("data".to_owned(), data.clone())));
    let mut study = Aging {
        schema: AGING_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        study,
        databases,
        caches,
        server,
        host: tenbin_observe::describe(&used),
        devices: measured.devices,
        effects: effects(&measured.trials),
        relations: relations(&measured.trials),
        trials: measured.trials,
        warnings: Vec::new(),
    };
    study.warnings = warnings(&study, measured.lost);
    Ok(study)
}

/// What to know before believing any of it.
fn warnings(study: &Aging, lost: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |holds: bool, text: String| warnings.extend(holds.then_some(text));
    for query in Query::ALL {
        warn(
            !agree(study, query),
            format!(
                "the answers to query {} differ between trials: the databases do not hold the same rows",
                query.name()
            ),
        );
    }
    warn(
        lost > 0,
        format!("{lost} I/Os were not recorded and are in none of the figures"),
    );
    let worst = study
        .trials
        .iter()
        .map(|trial| trial.elsewhere.bytes as f64 / trial.reads.bytes.max(1) as f64);
    let worst = worst.fold(0.0, f64::max);
    warn(
        worst > 0.01,
        format!(
            "something else read from the same disks meanwhile, in one trial {:.1} % of the server's bytes: times are longer for it",
            100.0 * worst
        ),
    );
    warn(
        study.caches == Caches::Fadvise,
        "without root the file system's own blocks stayed in memory: their reads are missing"
            .to_owned(),
    );
    let virtualized = study.host.virtualized.as_deref();
    warn(
        virtualized.is_some(),
        format!(
            "this machine is virtual ({}): its host may cache the disk's blocks, so times may be shorter than the disk's own",
            virtualized.unwrap_or_default()
        ),
    );
    warn(
        study.devices.values().any(|device| device.rotational == Some(false)),
        "the disk does not turn, or says so: seeks cost it little, and time follows the bytes more than the distance".to_owned(),
    );
    warnings
}

fn agree(study: &Aging, query: Query) -> bool {
    let mut answers = study.trials.iter().filter(|trial| trial.query == query);
    let first = answers.next().map(|trial| &trial.answer);
    answers.all(|trial| Some(&trial.answer) == first)
}

/// Writes `study.json`, the report, and the pictures of the first pair's traces.
fn keep(writer: &mut RunWriter, study: &Aging) -> Result<()> {
    writer.write_study(study, study.study.interrupted)?;
    for trial in study.trials.iter().filter(|trial| trial.pair == 1) {
        let trace = TraceDir::open(&trials::trace_path(writer.path(), trial))?;
        std::fs::write(
            trace.path().join("trace.html"),
            tenbin_report::trace_html(&trace)?,
        )?;
    }
    let page = page(writer.path(), study)?;
    Ok(std::fs::write(writer.path().join("report.html"), page)?)
}

/// The report of a study, with the pictures of its first pair drawn from the traces in its directory.
pub(crate) fn page(directory: &Path, study: &Aging) -> Result<String> {
    let trace = |mode: Mode, query: Query, side: Side| {
        let wanted = |trial: &&Trial| {
            (trial.pair, trial.mode, trial.query, trial.side) == (1, mode, query, side)
        };
        let trial = study.trials.iter().find(wanted)?;
        Some(TraceDir::open(&trials::trace_path(directory, trial)))
    };
    let mut pictures = Vec::new();
    for (mode, query) in Mode::ALL
        .into_iter()
        .flat_map(|mode| Query::ALL.map(|query| (mode, query)))
    {
        let of = |side| trace(mode, query, side);
        if let (Some(fresh), Some(aged)) = (of(Side::Fresh), of(Side::Aged)) {
            let traces = [&fresh?, &aged?];
            pictures.push(tenbin_report::AgingPicture::draw(mode, query, traces)?);
        }
    }
    Ok(tenbin_report::aging_html(study, &pictures))
}

/// The study that a directory holds; none when it holds something else.
pub(crate) fn open(directory: &Path) -> Result<Option<Aging>> {
    let path = directory.join(STUDY_JSON);
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(None);
    };
    let study: Aging = serde_json::from_str(&text).map_err(|error| {
        let shown = path.display();
        Failure::bad_input(format!(
            "{shown} is not a study of this version of tenbin: {error}"
        ))
    })?;
    Ok(Some(study))
}

fn answer(study: &Aging, stop: &AtomicBool) -> Answer {
    if stop.load(Ordering::Relaxed) {
        Answer::Interrupted
    } else if Query::ALL.into_iter().all(|query| agree(study, query)) {
        Answer::Yes
    } else {
        Answer::No
    }
}

/// Refuses what cannot be a study.
pub(crate) fn check(pairs: u32, share: f64) -> Result<()> {
    let refused = |text: String| Err(Failure::new(Class::BadInput, anyhow::Error::msg(text)));
    if !(1..=1_000).contains(&pairs) {
        return refused(format!(
            "--pairs {pairs}: give 1 to 1000, two at the least for an interval"
        ));
    }
    if !(0.001..=0.999).contains(&share) {
        return refused(format!(
            "--share {share}: give 0.001 to 0.999 (a set of TPC-H is 0.1 %)"
        ));
    }
    Ok(())
}
