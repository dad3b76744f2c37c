//! A disk for one test: a loop device and what the kernel counts of it, or a small file system that is soon full.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a panic is the answer"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A loop device over a sparse file. Taken down when dropped.
pub struct Disk {
    /// Its path, such as `/dev/loop3`.
    pub device: String,
    folder: TempDir,
    mounted: bool,
}

/// A file system in memory, of few bytes. Taken down when dropped.
pub struct Small(TempDir);

impl Small {
    /// Mounts one of this size.
    ///
    /// # Panics
    /// Without the permission to mount.
    #[must_use]
    pub fn new(kilobytes: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let size = format!("size={kilobytes}k");
        let at = folder.path().to_str().unwrap();
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", at]);
        Self(folder)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it to the last byte, by a file of this name.
    ///
    /// # Panics
    /// When another error comes before it is full.
    pub fn fill(&self, name: &str) {
        let mut file = fs::File::create(self.0.path().join(name)).unwrap();
        let full = std::io::copy(&mut std::io::repeat(0), &mut file).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // One that a program still uses goes when that ends.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// What `/sys/block/*/stat` counts (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed, flushes without data included.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes completed.
    pub flushes: u64,
}

/// Runs a program to its end and returns its standard output, trimmed.
///
/// # Panics
/// When the program cannot start or fails.
#[allow(
    clippy::must_use_candidate,
    reason = "most programs are run for what they do"
)]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Where a disk's file is: in memory where there is room for all of it.
///
/// ext4 without a journal discards each extent of a removed file by a request of its own. A file that was written at
/// random has tens of thousands of extents, and a slow disk takes up to an hour for them.
fn images(size_bytes: u64) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match rustix::fs::statvfs(memory) {
        Ok(space) if space.f_bavail * space.f_frsize > size_bytes => memory.to_owned(),
        _ => std::env::temp_dir(),
    }
}

impl Disk {
    /// A loop device of this size over a sparse file.
    ///
    /// # Panics
    /// Without the permission to make one.
    #[must_use]
    pub fn new(megabytes: u64) -> Self {
        Self::new_in(&images(megabytes << 20), megabytes)
    }

    /// A loop device of this size over a sparse file in `parent`.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn new_in(parent: &Path, megabytes: u64) -> Self {
        let folder = TempDir::new_in(parent).unwrap();
        let image = folder.path().join("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        let path = image.to_str().unwrap();
        let device = run("losetup", &["--find", "--show", "--partscan", path]);
        Self {
            device,
            folder,
            mounted: false,
        }
    }

    /// Its folder, which is not on the disk itself and goes with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a file system and mounts it where everyone may write.
    ///
    /// # Panics
    /// When there is no program for this file system.
    pub fn mount(&mut self, filesystem: &str) -> PathBuf {
        // What ext4 puts off until some seconds after its first mount is in no test that does not ask for it.
        let options = match filesystem {
            "ext4" => "noinit_itable",
            _ => "defaults",
        };
        run(&format!("mkfs.{filesystem}"), &["-q", &self.device]);
        let at = self.folder.path().join("mount");
        fs::create_dir(&at).unwrap();
        run(
            "mount",
            &["-o", options, &self.device, at.to_str().unwrap()],
        );
        self.mounted = true;
        for folder in [self.folder.path(), &at] {
            run("chmod", &["777", folder.to_str().unwrap()]);
        }
        at
    }

    /// Adds a partition in the kernel alone, since not every kernel reads tables, and returns its path.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn add_partition(&self, number: u8, first: u64, sectors: u64) -> String {
        let place = [number.to_string(), first.to_string(), sectors.to_string()];
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        run("addpart", &[&[&*self.device], &place[..]].concat());
        format!("{}p{number}", self.device)
    }

    /// Its name, such as `loop3`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// What the kernel has counted so far.
    ///
    /// # Panics
    /// When the kernel's text has fewer fields than Linux 5.5 gives.
    #[must_use]
    pub fn stat(&self) -> Stat {
        let path = Path::new("/sys/block").join(self.name()).join("stat");
        let text = fs::read_to_string(path).unwrap();
        let fields: Vec<u64> = text
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        Stat {
            reads: fields[0],
            read_bytes: fields[2] * 512,
            writes: fields[4],
            written_bytes: fields[6] * 512,
            flushes: fields[15],
        }
    }
}

impl Stat {
    /// What was counted after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let at = self.folder.path().join("mount");
            let _ = Command::new("umount").arg(at).status();
        }
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .status();
    }
}
