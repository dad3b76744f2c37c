//! Fits to runs that are made from a known system, predictions for others, and what refuses to be fitted.

use crate::near;
use std::collections::BTreeMap;
use tenbin_model::{
    Changes, CpuParts, FitError, Measured, Network, PredictError, SimulateOptions, WorkloadKey,
    fit_measured, fit_of, predict, simulate, validate,
};

/// A server with two processors whose demands are known.
#[derive(Clone, Copy)]
struct System {
    cpus: u32,
    /// Of a transaction with few and with many clients.
    cpu_s: f64,
    flush_s: f64,
    branches: u32,
    async_commit: bool,
    connections: Option<u32>,
    lock_share: f64,
}

const BANK: System = System {
    cpus: 2,
    cpu_s: 400e-6,
    flush_s: 800e-6,
    branches: 50,
    async_commit: false,
    connections: None,
    lock_share: 1.0,
};

impl System {
    fn demand_s(self, clients: u32) -> f64 {
        let n = f64::from(clients);
        self.cpu_s * (1.0 + 0.8 / n + 0.03 * (n.sqrt() - 1.0))
    }

    /// The system as a network that was not written by the code under test.
    fn network(self, clients: u32) -> Network {
        let backends = self.connections.map_or(clients, |most| most.min(clients));
        let demand = self.demand_s(backends);
        // The seven statements of TPC-B: half of the fourth comes before the teller's lock.
        let (before, teller, held) = (demand * 3.5 / 7.0, demand / 7.0, demand * 2.5 / 7.0);
        let (teller_held, branch_held) = (teller * self.lock_share, held * self.lock_share);
        let early = before + (teller + held) * (1.0 - self.lock_share);
        let flush = if self.async_commit {
            ""
        } else {
            "{ visit = 'log' },"
        };
        let limit = self
            .connections
            .map_or(String::new(), |_| "{ take = 'limit' },".to_owned());
        let units = self.connections.unwrap_or(1);
        let text = format!(
            "[[class]]\nname = 'a'\npopulation = {clients}\n\
             steps = [{limit} {{ visit = 'cpu', service = {early} }}, {{ take = 't' }}, {{ visit = 'cpu', service = {teller_held} }},\n\
             {{ take = 'b' }}, {{ visit = 'cpu', service = {branch_held} }}, {flush}]\n\
             [[station]]\nname = 'cpu'\nservers = {}\n{}\
             [[resource]]\nname = 't'\nrecords = {}\n[[resource]]\nname = 'b'\nrecords = {}\n[[resource]]\nname = 'limit'\nunits = {units}\n",
            self.cpus,
            if self.async_commit {
                String::new()
            } else {
                format!(
                    "[[station]]\nname = 'log'\nscheduling = 'group'\nservice = {}\n",
                    self.flush_s
                )
            },
            10 * self.branches,
            self.branches,
        );
        Network::parse(&text, "truth").unwrap()
    }

    fn run(self, clients: u32) -> Measured {
        let options = SimulateOptions {
            seed: 9,
            precision: 0.01,
            max_completions: 1_000_000,
        };
        let class = simulate(&self.network(clients), &options)
            .unwrap()
            .classes
            .remove(0);
        let cpu_s = self.demand_s(clients);
        let done = class.throughput_per_s.mean;
        Measured {
            run: format!("run-{clients}"),
            directory: format!("runs/{clients}"),
            workload: workload(self.branches),
            clients,
            connections: None,
            think_s: 0.0,
            throughput_per_s: done,
            response_s: class.response_s.mean,
            response_p90_s: class.response_p90_s,
            cores: self.cpus,
            other_cores: 0.0,
            cpu_s: CpuParts {
                driver_s: cpu_s / 4.0,
                server_s: cpu_s * 3.0 / 4.0,
                ..CpuParts::default()
            },
            seconds: (0..10)
                .map(|second| (done * cpu_s * (1.0 + 0.01 * f64::from(second % 3)), done))
                .collect(),
            flush_s: Some(self.flush_s),
            reads: None,
            lock_wait_s: 0.0,
        }
    }
}

