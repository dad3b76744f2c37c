//! Known answers: textbooks, and an independent program.

use crate::{near, solved};
use serde_json::Value;
use std::fmt::Write as _;
use tenbin_model::{Method, Network, SolveError, solve};

/// Exact solvers are this exact.
const EXACT: f64 = 1e-9;

/// One open class at one station.
fn queue(rate: f64, station: &str) -> String {
    format!("[[class]]\nname = 'a'\narrival_rate = {rate}\n[[station]]\nname = 's'\n{station}\n")
}

#[test]
fn open_stations_have_the_values_of_erlang() {
    let one = solved(&queue(0.8, "service = 1"));
    near(one.classes[0].response_s, 5.0, EXACT);
    near(one.classes[0].requests, 4.0, EXACT);
    near(one.stations[0].utilization.unwrap(), 0.8, EXACT);
    assert_eq!(one.method, Method::Open);
    // Wq of M/M/c by Erlang's C formula, computed here from factorials.
    for (servers, rate, printed) in [
        (2, 1.6, 1.777_778),
        (4, 3.2, 0.745_541),
        (8, 7.2, 0.876_916),
    ] {
        let found = solved(&queue(
            rate,
            &format!("scheduling = 'fcfs'\nservers = {servers}\nservice = 1"),
        ));
        let count = f64::from(servers);
        let power = |k: i32| rate.powi(k) / (1..=k).map(f64::from).product::<f64>();
        let top = power(servers) * count / (count - rate);
        let wait = top / ((0..servers).map(power).sum::<f64>() + top) / (count - rate);
        near(found.classes[0].response_s - 1.0, wait, EXACT);
        near(wait, printed, 1e-6);
    }
}

#[test]
fn processor_sharing_depends_on_the_mean_only() {
    for shape in [
        "distribution = 'deterministic'",
        "distribution = 'hyper-exponential', cv = 5",
        "distribution = 'log-normal', cv = 0.3",
    ] {
        let found = solved(&queue(
            0.75,
            &format!("scheduling = 'ps'\nservice = {{ mean = 1, {shape} }}"),
        ));
        near(found.classes[0].response_s, 4.0, EXACT);
    }
}

#[test]
fn lazowskas_closed_network() {
    // Lazowska and others, Quantitative System Performance, 1984; values by octave-queueing 1.2.7 qncsmva.
    let found = solved(
        "[[class]]\nname = 'a'\npopulation = 20\nthink_time = 4\n\
         [[station]]\nname = 'cpu'\nservice = 0.125\nvisits = 16\n\
         [[station]]\nname = 'd1'\nservice = 0.3\nvisits = 10\n\
         [[station]]\nname = 'd2'\nservice = 0.2\nvisits = 5\n",
    );
    near(found.classes[0].throughput_per_s, 0.333_247, 1e-5);
    for (station, response) in found.stations.iter().zip([0.3733, 4.8543, 0.2999]) {
        near(station.classes[0].response_s, response, 2e-4);
    }
    assert_eq!(found.bottleneck.as_deref(), Some("d1"));
}

#[test]
fn closed_networks_with_printed_throughput() {
    let small = solved(
        "[[class]]\nname = 'a'\npopulation = 6\n\
         [[station]]\nname = '1'\nservice = 0.02\n[[station]]\nname = '2'\nservice = 0.2\nvisits = 0.4\n\
         [[station]]\nname = '3'\nservice = 0.4\nvisits = 0.2\n[[station]]\nname = '4'\nservice = 0.6\nvisits = 0.1\n",
    );
    near(small.classes[0].throughput_per_s, 9.919_84, 1e-6);
    let two = solved(
        "[[class]]\nname = 'a'\npopulation = 1\n[[class]]\nname = 'b'\npopulation = 1\n\
         [[station]]\nname = '1'\ndemand = { a = 1, b = 2 }\n[[station]]\nname = '2'\ndemand = { a = 3, b = 4 }\n",
    );
    near(two.classes[0].throughput_per_s, 3.0 / 19.0, EXACT);
    near(two.classes[1].throughput_per_s, 2.0 / 19.0, EXACT);
    let servers = solved(
        "[[class]]\nname = 'a'\npopulation = 300\nthink_time = 10\n\
         [[station]]\nname = '8'\nservers = 8\nservice = 0.2\n[[station]]\nname = 'ps'\nservice = 0.026\n",
    );
    near(servers.classes[0].throughput_per_s, 29.045_75, 1e-6);
    // Printed with the throughput: the time at the eight servers.
    near(servers.stations[0].classes[0].response_s, 0.226_206, 3e-6);
    assert_eq!(servers.method, Method::Convolution);
}

/// One processor and eight disks, 10 ms each.
fn central_server(population: u32, servers: &str) -> String {
    let mut text = format!(
        "[[class]]\nname = 'a'\npopulation = {population}\nthink_time = 1\n[[station]]\nname = 'cpu'\n{servers}\nservice = 0.01\n"
    );
    for disk in 1..=8 {
        write!(
            text,
            "[[station]]\nname = 'disk{disk}'\nscheduling = 'fcfs'\nservice = 0.01\n"
        )
        .unwrap();
    }
    text
}

