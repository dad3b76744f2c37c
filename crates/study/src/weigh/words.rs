//! Answers as sentences.

use super::{By, Contrast, LimitAnswer, StoppedBy, Weighed, Weighing};

impl Weighing {
    /// The answers, one sentence for each side but the first.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        if let Some(failure) = &self.failure {
            return vec![format!("Not decided: {failure}.")];
        }
        let sentence = |contrast| self.sentence(contrast);
        let limit = self.limit_sentence();
        limit
            .into_iter()
            .chain(self.contrasts.iter().map(sentence))
            .collect()
    }

    /// What one round is called: of two sides and by trials, a pair.
    #[must_use]
    pub fn round_word(&self) -> &'static str {
        if self.sides.len() == 2 && self.by == By::Trials {
            "pair"
        } else {
            "round"
        }
    }

    /// `4 pairs`, `1 round`.
    fn rounds(&self, count: usize) -> String {
        let word = self.round_word();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {word}{plural}")
    }

    /// Why it stopped.
    #[must_use]
    pub fn stopped(&self) -> String {
        match self.stopped_by {
            StoppedBy::Answer if self.contrasts.len() > 1 => {
                "Stopped because every question is answered.".to_owned()
            }
            StoppedBy::Answer => "Stopped because the question is answered.".to_owned(),
            StoppedBy::Precision => {
                "Stopped because the interval is as narrow as asked.".to_owned()
            }
            StoppedBy::Rounds => format!(
                "Stopped after the largest number of {}s (--pairs).",
                self.round_word()
            ),
            StoppedBy::Budget => "Stopped because the time is used up (--budget).".to_owned(),
            StoppedBy::Interrupt => {
                format!(
                    "Interrupted; the {} under way is not counted.",
                    self.round_word()
                )
            }
            StoppedBy::Failure => "Stopped because a trial failed twice.".to_owned(),
        }
    }

    /// Whether the limit holds, if one was given.
    fn limit_sentence(&self) -> Option<String> {
        let names: Vec<String> = self.sides.iter().map(|side| side.name.clone()).collect();
        let limit = self.stopping.limit?.text(&names);
        Some(match self.limit? {
            LimitAnswer::Holds => format!("Passed: it is not so that {limit}."),
            LimitAnswer::Fails => format!("Failed: {limit}."),
            LimitAnswer::NotDecided => format!("Not decided whether {limit}."),
        })
    }

    /// How the sides took turns, and why so.
    #[must_use]
    pub fn turns(&self) -> String {
        let by = match self.by {
            By::Trials => "trials",
            By::Slices => "slices",
        };
        format!("Turns by {by}: {}.", self.why_by)
    }

    /// What trials said of the slices, one sentence for each side but the first; nothing without such trials.
    #[must_use]
    pub fn check_sentences(&self) -> Vec<String> {
        let Some(check) = &self.check else {
            return Vec::new();
        };
        let first = &self.sides[0].name;
        let said = |(trials, slices): (&Contrast, &Contrast)| {
            let side = &self.sides[trials.side].name;
            let (ratio, low, high) = (trials.ratio?, trials.low?, trials.high?);
            let verb = if trials.agrees(slices)? {
                "agree"
            } else {
                "do not agree"
            };
            Some(format!(
                "{} of trials {verb} with the slices: {side}/{first} {ratio:.3}, interval {low:.3} to {high:.3}; slices {:.3}.",
                self.rounds(check.rounds.len()),
                slices.ratio?
            ))
        };
        check
            .contrasts
            .iter()
            .zip(&check.slices)
            .filter_map(said)
            .collect()
    }

    fn sentence(&self, contrast: &Contrast) -> String {
        let (first, side) = (&self.sides[0].name, &self.sides[contrast.side].name);
        let rounds = self.rounds(self.rounds.len());
        let (Some(ratio), Some(low), Some(high)) = (contrast.ratio, contrast.low, contrast.high)
        else {
            let whom = match self.contrasts.len() {
                1 => String::new(),
                _ => format!("{side} against {first}: "),
            };
            return format!(
                "{whom}Not decided after {rounds}: an interval needs at least 3 {}s of trials that vary little.",
                self.round_word()
            );
        };
        let evidence = format!(
            "{side}/{first} {ratio:.3}, {:.0} % interval {low:.3} to {high:.3}, {rounds}",
            self.confidence * 100.0
        );
        match contrast.answer {
            Weighed::Faster | Weighed::Slower if !(0.5..2.0).contains(&ratio) => {
                format!("{side} is {ratio:.2} times as fast as {first} ({evidence}).")
            }
            Weighed::Faster | Weighed::Slower => {
                let word = match contrast.answer {
                    Weighed::Faster => "faster",
                    _ => "slower",
                };
                let percent = (ratio - 1.0).abs() * 100.0;
                format!("{side} is {percent:.1} % {word} than {first} ({evidence}).")
            }
            Weighed::Same => {
                let same = self.stopping.same_within * 100.0;
                format!("{first} and {side} are the same within {same} % ({evidence}).")
            }
            Weighed::NotDecided => {
                let more = contrast.more_rounds.map_or_else(String::new, |more| {
                    let count = usize::try_from(more).unwrap_or(usize::MAX);
                    let word = self.rounds(count);
                    let more = word.replacen(' ', " more ", 1);
                    format!(" About {more} would decide it.")
                });
                format!("Not decided ({evidence}).{more}")
            }
        }
    }
}
