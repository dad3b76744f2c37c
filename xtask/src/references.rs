//! Names of types and files that documents mention.

use std::path::Path;

/// Types that `glossary` names as `` `crate::Type` `` and that no source file of that crate declares.
pub(crate) fn missing_types(root: &Path, glossary: &str) -> Vec<String> {
    quoted(glossary)
        .filter_map(|name| name.split_once("::"))
        .filter(|(name, kind)| {
            !declares(
                &root.join("crates").join(name.replace('_', "-")).join("src"),
                kind,
            )
        })
        .map(|(name, kind)| format!("{name}::{kind}"))
        .collect()
}

/// Files and folders below `crates/` that `text` mentions and that do not exist. A name in capitals stands
/// for any.
pub(crate) fn missing_files<'a>(root: &'a Path, text: &'a str) -> impl Iterator<Item = &'a str> {
    quoted(text).filter(|path| {
        let one = path.starts_with("crates/") && !path.contains(' ');
        one && !path.contains("NAME") && !root.join(path).exists()
    })
}

/// What stands between backticks on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether a source file below `folder` declares a type or a trait of this name.
fn declares(folder: &Path, kind: &str) -> bool {
    let declaration = |line: &str| {
        let (keyword, name) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let name = name.split(|c: char| !c.is_alphanumeric()).next()?;
        Some(matches!(keyword, "struct" | "enum" | "trait" | "type") && name == kind)
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return declares(&path, kind);
        }
        std::fs::read_to_string(&path)
            .is_ok_and(|text| text.lines().any(|line| declaration(line) == Some(true)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_files_that_do_not_exist_are_named() {
        let root = xtask::root();
        let glossary = "| run | one | `record::Run` |\n| x | y | `record::NoSuchType` |\n| z | `nocrate::Run` |";
        assert_eq!(
            missing_types(&root, glossary),
            ["record::NoSuchType", "nocrate::Run"]
        );
        let text = "see `crates/record/src/lib.rs`, `crates/record/src/none.rs`, `crates/NAME/src`";
        let missing: Vec<&str> = missing_files(&root, text).collect();
        assert_eq!(missing, ["crates/record/src/none.rs"]);
    }
}
