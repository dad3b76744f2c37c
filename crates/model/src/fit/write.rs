//! A fitted model as a network file.

use super::{Curve, Fit, Parts, names};
use crate::network::Servers;
use std::fmt::Write as _;

/// The model file.
pub(super) fn model(parts: &Parts) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = header(&mut text, parts)
        .and_then(|()| class(&mut text, parts))
        .and_then(|()| stations(&mut text, parts))
        .and_then(|()| fit(&mut text, parts));
    text
}

fn us(seconds: f64) -> String {
    format!("{:.3} us", seconds * 1e6)
}

fn header(text: &mut String, parts: &Parts) -> std::fmt::Result {
    writeln!(
        text,
        "# Written by `tenbin model fit`. `tenbin model simulate`, `predict` and `whatif` use it; you may edit it.\n\
         # Demands are measured: CPU time, flushes and reads per transaction. With n clients, a time is\n\
         # mean + wake_ups / n + cold_caches * (sqrt(n) - 1).\n\
         name = {:?}\n",
        parts.fit.workload
    )
}

/// A curve, scaled; none if it is 0.
fn service(curve: Curve, share: f64) -> Option<String> {
    let named = [
        ("mean", curve.base_s),
        ("wake_ups", curve.wake_ups_s),
        ("cold_caches", curve.cold_caches_s),
    ];
    let some: Vec<String> = named
        .iter()
        .filter(|(name, value)| {
            *value * share > 0.0 || (*name == "mean" && curve != Curve::default())
        })
        .map(|(name, value)| format!("{name} = \"{}\"", us(value * share)))
        .collect();
    (!some.is_empty()).then(|| format!("{{ {} }}", some.join(", ")))
}

fn class(text: &mut String, parts: &Parts) -> std::fmt::Result {
    writeln!(
        text,
        "[[class]]\nname = \"transaction\"\npopulation = {}\nthink_time = \"{}\"\nsteps = [",
        parts.clients,
        us(parts.think_s)
    )?;
    if parts.connections.is_some() {
        writeln!(text, "    {{ take = \"{}\" }},", names::CONNECTION)?;
    }
    let mut done = 0.0;
    for lock in &parts.locks {
        work(text, parts, lock.after - done)?;
        writeln!(text, "    {{ take = \"{}\" }},", lock.name)?;
        done = lock.after;
    }
    work(text, parts, 1.0 - done)?;
    if let Some((count, time_s)) = parts.reads {
        let time = us(count * time_s);
        writeln!(
            text,
            "    {{ visit = \"{}\", service = \"{time}\" }},",
            names::DISK
        )?;
    }
    if let Some(flush) = parts.flush.and_then(|curve| service(curve, 1.0)) {
        writeln!(
            text,
            "    {{ visit = \"{}\", service = {flush} }},",
            names::FLUSH
        )?;
    }
    writeln!(text, "]\n")
}

/// A share of the transaction's CPU time.
fn work(text: &mut String, parts: &Parts, share: f64) -> std::fmt::Result {
    if let Some(service) = service(parts.cpu, share) {
        writeln!(
            text,
            "    {{ visit = \"{}\", service = {service} }},",
            names::CPU
        )?;
    }
    Ok(())
}

fn stations(text: &mut String, parts: &Parts) -> std::fmt::Result {
    let fit = &parts.fit;
    let speeds: Vec<String> = speeds(fit.cores, fit)
        .iter()
        .map(|speed| format!("{speed:.4}"))
        .collect();
    writeln!(
        text,
        "# {} processors, of which other programs used {:.2}. With few requests they sleep, and wake up late.\n[[station]]\nname = \"{}\"\nspeeds = [{}]\n",
        fit.cores,
        fit.other_cores,
        names::CPU,
        speeds.join(", ")
    )?;
    if parts.flush.is_some() {
        writeln!(
            text,
            "# One flush of the WAL for all who wait (group commit).\n[[station]]\nname = \"{}\"\nscheduling = \"group\"\n",
            names::FLUSH
        )?;
    }
    if parts.reads.is_some() {
        writeln!(
            text,
            "# Reads of a transaction, together.\n[[station]]\nname = \"{}\"\nscheduling = \"fcfs\"\n",
            names::DISK
        )?;
    }
    for lock in &parts.locks {
        writeln!(
            text,
            "[[resource]]\nname = \"{}\"\nrecords = {}\n",
            lock.name, lock.records
        )?;
    }
    if let Some(connections) = parts.connections {
        writeln!(
            text,
            "[[resource]]\nname = \"{}\"\nunits = {connections}\n",
            names::CONNECTION
        )?;
    }
    Ok(())
}

/// Work per second with 1, 2, … requests at processors of which other programs use some.
///
/// A request's processor has no other request with the chance (1 - 1/cores)^(n - 1), if each is on any of them. It then
/// sleeps between two steps of the request, and waking up takes `wake_up` times the CPU time.
pub(crate) fn speeds(cores: u32, fit: &Fit) -> Vec<f64> {
    let count = f64::from(cores);
    // What other programs take from a single request is part of its wake-ups.
    let most = (count - fit.other_cores).max(1.0);
    let mut speeds = Vec::new();
    for requests in 1..=Servers::MOST {
        let requests = f64::from(requests);
        let alone = (1.0 - 1.0 / count).powf(requests - 1.0);
        speeds.push(requests.min(most) / (1.0 + fit.wake_up * alone));
        if requests >= count && (alone < 0.005 || fit.wake_up <= 0.0) {
            break;
        }
    }
    speeds
}

fn fit(text: &mut String, parts: &Parts) -> std::fmt::Result {
    let fit = &parts.fit;
    writeln!(
        text,
        "# Where the model comes from; solve and simulate do not use it.\n[fit]\nworkload = {:?}\ncores = {}\nother_cores = {:.4}\nwake_up = {:.5}\nmodel_error = {:.5}\nleft_out = {:?}\n",
        fit.workload, fit.cores, fit.other_cores, fit.wake_up, fit.model_error, fit.left_out
    )?;
    for point in &fit.point {
        writeln!(
            text,
            "[[fit.point]]\nrun = {:?}\nclients = {}\nthroughput_per_s = {:.4}\nresponse_s = {:.9}\n",
            point.run, point.clients, point.throughput_per_s, point.response_s
        )?;
    }
    for uncertainty in &fit.uncertainty {
        writeln!(
            text,
            "[[fit.uncertainty]]\nstation = {:?}\nrelative = {:.5}\n",
            uncertainty.station, uncertainty.relative
        )?;
    }
    Ok(())
}