#[test]
fn convolution_and_mean_values_agree_on_the_central_server() {
    let by_mean_values = solved(&central_server(200, ""));
    near(by_mean_values.classes[0].throughput_per_s, 92.9964, 1e-6);
    // A station with speeds is solved by convolution.
    let by_convolution = solved(&central_server(200, "speeds = [1, 1]"));
    assert_eq!(
        (by_mean_values.method, by_convolution.method),
        (Method::MeanValueAnalysis, Method::Convolution)
    );
    near(
        by_convolution.classes[0].throughput_per_s,
        by_mean_values.classes[0].throughput_per_s,
        EXACT,
    );
    for (a, b) in by_convolution.stations.iter().zip(&by_mean_values.stations) {
        near(a.requests, b.requests, EXACT);
    }
    // With equal demands at M single servers and no think time, X = N / (D (N + M - 1)).
    let balanced = solved(
        &central_server(1000, "speeds = [1, 1]").replace("think_time = 1", "think_time = 0"),
    );
    near(
        balanced.classes[0].throughput_per_s,
        1000.0 / (0.01 * 1008.0),
        EXACT,
    );
}

#[test]
fn a_machine_repair_shop_with_16_servers_and_1000_requests_is_exact() {
    // M/M/c//N: with p(n) of the birth-death chain, built up from its largest term.
    for servers in [1_u32, 16] {
        for think in [1.0, 50.0, 65.0] {
            let rate = |n: u32| f64::from(n.min(servers)) / 1.0;
            let (mut chance, mut sum, mut busy) = (1.0_f64, 0.0, 0.0);
            // From n = 1000 down: p(n-1) = p(n) rate(n) / ((1001 - n) / think); scaled against overflow.
            for n in (0..=1000_u32).rev() {
                sum += chance;
                busy += chance * rate(n);
                if n > 0 {
                    chance *= rate(n) * think / f64::from(1001 - n);
                }
                if chance > 1e200 {
                    (chance, sum, busy) = (chance * 1e-200, sum * 1e-200, busy * 1e-200);
                }
            }
            let found = solved(&format!(
                "[[class]]\nname = 'a'\npopulation = 1000\nthink_time = {think}\n[[station]]\nname = 's'\nservers = {servers}\nservice = 1\n"
            ));
            near(found.classes[0].throughput_per_s, busy / sum, EXACT);
        }
    }
}

/// The network of a row of octave.json.
fn described(row: &Value) -> String {
    let numbers = |value: &Value| -> Vec<f64> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap())
            .collect()
    };
    let classes = row["population"].as_array().unwrap().len();
    let mut text = String::new();
    for class in 0..classes {
        let (population, think) = (
            row["population"][class].as_u64().unwrap(),
            &row["think"][class],
        );
        if population > 0 {
            writeln!(
                text,
                "[[class]]\nname = 'c{class}'\npopulation = {population}\nthink_time = {think}"
            )
            .unwrap();
        } else {
            writeln!(
                text,
                "[[class]]\nname = 'c{class}'\narrival_rate = {}",
                row["rate"][class]
            )
            .unwrap();
        }
    }
    for (station, servers) in numbers(&row["servers"]).iter().enumerate() {
        let demands: Vec<String> = (0..classes)
            .map(|class| format!("c{class} = {}", row["demand"][class][station]))
            .collect();
        writeln!(
            text,
            "[[station]]\nname = 's{station}'\nservers = {servers}\ndemand = {{ {} }}",
            demands.join(", ")
        )
        .unwrap();
    }
    text
}

#[test]
fn random_networks_have_the_values_of_octave_queueing() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("octave.json")).unwrap();
    assert_eq!(rows.len(), 39);
    for row in &rows {
        let found = solved(&described(row));
        assert!(found.method.exact());
        if let Some(asymptotic) = row["asymptotic"].as_array() {
            let bounds = found.bounds.unwrap();
            near(
                bounds.asymptotic_throughput_per_s.low,
                asymptotic[0].as_f64().unwrap(),
                EXACT,
            );
            near(
                bounds.asymptotic_throughput_per_s.high,
                asymptotic[1].as_f64().unwrap(),
                EXACT,
            );
            let mut still = row.clone();
            still["think"] = serde_json::json!([0]);
            let balanced = solved(&described(&still))
                .bounds
                .unwrap()
                .balanced_throughput_per_s
                .unwrap();
            near(
                balanced.low,
                row["balanced_without_think"][0].as_f64().unwrap(),
                EXACT,
            );
            near(
                balanced.high,
                row["balanced_without_think"][1].as_f64().unwrap(),
                EXACT,
            );
            continue;
        }
        for (class, result) in found.classes.iter().enumerate() {
            near(
                result.throughput_per_s,
                row["throughput"][class].as_f64().unwrap(),
                EXACT,
            );
            for (station, result) in found.stations.iter().enumerate() {
                let expected = match &row["requests"][class] {
                    Value::Array(stations) => stations[station].as_f64().unwrap(),
                    _ => row["requests"][station].as_f64().unwrap(),
                };
                near(result.classes[class].requests, expected, EXACT);
            }
        }
    }
}

