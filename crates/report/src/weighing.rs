//! A weighing, for a terminal and as Markdown.

use crate::format::{decimal, significant};
use crate::table::{Table, Tone, escape_markdown, lines, numbers, words};
use tenbin_study::weigh::{StoppedBy, WeighedSide, Weighing};

/// A weighing for a terminal of `width` columns: the answer, the sides, and every pair of trials.
#[must_use]
pub fn weighing_terminal(weighing: &Weighing, width: usize, color: bool) -> String {
    let mut out = String::new();
    let tone = match weighing.failure {
        Some(_) => Tone::Bad,
        None => Tone::Plain,
    };
    lines(&mut out, &weighing.sentence(), tone, width, color);
    lines(&mut out, stopped(weighing), Tone::Soft, width, color);
    out.push('\n');
    for (name, words) in sides(weighing) {
        let line = format!("{name}: {} {words}", weighing.command);
        lines(&mut out, line.trim_end(), Tone::Plain, width, color);
    }
    if !weighing.pairs.is_empty() {
        out.push('\n');
        out.push_str(&pairs(weighing).terminal(width, color));
    }
    out.replace('\u{a0}', " ")
}

/// A weighing as GitHub-flavoured Markdown.
#[must_use]
pub fn weighing_markdown(weighing: &Weighing) -> String {
    let sides: String = sides(weighing)
        .map(|(name, words)| {
            let line = format!("{} {words}", weighing.command);
            format!("- {name}: `{}`\n", line.trim_end().replace('`', "'"))
        })
        .concat();
    format!(
        "# {}\n\n{sides}\n{}\n\n{}",
        escape_markdown(&weighing.sentence()),
        stopped(weighing),
        pairs(weighing).markdown()
    )
}

fn sides(weighing: &Weighing) -> [(char, &str); 2] {
    [('A', &weighing.a), ('B', &weighing.b)]
}

fn stopped(weighing: &Weighing) -> &'static str {
    match weighing.stopped_by {
        StoppedBy::Answer => "Stopped because the question is answered.",
        StoppedBy::Precision => "Stopped because the interval is as narrow as asked.",
        StoppedBy::Pairs => "Stopped after the largest number of pairs (--pairs).",
        StoppedBy::Budget => "Stopped because the time is used up (--budget).",
        StoppedBy::Interrupt => "Interrupted; the pair under way is not counted.",
        StoppedBy::Failure => "Stopped because a trial failed.",
    }
}

fn pairs(weighing: &Weighing) -> Table {
    let title = |side: char| format!("{side} ({})", weighing.metric);
    let mut table = Table::new([
        words("Pair"),
        words("first"),
        numbers(title('A')),
        numbers(title('B')),
        numbers("B/A"),
    ]);
    for (number, pair) in (1..).zip(&weighing.pairs) {
        let first = match pair.first {
            WeighedSide::A => "A",
            WeighedSide::B => "B",
        };
        table.row([
            number.to_string().into(),
            first.into(),
            significant(pair.a).into(),
            significant(pair.b).into(),
            decimal(pair.ratio(), 3).into(),
        ]);
    }
    table
}
