//! What requests hold: connections, places, locks; forks and group commit. Known answers.

use std::fmt::Write as _;
use tenbin_model::{Estimate, Network, SimulateOptions, Simulation, solve};

const OPTIONS: SimulateOptions = SimulateOptions {
    seed: 3,
    precision: 0.01,
    max_completions: 30_000_000,
};

fn simulated(text: &str) -> Simulation {
    let network = Network::parse(text, "test.toml").unwrap();
    tenbin_model::simulate(&network, &OPTIONS).unwrap()
}

/// Within two half widths, about four standard errors.
#[track_caller]
fn agrees(found: Estimate, expected: f64) {
    assert!(
        (found.mean - expected).abs() <= 2.0 * found.half_width + 1e-12,
        "{found:?}, expected {expected}"
    );
}

/// Probabilities of a birth and death process with these rates up and down.
fn birth_and_death(up: impl Fn(f64) -> f64, down: impl Fn(f64) -> f64, most: u32) -> Vec<f64> {
    let mut weights = vec![1.0];
    for n in 0..most {
        let n = f64::from(n);
        weights.push(weights[weights.len() - 1] * up(n) / down(n + 1.0));
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn mean_of(chances: &[f64], value: impl Fn(f64) -> f64) -> f64 {
    (0..)
        .zip(chances)
        .map(|(n, chance)| chance * value(f64::from(n)))
        .sum()
}

/// A connection limit in front of two servers, with places for those who wait: M/M/2/5.
#[test]
fn a_full_queue_refuses_as_in_m_m_c_k() {
    let found = simulated(
        "[[class]]\nname = 'a'\narrival_rate = 2.5\nsteps = [{ take = 'server' }, { visit = 'work' }]\n\
         [[station]]\nname = 'work'\nservers = 'infinite'\nservice = 1\n\
         [[resource]]\nname = 'server'\nunits = 2\nqueue = 3\n",
    );
    let chances = birth_and_death(|_| 2.5, |n| n.min(2.0), 5);
    let accepted = 2.5 * (1.0 - chances[5]);
    agrees(found.classes[0].throughput_per_s, accepted);
    agrees(found.classes[0].refused_per_s.unwrap(), 2.5 * chances[5]);
    agrees(
        found.classes[0].response_s,
        mean_of(&chances, |n| n) / accepted,
    );
    let resource = &found.resources[0];
    agrees(resource.waiting, mean_of(&chances, |n| (n - 2.0).max(0.0)));
    agrees(
        resource.utilization,
        mean_of(&chances, |n| n.min(2.0)) / 2.0,
    );
    agrees(
        resource.wait_s,
        mean_of(&chances, |n| (n - 2.0).max(0.0)) / accepted,
    );
    let waits = (chances[2] + chances[3] + chances[4]) / (1.0 - chances[5]);
    agrees(resource.share_waiting, waits);
}

/// The machine-repairman model: twelve machines, two of whom can be repaired at the same time.
#[test]
fn a_limit_in_a_closed_network_is_the_machine_repairman_model() {
    let found = simulated(
        "[[class]]\nname = 'a'\npopulation = 12\nthink_time = 5\nsteps = [{ take = 'repairman' }, { visit = 'repair' }, { free = 'repairman' }]\n\
         [[station]]\nname = 'repair'\nservers = 'infinite'\nservice = 1\n\
         [[resource]]\nname = 'repairman'\nunits = 2\n",
    );
    let chances = birth_and_death(|n| (12.0 - n) / 5.0, |n| n.min(2.0), 12);
    let rate = mean_of(&chances, |n| n.min(2.0));
    agrees(found.classes[0].throughput_per_s, rate);
    agrees(found.classes[0].response_s, mean_of(&chances, |n| n) / rate);
    assert!(found.classes[0].refused_per_s.is_none());
}

/// A lock that everybody needs is a server: the network with the lock's hold time as a station is exact.
#[test]
fn one_record_is_a_single_server_and_several_are_chosen_at_random() {
    let text = |records: u32, zipf: f64| {
        format!(
            "[[class]]\nname = 'a'\npopulation = 8\nthink_time = 1\nsteps = [{{ take = 'row' }}, {{ visit = 'hold' }}, {{ free = 'row' }}]\n\
             [[station]]\nname = 'hold'\nservers = 'infinite'\nservice = 0.3\n\
             [[resource]]\nname = 'row'\nrecords = {records}\nzipf = {zipf}\n"
        )
    };
    // Each record is a station that a request visits with the record's chance.
    let stations = |chances: &[f64]| {
        let mut text = "[[class]]\nname = 'a'\npopulation = 8\nthink_time = 1\n".to_owned();
        for (at, chance) in chances.iter().enumerate() {
            write!(
                text,
                "[[station]]\nname = '{at}'\nservice = 0.3\nvisits = {chance}\nscheduling = 'fcfs'\n"
            ).unwrap();
        }
        solve(&Network::parse(&text, "f").unwrap()).unwrap()
    };
    for (records, zipf, chances) in [
        (1, 0.0, vec![1.0]),
        (3, 0.0, vec![1.0 / 3.0; 3]),
        (3, 1.0, vec![6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]),
    ] {
        let (found, exact) = (simulated(&text(records, zipf)), stations(&chances));
        agrees(
            found.classes[0].throughput_per_s,
            exact.classes[0].throughput_per_s,
        );
        agrees(found.classes[0].response_s, exact.classes[0].response_s);
    }
}

/// Two requests that lock the same two records in random order: they meet as often as an exact Markov chain
/// says if the deadlock is found at once.
#[test]
fn a_deadlock_is_found_after_the_timeout_and_one_of_the_two_is_aborted() {
    let text = |timeout: f64| {
        format!(
            "deadlock_timeout = {timeout}\n[[class]]\nname = 'a'\npopulation = 2\nthink_time = 1\n\
             steps = [{{ take = 'row' }}, {{ visit = 'work' }}, {{ take = 'row' }}, {{ visit = 'work' }}]\n\
             [[station]]\nname = 'work'\nservers = 'infinite'\nservice = 1\n\
             [[resource]]\nname = 'row'\nrecords = 2\n"
        )
    };
    // States of two requests: T thinks, A holds its first record, B holds both, W waits for its first
    // record, V holds its first and waits for the second. All rates are 1. With a timeout near 0, a
    // request that closes a cycle is aborted at once and thinks.
    let exact = two_requests();
    let found = simulated(&text(1e-9));
    agrees(found.classes[0].throughput_per_s, exact.0);
    agrees(found.classes[0].deadlocks_per_s.unwrap(), exact.1);
    // The longer a deadlock lasts, the fewer requests are completed, and with no other way out of it the
    // network goes on.
    let slow = simulated(&text(4.0));
    assert!(
        slow.classes[0].throughput_per_s.mean < 0.8 * exact.0,
        "{slow:?}"
    );
    assert!(slow.classes[0].deadlocks_per_s.unwrap().mean > 0.0);
}

/// Throughput and deadlocks per second of two requests that take two records in random order.
fn two_requests() -> (f64, f64) {
    // TT, TA, TB; AA: both hold their first; AW: both wanted the same first; BW: the first holds both; AV: the
    // second waits for the first's record. From AA, the first to go on waits (V); then the other closes a
    // cycle when it goes on: it is aborted, the waiting one goes on (TB).
    let names = ["TT", "TA", "TB", "AA", "AW", "BW", "AV"];
    let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
    // From, to, rate, completions, deadlocks.
    let moves = [
        ("TT", "TA", 2.0, 0.0, 0.0),
        ("TA", "TB", 1.0, 0.0, 0.0),
        ("TA", "AA", 0.5, 0.0, 0.0),
        ("TA", "AW", 0.5, 0.0, 0.0),
        ("TB", "TT", 1.0, 1.0, 0.0),
        ("TB", "BW", 1.0, 0.0, 0.0),
        ("AW", "BW", 1.0, 0.0, 0.0),
        ("BW", "TA", 1.0, 1.0, 0.0),
        ("AA", "AV", 2.0, 0.0, 0.0),
        ("AV", "TB", 1.0, 0.0, 1.0),
    ];
    let mut chances = vec![1.0 / 7.0; 7];
    for _ in 0..200_000 {
        let mut next = chances.clone();
        for (from, to, rate, _, _) in moves {
            let flow = 0.05 * rate * chances[at(from)];
            next[at(from)] -= flow;
            next[at(to)] += flow;
        }
        chances = next;
    }
    let sum = |value: fn(&(&str, &str, f64, f64, f64)) -> f64| -> f64 {
        moves
            .iter()
            .map(|row| chances[at(row.0)] * row.2 * value(row))
            .sum()
    };
    (sum(|row| row.3), sum(|row| row.4))
}

/// A fork of two exponential branches without other load ends after 1/a + 1/b - 1/(a + b).
#[test]
fn a_fork_ends_with_its_last_branch() {
    let found = simulated(
        "[[class]]\nname = 'a'\npopulation = 1\nthink_time = 1\n\
         steps = [{ visit = 'first' }, { fork = [[{ visit = 'x' }], [{ visit = 'y' }]] }]\n\
         [[station]]\nname = 'first'\nservice = 0.5\n[[station]]\nname = 'x'\nservice = 1\n[[station]]\nname = 'y'\nservice = 0.25\n",
    );
    agrees(found.classes[0].response_s, 0.5 + 1.0 + 0.25 - 1.0 / 5.0);
    agrees(
        found.stations[1].utilization.unwrap(),
        found.classes[0].throughput_per_s.mean,
    );
}

/// Two symmetric M/M/1 queues that a request joins at the same time: (12 - rho) / 8 times the response of one
/// (Flatto and Hahn 1984; Nelson and Tantawi 1988).
#[test]
fn two_queues_in_parallel_follow_flatto_and_hahn() {
    let found = simulated(
        "[[class]]\nname = 'a'\narrival_rate = 0.6\nsteps = [{ fork = [[{ visit = 'x' }], [{ visit = 'y' }]] }]\n\
         [[station]]\nname = 'x'\nservice = 1\nscheduling = 'fcfs'\n[[station]]\nname = 'y'\nservice = 1\nscheduling = 'fcfs'\n",
    );
    agrees(found.classes[0].response_s, (12.0 - 0.6) / 8.0 / 0.4);
}

/// Group commit: M/M/1 with unlimited bulk service. The number that waits, n, falls to 0 at each end of a service; with z the root
/// of rho z^2 - (1 + rho) z + 1 below 1, the response is as Bailey 1954 has it.
#[test]
fn a_group_is_served_together() {
    let rate: f64 = 3.0;
    let found = simulated(&format!(
        "[[class]]\nname = 'a'\narrival_rate = {rate}\n[[station]]\nname = 'log'\nscheduling = 'group'\nservice = 1\n"
    ));
    // State: idle, or busy with n who wait; from busy with n, services end at rate 1 to busy with 0 (n > 0) or idle (n = 0).
    // Those in service number as many as waited before. By Little's law: a request waits for the rest of the
    // service under way, which is exponential with mean 1, if there is one, and then is served for 1.
    // Busy chance: from idle, rate up; from busy, the service ends and nobody waits with chance 1 / (1 + rate).
    let idle = (1.0 / (1.0 + rate)) / (1.0 / (1.0 + rate) + rate);
    agrees(found.stations[0].utilization.unwrap(), 1.0 - idle);
    agrees(found.classes[0].response_s, 1.0 + (1.0 - idle));
    agrees(found.classes[0].throughput_per_s, rate);
}

/// Blocking: a request keeps its server until there is a place in front of the next one.
#[test]
fn a_server_is_blocked_while_the_next_has_no_place() {
    // Two stations in a row, one place at the second, closed with 3 requests and no think time, so that
    // the first always has work: states 0, 1 (at the second), b (the first is blocked).
    let found = simulated(
        "[[class]]\nname = 'a'\npopulation = 3\n\
         steps = [{ take = 'first' }, { visit = 'one' }, { take = 'second' }, { free = 'first' }, { visit = 'two' }]\n\
         [[station]]\nname = 'one'\nservice = 1\n[[station]]\nname = 'two'\nservice = 0.5\n\
         [[resource]]\nname = 'first'\n[[resource]]\nname = 'second'\n",
    );
    let chances = birth_and_death(|_| 1.0, |_| 2.0, 2);
    agrees(found.classes[0].throughput_per_s, 2.0 * (1.0 - chances[0]));
    agrees(found.stations[0].utilization.unwrap(), 1.0 - chances[2]);
}

/// Steps without resources are a network with a product form.
#[test]
fn steps_that_hold_nothing_are_solved() {
    let steps = "[[class]]\nname = 'a'\npopulation = 7\nthink_time = 1\n\
         steps = [{ visit = 'cpu', service = 0.1 }, { visit = 'disk' }, { visit = 'cpu', service = 0.3 }]\n\
         [[station]]\nname = 'cpu'\n[[station]]\nname = 'disk'\nservice = 0.2\n";
    let order = "[[class]]\nname = 'a'\npopulation = 7\nthink_time = 1\n\
         [[station]]\nname = 'cpu'\nservice = 0.2\nvisits = 2\n[[station]]\nname = 'disk'\nservice = 0.2\n";
    let solved = |text: &str| solve(&Network::parse(text, "f").unwrap()).unwrap();
    assert_eq!(solved(steps).classes, solved(order).classes);
    agrees(
        simulated(steps).classes[0].response_s,
        solved(order).classes[0].response_s,
    );
    for (text, reason) in [
        (
            steps.replace("{ visit = 'disk' }", "{ fork = [[{ visit = 'disk' }]] }"),
            "it forks",
        ),
        (
            format!(
                "{}[[resource]]\nname = 'row'\n",
                steps.replace("steps = [", "steps = [{ take = 'row' }, ")
            ),
            "it holds resource \"row\"",
        ),
        (
            steps.replace("name = 'cpu'\n", "name = 'cpu'\nscheduling = 'fcfs'\n"),
            "is not exponential",
        ),
        (
            order.replace("name = 'disk'\n", "name = 'disk'\nscheduling = 'group'\n"),
            "serves all who wait at once",
        ),
    ] {
        let error = solve(&Network::parse(&text, "f").unwrap()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}
