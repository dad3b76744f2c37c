//! The tables of a profile.

use crate::format::{count, decimal, response, significant};
use crate::observed::is_server;
use crate::table::{Table, numbers, verbatim, words};
use crate::words::{part, process};
use std::collections::BTreeMap;
use tenbin_record::Run;
use tenbin_record::observation::{KindProfile, Profile};
use tenbin_record::profile::Stack;

/// Functions that are shown.
const FUNCTIONS_SHOWN: usize = 25;
/// Share of places without a name, or of stacks without their beginning, that a reader is to know of.
const WORTH_SAYING: f64 = 0.05;

fn profile(run: &Run) -> Option<&Profile> {
    run.observation.as_ref()?.profile.as_ref()
}

fn percent(part: u64, of: u64) -> String {
    decimal(100.0 * part as f64 / of.max(1) as f64, 1)
}

/// CPU of the server's processes by part of its source and of the kernel; empty where none was sampled.
pub(crate) fn modules(run: &Run) -> Table {
    let mut table = Table::new([
        words("Part of the server"),
        words("what it does"),
        numbers("samples"),
        numbers("% of CPU"),
        numbers("per transaction"),
    ]);
    let Some(profile) = profile(run) else {
        return table;
    };
    let mut modules = BTreeMap::<&str, u64>::new();
    for (_, kind) in servers(profile) {
        for (module, samples) in &kind.modules {
            *modules.entry(module).or_default() += samples;
        }
    }
    let all: u64 = modules.values().sum();
    let mut rows: Vec<_> = modules.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let server_us = run
        .observation
        .as_ref()
        .and_then(|seen| seen.per_transaction.server_cpu_us);
    for (module, samples) in rows {
        let (name, does) = part(module);
        // The samples divide the CPU time that the kernel accounts; they do not measure it again.
        let each_us = server_us.map(|us| us * samples as f64 / all as f64);
        let each = each_us.map_or_else(|| "–".into(), |us| response(us / 1e3));
        table.row([
            name.into(),
            does.into(),
            count(samples).into(),
            percent(samples, all).into(),
            each.into(),
        ]);
    }
    table
}

fn servers(profile: &Profile) -> impl Iterator<Item = (&String, &KindProfile)> {
    profile.kinds.iter().filter(|(kind, _)| is_server(kind))
}

/// The same by kind of process.
pub(crate) fn sampled(run: &Run) -> Table {
    let mut table = Table::new([
        words("Kind of process"),
        numbers("samples"),
        numbers("% in the kernel"),
        numbers("% with all callers"),
        words("most in"),
    ]);
    let Some(profile) = profile(run) else {
        return table;
    };
    let mut kinds: Vec<_> = profile.kinds.iter().collect();
    kinds.sort_by_key(|(_, of)| std::cmp::Reverse(of.samples));
    for (kind, of) in kinds {
        let mut modules: Vec<_> = of.modules.iter().collect();
        modules.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most = modules.iter().take(3);
        let most = most.map(|(module, samples)| {
            format!("{} {} %", part(module).0, percent(**samples, of.samples))
        });
        table.row([
            process(kind).into(),
            count(of.samples).into(),
            percent(of.kernel, of.samples).into(),
            percent(of.whole, of.samples).into(),
            most.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    table
}

/// Files, and how much of what was sampled in them has a name.
pub(crate) fn binaries(run: &Run) -> Table {
    let mut table = Table::new([
        verbatim("File"),
        numbers("samples"),
        numbers("% without a name"),
        words("names from"),
    ]);
    let Some(profile) = profile(run) else {
        return table;
    };
    let mut files: Vec<_> = profile.binaries.iter().collect();
    files.sort_by_key(|(_, of)| std::cmp::Reverse(of.samples));
    for (path, of) in files {
        table.row([
            path.as_str().into(),
            count(of.samples).into(),
            percent(of.unresolved, of.samples).into(),
            of.symbols.as_str().into(),
        ]);
    }
    table
}

/// Functions that CPUs were found in most often, and how often they or what they called were.
pub(crate) fn functions(stacks: &[Stack]) -> Table {
    let mut table = Table::new([
        verbatim("Function"),
        numbers("% itself"),
        numbers("% with what it calls"),
        numbers("samples itself"),
    ]);
    let mut functions = BTreeMap::<&str, (u64, u64)>::new();
    let mut all = 0;
    for Stack { frames, samples } in stacks {
        all += samples;
        // The first is the kind of process.
        let mut called: Vec<&str> = frames.iter().skip(1).map(String::as_str).collect();
        if let Some(innermost) = called.last() {
            functions.entry(innermost).or_default().0 += samples;
        }
        // One that calls itself counts once.
        called.sort_unstable();
        called.dedup();
        for function in called {
            functions.entry(function).or_default().1 += samples;
        }
    }
    let mut rows: Vec<_> = functions.into_iter().collect();
    rows.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(b.0)));
    for (function, (own, with_callees)) in rows.into_iter().take(FUNCTIONS_SHOWN) {
        if own > 0 {
            table.row([
                function.into(),
                percent(own, all).into(),
                percent(with_callees, all).into(),
                count(own).into(),
            ]);
        }
    }
    table
}

/// What was sampled and what it took, in a sentence.
pub(crate) fn sampling(run: &Run) -> Option<String> {
    let profile = profile(run)?;
    let load = profile.share_of_load.map_or_else(String::new, |share| {
        format!(
            ", {} % of the CPU that the load used",
            significant(share * 100.0)
        )
    });
    Some(format!(
        "Every CPU was sampled {} times a second: {} samples, {} lost. A sample took {}; all samples and reading them took {}{load}.",
        significant(profile.rate_hz),
        count(profile.samples),
        count(profile.lost),
        response(profile.sample_ns / 1e6),
        response(profile.cost_s * 1e3),
    ))
}

/// What the profile cannot tell, in sentences.
pub(crate) fn unresolved(run: &Run) -> Vec<String> {
    let Some(profile) = profile(run) else {
        return Vec::new();
    };
    let all: u64 = profile.binaries.values().map(|of| of.samples).sum();
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let unnamed = profile.binaries.iter();
    let unnamed = unnamed.filter(|(_, of)| share(of.unresolved, all) >= WORTH_SAYING);
    let mut told: Vec<String> = unnamed
        .map(|(path, of)| {
            format!(
                "{} % of the samples in {path} are in functions without a name (names: {}); they are counted under the part that called them, if that is known.",
                percent(of.unresolved, of.samples),
                of.symbols
            )
        })
        .collect();
    let (samples, whole) = servers(profile).fold((0, 0), |sums, (_, kind)| {
        (sums.0 + kind.samples, sums.1 + kind.whole)
    });
    if share(samples - whole, samples) >= WORTH_SAYING {
        told.push(format!(
            "{} % of the server's samples lack some of their callers: what was built without frame pointers cannot be followed. The innermost function is exact; a library's time cannot be given to the part that called it.",
            percent(samples - whole, samples)
        ));
    }
    told
}
