//! Files with mistakes: each has a message with its line and key.

use tenbin_model::Network;

#[track_caller]
fn refused(text: &str, line: usize, words: &[&str]) {
    let error = Network::parse(text, "bad.toml").unwrap_err();
    let said = error.to_string();
    assert_eq!(error.line, line, "{said}");
    assert!(said.starts_with(&format!("bad.toml:{line}: ")), "{said}");
    for word in words {
        assert!(said.contains(word), "should say {word:?}: {said}");
    }
}

const CLASS: &str = "[[class]]\nname = 'a'\npopulation = 3\n";
const STATION: &str = "[[station]]\nname = 'cpu'\nservice = 1\n";

#[test]
fn times_and_units() {
    let with = |service: &str| format!("{CLASS}[[station]]\nname = 'cpu'\nservice = {service}\n");
    refused(&with("0"), 6, &["station \"cpu\": service", "above 0"]);
    refused(&with("-1"), 6, &["above 0"]);
    refused(&with("nan"), 6, &["above 0"]);
    refused(&with("inf"), 6, &["above 0"]);
    refused(
        &with("'5 parsecs'"),
        6,
        &["service", "unknown unit \"parsecs\"", "us, ms, s, min or h"],
    );
    refused(&with("'5'"), 6, &["no unit"]);
    refused(&with("'ms'"), 6, &["not a time"]);
    refused(&with("{ a = '5 furlongs' }"), 6, &["unknown unit"]);
    refused(&with("{ b = 1 }"), 6, &["no class \"b\"", "a"]);
    refused(
        &with("{ mean = 1, distribution = 'erlang' }"),
        6,
        &["needs stages"],
    );
    refused(
        &with("{ mean = 1, distribution = 'erlang', stages = 1 }"),
        6,
        &["2 to 1000"],
    );
    refused(
        &with("{ mean = 1, distribution = 'hyper-exponential', cv = 1 }"),
        6,
        &["above 1"],
    );
    refused(
        &with("{ mean = 1, distribution = 'log-normal', cv = 0 }"),
        6,
        &["above 0"],
    );
    refused(
        &with("{ mean = 1, distribution = 'deterministic', cv = 1 }"),
        6,
        &["has no cv"],
    );
    refused(
        &with("{ distribution = 'empirical', values = [] }"),
        6,
        &["at least one"],
    );
    refused(
        &with("{ mean = 1, distribution = 'pareto' }"),
        6,
        &["pareto"],
    );
    refused(
        &with("{ mean = 1, a = 2 }"),
        6,
        &["\"a\" is no key of a distribution"],
    );
    refused(&with("true"), 6, &["one value"]);
}

#[test]
fn loads() {
    let with = |load: &str| format!("[[class]]\nname = 'a'\n{load}\n{STATION}");
    refused(&with(""), 2, &["class \"a\": population", "arrival_rate"]);
    refused(&with("population = 0"), 3, &["1 to 1000000"]);
    refused(&with("population = -1"), 3, &["1 to 1000000"]);
    refused(&with("population = 5\narrival_rate = 1"), 4, &["either"]);
    refused(&with("arrival_rate = 0"), 3, &["above 0"]);
    refused(
        &with("arrival_rate = 0.1\nthink_time = 1"),
        4,
        &["no think time"],
    );
    refused(&with("population = 1\nthink_time = -1"), 4, &["0 or more"]);
    refused(
        &with("population = 1\nthink_tyme = 1"),
        4,
        &["think_tyme", "unknown field"],
    );
}

#[test]
fn unstable_open_networks() {
    for rate in [1.0, 1.5] {
        let text = format!("[[class]]\nname = 'a'\narrival_rate = {rate}\n{STATION}");
        let percent = format!("{:.1} %", rate * 100.0);
        refused(
            &text,
            5,
            &[
                "station \"cpu\"",
                &percent,
                "grows without end",
                "lower arrival_rate",
            ],
        );
    }
}

#[test]
fn stations() {
    refused(CLASS, 4, &["station", "there is no station"]);
    refused(STATION, 4, &["class", "there is no class"]);
    refused(
        &format!("{CLASS}{STATION}{STATION}"),
        8,
        &["\"cpu\" is there twice"],
    );
    refused(
        &format!("{CLASS}[[station]]\nname = 'end'\nservice = 1\n"),
        5,
        &["has a meaning"],
    );
    refused(
        &format!("{CLASS}[[station]]\nname = 'x'\n"),
        5,
        &["no service time"],
    );
    refused(&format!("{CLASS}{STATION}servers = 0\n"), 7, &["1 to 500"]);
    refused(
        &format!("{CLASS}{STATION}servers = 'many'\n"),
        7,
        &["infinite"],
    );
    refused(
        &format!("{CLASS}{STATION}speeds = [1, 0]\n"),
        7,
        &["above 0"],
    );
    refused(&format!("{CLASS}{STATION}speeds = []\n"), 7, &["1 to 500"]);
    refused(
        &format!("{CLASS}{STATION}servers = 2\nspeeds = [1]\n"),
        7,
        &["either"],
    );
    refused(
        &format!("{CLASS}{STATION}servers = 2\nscheduling = 'delay'\n"),
        5,
        &["a delay has no servers"],
    );
    refused(
        &format!("{CLASS}{STATION}scheduling = 'lifo'\n"),
        7,
        &["lifo"],
    );
    refused(&format!("{CLASS}{STATION}visits = -1\n"), 7, &["0 or more"]);
    refused(&format!("{CLASS}{STATION}demand = 1\n"), 7, &["either"]);
    refused(
        &format!("{CLASS}[[station]]\nname = 'x'\ndemand = 1\nvisits = 2\n"),
        7,
        &["for all visits"],
    );
    refused(
        &format!("{CLASS}{STATION}[[station]]\nname = 'x'\nservice = 1\nvisits = 0\n"),
        8,
        &["no class reaches"],
    );
    refused(
        &format!("{CLASS}[[station]]\nname = 'x'\nservice = 1\nvisits = 0\n"),
        2,
        &["visits no station"],
    );
    refused(&format!("{CLASS}[[station\n"), 4, &["station"]);
}

