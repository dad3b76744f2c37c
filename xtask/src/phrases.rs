//! The phrases that `docs/style.md` refuses, and where a text uses them.

use anyhow::{Result, bail};
use std::fmt;

/// Heading of the table that lists the phrases.
const HEADING: &str = "## Refused phrases";

/// A list of phrases, each with what to write instead.
pub(crate) struct Phrases(Vec<Phrase>);

struct Phrase {
    /// In lower case, words separated by one space.
    words: String,
    instead: String,
}

/// A refused phrase in a text: `12: "painted blue"; write: repainted`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    line: usize,
    words: String,
    instead: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            words,
            instead,
        } = self;
        write!(f, "{line}: \"{words}\"; write: {instead}")
    }
}

impl Phrases {
    /// Reads the table below the heading: rows of a phrase in backticks and what to write instead.
    ///
    /// # Errors
    ///
    /// There is no such table, or it has no rows: a check that finds nothing would pass.
    pub(crate) fn parse(style: &str) -> Result<Self> {
        let table = style
            .split_once(HEADING)
            .map_or("", |(_, below)| below)
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let phrases: Vec<Phrase> = table
            .map(|(words, instead)| Phrase {
                words: words.to_lowercase(),
                instead: instead.trim_end_matches(['|', ' ']).to_owned(),
            })
            .collect();
        if phrases.is_empty() {
            bail!("no phrases below \"{HEADING}\"");
        }
        Ok(Self(phrases))
    }

    /// Finds every use, across line breaks too: in prose, in comments and in string literals.
    pub(crate) fn find(&self, text: &str) -> Vec<Found> {
        let words = words(text);
        let mut joined = String::new();
        // Where each word begins in the joined text, and its line.
        let mut starts = Vec::with_capacity(words.len());
        for (line, word) in &words {
            joined.push(' ');
            starts.push((joined.len(), *line));
            joined.push_str(&word.to_lowercase());
        }
        let mut found = Vec::new();
        for phrase in &self.0 {
            for (at, _) in joined.match_indices(&phrase.words) {
                let next = starts.partition_point(|(start, _)| *start <= at);
                let within = |text: Option<char>| text.is_some_and(char::is_alphanumeric);
                let end = at + phrase.words.len();
                if within(joined[..at].chars().next_back()) || within(joined[end..].chars().next())
                {
                    continue; // a part of a longer word
                }
                found.push(Found {
                    line: next.checked_sub(1).map_or(1, |index| starts[index].1),
                    words: phrase.words.clone(),
                    instead: phrase.instead.clone(),
                });
            }
        }
        found
    }
}

/// Words with their lines, without the signs that begin a comment or a quotation and the backslash that
/// continues a string literal.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches(['/', '!', '>']);
        let line = line.trim_end().trim_end_matches('\\');
        words.extend(line.split_whitespace().map(|word| (index + 1, word)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: &str = "| `before` | not in the list |\n\n## Refused phrases\n\n| phrase | use |\n|---|---|\n\
                         | `painted blue` | repainted |\n| `Hidden is` | the query runs in |\n";

    fn lines(text: &str) -> Vec<usize> {
        let phrases = Phrases::parse(STYLE).unwrap();
        phrases.find(text).iter().map(|found| found.line).collect()
    }

    #[test]
    fn a_refused_phrase_is_found_with_its_line_and_what_to_write() {
        let phrases = Phrases::parse(STYLE).unwrap();
        let found = phrases.find("one\nEvery file painted blue.\n");
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "2: \"painted blue\"; write: repainted"
        );
    }

    #[test]
    fn line_breaks_of_prose_comments_and_literals_hide_nothing() {
        assert_eq!(lines("files painted\nblue"), [1]);
        assert_eq!(lines("    /// files painted\n    /// blue"), [1]);
        assert_eq!(lines("x;\n    \"files painted \\\n     blue\""), [2]);
        assert_eq!(lines("> files painted\n> blue"), [1]);
    }

    #[test]
    fn case_does_not_matter_and_longer_words_are_others() {
        assert_eq!(lines("HIDDEN IS the name"), [1]);
        assert_eq!(
            lines("unhidden is the name; hidden issues"),
            [] as [usize; 0]
        );
        assert_eq!(lines("before"), [] as [usize; 0]);
    }

    #[test]
    fn a_page_without_its_table_is_an_error() {
        assert!(Phrases::parse("## Refused phrases\n\nnone\n").is_err());
        assert!(Phrases::parse("| `painted blue` | repainted |").is_err());
    }
}
