//! The answers that the standard publishes for scale 1 (clause 2.3), and how near one must come.

use super::queries::QUERIES;
use tpchgen::q_and_a::QueryAndAnswer;

/// Query 11's, whose keys tpchgen 4.0.0 has cut to four digits.
const ANSWER_11: &str = include_str!("answer_11.txt");

/// How near a column of a query's output must come to the published one (clause 2.1.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The same text (a).
    Same,
    /// The same number: keys, counts, and `sum(l_quantity)` (a, comments 2 and 4).
    Equal,
    /// A sum of money: within 100 (c).
    Sum,
    /// An average or a ratio: within 1 %, rounded to hundredths (b, d).
    Share,
}

/// Columns of a query: `s`ame text, equal `n`umber, `$` sum, `%` average or ratio. From
/// `check_answers/colprecision.txt` of the TPC's tools and the comments of clause 2.1.3.5.
const COLUMNS: [&str; QUERIES as usize] = [
    "ssn$$$%%%n",
    "nssnssss",
    "n$sn",
    "sn",
    "s$",
    "$",
    "ssn$",
    "n%",
    "sn$",
    "ns$nssss",
    "n$",
    "snn",
    "nn",
    "%",
    "nsss$",
    "ssnn",
    "%",
    "snnsnn",
    "$",
    "ss",
    "sn",
    "sn$",
];

fn rules(query: u8) -> Vec<Rule> {
    let rule = |column: char| match column {
        'n' => Rule::Equal,
        '$' => Rule::Sum,
        '%' => Rule::Share,
        _ => Rule::Same,
    };
    let columns = COLUMNS.get(usize::from(query) - 1).copied();
    columns.unwrap_or_default().chars().map(rule).collect()
}

/// Rows of text, as a query puts them out.
pub(super) type Table = Vec<Vec<String>>;

/// The published answer to a query at scale 1.
pub(super) fn published(query: u8) -> Table {
    let columns = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    if query == 11 {
        let lines = ANSWER_11.lines().filter(|line| !line.starts_with('#'));
        return lines.map(columns).collect();
    }
    let answer = QueryAndAnswer::new(query.into(), 1.0);
    let text = answer.as_ref().map_or("", QueryAndAnswer::answer);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.skip(1).map(columns).collect()
}

/// Where an output leaves the published answer: the first ten places, and how many rows.
pub(super) fn differences(query: u8, found: &Table, published: &Table) -> (Vec<String>, u64) {
    let rules = rules(query);
    let in_order = unlike(&rules, found, published);
    if in_order.is_empty() {
        return (Vec::new(), 0);
    }
    // Another collation than the standard's sorts text otherwise, and sums within their bounds
    // may tie: the rows count, not their order.
    let sorted = |table: &Table| {
        let mut table = table.clone();
        table.sort();
        table
    };
    let differences = unlike(&rules, &sorted(found), &sorted(published));
    let count = differences.len() as u64;
    (differences.into_iter().take(10).collect(), count)
}

fn unlike(rules: &[Rule], found: &Table, published: &Table) -> Vec<String> {
    if found.len() != published.len() {
        return vec![format!("{} rows, not {}", found.len(), published.len())];
    }
    let mut differences = Vec::new();
    for (number, (row, wanted)) in found.iter().zip(published).enumerate() {
        let near = row.len() == rules.len()
            && wanted.len() == rules.len()
            && rules
                .iter()
                .zip(row.iter().zip(wanted))
                .all(|(rule, (cell, wanted))| is_near(*rule, cell, wanted));
        if !near {
            let (row, wanted) = (row.join("|"), wanted.join("|"));
            differences.push(format!("row {}: {row}, not {wanted}", number + 1));
        }
    }
    differences
}

fn is_near(rule: Rule, found: &str, published: &str) -> bool {
    if rule == Rule::Same {
        return found == published;
    }
    let (Ok(found), Ok(published)) = (found.parse::<f64>(), published.parse::<f64>()) else {
        return false;
    };
    // Published with two decimals: half a cent is none.
    let slack = match rule {
        Rule::Same | Rule::Equal => 1e-9,
        Rule::Sum => 100.0,
        Rule::Share => published.abs() * 0.01 + 1e-9,
    };
    let found = match rule {
        Rule::Share => (found * 100.0).round() / 100.0,
        _ => found,
    };
    (found - published).abs() <= slack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_the_columns_that_its_rules_are_for() {
        let rows = [
            4, 100, 10, 5, 5, 1, 4, 2, 175, 20, 1_048, 2, 42, 1, 1, 18_314, 1, 57, 1, 186, 100, 7,
        ];
        for (query, rows) in (1..=QUERIES).zip(rows) {
            let answer = published(query);
            assert_eq!(answer.len(), rows, "query {query}");
            let columns = rules(query).len();
            assert!(
                answer.iter().all(|row| row.len() == columns),
                "query {query}"
            );
            assert_eq!(differences(query, &answer, &answer), (Vec::new(), 0));
        }
    }

    #[test]
    fn the_rules_of_precision_are_kept_to_the_cent() {
        for (rule, found, published, near) in [
            (Rule::Same, "A", "A", true),
            (Rule::Same, "A", "B", false),
            (Rule::Equal, "25.00", "25", true),
            (Rule::Equal, "25.01", "25", false),
            (Rule::Equal, "", "25", false),
            (Rule::Sum, "1100.00", "1000.00", true),
            (Rule::Sum, "1100.01", "1000.00", false),
            (Rule::Share, "0.0344358904066548", "0.03", true),
            (Rule::Share, "0.0350000000000000", "0.03", false),
            (Rule::Share, "16.5438", "16.38", true),
            (Rule::Share, "16.5551", "16.38", false),
        ] {
            assert_eq!(is_near(rule, found, published), near, "{found} {published}");
        }
    }

    #[test]
    fn a_row_more_or_another_row_is_told_and_another_order_is_not() {
        let answer = published(4);
        let mut found = answer.clone();
        found.reverse();
        assert_eq!(differences(4, &found, &answer).1, 0);
        found[0][1] = "1".into();
        let (said, count) = differences(4, &found, &answer);
        assert_eq!(count, 1);
        assert!(said[0].contains("|1, not "), "{said:?}");
        found.pop();
        assert_eq!(differences(4, &found, &answer).0, ["4 rows, not 5"]);
    }
}
