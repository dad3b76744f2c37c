//! A run or a comparison as people read it: a self-contained HTML page, Markdown, and text for a terminal.

mod aggregate;
mod chart;
mod format;
mod scale;
