//! Tables, told once and shown three ways.

use maud::{Markup, html};
use std::fmt::Write as _;

/// How a piece of text is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Soft,
}

/// One field of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Cell {
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A column's heading and side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// Numbers stand to the right.
    pub(crate) number: bool,
    /// Names and values of the program, which no writer may dress up.
    pub(crate) verbatim: bool,
}

/// A column of words.
pub(crate) fn words(title: impl Into<String>) -> Column {
    Column {
        title: title.into(),
        number: false,
        verbatim: false,
    }
}

/// A column of numbers.
pub(crate) fn numbers(title: impl Into<String>) -> Column {
    Column {
        number: true,
        ..words(title)
    }
}

/// A column of names or values to be shown letter for letter.
pub(crate) fn verbatim(title: impl Into<String>) -> Column {
    Column {
        verbatim: true,
        ..words(title)
    }
}

/// Rows under headings; the first field of a row names it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// Shortest that a column of words is squeezed to in a terminal.
const NARROWEST: usize = 16;

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As an HTML table.
    pub(crate) fn html(&self) -> Markup {
        let side = |column: &Column| column.number.then_some("n");
        html! {
            div.scroll { table {
                thead { tr { @for column in &self.columns {
                    th class=[side(column)] scope="col" { (column.title) }
                } } }
                tbody { @for row in &self.rows {
                    tr class=[row.iter().any(|cell| cell.tone == Tone::Bad).then_some("failed")] {
                        @for (i, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                            @if i == 0 { th scope="row" class=[side(column)] { (field(cell, column)) } }
                            @else { td class=[side(column)] { (field(cell, column)) } }
                        }
                    }
                } }
            } }
        }
    }

    /// As a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::from("|");
        for column in &self.columns {
            let _ = write!(out, " {} |", escape_markdown(&column.title));
        }
        out.push_str("\n|");
        for column in &self.columns {
            out.push_str(if column.number { "---:|" } else { "---|" });
        }
        for row in &self.rows {
            out.push_str("\n|");
            for (cell, column) in row.iter().zip(&self.columns) {
                let verbatim = column.verbatim && !cell.text.is_empty();
                let write = if verbatim { code_span } else { escape_markdown };
                let text = write(&cell.text);
                let strong = if cell.tone == Tone::Bad { "**" } else { "" };
                let _ = write!(out, " {strong}{text}{strong} |");
            }
        }
        out.push('\n');
        out
    }

    /// As lines of at most `width` characters while the numbers allow it; words wrap.
    pub(crate) fn terminal(&self, width: usize, color: bool) -> String {
        let widths = self.widths(width);
        let mut out = String::new();
        let titles: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::toned(column.title.as_str(), Tone::Soft))
            .collect();
        self.lines(&titles, &widths, color, &mut out);
        for row in &self.rows {
            self.lines(row, &widths, color, &mut out);
        }
        out
    }

    /// Columns as wide as their widest field; columns of words give way when the whole is too wide.
    fn widths(&self, width: usize) -> Vec<usize> {
        let widest = |(i, column): (usize, &Column)| {
            let fields = self.rows.iter().filter_map(|row| row.get(i));
            let fields = fields.map(|cell| length(&plain(&cell.text)));
            fields.chain([length(&column.title)]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(widest).collect();
        let room = width.saturating_sub(2 * self.columns.len().saturating_sub(1));
        loop {
            let excess = widths.iter().sum::<usize>().saturating_sub(room);
            let words = |i: &usize| !self.columns[*i].number && widths[*i] > NARROWEST;
            // Names, which stand first, give way last.
            let rest = (1..widths.len()).filter(words).max_by_key(|i| widths[*i]);
            let longest = rest.or_else(|| Some(0).filter(words));
            match longest {
                Some(i) if excess > 0 => widths[i] -= 1,
                _ => return widths,
            }
        }
    }

    fn lines(&self, row: &[Cell], widths: &[usize], color: bool, out: &mut String) {
        let fields: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| wrap(&plain(&cell.text), *width))
            .collect();
        let height = fields.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::new();
            let mut pad = 0;
            for (i, field) in fields.iter().enumerate() {
                let part = field.get(line).map_or("", String::as_str);
                let space = widths[i].saturating_sub(length(part));
                let (before, after) = if self.columns[i].number {
                    (space, 0)
                } else {
                    (0, space)
                };
                // Space is written before the next visible field only: no line ends in blanks.
                pad += before;
                if !part.is_empty() {
                    text.extend(std::iter::repeat_n(' ', pad));
                    text.push_str(&toned(part, row[i].tone, color));
                    pad = 0;
                }
                pad += after + 2;
            }
            out.push_str(&text);
            out.push('\n');
        }
    }
}

