use super::*;
use crate::load::Batch;
use crate::random::Stream;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const LOADED_AT_US: i64 = 800_000_000_000_000;

fn standard(seed: u64) -> Population {
    Population::new(Rules::default(), seed, LOADED_AT_US)
}

/// The unit's bytes.
fn unit(population: &Population, table: Table, warehouse: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut batch = Batch::new(|part: &[u8], _| {
        bytes.extend_from_slice(part);
        Ok::<_, std::convert::Infallible>(())
    });
    population.write(table, warehouse, &mut batch).unwrap();
    batch.flush().unwrap();
    drop(batch);
    bytes
}

/// Rows of fields; `None` is NULL.
type Rows<'a> = Vec<Vec<Option<&'a [u8]>>>;

fn parse(mut bytes: &[u8]) -> Rows<'_> {
    fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        taken
    }
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let columns = i16::from_be_bytes(take(&mut bytes, 2).try_into().unwrap());
        let mut row = Vec::new();
        for _ in 0..columns {
            let length = i32::from_be_bytes(take(&mut bytes, 4).try_into().unwrap());
            row.push(
                usize::try_from(length)
                    .ok()
                    .map(|count| take(&mut bytes, count)),
            );
        }
        rows.push(row);
    }
    rows
}

fn whole(field: Option<&[u8]>) -> i64 {
    match *field.unwrap() {
        [a, b] => i16::from_be_bytes([a, b]).into(),
        [a, b, c, d] => i32::from_be_bytes([a, b, c, d]).into(),
        ref other => panic!("a whole number of {} bytes", other.len()),
    }
}

fn text(field: Option<&[u8]>) -> &str {
    std::str::from_utf8(field.unwrap()).unwrap()
}

/// Position of a column in its table.
fn column(table: Table, name: &str) -> usize {
    table
        .columns()
        .lines()
        .position(|line| line.split(' ').next() == Some(name))
        .unwrap()
}

#[test]
fn every_table_has_its_rows_and_columns() {
    let population = standard(1);
    for table in Table::ALL {
        let bytes = unit(&population, table, 3);
        let rows = parse(&bytes);
        let expected = population.rows_per_unit(table);
        if table == Table::OrderLine {
            // Clause 4.2.2, note 4: one percent of variation.
            assert!((rows.len() as f64 / expected as f64 - 1.0).abs() < 0.01);
        } else {
            assert_eq!(rows.len() as u64, expected, "{table}");
        }
        for row in &rows {
            assert_eq!(row.len(), table.column_count(), "{table}");
        }
        for (number, definition) in table.columns().lines().enumerate() {
            for row in &rows {
                check_definition(definition, row[number]);
            }
        }
    }
}

/// That a field fits its column's definition.
fn check_definition(definition: &str, field: Option<&[u8]>) {
    let Some(field) = field else {
        assert!(!definition.contains("NOT NULL"), "{definition} is NULL");
        return;
    };
    let kind = definition.split(' ').nth(1).unwrap().trim_end_matches(',');
    let size = || -> usize { kind.split(['(', ')']).nth(1).unwrap().parse().unwrap() };
    match kind.split('(').next().unwrap() {
        "integer" => assert_eq!(field.len(), 4, "{definition}"),
        "smallint" => assert_eq!(field.len(), 2, "{definition}"),
        "timestamptz" => assert_eq!(field, LOADED_AT_US.to_be_bytes(), "{definition}"),
        "char" => assert_eq!(field.len(), size(), "{definition}"),
        "varchar" => assert!((1..=size()).contains(&field.len()), "{definition}"),
        "numeric" => assert!(field.len() >= 8, "{definition}"),
        other => panic!("{other}"),
    }
}

