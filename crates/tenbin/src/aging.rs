//! The study S2-aging: trials made by the laboratory, a study directory left.

use crate::exit::{Answer, Failure, Result};
use crate::screen::{Screen, lab};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};
use tenbin_lab::aging::{Aged, AgingSpec};
use tenbin_record::directory::STUDY_JSON;
use tenbin_record::run::Tenbin;
use tenbin_record::{RunWriter, TraceDir, time};
use tenbin_study::aging::{
    AGING_SCHEMA, Aging, AgingTrial, Caches, Mode, NAME, Query, Side, StudyInfo, effects, relations,
};

/// The study, where it is kept, and the answer.
pub(crate) struct Done {
    pub(crate) study: Aging,
    pub(crate) directory: PathBuf,
    pub(crate) answer: Answer,
}

/// Makes the trials, and keeps what was found.
pub(crate) fn run(spec: &AgingSpec, out: Option<&Path>, quiet: bool) -> Result<Done> {
    let lab = lab(Screen::of_run(quiet))?;
    let stop = &lab.stop;
    spec.check()?;
    let (begun, at, id) = (Instant::now(), SystemTime::now(), tenbin_record::new_id());
    let out = out.map(Path::to_owned);
    let out = out.unwrap_or_else(|| tenbin_record::default_path(NAME, at, &id));
    let mut writer = RunWriter::create(&out)?;
    let aged = lab.age(spec, writer.path())?;
    let info = StudyInfo {
        name: NAME.to_owned(),
        id,
        started_at: time::rfc3339(at),
        duration_s: begun.elapsed().as_secs_f64(),
        pairs: spec.pairs,
        interrupted: stop.load(Ordering::Relaxed),
        command_line: lab.command_line.clone(),
    };
    let study = study(info, aged);
    keep(&mut writer, &study)?;
    Ok(Done {
        answer: answer(&study, stop),
        study,
        directory: writer.finish()?,
    })
}

/// What `study.json` says.
fn study(study: StudyInfo, aged: Aged) -> Aging {
    let mut study = Aging {
        schema: AGING_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        study,
        databases: aged.databases,
        caches: aged.caches,
        server: aged.server,
        host: aged.host,
        devices: aged.devices,
        effects: effects(&aged.trials),
        relations: relations(&aged.trials),
        trials: aged.trials,
        warnings: Vec::new(),
    };
    study.warnings = warnings(&study, aged.lost);
    study
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
        let trace = TraceDir::open(&writer.path().join(&trial.trace))?;
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
        let wanted = |trial: &&AgingTrial| {
            (trial.pair, trial.mode, trial.query, trial.side) == (1, mode, query, side)
        };
        let trial = study.trials.iter().find(wanted)?;
        Some(TraceDir::open(&directory.join(&trial.trace)))
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
