//! A run or a comparison as people read it: a self-contained HTML page, Markdown, and text for a terminal.

mod aging;
mod aging_plot;
mod chart;
mod comparison;
mod figures;
mod findings;
mod flame;
mod format;
mod markdown;
mod observed;
mod page;
mod parts;
mod scale;
mod table;
mod terminal;
mod timeline;
mod tpch;
mod trace;
mod trace_plot;
mod weighing;
mod weighing_page;
mod words;

pub use aging::{aging_html, aging_terminal};
pub use aging_plot::AgingPicture;
pub use comparison::{comparison_markdown, comparison_terminal};
pub use markdown::markdown;
pub use page::html;
pub use terminal::{terminal, terminal_checks};
pub use trace::{summaries_terminal, summary_terminal, trace_terminal};
pub use trace_plot::trace_html;
pub use weighing::{weighing_html, weighing_markdown, weighing_terminal};
