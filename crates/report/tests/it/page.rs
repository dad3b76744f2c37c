use crate::fixture::{bad_run, empty_run, run, samples, stacks, timeline};
use scraper::{ElementRef, Html, Selector};
use std::collections::BTreeMap;
use tenbin_record::result::Heartbeat;
use tenbin_record::run::{Kind, Metric, Setting};
use tenbin_record::{Run, SampleReader};
use tenbin_report::html;

fn page(run: &Run) -> String {
    html(run, None, &[]).unwrap()
}

/// A clean run with its samples.
fn watched_page() -> String {
    let folder = tempfile::tempdir().unwrap();
    html(&run(), Some(samples(folder.path(), -10, 61)), &stacks()).unwrap()
}

/// Leaves a page under `target/tmp`, where it can be looked at.
fn keep(name: &str, page: &str) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join(name), page).unwrap();
}

fn parse(page: &str) -> Html {
    let html = Html::parse_document(page);
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    html
}

fn all<'a>(html: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    html.select(&Selector::parse(selector).unwrap()).collect()
}

fn texts(html: &Html, selector: &str) -> Vec<String> {
    let text = |element: ElementRef<'_>| element.text().collect();
    all(html, selector).into_iter().map(text).collect()
}

/// Every page must be well formed, need nothing else, and say everything to those who do not see it.
fn assert_sound(page: &str) {
    let html = parse(page);
    for address in [
        "http://", "https://", "//cdn", "@import", "url(", "<script", "<link", "<img", "<iframe",
    ] {
        assert!(!page.contains(address), "{address} in the page");
    }
    for attribute in ["src", "href", "onload", "onclick", "action"] {
        assert!(
            all(&html, &format!("[{attribute}]")).is_empty(),
            "{attribute} in the page"
        );
    }
    assert!(
        !page.contains("NaN") && !page.contains("inf "),
        "a number that is none"
    );
    for svg in all(&html, "svg") {
        let labels = svg.value().attr("aria-labelledby").unwrap();
        for id in labels.split(' ') {
            let named = all(&html, &format!(r#"[id="{id}"]"#));
            assert_eq!(named.len(), 1, "{id}");
            assert!(!named[0].text().collect::<String>().is_empty(), "{id}");
        }
    }
    for table in all(&html, "table") {
        let rows: Vec<_> = table.select(&Selector::parse("tr").unwrap()).collect();
        assert!(
            rows[0]
                .select(&Selector::parse("th[scope=col]").unwrap())
                .count()
                > 1
        );
        for row in &rows[1..] {
            assert_eq!(
                row.select(&Selector::parse("th[scope=row]").unwrap())
                    .count(),
                1
            );
            assert_eq!(
                row.child_elements().count(),
                rows[0].child_elements().count()
            );
        }
    }
}

#[test]
fn a_clean_run_has_its_parts_in_order() {
    let page = watched_page();
    keep("report-clean.html", &page);
    assert_sound(&page);
    let html = parse(&page);
    let headings = texts(&html, "h2");
    assert_eq!(
        headings,
        [
            "Over time",
            "Response times",
            "Audit",
            "Checks of the data",
            "Errors and retries",
            "Executed later",
            "What PostgreSQL and the machine did",
            "Settings",
            "Environment",
            "Run it again"
        ]
    );
    assert!(texts(&html, ".verdict p")[0].contains("18,043 New-Orders a minute"));
    assert_eq!(all(&html, ".verdict.good").len(), 1);
    // Two over time, five distributions, CPU, log, blocks, the flame graph.
    assert_eq!(all(&html, "svg").len(), 11);
    assert!(texts(&html, "pre").contains(&"tenbin run tpcc --out 'a run'".to_owned()));
}

#[test]
fn a_chart_draws_what_the_run_says() {
    let html = parse(&watched_page());
    let chart = |id: &str| all(&html, &format!(r#"svg[aria-labelledby^="{id}-title"]"#))[0];
    let texts = |id: &str| -> Vec<String> {
        let text = Selector::parse("text").unwrap();
        chart(id)
            .select(&text)
            .map(|text| text.text().collect())
            .collect()
    };
    let throughput = texts("throughput");
    for label in [
        "warm-up",
        "checkpoint",
        "mean 18,043",
        "−10",
        "60",
        "20,000",
        "New-Orders per minute",
    ] {
        assert!(
            throughput.iter().any(|text| text == label),
            "{label} in {throughput:?}"
        );
    }
    let distribution = texts("frequency-new_order");
    assert!(
        distribution.contains(&"p90 3.42\u{a0}ms".to_owned()),
        "{distribution:?}"
    );
    assert!(distribution.contains(&"response time [ms]".to_owned()));
    let cpu = texts("cpu");
    assert!(
        cpu.contains(&"backends".to_owned()) && cpu.contains(&"all others".to_owned()),
        "{cpu:?}"
    );
    // One hover for each second from the start of the warm-up to the end of the interval.
    let hovers = Selector::parse(".hover rect title").unwrap();
    assert_eq!(chart("throughput").select(&hovers).count(), 70);
}

#[test]
fn nothing_is_drawn_outside_its_chart() {
    let html = parse(&watched_page());
    for svg in all(&html, "svg") {
        let view: Vec<f64> = svg
            .value()
            .attr("viewBox")
            .unwrap()
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        for text in svg.select(&Selector::parse("text").unwrap()) {
            let number = |name: &str| text.value().attr(name).unwrap().parse::<f64>().unwrap();
            let words: String = text.text().collect();
            let width = words.chars().count() as f64 * 7.4;
            let left = match text.value().attr("text-anchor") {
                Some("end") => number("x") - width,
                Some("middle") => number("x") - width / 2.0,
                _ => number("x"),
            };
            // A little more than a character of slack: most letters are narrower than the widest.
            assert!(
                left > -10.0 && left + width < view[2] + 10.0,
                "{words}: {left} + {width} of {}",
                view[2]
            );
            assert!((0.0..view[3]).contains(&number("y")), "{words}");
        }
    }
}

#[test]
fn a_bad_run_says_so_first() {
    let page = page(&bad_run());
    keep("report-bad.html", &page);
    assert_sound(&page);
    let html = parse(&page);
    assert!(texts(&html, ".verdict.bad p strong")[0].starts_with("This run ended early"));
    assert_eq!(
        texts(&html, "table .fail")
            .iter()
            .filter(|text| *text == "FAIL")
            .count(),
        2
    );
    let warnings = texts(&html, ".warning");
    assert!(
        warnings[0].starts_with("fsync is off") && warnings[1].contains("assertions"),
        "{warnings:?}"
    );
}

#[test]
fn a_machine_that_others_used_is_said_to_be_so() {
    // Of 200 s of two processors, so many were other programs', and so many the host's.
    let said = |programs_s: f64, steal_s: f64, known: bool| {
        let mut run = run();
        let seen = run.observation.as_mut().unwrap();
        let machine = seen.machine.as_mut().unwrap();
        (machine.cpu.user_s, machine.cpu.system_s) = (100.0, 60.0);
        (machine.io_wait_s, machine.interrupt_s) = (10.0, 4.0);
        (machine.steal_s, machine.idle_s) = (steal_s, 26.0 - steal_s);
        let elsewhere = seen.processes.get_mut("elsewhere").unwrap();
        (elsewhere.cpu.user_s, elsewhere.cpu.system_s) = (programs_s, 0.0);
        if !known {
            seen.server_cpu.clear();
        }
        texts(&parse(&page(&run)), ".warning").concat()
    };
    assert_eq!(said(9.0, 6.0, true), "");
    assert!(said(82.0, 6.0, true).contains("other programs took 41 % of this machine's"));
    assert!(
        said(9.0, 26.0, true)
            .contains("the host gave other virtual machines 13 % of this machine's")
    );
    let both = "other programs took 41 %, and the host gave other virtual machines 13 %, of this machine's";
    assert!(said(82.0, 26.0, true).contains(both));
    // A server that cannot be told from other programs is no other program.
    assert_eq!(said(82.0, 26.0, false), "");
}

#[test]
fn a_run_without_anything_still_has_a_page() {
    let page = page(&empty_run());
    keep("report-empty.html", &page);
    assert_sound(&page);
    assert!(all(&parse(&page), "svg").is_empty());
}

#[test]
fn a_driver_that_waited_for_no_time_was_not_late_by_nothing() {
    let mut run = run();
    assert!(page(&run).contains("Driver late by"));
    run.driver.lateness_ms = None;
    run.driver.heartbeat = None;
    let page = page(&run);
    assert!(page.contains("The driver kept up: no step was scheduled for a time."));
    assert!(!page.contains("Driver late by") && !page.contains("at most 0"));
}

#[test]
fn one_transaction_is_enough_for_every_chart() {
    let mut run = run();
    run.timeline = timeline(0, 1, &[("new_order", 100.0, 60, 1.0)]);
    run.run.warmup_s = 0.0;
    run.run.measured_s = 0.4;
    run.workload.kinds.truncate(1);
    run.result
        .transactions
        .retain(|name, _| name == "new_order");
    let kind = run.result.transactions.get_mut("new_order").unwrap();
    kind.count = 1;
    kind.response_histogram.truncate(1);
    kind.response_histogram[0].count = 1;
    let page = page(&run);
    assert_sound(&page);
    assert_eq!(all(&parse(&page), "svg").len(), 3);
}

#[test]
fn a_workload_without_new_orders_is_charted_whole() {
    let mut run = run();
    run.workload.nature = "derived from TPC-B".into();
    run.workload.scale_text = "scale 2".into();
    run.workload.metric = Metric::default();
    run.workload.kinds = vec![Kind::new("tpcb")];
    let transaction = run.result.transactions.remove("new_order").unwrap();
    run.result.transactions = [("tpcb".to_owned(), transaction)].into();
    run.timeline = timeline(-10, 60, &[("tpcb", 100.0, 40_000, 1.0)]);
    let page = page(&run);
    assert_sound(&page);
    assert!(
        page.contains("transactions per second") && page.contains("derived from TPC-B: scale 2")
    );
}

#[test]
fn a_paced_run_shows_think_times() {
    let mut run = run();
    run.workload.pacing = "spec".into();
    for kind in run.result.transactions.values_mut() {
        kind.think_ms = kind.response_ms;
        kind.keying_ms = kind.response_ms;
        kind.think_histogram = kind.response_histogram.clone();
    }
    let page = page(&run);
    keep("report-paced.html", &page);
    assert_sound(&page);
    assert_eq!(page.matches(r#"id="think-"#).count(), 10);
}

#[test]
fn a_slow_run_has_no_band_of_chance() {
    let mut run = run();
    run.run.measured_s = 3600.0;
    run.timeline = timeline(-10, 3600, &[("new_order", 45.0, 90, 4.0)]);
    assert!(all(&parse(&page(&run)), "path.band").is_empty());
    run.timeline = timeline(-10, 3600, &[("new_order", 45.0, 6000, 4.0)]);
    assert_eq!(all(&parse(&page(&run)), "path.band").len(), 1);
}

#[test]
fn hostile_words_stay_words() {
    const EVIL: &str = "<script>alert(1)</script><svg onload=x>&amp;\"'</style>";
    let mut run = bad_run();
    run.server.version = EVIL.into();
    run.server.build.text = EVIL.into();
    run.run.command_line = vec![EVIL.into()];
    run.run.interrupted_by = Some(EVIL.into());
    run.result.audit[0].note = Some(EVIL.into());
    run.result.checks[1].offending = vec![EVIL.into()];
    run.workload.kinds[0].name = EVIL.into();
    let kind = run.result.transactions.remove("new_order").unwrap();
    run.result.transactions.insert(EVIL.into(), kind);
    run.result.throughput.metric = EVIL.into();
    let setting = Setting {
        value: EVIL.into(),
        source: EVIL.into(),
        reason: Some(EVIL.into()),
    };
    run.server.settings.insert(EVIL.into(), setting);
    let page = page(&run);
    let html = parse(&page);
    assert!(all(&html, "script, [onload]").is_empty());
    assert!(page.matches("&lt;script&gt;alert(1)").count() >= 8);
    assert_eq!(all(&html, "style").len(), 1);
}

#[test]
fn ten_hours_stay_below_a_megabyte_and_keep_their_extremes() {
    let mut run = run();
    run.run.duration_s = 36_000.0;
    run.run.measured_s = 36_000.0;
    run.timeline = timeline(
        -10,
        36_000,
        &[
            ("new_order", 45.0, 18_043, 1.9),
            ("payment", 43.0, 17_241, 0.8),
        ],
    );
    // One second of silence in ten hours.
    let at = run
        .timeline
        .at_s
        .iter()
        .position(|at| *at == 20_000)
        .unwrap();
    run.timeline.kinds.get_mut("new_order").unwrap().completed[at] = 0;
    let folder = tempfile::tempdir().unwrap();
    let samples: SampleReader = samples(folder.path(), -10, 36_000);
    let page = html(&run, Some(samples), &[]).unwrap();
    keep("report-long.html", &page);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert_sound(&page);
    let html = parse(&page);
    let band = all(&html, "path.band")[0]
        .value()
        .attr("d")
        .unwrap()
        .to_owned();
    let base = all(&html, r#"svg[aria-labelledby^="throughput"] line.base"#)[0];
    let bottom = base.value().attr("y1").unwrap();
    let touches = |point: &&str| {
        point
            .split(' ')
            .nth(1)
            .is_some_and(|y| y.trim_end_matches('Z') == bottom)
    };
    assert_eq!(
        band.split(['M', 'L']).filter(touches).count(),
        1,
        "the second of silence is to be seen"
    );
}

#[test]
fn damaged_samples_are_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let reader = samples(folder.path(), 0, 400);
    let path = folder.path().join("samples.parquet");
    let length = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; length as usize / 2], 8).unwrap();
    let error = html(&run(), Some(reader), &[]).unwrap_err().to_string();
    assert!(error.contains("samples.parquet is damaged"), "{error}");
}

#[test]
fn where_cpu_time_went_is_tabled_and_drawn() {
    let html = parse(&watched_page());
    let headings = texts(&html, "h3");
    let place = |name: &str| headings.iter().position(|heading| heading == name);
    assert!(
        place("Where CPU time went") < place("Flame graph"),
        "{headings:?}"
    );
    assert!(place("Flame graph") < place("System calls"), "{headings:?}");
    let rows = texts(&html, "tr");
    let row = |start: &str| rows.iter().find(|row| row.starts_with(start)).unwrap();
    // 9,133 of 38,531 samples of the server, which used 2,058 µs a transaction.
    assert!(
        row("tables and indexes").ends_with("9,13323.7488\u{a0}µs"),
        "{}",
        row("tables")
    );
    let boxes = all(&html, "svg.flame g");
    assert!(boxes.len() > 40, "{}", boxes.len());
    let titles = texts(&html, "svg.flame g title");
    assert!(
        titles.contains(&"client_backend: 38,129 samples, 94.8 %".to_owned()),
        "{titles:?}"
    );
    for wanted in ["kind", "kernel", "unknown", "program"] {
        assert!(
            !all(&html, &format!("svg.flame g.{wanted}")).is_empty(),
            "{wanted}"
        );
    }
    let notes = texts(&html, "section > p").join(" ");
    assert!(
        notes.contains("libc.so.6 are in functions without a name"),
        "{notes}"
    );
    assert!(!notes.contains("lack some of their callers"), "{notes}");
}

#[test]
fn stacks_without_frame_pointers_are_said_to_be_short() {
    let mut run = run();
    let observation = run.observation.as_mut().unwrap();
    let backends = observation.profile.as_mut().unwrap();
    backends.kinds.get_mut("client_backend").unwrap().whole = 100;
    let page = page(&run);
    assert!(page.contains("98.7 % of the server's samples lack some of their callers"));
}

#[test]
fn a_driver_that_stood_still_is_named_in_the_verdict() {
    let heartbeat = |stalls, stalled_s| {
        let mut run = run();
        run.driver.heartbeat = Some(Heartbeat {
            stalls,
            stalled_s,
            longest_stall_s: stalled_s,
            ..Heartbeat::default()
        });
        page(&run)
    };
    assert!(!heartbeat(0, 0.0).contains("stood still 1"));
    // Of a minute, 0.2 s are too little to make figures doubtful, and named all the same.
    let brief = heartbeat(1, 0.2);
    assert!(brief.contains("It stood still 1 time, 200\u{a0}ms in all"));
    assert!(brief.contains("The driver kept up:"));
    for doubtful in [heartbeat(1, 2.0), heartbeat(1, 0.7)] {
        assert!(doubtful.contains("These figures are doubtful: the driver stood still 1 time"));
        assert!(!doubtful.contains("The driver kept up:"));
    }
}

#[test]
fn a_large_table_that_is_read_sequentially_is_named_in_the_verdict() {
    let scanned = |indexed, scans, rows| {
        let mut run = run();
        run.workload.indexed = indexed;
        let counters = BTreeMap::from([
            ("pg_stat_user_tables.seq_scan".into(), scans),
            ("pg_stat_user_tables.seq_tup_read".into(), rows),
        ]);
        let observation = run.observation.as_mut().unwrap();
        observation
            .relations
            .insert("public.new_order".into(), counters);
        let page = page(&run);
        assert!(!page.contains("read public.stock"));
        page.contains("the server read public.new_order 830 times (14,900,000 rows) sequentially")
    };
    assert!(scanned(true, 830.0, 14_900_000.0));
    // As many scans of a table with two rows are what is expected, and a script's plans are its own.
    assert!(!scanned(true, 830.0, 1660.0) && !scanned(false, 830.0, 14_900_000.0));
}
