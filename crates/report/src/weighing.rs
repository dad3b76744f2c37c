//! A weighing, for a terminal and as Markdown.

use crate::findings::{findings_markdown, findings_terminal, strips_terminal};
use crate::format::{decimal, significant};
use crate::table::{Table, Tone, escape_markdown, lines, numbers, words};
use crate::weighing_page::{PageSide, WeighingPage};
use tenbin_study::findings::{Answer, TrialRun};
use tenbin_study::weigh::{Weighed, Weighing};

/// A weighing for a terminal of `width` columns: the answers, the sides, and every round of trials.
#[must_use]
pub fn weighing_terminal(weighing: &Weighing, width: usize, color: bool) -> String {
    let mut out = String::new();
    let tone = match weighing.failure {
        Some(_) => Tone::Bad,
        None => Tone::Plain,
    };
    for sentence in weighing.sentences() {
        lines(&mut out, &sentence, tone, width, color);
    }
    for line in notes(weighing) {
        lines(&mut out, &line, Tone::Soft, width, color);
    }
    out.push('\n');
    for (name, command) in sides(weighing) {
        lines(
            &mut out,
            &format!("{name}: {command}"),
            Tone::Plain,
            width,
            color,
        );
    }
    if !weighing.rounds.is_empty() {
        out.push('\n');
        let values = |side: usize| {
            weighing
                .rounds
                .iter()
                .map(|round| round.throughput[side])
                .collect()
        };
        let strips: Vec<(&str, Vec<f64>)> = (0..)
            .zip(&weighing.sides)
            .map(|(place, side)| (side.name.as_str(), values(place)))
            .collect();
        out.push_str(&strips_terminal(&strips, &weighing.metric, width));
        out.push('\n');
        out.push_str(&rounds(weighing).terminal(width, color));
    }
    for findings in &weighing.findings {
        out.push('\n');
        out.push_str(&findings_terminal(findings, width, color));
    }
    out.replace('\u{a0}', " ")
}

/// A weighing as GitHub-flavoured Markdown.
#[must_use]
pub fn weighing_markdown(weighing: &Weighing) -> String {
    let sentences = weighing.sentences();
    let (first, others) = sentences
        .split_first()
        .map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
    let paragraph = |sentence: &String| format!("{}\n\n", escape_markdown(sentence));
    let others = others.iter().map(paragraph).collect::<Vec<_>>().concat();
    let item =
        |(name, command): (&str, String)| format!("- {name}: `{}`\n", command.replace('`', "'"));
    let sides = sides(weighing).map(item).collect::<Vec<_>>().concat();
    let findings = weighing.findings.iter().map(findings_markdown);
    let findings = findings.fold(String::new(), |all, one| all + "\n" + &one);
    format!(
        "# {}\n\n{others}{sides}\n{}\n\n{}{findings}",
        escape_markdown(first),
        notes(weighing).join(" "),
        rounds(weighing).markdown()
    )
}

/// A weighing as one HTML page that needs nothing else, with what the run directories of its trials hold.
#[must_use]
pub fn weighing_html(weighing: &Weighing, trials: &[TrialRun]) -> String {
    let commands = sides(weighing).map(|(_, command)| command);
    let with_commands = weighing.sides.iter().zip(commands).enumerate();
    let sides = with_commands.map(|(place, (side, command))| PageSide {
        name: &side.name,
        command: format!("tenbin {command}"),
        trials: trials
            .iter()
            .filter(|trial| trial.side == place)
            .map(|trial| (trial.round, trial.directory.as_str(), &trial.run))
            .collect(),
    });
    let first = weighing.contrasts.first().map(|contrast| contrast.answer);
    WeighingPage {
        answers: weighing.sentences(),
        answer: match first {
            Some(Weighed::Faster) => Answer::Better,
            Some(Weighed::Slower) => Answer::Worse,
            Some(Weighed::Same) => Answer::Same,
            Some(Weighed::NotDecided) | None => Answer::NotDecided,
        },
        conditions: notes(weighing),
        metric: &weighing.metric,
        sides: sides.collect(),
        findings: &weighing.findings,
    }
    .html()
}

/// Names and commands.
fn sides(weighing: &Weighing) -> impl Iterator<Item = (&str, String)> {
    weighing.sides.iter().map(|side| {
        let command = format!("{} {}", weighing.command, side.options);
        (side.name.as_str(), command.trim_end().to_owned())
    })
}

/// Why it stopped, what the intervals hold for, what failed meanwhile, and where the data came from.
fn notes(weighing: &Weighing) -> Vec<String> {
    let mut notes = vec![weighing.stopped(), weighing.turns()];
    notes.extend(weighing.check_sentences());
    let questions = weighing.contrasts.len();
    if questions > 1 {
        notes.push(format!(
            "The intervals hold for all {questions} comparisons at once (Bonferroni's correction)."
        ));
    }
    let failed = weighing
        .trials
        .iter()
        .filter(|trial| trial.failed.is_some());
    match failed.count() {
        0 => {}
        1 => notes.push("1 trial failed; it is kept and marked.".to_owned()),
        many => notes.push(format!("{many} trials failed; they are kept and marked.")),
    }
    let mut data: Vec<&str> = weighing
        .sides
        .iter()
        .map(|side| side.data.as_str())
        .collect();
    data.dedup();
    notes.extend(
        data.into_iter()
            .filter(|data| !data.is_empty())
            .map(str::to_owned),
    );
    notes
}

fn rounds(weighing: &Weighing) -> Table {
    let first = &weighing.sides[0].name;
    let title = match weighing.round_word() {
        "pair" => "Pair",
        _ => "Round",
    };
    let mut columns = vec![words(title), words("order")];
    for (side, of) in weighing.sides.iter().enumerate() {
        columns.push(numbers(format!("{} ({})", of.name, weighing.metric)));
        if side > 0 {
            columns.push(numbers(format!("{}/{first}", of.name)));
        }
    }
    let mut table = Table::new(columns);
    for (number, round) in (1..).zip(&weighing.rounds) {
        let order = round
            .order
            .iter()
            .map(|&side| weighing.sides[side].name.as_str());
        let order: Vec<&str> = order.collect();
        let mut row = vec![number.to_string().into(), order.join(" ").into()];
        for (side, &value) in round.throughput.iter().enumerate() {
            row.push(significant(value).into());
            if side > 0 {
                row.push(decimal(round.ratio(side, 0), 3).into());
            }
        }
        table.row(row);
    }
    table
}
