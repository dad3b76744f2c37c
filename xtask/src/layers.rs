//! Dependencies between crates point downward, in the order of ARCHITECTURE.md's table; clap stays at the top.

use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The only crate that may know a command line.
const TOP: &str = "tenbin";

/// Every dependency of a crate on one that is not below it, and every use of clap below the command.
pub(crate) fn breaches(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let layers = layers(&text, |name| root.join("crates").join(name).is_dir());
    ensure!(
        layers.first() == Some(&TOP),
        "ARCHITECTURE.md: the table of crates begins with `{TOP}`"
    );
    let mut breaches = Vec::new();
    for name in &layers {
        let path = root.join("crates").join(name).join("Cargo.toml");
        let manifest =
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        breaches.extend(of_crate(name, &manifest, &layers));
    }
    Ok(breaches)
}

/// Names in the first column of a table, from the top down, as far as they are crates.
fn layers(text: &str, is_crate: impl Fn(&str) -> bool) -> Vec<&str> {
    let names = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0));
    let mut layers: Vec<&str> = Vec::new();
    for name in names.filter(|name| is_crate(name)) {
        if !layers.contains(&name) {
            layers.push(name);
        }
    }
    layers
}

fn of_crate(name: &str, manifest: &str, layers: &[&str]) -> Vec<String> {
    let place = |name: &str| layers.iter().position(|layer| *layer == name);
    let mut section = "";
    let mut breaches = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let key = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if !section.contains("dependencies") || key.is_empty() {
            continue;
        }
        if key == "clap" && name != TOP {
            breaches.push(format!("crates/{name}: clap belongs to crates/{TOP}"));
        }
        let below = key.strip_prefix("tenbin-").and_then(place);
        if below.is_some_and(|below| Some(below) <= place(name)) {
            breaches.push(format!(
                "crates/{name}: {key} is not below it in ARCHITECTURE.md; remove the dependency, or move the line"
            ));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_up_and_a_clap_type_below_the_command_are_found() {
        let text = "| crate | task |\n|---|---|\n| `tenbin` | a |\n| `lab` | b |\n| `wire` | c |\n| `else` | d |";
        let layers = layers(text, |name| name != "else");
        assert_eq!(layers, ["tenbin", "lab", "wire"]);
        let manifest = |lines: &str| format!("[package]\nname = \"x\"\n\n{lines}");
        let found = |name, lines| of_crate(name, &manifest(lines), &layers).len();
        let down = "[dependencies]\nclap.workspace = true\ntenbin-wire.workspace = true\n";
        assert_eq!(found("tenbin", down), 0);
        assert_eq!(found("lab", down), 1);
        let up =
            "[dev-dependencies]\ntenbin-lab = { path = \"../lab\" }\ntenbin-toy.workspace = true\n";
        assert_eq!(found("wire", up), 1);
        assert_eq!(found("lab", up), 1);
        assert_eq!(found("tenbin", up), 0);
    }
}