fn workload(branches: u32) -> WorkloadKey {
    let parameters = [
        ("form", "tpcb".to_owned()),
        ("branches", branches.to_string()),
        ("tellers", (10 * branches).to_string()),
    ];
    WorkloadKey {
        name: "tpcb".to_owned(),
        scale: f64::from(branches),
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn three_runs_predict_the_others() {
    let runs = [1, 16, 200].map(|clients| BANK.run(clients));
    let model = fit_measured(&runs).unwrap();
    // The model is an ordinary network file.
    Network::parse(&model, "model.toml").unwrap();
    let others = [1, 2, 4, 8, 32, 64, 100].map(|clients| BANK.run(clients));
    let found = validate(&model, "model.toml", &others).unwrap();
    let fitted: Vec<u32> = found
        .points
        .iter()
        .filter(|point| point.fitted)
        .map(|point| point.clients)
        .collect();
    assert_eq!(fitted, [1]);
    let (throughput, response) = (found.throughput.unwrap(), found.response.unwrap());
    assert_eq!((throughput.runs, response.runs), (6, 6));
    assert!(throughput.worst < 0.05 && response.worst < 0.05, "{found}");
    // The errors are those of the points.
    let mut errors: Vec<f64> = found
        .points
        .iter()
        .filter(|point| !point.fitted)
        .map(|point| (point.predicted.throughput_per_s.value / point.throughput_per_s - 1.0).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    near(throughput.worst, errors[5], 1e-12);
    near(
        throughput.median,
        f64::midpoint(errors[2], errors[3]),
        1e-12,
    );
    for point in &found.points {
        let used = &point.predicted.utilization;
        let cpu = used.iter().find(|used| used.name == "cpu").unwrap();
        near(
            cpu.share,
            point.throughput_per_s * BANK.demand_s(point.clients) / 2.0,
            0.06,
        );
    }
}

#[test]
fn a_wrong_demand_shows_as_an_error() {
    let mut runs = [1, 16, 200].map(|clients| BANK.run(clients));
    for run in &mut runs {
        run.cpu_s.server_s *= 1.5;
    }
    let model = fit_measured(&runs).unwrap();
    assert!(fit_of(&model, "m").unwrap().unwrap().model_error > 0.2);
    let found = validate(&model, "m", &[BANK.run(64)]).unwrap();
    assert!(found.throughput.unwrap().worst > 0.2, "{found}");
}

#[test]
fn a_change_brings_what_the_changed_system_does() {
    let runs = [1, 16, 200].map(|clients| BANK.run(clients));
    let model = fit_measured(&runs).unwrap();
    let none = Changes::default();
    let few = System {
        branches: 1,
        ..BANK
    };
    let few_model = fit_measured(&[1, 16, 200].map(|clients| few.run(clients))).unwrap();
    let cases = [
        (
            &model,
            Changes {
                cpus: Some(4),
                ..none
            },
            System { cpus: 4, ..BANK },
            "cpu",
        ),
        (
            &model,
            Changes {
                cpu_power: Some(3.0),
                ..none
            },
            System {
                cpu_s: BANK.cpu_s / 3.0,
                ..BANK
            },
            "branch row",
        ),
        (
            &model,
            Changes {
                async_commit: true,
                ..none
            },
            System {
                async_commit: true,
                ..BANK
            },
            "cpu",
        ),
        (
            &model,
            Changes {
                connections: Some(12),
                ..none
            },
            System {
                connections: Some(12),
                ..BANK
            },
            "connection",
        ),
        (
            &few_model,
            Changes {
                disk_time: Some(0.5),
                ..none
            },
            System {
                flush_s: BANK.flush_s / 2.0,
                ..few
            },
            "branch row",
        ),
        (
            &few_model,
            Changes {
                hold_locks: Some(0.3),
                ..none
            },
            System {
                lock_share: 0.3,
                ..few
            },
            "branch row",
        ),
    ];
    for (model, changes, truth, bottleneck) in cases {
        let found = predict(model, "m", &changes, 64).unwrap();
        let expected = truth.run(64);
        near(
            found.throughput_per_s.value,
            expected.throughput_per_s,
            0.05,
        );
        near(found.response_s.value, expected.response_s, 0.05);
        assert!(
            found.utilization[0].name == bottleneck || found.utilization[1].name == bottleneck,
            "{changes:?}: {found:?}"
        );
    }
}

#[test]
fn intervals_contain_the_value_and_widen_with_the_uncertainty() {
    let width = |noise: f64| {
        let runs = [1, 16, 200].map(|clients| {
            let mut run = BANK.run(clients);
            for (at, second) in run.seconds.iter_mut().enumerate() {
                second.0 *= if at % 2 == 0 {
                    1.0 + noise
                } else {
                    1.0 - noise
                };
            }
            run
        });
        let model = fit_measured(&runs).unwrap();
        let found = predict(&model, "m", &Changes::default(), 64)
            .unwrap()
            .throughput_per_s;
        assert!(found.low < found.value && found.value < found.high);
        (found.high / found.low).ln()
    };
    assert!(width(0.5) > 1.5 * width(0.01));
}

#[test]
fn a_prediction_outside_the_fitted_range_says_so() {
    let model = fit_measured(&[4, 64].map(|clients| BANK.run(clients))).unwrap();
    let outside = |clients| {
        predict(&model, "m", &Changes::default(), clients)
            .unwrap()
            .extrapolated
    };
    assert_eq!([3, 4, 64, 65].map(outside), [true, false, false, true]);
    let fit = fit_of(&model, "m").unwrap().unwrap();
    assert!(fit.left_out[0].contains("at most 2 clients"), "{fit:?}");
}

#[test]
fn what_cannot_be_fitted_or_changed_is_refused() {
    let none: [Measured; 0] = [];
    assert!(matches!(fit_measured(&none), Err(FitError::Nothing)));
    let mut other = BANK.run(4);
    other.workload = workload(7);
    let error = fit_measured(&[BANK.run(1), other.clone()])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("runs/4 differs from runs/1 in scale or parameters"),
        "{error}"
    );
    let model = fit_measured(&[BANK.run(1)]).unwrap();
    let error = validate(&model, "model.toml", &[other])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("workload, scale or number of processors"),
        "{error}"
    );
    let refused = |changes: Changes, words: &str| {
        let error = predict(&model, "m", &changes, 4).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let none = Changes::default();
    refused(
        Changes {
            cpus: Some(0),
            ..none
        },
        "--cpus 0: give 1 to 500",
    );
    refused(
        Changes {
            connections: Some(0),
            ..none
        },
        "--connections 0",
    );
    refused(
        Changes {
            cpu_power: Some(0.0),
            ..none
        },
        "--cpu-power 0",
    );
    refused(
        Changes {
            hold_locks: Some(2.0),
            ..none
        },
        "--hold-locks 2: give at most 1x",
    );
    refused(
        Changes {
            spread_files: Some(4),
            ..none
        },
        "the model has no disk reads",
    );
    let network = "[[class]]\nname = 'a'\npopulation = 3\n[[station]]\nname = 'cpu'\nservice = 1\n";
    let error = predict(network, "net.toml", &none, 4).unwrap_err();
    assert!(matches!(error, PredictError::NotFitted { .. }), "{error}");
}
