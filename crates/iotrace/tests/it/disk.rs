//! A disk of the test's own: a loop device, and what the kernel counts of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A loop device over a sparse file. Taken down when dropped.
pub(crate) struct Disk {
    /// `/dev/loop3`.
    pub(crate) device: String,
    folder: TempDir,
    mounted: bool,
}

/// What `/sys/block/*/stat` counts (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) flushes: u64,
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Disk {
    pub(crate) fn new(megabytes: u64) -> Self {
        let folder = TempDir::new().unwrap();
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

    /// Makes a file system and mounts it where everyone may write.
    pub(crate) fn mount(&mut self, filesystem: &str) -> PathBuf {
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

    /// Makes a partition of the disk, told to the kernel alone: not every kernel reads tables.
    pub(crate) fn add_partition(&self, number: u8, first: u64, sectors: u64) -> String {
        let place = [number.to_string(), first.to_string(), sectors.to_string()];
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        run("addpart", &[&[&*self.device], &place[..]].concat());
        format!("{}p{number}", self.device)
    }

    pub(crate) fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    pub(crate) fn stat(&self) -> Stat {
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
    pub(crate) fn since(self, before: Self) -> Self {
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