#[test]
fn linearizer_is_near_the_exact_solution_and_says_that_it_approximates() {
    let text = |population: u32| {
        format!(
            "[[class]]\nname = 'a'\npopulation = {population}\nthink_time = 1\n[[class]]\nname = 'b'\npopulation = {population}\n[[class]]\nname = 'c'\npopulation = {population}\nthink_time = 3\n\
             [[station]]\nname = '1'\nservers = 2\ndemand = {{ a = 0.1, b = 0.2, c = 0.05 }}\n[[station]]\nname = '2'\ndemand = {{ a = 0.2, b = 0.1, c = 0.3 }}\n"
        )
    };
    let large = solved(&text(100));
    assert_eq!(large.method, Method::Linearizer);
    assert!(large.to_string().contains("approximate"));
    // The bottleneck is full: its work is its capacity.
    near(large.stations[1].utilization.unwrap(), 1.0, 0.02);
    let exact = solved(&text(6));
    assert_eq!(exact.method, Method::Convolution);
    assert!(exact.stations[1].utilization.unwrap() <= 1.0);
}

#[test]
fn what_has_no_product_form_is_refused_with_the_reason() {
    let closed = "[[class]]\nname = 'a'\npopulation = 3\npriority = 1\n[[class]]\nname = 'b'\npopulation = 2\n";
    for (station, reason) in [
        (
            "scheduling = 'priority'\nservice = 1",
            "it serves by priority",
        ),
        (
            "scheduling = 'fcfs'\nservice = { mean = 1, distribution = 'deterministic' }",
            "not exponential",
        ),
        (
            "scheduling = 'fcfs'\nservice = { a = 1, b = 2 }",
            "different service times",
        ),
    ] {
        let network = Network::parse(
            &format!("{closed}[[station]]\nname = 'disk'\n{station}\n"),
            "f",
        )
        .unwrap();
        let error = solve(&network).unwrap_err();
        assert!(matches!(error, SolveError::NotProductForm { .. }));
        let said = error.to_string();
        assert!(
            said.contains("\"disk\"") && said.contains(reason) && said.contains("simulate"),
            "{said}"
        );
    }
    let mut text = central_server(100_000, "speeds = [1, 2]");
    text.push_str("[[class]]\nname = 'b'\npopulation = 1000\n");
    let said = solve(&Network::parse(&text, "f").unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("\"cpu\"") && said.contains("approximation"),
        "{said}"
    );
}

#[test]
fn open_classes_slow_the_closed_ones_as_a_slower_server_does() {
    // With a share rho of single servers taken, closed requests see demands / (1 - rho).
    let mixed = solved(
        "[[class]]\nname = 'o'\narrival_rate = 2\n[[class]]\nname = 'c'\npopulation = 9\nthink_time = 1\n\
         [[station]]\nname = '1'\nservice = { o = 0.2, c = 0.3 }\n[[station]]\nname = '2'\nservice = { c = 0.5 }\n",
    );
    let alone = solved(
        "[[class]]\nname = 'c'\npopulation = 9\nthink_time = 1\n\
         [[station]]\nname = '1'\nservice = 0.5\n[[station]]\nname = '2'\nservice = 0.5\n",
    );
    near(
        mixed.classes[1].throughput_per_s,
        alone.classes[0].throughput_per_s,
        EXACT,
    );
    near(
        mixed.stations[0].requests,
        alone.stations[0].requests + mixed.stations[0].classes[0].requests,
        EXACT,
    );
    near(
        mixed.stations[0].utilization.unwrap(),
        0.4 + 0.3 * mixed.classes[1].throughput_per_s,
        EXACT,
    );
}

#[test]
fn routes_give_the_visits_of_their_equations() {
    // From the processor a request goes to the disk with 0.6 and ends with 0.4: 2.5 and 1.5 visits.
    let routed = solved(
        "[[class]]\nname = 'a'\npopulation = 7\nthink_time = 1\n\
         route = { start = { cpu = 1 }, cpu = { disk = 0.6, end = 0.4 }, disk = { cpu = 1 } }\n\
         [[station]]\nname = 'cpu'\nservice = '10 ms'\n[[station]]\nname = 'disk'\nservice = '50 ms'\n",
    );
    let visited = solved(
        "[[class]]\nname = 'a'\npopulation = 7\nthink_time = '1000 ms'\n\
         [[station]]\nname = 'cpu'\nservice = 0.01\nvisits = 2.5\n[[station]]\nname = 'disk'\nservice = '50000 us'\nvisits = 1.5\n",
    );
    near(
        routed.classes[0].throughput_per_s,
        visited.classes[0].throughput_per_s,
        1e-12,
    );
    near(
        routed.stations[1].classes[0].response_s,
        visited.stations[1].classes[0].response_s,
        1e-12,
    );
}
