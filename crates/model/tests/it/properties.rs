//! What holds for every network. Sizes are bounded, so that a case takes well under a second.

use crate::near;
use proptest::prelude::*;
use std::fmt::Write as _;
use tenbin_model::{Method, Network, solve};

#[derive(Debug, Clone)]
struct Case {
    classes: Vec<(u32, f64)>,
    stations: Vec<(u32, Vec<f64>)>,
}

fn cases() -> impl Strategy<Value = Case> {
    (1..=2_usize).prop_flat_map(|classes| {
        let most = if classes == 1 { 50_u32 } else { 7 };
        (
            proptest::collection::vec((1..=most, 0.0..5.0_f64), classes),
            proptest::collection::vec(
                (
                    1..=4_u32,
                    proptest::collection::vec(0.001..1.0_f64, classes),
                ),
                1..=4,
            ),
        )
            .prop_map(|(classes, stations)| Case { classes, stations })
    })
}

impl Case {
    /// The network; `speeds`: single servers are written so that they are solved by convolution.
    fn text(&self, speeds: bool) -> String {
        let mut text = String::new();
        for (index, (population, think)) in self.classes.iter().enumerate() {
            writeln!(
                text,
                "[[class]]\nname = 'c{index}'\npopulation = {population}\nthink_time = {think}"
            )
            .unwrap();
        }
        for (index, (servers, demands)) in self.stations.iter().enumerate() {
            writeln!(text, "[[station]]\nname = 's{index}'").unwrap();
            if speeds {
                let speeds: Vec<String> = (1..=*servers).map(|n| format!("{n}.0")).collect();
                writeln!(text, "speeds = [{}]", speeds.join(", ")).unwrap();
            } else {
                writeln!(text, "servers = {servers}").unwrap();
            }
            let demands: Vec<String> = demands
                .iter()
                .enumerate()
                .map(|(c, d)| format!("c{c} = {d}"))
                .collect();
            writeln!(text, "demand = {{ {} }}", demands.join(", ")).unwrap();
        }
        text
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn littles_law_and_the_bounds_hold(case in cases()) {
        let network = Network::parse(&case.text(false), "f").unwrap();
        let found = solve(&network).unwrap();
        for (class, (population, think)) in found.classes.iter().zip(&case.classes) {
            // All requests are somewhere: at a station or thinking.
            near(class.requests + class.throughput_per_s * think, f64::from(*population), 1e-9);
        }
        for station in &found.stations {
            let share = station.utilization.unwrap();
            prop_assert!(share > 0.0 && share <= 1.0 + 1e-12, "{share}");
            prop_assert!(station.requests >= share * (1.0 - 1e-12));
        }
        if let Some(bounds) = found.bounds {
            let throughput = found.classes[0].throughput_per_s;
            for interval in [Some(bounds.asymptotic_throughput_per_s), bounds.balanced_throughput_per_s].into_iter().flatten() {
                prop_assert!(interval.low <= throughput * (1.0 + 1e-9), "{interval:?} {throughput}");
                prop_assert!(interval.high >= throughput * (1.0 - 1e-9), "{interval:?} {throughput}");
            }
        }
    }

    #[test]
    fn two_exact_methods_agree(mut case in cases()) {
        for (servers, _) in &mut case.stations {
            *servers = 1;
        }
        let solved = |speeds| solve(&Network::parse(&case.text(speeds), "f").unwrap()).unwrap();
        let (a, b) = (solved(false), solved(true));
        prop_assert_eq!((a.method, b.method), (Method::MeanValueAnalysis, Method::Convolution));
        for (a, b) in a.stations.iter().zip(&b.stations) {
            near(a.requests, b.requests, 1e-9);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", place in 0..400_usize) {
        let _ = Network::parse(&text, "f");
        let mut whole = "[[class]]\nname = 'a'\npopulation = 3\n[class.route]\nstart = { cpu = 1 }\ncpu = { end = 1 }\n\
                         [[station]]\nname = 'cpu'\nservice = { mean = '5 ms', distribution = 'erlang', stages = 3 }\n".to_owned();
        whole.insert_str(place % whole.len(), &text);
        let _ = Network::parse(&whole, "f");
    }
}

#[test]
fn a_published_schema_accepts_what_the_reader_accepts() {
    let (_, schema) = &tenbin_model::schemas()[0];
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let valid = jsonschema::validator_for(&schema).unwrap();
    let read = |text: &str| serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    let good = "name = 'n'\n[[class]]\nname = 'a'\npopulation = 3\nthink_time = '1 s'\n[class.route]\nstart = { cpu = 1.0 }\ncpu = { end = 1.0 }\n\
        [[station]]\nname = 'cpu'\nservers = 'infinite'\nservice = { a = { mean = '5 ms', distribution = 'erlang', stages = 3 } }\n";
    Network::parse(good, "f").unwrap();
    assert!(valid.is_valid(&read(good)));
    for bad in [
        good.replace("'infinite'", "'many'"),
        good.replace("5 ms", "5 parsecs"),
        good.replace("stages", "steps"),
    ] {
        assert!(Network::parse(&bad, "f").is_err());
        assert!(!valid.is_valid(&read(&bad)), "{bad}");
    }
}