#[test]
fn a_tenth_is_marked_exactly() {
    let population = standard(2);
    for (table, name) in [(Table::Item, "i_data"), (Table::Stock, "s_data")] {
        let bytes = unit(&population, table, 1);
        let data = column(table, name);
        let places: Vec<(usize, usize)> = parse(&bytes)
            .iter()
            .filter_map(|row| {
                let text = text(row[data]);
                text.find("ORIGINAL").map(|at| (at, text.len()))
            })
            .collect();
        assert_eq!(places.len(), 10_000, "{table}");
        assert!(places.iter().any(|&(at, _)| at == 0));
        assert!(places.iter().any(|&(at, length)| at + 8 == length));
        assert!(places.iter().any(|&(at, _)| at > 30));
    }
    for district in 1..=10 {
        let mut rows = Vec::new();
        let mut batch = Batch::new(|part: &[u8], _| {
            rows.extend_from_slice(part);
            Ok::<_, ()>(())
        });
        population.customers(1, district, &mut batch).unwrap();
        batch.flush().unwrap();
        drop(batch);
        let credit = column(Table::Customer, "c_credit");
        let bad = parse(&rows)
            .iter()
            .filter(|row| text(row[credit]) == "BC")
            .count();
        assert_eq!(bad, 300);
    }
}

#[test]
fn last_names_cover_the_first_thousand_and_follow_nurand_after() {
    let population = standard(3);
    let bytes = unit(&population, Table::Customer, 1);
    let last = column(Table::Customer, "c_last");
    let number: BTreeMap<String, u32> = (0..1_000)
        .map(|number| {
            (
                crate::tpcc::names::LastName::new(number)
                    .as_str()
                    .to_owned(),
                number,
            )
        })
        .collect();
    let mut weight = [0_u64; 1_000];
    // NURand(255, 0, 999) by its definition: every pair of draws, with the C-Load of this seed.
    for first in 0..=255_u32 {
        for second in 0..=999_u32 {
            weight[(((first | second) + population.c.last) % 1_000) as usize] += 1;
        }
    }
    let mut seen = [0_u64; 1_000];
    for (at, row) in parse(&bytes).iter().enumerate() {
        let number = number[text(row[last])];
        if at % 3_000 < 1_000 {
            assert_eq!(number as usize, at % 3_000);
        } else {
            seen[number as usize] += 1;
        }
    }
    // Together, names that are drawn often must be seen as often as they should.
    let often = |number: &usize| weight[*number] > 512;
    let expected: u64 = (0..1_000).filter(often).map(|number| weight[number]).sum();
    let found: u64 = (0..1_000).filter(often).map(|number| seen[number]).sum();
    let share = expected as f64 / 256_000.0;
    assert!(
        (found as f64 / 20_000.0 - share).abs() < 0.02,
        "{found} against {share}"
    );
    assert!(share > 0.3, "the test looks at a skewed part: {share}");
}

#[test]
fn orders_take_a_permutation_of_customers_and_the_last_900_are_open() {
    let population = standard(4);
    let orders = unit(&population, Table::Orders, 2);
    let at = |name| column(Table::Orders, name);
    for (number, district) in parse(&orders).chunks(3_000).enumerate() {
        let mut customers: Vec<i64> = district
            .iter()
            .map(|row| whole(row[at("o_c_id")]))
            .collect();
        assert!(!customers.is_sorted(), "district {number}");
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3_000));
        for (row, id) in district.iter().zip(1..) {
            assert_eq!(whole(row[at("o_id")]), id);
            let carrier = row[at("o_carrier_id")];
            assert_eq!(carrier.is_none(), id >= 2_101);
            assert!(carrier.is_none() || (1..=10).contains(&whole(carrier)));
        }
    }
    let open = unit(&population, Table::NewOrder, 2);
    let open = parse(&open);
    let id = column(Table::NewOrder, "no_o_id");
    for district in open.chunks(900) {
        assert!(district.iter().map(|row| whole(row[id])).eq(2_101..=3_000));
    }
}

