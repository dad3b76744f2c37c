//! A run or a comparison as people read it: a self-contained HTML page, Markdown, and text for a terminal.

mod chart;
mod format;
mod markdown;
mod observed;
mod parts;
mod scale;
mod table;
mod terminal;
mod words;

pub use markdown::markdown;
pub use terminal::terminal;
