//! A flame graph as inline SVG: who called whom, as wide as the CPU time spent.

use crate::format::{count, significant};
use maud::{Markup, html};
use std::collections::BTreeMap;
use tenbin_record::profile::{KERNEL, Stack};

const WIDTH: f64 = 880.0;
const ROW: f64 = 17.0;
/// Width to allow for a letter, and beside the text of a box.
const LETTER: f64 = 7.2;
const PADDING: f64 = 6.0;
/// Between boxes.
const GAP: f64 = 1.0;
/// Narrower boxes are left out, with all that they called.
const NARROWEST: f64 = 1.8;
/// Fewest letters of a name that say something.
const LETTERS_MIN: usize = 3;

/// A function as called by those above it.
#[derive(Debug, Default)]
struct Node<'a> {
    samples: u64,
    callees: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(stacks: &'a [Stack]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            root.samples += stack.samples;
            let mut node = &mut root;
            for frame in &stack.frames {
                node = node.callees.entry(frame).or_default();
                node.samples += stack.samples;
            }
        }
        root
    }
}

/// A box to draw.
struct Cell<'a> {
    name: &'a str,
    samples: u64,
    depth: usize,
    x: f64,
    width: f64,
}

/// Lays out what a node called, the widest first.
fn lay<'a>(node: &Node<'a>, depth: usize, x: f64, each: f64, cells: &mut Vec<Cell<'a>>) {
    let mut callees: Vec<_> = node.callees.iter().collect();
    callees.sort_by(|a, b| b.1.samples.cmp(&a.1.samples).then(a.0.cmp(b.0)));
    let mut x = x;
    for (name, callee) in callees {
        let width = callee.samples as f64 * each;
        if width < NARROWEST {
            return; // as are those that follow
        }
        cells.push(Cell {
            name,
            samples: callee.samples,
            depth,
            x,
            width,
        });
        lay(callee, depth + 1, x, each, cells);
        x += width;
    }
}

/// The graph; none of no samples.
pub(crate) fn flame(stacks: &[Stack]) -> Option<Markup> {
    let root = Node::of(stacks);
    if root.samples == 0 {
        return None;
    }
    let mut cells = Vec::new();
    lay(&root, 0, 0.0, WIDTH / root.samples as f64, &mut cells);
    let rows = cells.iter().map(|cell| cell.depth + 1).max()?;
    let height = rows as f64 * ROW;
    let share = |samples: u64| 100.0 * samples as f64 / root.samples as f64;
    let description = format!(
        "{} samples. {} of the widest boxes are drawn, {rows} rows; the same is in profile.folded.",
        count(root.samples),
        cells.len()
    );
    Some(html! {
        svg.flame viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-labelledby="flame-title flame-description" {
            title id="flame-title" { "Flame graph of CPU time" }
            desc id="flame-description" { (description) }
            @for cell in &cells {
                g class=(class(cell)) {
                    title { (cell.name) ": " (count(cell.samples)) " samples, " (significant(share(cell.samples))) " %" }
                    rect x=(place(cell.x)) y=(cell.depth as f64 * ROW) width=(place(cell.width - GAP)) height=(ROW - GAP) {}
                    @if let Some(text) = label(cell) {
                        text x=(place(cell.x + PADDING / 2.0)) y=(cell.depth as f64 * ROW + ROW - 5.0) { (text) }
                    }
                }
            }
        }
    })
}

/// What a box stands for.
fn class(cell: &Cell<'_>) -> &'static str {
    if cell.depth == 0 {
        "kind"
    } else if cell.name.ends_with(KERNEL) || cell.name == "[kernel]" {
        "kernel"
    } else if cell.name.starts_with('[') {
        "unknown"
    } else {
        "program"
    }
}

/// As much of the name as the box has room for; none when that says nothing.
fn label(cell: &Cell<'_>) -> Option<String> {
    let name = cell.name.trim_end_matches(KERNEL);
    let name = if cell.depth == 0 {
        crate::words::process(name)
    } else {
        name.to_owned()
    };
    let room = ((cell.width - PADDING) / LETTER).max(0.0).floor();
    let letters = name.chars().count();
    if letters as f64 <= room {
        return Some(name);
    }
    let shown = crate::scale::whole(room).checked_sub(1)?;
    let cut: String = name.chars().take(shown).collect();
    (shown >= LETTERS_MIN).then(|| format!("{cut}…"))
}

/// A length as a tenth of a unit.
fn place(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str, samples: u64) -> Stack {
        let frames = text.split(';').map(str::to_owned).collect();
        Stack { frames, samples }
    }

    #[test]
    fn boxes_are_as_wide_as_their_samples_and_lie_in_their_callers() {
        let stacks = [
            stack("client_backend;main;a", 30),
            stack("client_backend;main;b", 60),
            stack("client_backend;main", 9),
            stack("driver;rare", 1),
        ];
        let root = Node::of(&stacks);
        let mut cells = Vec::new();
        lay(&root, 0, 0.0, WIDTH / 100.0, &mut cells);
        let told: Vec<_> = cells
            .iter()
            .map(|cell| (cell.name, cell.depth, cell.samples))
            .collect();
        let expected = [
            ("client_backend", 0, 99),
            ("main", 1, 99),
            ("b", 2, 60),
            ("a", 2, 30),
            ("driver", 0, 1),
            ("rare", 1, 1),
        ];
        assert_eq!(told, expected);
        let at = |name| cells.iter().find(|cell| cell.name == name).unwrap();
        assert!((at("a").x - at("b").width).abs() < 1e-9);
        assert!((at("driver").x - 99.0 * 8.8).abs() < 1e-9);
    }

    #[test]
    fn what_is_too_narrow_is_left_out_with_all_below() {
        let stacks = [stack("x;a", 10_000), stack("x;b;c", 1)];
        let page = flame(&stacks).unwrap().into_string();
        assert_eq!(page.matches("<rect").count(), 2);
        assert!(flame(&[]).is_none());
    }

    #[test]
    fn names_are_cut_to_their_box() {
        let cell = |name, width| Cell {
            name,
            samples: 1,
            depth: 1,
            x: 0.0,
            width,
        };
        assert_eq!(
            label(&cell("do_sys_poll_[k]", 200.0)).unwrap(),
            "do_sys_poll"
        );
        assert_eq!(label(&cell("ExecInterpExpr", 60.0)).unwrap(), "ExecIn…");
        assert_eq!(label(&cell("ExecInterpExpr", 20.0)), None);
    }
}