#[test]
fn lines_match_their_orders() {
    let population = standard(5);
    let (orders, lines) = (
        unit(&population, Table::Orders, 1),
        unit(&population, Table::OrderLine, 1),
    );
    let lines = parse(&lines);
    let at = |name| column(Table::OrderLine, name);
    let mut rest = lines.as_slice();
    let mut total = 0;
    for order in parse(&orders) {
        let key = |name| whole(order[column(Table::Orders, name)]);
        let count = usize::try_from(key("o_ol_cnt")).unwrap();
        assert!((5..=15).contains(&count));
        total += count;
        let (own, others) = rest.split_at(count);
        rest = others;
        for (line, number) in own.iter().zip(1..) {
            assert_eq!(whole(line[at("ol_o_id")]), key("o_id"));
            assert_eq!(whole(line[at("ol_d_id")]), key("o_d_id"));
            assert_eq!(whole(line[at("ol_number")]), number);
            assert_eq!(whole(line[at("ol_quantity")]), 5);
            let open = key("o_id") >= 2_101;
            assert_eq!(line[at("ol_delivery_d")].is_none(), open);
            // A numeric of no digits is zero.
            assert_eq!(line[at("ol_amount")].unwrap()[..2] == [0, 0], !open);
        }
    }
    assert!(rest.is_empty());
    assert!((total as f64 / 30_000.0 - 10.0).abs() < 0.1);
}

#[test]
fn stock_quantities_are_what_the_rows_hold() {
    let population = standard(6);
    let bytes = unit(&population, Table::Stock, 7);
    let quantity = column(Table::Stock, "s_quantity");
    let rows = parse(&bytes);
    let in_rows = rows.iter().map(|row| whole(row[quantity]));
    assert!(in_rows.eq(stock_quantities(&population.rules, 6, 7).map(i64::from)));
    let mean = stock_quantities(&population.rules, 6, 7)
        .map(f64::from)
        .sum::<f64>()
        / 100_000.0;
    assert!((mean - 55.0).abs() < 0.5, "{mean}");
}

/// Hash of all units of two warehouses, written by `threads` threads.
fn hash(seed: u64, threads: usize) -> u64 {
    let rules = Rules {
        customers_per_district: 300,
        items: 5_000,
        ..Rules::default()
    };
    let population = Population::new(rules, seed, LOADED_AT_US);
    let mut units: Vec<(Table, u32)> = vec![(Table::Item, 0)];
    for table in Table::ALL.into_iter().filter(|&table| table != Table::Item) {
        units.extend([(table, 1), (table, 2)]);
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let hashes = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(table, warehouse)) =
                    units.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let mut hasher = DefaultHasher::new();
                    unit(&population, table, warehouse).hash(&mut hasher);
                    hashes
                        .lock()
                        .unwrap()
                        .insert((table, warehouse), hasher.finish());
                }
            });
        }
    });
    let mut hasher = DefaultHasher::new();
    let hashes = hashes.into_inner().unwrap();
    let distinct: std::collections::BTreeSet<_> = hashes.values().collect();
    assert_eq!(distinct.len(), units.len(), "no two units are alike");
    hashes.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn the_data_depend_on_the_seed_and_not_on_the_threads() {
    let one = hash(7, 1);
    assert_eq!(one, hash(7, 2));
    assert_eq!(one, hash(7, 5));
    assert_ne!(one, hash(8, 2));
}

#[test]
fn marks_meet_their_share_wherever_they_fall() {
    let mut stream = Stream::new(1, Purpose::Item, 0, 0);
    let mut at = [0_u32; 20];
    for _ in 0..20_000 {
        let mut marks = Marks::new(0.25, 20);
        let drawn: Vec<bool> = (0..20).map(|_| marks.next(&mut stream)).collect();
        assert_eq!(drawn.iter().filter(|&&marked| marked).count(), 5);
        for (count, marked) in at.iter_mut().zip(drawn) {
            *count += u32::from(marked);
        }
    }
    assert!(at.iter().all(|count| count.abs_diff(5_000) < 400), "{at:?}");
    assert!((0..50).all(|_| !Marks::new(0.0, 50).next(&mut stream)));
}
