//! The machine: what a result depends on and nobody wrote down.

use std::fs;
use std::path::Path;

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Model name of its processors.
    pub cpu: String,
    /// Processors this process may run on.
    pub cores: u32,
    /// Main memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// By what it is virtualized, as far as it tells; `None` for a machine of its own.
    pub virtualized: Option<String>,
    /// Its block devices, loop and RAM devices without backing left out.
    pub disks: Vec<Disk>,
}

/// A block device.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Name under `/sys/block`.
    pub device: String,
    /// Model, where it tells.
    pub model: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// Whether it says that it rotates; virtual disks often say so without cause.
    pub rotational: bool,
    /// I/O scheduler in use.
    pub scheduler: String,
    /// Read-ahead, KiB.
    pub read_ahead_kib: u64,
}

impl Host {
    /// Describes this machine; what it does not tell is empty or 0.
    #[must_use]
    pub fn describe() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        Self {
            cpu: field(&cpu_info, "model name")
                .unwrap_or_default()
                .to_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_bytes: field(&memory, "MemTotal").and_then(kib).unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease"),
            virtualized: virtualized(&cpu_info),
            disks: disks(Path::new("/sys/block")),
        }
    }
}

/// The value behind `name … :` in a file of such lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The hypervisor's own name where the firmware has it, else the processor's flag.
fn virtualized(cpu_info: &str) -> Option<String> {
    let flagged = field(cpu_info, "flags")
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    match (flagged, container) {
        (false, false) => None,
        (false, true) => Some("container".to_owned()),
        (true, _) if vendor.is_empty() => Some("virtual machine".to_owned()),
        (true, _) => Some(format!("virtual machine ({vendor})")),
    }
}

fn disks(folder: &Path) -> Vec<Disk> {
    let mut disks: Vec<Disk> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| disk(&entry.path(), &entry.file_name().to_string_lossy()))
        .filter(|disk| disk.size_bytes > 0)
        .collect();
    disks.sort_by(|a, b| a.device.cmp(&b.device));
    disks
}

fn disk(path: &Path, device: &str) -> Disk {
    let number = |name: &str| read(path.join(name)).parse::<u64>().unwrap_or(0);
    let scheduler = read(path.join("queue/scheduler"));
    let chosen = scheduler
        .split(['[', ']'])
        .nth(1)
        .unwrap_or(&scheduler)
        .to_owned();
    let model = read(path.join("device/model"));
    Disk {
        device: device.to_owned(),
        model: (!model.is_empty()).then_some(model),
        // The kernel counts in sectors of 512 bytes whatever the device's own are.
        size_bytes: number("size").saturating_mul(512),
        rotational: number("queue/rotational") == 1,
        scheduler: chosen,
        read_ahead_kib: number("queue/read_ahead_kb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let host = Host::describe();
        assert!(host.cores > 0 && host.memory_bytes > 1 << 20, "{host:?}");
        let release = std::process::Command::new("uname")
            .arg("-r")
            .output()
            .unwrap();
        assert_eq!(host.kernel, String::from_utf8_lossy(&release.stdout).trim());
    }

    #[test]
    fn a_disk_is_read_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("sda/queue");
        fs::create_dir_all(&queue).unwrap();
        fs::write(folder.path().join("sda/size"), "2048\n").unwrap();
        fs::write(queue.join("rotational"), "1\n").unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] bfq\n").unwrap();
        fs::write(queue.join("read_ahead_kb"), "128\n").unwrap();
        fs::create_dir_all(folder.path().join("loop0")).unwrap();
        let expected = Disk {
            device: "sda".into(),
            model: None,
            size_bytes: 1 << 20,
            rotational: true,
            scheduler: "mq-deadline".into(),
            read_ahead_kib: 128,
        };
        assert_eq!(disks(folder.path()), [expected]);
    }
}