fn field(cell: &Cell, column: &Column) -> Markup {
    let class = match cell.tone {
        Tone::Plain => None,
        Tone::Good => Some("pass"),
        Tone::Bad => Some("fail"),
        Tone::Soft => Some("skip"),
    };
    html! {
        @if let Some(class) = class { span class=(class) { (cell.text) } }
        @else if column.verbatim { code { (cell.text) } }
        @else { (cell.text) }
    }
}

/// Text in the terminal's colour for its tone.
pub(crate) fn toned(text: &str, tone: Tone, color: bool) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "1;31",
        Tone::Soft => "2",
        Tone::Plain => "",
    };
    if color && !code.is_empty() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Adds text in lines of at most `width` characters.
pub(crate) fn lines(out: &mut String, text: &str, tone: Tone, width: usize, color: bool) {
    for line in wrap(&plain(text), width) {
        out.push_str(&toned(&line, tone, color));
        out.push('\n');
    }
}

/// Text from elsewhere without what would steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    let tame = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(tame).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Breaks text into lines of at most `width` characters, between words where it can.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && length(&line) + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Text that Markdown shows as it is.
pub(crate) fn escape_markdown(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = before.is_alphanumeric() && rest.peek().is_some_and(|c| c.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '*' | '`' | '[' | ']' | '~' | '#' => out.extend(['\\', c]),
            '_' if !inside => out.push_str("\\_"),
            _ if c.is_control() || c == '\u{a0}' => out.push(' '),
            _ => out.push(c),
        }
        before = c;
    }
    out
}

/// Text as code, fenced by more backticks than it holds in a row.
pub(crate) fn code_span(text: &str) -> String {
    let text = plain(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> Table {
        let mut table = Table::new([words("kind"), numbers("count"), words("what")]);
        table.row(["a".into(), "1,234".into(), Cell::toned("FAIL", Tone::Bad)]);
        table.row([
            "bb".into(),
            "5".into(),
            "a|b <i> *x* of some_name and_".into(),
        ]);
        table
    }

    #[test]
    fn three_ways() {
        assert_eq!(
            table().terminal(80, false),
            "kind  count  what\na     1,234  FAIL\nbb        5  a|b <i> *x* of some_name and_\n"
        );
        assert!(
            table()
                .terminal(80, true)
                .contains("\x1b[1;31mFAIL\x1b[0m\n")
        );
        assert_eq!(
            table().markdown(),
            "| kind | count | what |\n|---|---:|---|\n| a | 1,234 | **FAIL** |\n\
             | bb | 5 | a\\|b &lt;i> \\*x\\* of some_name and\\_ |\n"
        );
        let html = table().html().into_string();
        assert!(
            html.contains(r#"<th class="n" scope="col">count</th>"#),
            "{html}"
        );
        assert!(html.contains("a|b &lt;i&gt; *x*") && html.contains(r#"<tr class="failed">"#));
    }

    #[test]
    fn words_wrap_and_escape_sequences_do_not_reach_the_terminal() {
        let mut table = Table::new([words("k"), words("text")]);
        table.row(["x".into(), "evil \x1b[2J and a longer tail of words".into()]);
        assert_eq!(
            table.terminal(24, false),
            "k  text\nx  evil [2J and a longer\n   tail of words\n"
        );
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_and_keep_every_letter(text in "[a-zé ]{0,120}", width in 1_usize..40) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| length(line) <= width));
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }

        #[test]
        fn a_terminal_table_of_words_keeps_its_width(texts in prop::collection::vec("[ -~]{0,90}", 2..12)) {
            let mut table = Table::new([words("name"), words("text")]);
            for pair in texts.chunks_exact(2) {
                table.row([pair[0].as_str().into(), pair[1].as_str().into()]);
            }
            for line in table.terminal(60, false).lines() {
                prop_assert!(length(line) <= 60 && !line.ends_with(' '), "{line:?}");
            }
        }
    }
}
