//! Fresh and aged as pictures, drawn alike: figures 3 and 4 of the source (S2).

use crate::chart::{Stroke, sample};
use crate::format::counted;
use crate::trace_plot::{Panel, Survey, caption, chart, present};
use maud::{Markup, html};
use tenbin_record::io::{IoRow, Operation, Purpose, Text};
use tenbin_record::{RecordError, TraceDir};
use tenbin_study::aging::{Mode, Query, Side};

/// The reads of one query on both databases, over time and address.
pub struct AgingPicture {
    mode: Mode,
    query: Query,
    survey: Survey,
    device: Text,
    panels: [(Side, u64, Panel); 2],
}

impl AgingPicture {
    /// Draws two traces, fresh and aged, on axes of the same length.
    ///
    /// # Errors
    /// When a trace cannot be read.
    pub fn draw(mode: Mode, query: Query, traces: [&TraceDir; 2]) -> Result<Self, RecordError> {
        let survey = Survey::of(&traces, drawn)?;
        let window = |trace: &TraceDir| {
            let reads = Survey::of(&[trace], drawn)?.busiest_reads();
            Ok::<_, RecordError>(reads.unwrap_or((Text::from("-"), (0, 1), 0)))
        };
        let windows = [window(traces[0])?, window(traces[1])?];
        let [fresh, aged] = &windows;
        let axes = Axes {
            span: (fresh.1.1 - fresh.1.0).max(aged.1.1 - aged.1.0),
            end_s: traces.map(length_s).into_iter().fold(0.0, f64::max),
            most: fresh.2.max(aged.2),
        };
        Ok(Self {
            mode,
            query,
            panels: [
                (Side::Fresh, fresh.2, axes.panel(traces[0], fresh, &survey)?),
                (Side::Aged, aged.2, axes.panel(traces[1], aged, &survey)?),
            ],
            device: Text::clone(&fresh.0),
            survey,
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn html(&self) -> Markup {
        let mode = match self.mode {
            Mode::Serial => "serial",
            Mode::Parallel => "parallel",
        };
        let query = match self.query {
            Query::A => "a",
            Query::B => "b",
        };
        html! {
            h3 { (self.query.name()) " " (self.query.title()) }
            @for (side, count, panel) in &self.panels {
                @let title = format!("{}: {} of {}", side.name(), counted(*count, "read", "reads"), self.device);
                @let id = format!("{mode}-{query}-{}", side.name());
                figure.wide {
                    p.soft { strong { (side.name()) } ", " (counted(*count, "read", "reads")) " of " (self.device) }
                    ul.legend { @for (series, name) in present(panel, &self.survey) {
                        li { (sample(Stroke::ALL[series])) (name) }
                    } }
                    div.scroll { (chart(panel, None, &id, &title, (880.0, 230.0))) }
                    @if *side == Side::Aged { figcaption {
                        (caption(panel, "reads")) " Both charts span the same time and the same number of sectors; each begins where its files lie. Reads of relations alone are drawn."
                    } }
                }
            }
        }
    }
}

fn length_s(trace: &TraceDir) -> f64 {
    trace.trace().trace.duration_s
}

/// The disk with the most reads, the window of their addresses, and how many they are.
type Window = (Text, (u64, u64), u64);

/// What both charts have in common.
struct Axes {
    span: u64,
    end_s: f64,
    most: u64,
}

impl Axes {
    fn panel(
        &self,
        trace: &TraceDir,
        (device, (low, _), count): &Window,
        survey: &Survey,
    ) -> Result<Panel, RecordError> {
        let mut panel = Panel::new((*low, low + self.span), self.end_s, *count, self.most);
        for rows in trace.ios()? {
            for row in rows?.iter().filter(|row| row.device == *device) {
                if let Some(name) = drawn(trace, row) {
                    panel.add(row, survey.series(&name));
                }
            }
        }
        Ok(panel)
    }
}

/// What a read is drawn as: a relation, without its database.
fn drawn(trace: &TraceDir, row: &IoRow) -> Option<Text> {
    if row.operation != Operation::Read || row.purpose != Purpose::Relation {
        return None;
    }
    let name = trace.trace().counted_under(row);
    let short = name.rsplit('.').next().unwrap_or(&name);
    Some(Text::from(short))
}