#[test]
fn routes() {
    let with = |route: &str| {
        format!(
            "{CLASS}[class.route]\n{route}\n[[station]]\nname = 'cpu'\nservice = 1\n[[station]]\nname = 'disk'\nservice = 1\n"
        )
    };
    refused(
        &with("start = { cpu = 1 }\ncpu = { disk = 0.5, end = 0.4 }\ndisk = { cpu = 1 }"),
        6,
        &["route \"cpu\"", "sum to 0.9"],
    );
    refused(
        &with("start = { cpu = 1 }\ncpu = { tape = 1 }"),
        6,
        &["no station \"tape\""],
    );
    refused(
        &with("start = { cpu = 1 }\ncpu = { end = 1 }\ndisk = { end = 1 }"),
        7,
        &["route \"disk\"", "reaches this station"],
    );
    refused(
        &with("start = { cpu = 1 }\ncpu = { disk = 1 }"),
        2,
        &["route \"disk\"", "no route from it"],
    );
    refused(&with("cpu = { end = 1 }"), 2, &["\"start\""]);
    refused(
        &with("start = { cpu = 1 }\ncpu = { disk = 1 }\ndisk = { cpu = 1 }"),
        2,
        &["never ends"],
    );
    refused(
        &with("start = { cpu = 2, end = -1 }\ncpu = { end = 1 }"),
        5,
        &["0 to 1"],
    );
}

#[test]
fn sizes() {
    let many: Vec<String> = (0..1001)
        .map(|n| format!("[[station]]\nname = '{n}'\nservice = 1\n"))
        .collect();
    let many = many.concat();
    refused(&format!("{CLASS}{many}"), 3007, &["1001", "1000"]);
    let error = Network::parse(&"#".repeat(5 << 20), "f").unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}

#[test]
fn steps_and_resources() {
    let file = |steps: &str, resource: &str| {
        format!("[[class]]\nname = 'a'\npopulation = 3\nsteps = [{steps}]\n{STATION}{resource}")
    };
    let row = "[[resource]]\nname = 'row'\n";
    let visit = "{ visit = 'cpu' }";
    for (steps, words) in [
        ("{ visit = 'gpu' }", &["no station \"gpu\""][..]),
        ("{ take = 'log' }", &["no resource \"log\""]),
        (
            "{ take = 'row', free = 'row' }",
            &["one of visit, take, free and fork"],
        ),
        ("{ service = 1, take = 'row' }", &["belongs to a visit"]),
        (
            "{ fork = [[{ take = 'row' }]] }",
            &["takes and frees nothing"],
        ),
        ("{ fork = [] }", &["needs a visit"]),
        ("{ visit = 'cpu', service = 0 }", &["above 0"]),
        ("{ visit = 'cpu', speed = 0 }", &["unknown field"]),
    ] {
        refused(&file(steps, row), 4, words);
    }
    refused(&file("{ take = 'row' }", row), 2, &["visits no station"]);
    refused(
        &file(visit, &format!("{row}units = 0\n")),
        10,
        &["resource \"row\": units", "1 to"],
    );
    refused(
        &file(visit, &format!("{row}records = 100_000_000\n")),
        10,
        &["records", "10000000"],
    );
    refused(&file(visit, &format!("{row}zipf = -1\n")), 10, &["zipf"]);
    refused(&file(visit, &format!("{row}{row}")), 11, &["twice"]);
    refused(
        &file(
            &format!("{{ take = 'row' }}, {visit}"),
            &format!("{row}queue = 5\n"),
        ),
        4,
        &["think_time"],
    );
    refused(
        &format!("deadlock_timeout = 0\n{CLASS}{STATION}"),
        1,
        &["above 0"],
    );
    refused(
        &format!(
            "{CLASS}[[station]]\nname = 'log'\nscheduling = 'group'\nservers = 2\nservice = 1\n"
        ),
        5,
        &["one server"],
    );
    refused(
        &format!("{CLASS}steps = [{visit}]\n[class.route]\nstart = {{ cpu = 1 }}\n{STATION}"),
        4,
        &["either route or steps"],
    );
}
