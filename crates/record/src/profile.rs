//! `profile.folded`: where CPU time went, as text that flame-graph programs read.
//!
//! A line is one stack and how many samples had it: frames from the outermost to the innermost,
//! separated by `;`, a blank, the number. The first frame is the kind of process; a function of the
//! kernel ends in `_[k]`; a place without a known function is the binary's name in brackets.

use crate::RecordError;
use std::fmt::Write as _;
use std::path::Path;

/// What a function of the kernel ends in.
pub const KERNEL: &str = "_[k]";

/// One stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    /// From the outermost to the innermost, without `;` and line breaks.
    pub frames: Vec<String>,
    /// How many had it.
    pub samples: u64,
}

/// Writes the file, stacks in the order of their frames.
pub fn write(path: &Path, mut stacks: Vec<Stack>) -> Result<(), RecordError> {
    stacks.sort_unstable();
    let mut text = String::new();
    for stack in &stacks {
        let _ = writeln!(text, "{} {}", stack.frames.join(";"), stack.samples);
    }
    std::fs::write(path, text).map_err(RecordError::io("write", path))
}

/// Stacks of a run directory; none where no profile was taken.
///
/// # Errors
/// As [`read`], but that it is not there.
pub fn of(directory: &Path) -> Result<Vec<Stack>, RecordError> {
    let path = directory.join(crate::directory::PROFILE);
    if path.symlink_metadata().is_ok() {
        read(&path)
    } else {
        Ok(Vec::new())
    }
}

/// Reads it.
///
/// # Errors
/// [`RecordError::Io`] when it is not there, [`RecordError::Corrupt`] when a line is not a stack and a number.
pub fn read(path: &Path) -> Result<Vec<Stack>, RecordError> {
    let text = std::fs::read_to_string(path).map_err(RecordError::io("read", path))?;
    let stack = |(number, line): (usize, &str)| {
        let parts = line.rsplit_once(' ');
        let parts = parts.and_then(|(frames, samples)| Some((frames, samples.parse().ok()?)));
        let (frames, samples) = parts.ok_or_else(|| {
            let reason = format!("line {} is not a stack and a number", number + 1);
            RecordError::corrupt(path, &reason)
        })?;
        let frames = frames.split(';').map(str::to_owned).collect();
        Ok(Stack { frames, samples })
    };
    text.lines().enumerate().map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            stacks in prop::collection::vec(
                (prop::collection::vec("[^;\n\r]{1,20}", 1..6), 0..u64::MAX), 0..20)
        ) {
            let stack = |(frames, samples)| Stack { frames, samples };
            let mut stacks: Vec<Stack> = stacks.into_iter().map(stack).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("profile.folded");
            write(&path, stacks.clone()).unwrap();
            stacks.sort_unstable();
            prop_assert_eq!(read(&path).unwrap(), stacks);
        }
    }

    #[test]
    fn a_directory_without_a_profile_has_no_stacks() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(folder.path()).unwrap(), []);
        let stack = Stack {
            frames: vec!["a".into()],
            samples: 1,
        };
        write(&folder.path().join("profile.folded"), vec![stack.clone()]).unwrap();
        assert_eq!(of(folder.path()).unwrap(), [stack]);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.folded");
        std::fs::write(&path, "a;b 3\na;b\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2 is not"), "{error}");
    }
}
