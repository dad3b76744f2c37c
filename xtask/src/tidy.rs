//! House rules that no lint covers. Each names the file and what to do.

use crate::layers;
use crate::phrases::Phrases;
use crate::references;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use xtask::root;

/// Longest source file before it has to be split by meaning.
const LINES_MAX: usize = 900;

/// The page with the rules of language and the list of refused phrases.
const STYLE: &str = "docs/style.md";

/// Checks every rule and reports all breaches at once.
pub(crate) fn check() -> Result<()> {
    let root = root();
    let style = std::fs::read_to_string(root.join(STYLE)).context(STYLE)?;
    let phrases = Phrases::parse(&style).with_context(|| STYLE.to_owned())?;
    let mut breaches = Vec::new();
    for file in tracked(&root)? {
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else {
            continue; // a picture, or deleted in the working tree
        };
        let ending = Path::new(&file)
            .extension()
            .and_then(|ending| ending.to_str());
        if ending == Some("rs") {
            source(&file, &text, &mut breaches);
        }
        if ending == Some("md") {
            links(&root, &file, &text, &mut breaches);
        }
        if matches!(ending, Some("rs" | "md")) && file != STYLE {
            for found in phrases.find(&text) {
                breaches.push(format!("{file}:{found}; see {STYLE}"));
            }
        }
    }
    folders(&root, &mut breaches)?;
    breaches.extend(layers::breaches(&root)?);
    mentioned(&root, &mut breaches)?;
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("tidy: {} breaches\n{}", breaches.len(), breaches.join("\n"));
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git, which lists the files to check")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

fn source(file: &str, text: &str, breaches: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        breaches.push(format!(
            "{file}: {lines} lines; split it by meaning (at most {LINES_MAX})"
        ));
    }
    // Spelled in two parts so that this file does not accuse itself.
    for word in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("#[ig", "nore"),
    ] {
        for (index, _) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains(word))
        {
            breaches.push(format!(
                "{file}:{}: `{word}`; finish it or take it out",
                index + 1
            ));
        }
    }
}

/// Links between files of the repository must lead somewhere.
fn links(root: &Path, file: &str, text: &str, breaches: &mut Vec<String>) {
    let folder = root
        .join(file)
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default();
    for target in text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
    {
        let outside = target.contains("://") || target.starts_with("mailto:") || target.is_empty();
        if !outside && !folder.join(target).exists() {
            breaches.push(format!("{file}: the link to {target} leads nowhere"));
        }
    }
}

/// Types in the glossary and files in ARCHITECTURE.md exist.
fn mentioned(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    const GLOSSARY: &str = "docs/glossary.md";
    const ARCHITECTURE: &str = "ARCHITECTURE.md";
    let glossary = std::fs::read_to_string(root.join(GLOSSARY)).context(GLOSSARY)?;
    for name in references::missing_types(root, &glossary) {
        breaches.push(format!("{GLOSSARY}: there is no type {name}; name another"));
    }
    let architecture = std::fs::read_to_string(root.join(ARCHITECTURE)).context(ARCHITECTURE)?;
    for path in references::missing_files(root, &architecture) {
        breaches.push(format!("{ARCHITECTURE}: there is no {path}"));
    }
    Ok(())
}

/// Every crate has its line in ARCHITECTURE.md.
fn folders(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !text.contains(&format!("`{name}`")) {
            breaches.push(format!("ARCHITECTURE.md: no line about crates/{name}"));
        }
    }
    Ok(())
}
