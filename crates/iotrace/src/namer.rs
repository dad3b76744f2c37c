//! What the files, processes and disks behind the kernel's records are called.

use crate::Error;
use crate::cluster::{Catalogue, Cluster};
use crate::device;
use crate::event::{FileKey, Flags, Host, Io};
use crate::extent::Extents;
use crate::names::{self, FileName, Folder, Roots};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};
use tenbin_record::io::{Evidence, IoRow, Operation, Purpose, Text};
use tenbin_record::trace::Device;

/// How old the extents may be while I/O past the page cache is seen.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How old they may be when they do not know a sector.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Knows what files, processes and disks are called.
pub(crate) struct Namer {
    cluster: Option<Cluster>,
    roots: Roots,
    own: Folder,
    pub(crate) catalogue: Catalogue,
    files: HashMap<FileKey, FileName>,
    processes: HashMap<u32, Text>,
    devices: HashMap<u32, Disk>,
    pub(crate) described: BTreeMap<String, Device>,
    extents: Extents,
    looked: Instant,
    flags: HashMap<Flags, Text>,
    unnamed: Text,
}

struct Disk {
    name: Text,
    mounted: bool,
    /// By file system, whether it lies on this disk, as far as that was asked.
    holds: HashMap<u32, bool>,
}

impl Disk {
    fn holds(&mut self, dev: u32, fs_dev: u32) -> bool {
        let known = self.holds.entry(fs_dev);
        *known.or_insert_with(|| device::holds(dev, fs_dev))
    }
}

impl Namer {
    pub(crate) fn new(cluster: Option<&Cluster>, own: &Path) -> Result<Self, Error> {
        let own = rustix::fs::stat(own)
            .map_or((0, 0), |stat| (device::of_stat(stat.st_dev), stat.st_ino));
        let mut extents = Extents::default();
        if let Some(cluster) = cluster {
            extents.look(cluster.data());
        }
        Ok(Self {
            cluster: cluster.cloned(),
            roots: cluster.map(Cluster::roots).unwrap_or_default(),
            own,
            catalogue: Catalogue::start(cluster)?,
            files: HashMap::new(),
            processes: HashMap::new(),
            devices: HashMap::new(),
            described: BTreeMap::new(),
            extents,
            looked: Instant::now(),
            flags: HashMap::new(),
            unnamed: Text::from("unknown"),
        })
    }

    pub(crate) fn file(&mut self, key: FileKey, parts: &[(u64, String)]) {
        let mut name = names::name(&key, parts, &self.roots, self.own);
        let in_tablespace = parts.iter().any(|(_, name)| name.starts_with("PG_"));
        if let (Some(cluster), Purpose::File, true) = (&self.cluster, name.purpose, in_tablespace) {
            // A tablespace made since.
            self.roots = cluster.roots();
            name = names::name(&key, parts, &self.roots, self.own);
        }
        if let Some(relation) = &name.relation
            && self.catalogue.name(&relation.key).is_none()
        {
            self.catalogue.ask(&relation.key);
        }
        self.files.insert(key, name);
    }

    pub(crate) fn learn_process(&mut self, pid: u32, kernel: bool, name: &str, title: &str) {
        let kind = if pid == std::process::id() {
            "tenbin"
        } else if kernel {
            "kernel"
        } else {
            tenbin_observe::kind_of_title(title).unwrap_or(name)
        };
        self.processes.insert(pid, Text::from(kind));
    }

    pub(crate) fn process(&self, pid: u32) -> Text {
        Text::clone(self.processes.get(&pid).unwrap_or(&self.unnamed))
    }

    fn disk(&mut self, dev: u32) -> &mut Disk {
        let described = &mut self.described;
        self.devices.entry(dev).or_insert_with(|| {
            let name = device::name(dev);
            described.insert(name.clone(), device::describe(dev));
            Disk {
                name: name.into(),
                mounted: device::is_mounted(dev),
                holds: HashMap::new(),
            }
        })
    }

    /// The row of an I/O, and the file its relation is counted under.
    pub(crate) fn row(&mut self, io: &Io, process: Text, start_ns: u64) -> (IoRow, Option<Text>) {
        let disk = self.disk(io.dev);
        let (device, mounted) = (Text::clone(&disk.name), disk.mounted);
        // A page of a file on another disk is the memory that is read into or written from, past the
        // page cache: a program's constants, or the file on the file system of a loop device.
        let host = match io.host {
            Host::File(key, _) if !disk.holds(io.dev, key.fs_dev) => Host::Unknown,
            host => host,
        };
        let spelled = || Text::from(io.flags.rwbs());
        let flags = Text::clone(
            self.flags
                .entry(io.flags.spelling())
                .or_insert_with(spelled),
        );
        let mut row = IoRow {
            issue_ns: io.issue_ns.cast_signed() - start_ns.cast_signed(),
            latency_ns: io.latency_ns,
            device,
            sector: io.sector,
            bytes: io.bytes,
            operation: io.flags.operation(),
            flags,
            failed: io.flags.has(Flags::ERROR),
            pid: io.pid,
            process,
            purpose: plain_purpose(io, mounted),
            evidence: Evidence::None,
            file: None,
            relation: None,
            fork: None,
            block: None,
            mixed: io.flags.has(Flags::MIXED),
        };
        let counted = match host {
            Host::File(key, offset) => {
                row.evidence = Evidence::Page;
                row.purpose = Purpose::File;
                let file = self.files.get(&key);
                file.and_then(|file| self.describe(&mut row, file, offset))
            }
            Host::Unknown if row.purpose == Purpose::Unknown && io.bytes > 0 => {
                self.look(io);
                let found = self.extents.find(io.dev, io.sector);
                if found.is_none() && mounted && row.operation == Operation::WriteZeroes {
                    // Asked of the device with no pages at all. ext4 has its tables of inodes made zero
                    // some seconds after a first mount (ext4lazyinit).
                    row.purpose = Purpose::Metadata;
                }
                found.and_then(|(file, offset)| {
                    row.evidence = Evidence::Extent;
                    self.describe(&mut row, file, offset)
                })
            }
            _ => None,
        };
        (row, counted)
    }

    /// Looks again where the cluster's files are, when that may have changed since the last time.
    fn look(&mut self, io: &Io) {
        let Some(cluster) = &self.cluster else { return };
        let since = self.looked.elapsed();
        let found = self.extents.find(io.dev, io.sector).is_some();
        if since >= LOOK_EVERY || since >= LOOK_AGAIN && !found {
            self.extents.look(cluster.data());
            self.looked = Instant::now();
        }
    }

    /// Puts what is known of its file into a row.
    fn describe(&self, row: &mut IoRow, file: &FileName, offset: u64) -> Option<Text> {
        row.purpose = file.purpose;
        row.file = Some(Text::clone(&file.path));
        let relation = file.relation.as_ref()?;
        let (block_bytes, segment_blocks) =
            self.cluster.as_ref().map_or((8192, 131_072), |cluster| {
                (cluster.block_bytes(), cluster.segment_blocks)
            });
        let name = self.catalogue.name(&relation.key);
        row.relation = Some(name.unwrap_or_else(|| Text::clone(&relation.key)));
        row.fork = Some(Text::clone(&relation.fork));
        row.block = Some(relation.segment * segment_blocks + offset / block_bytes);
        Some(Text::clone(&relation.key))
    }
}

/// What an I/O is for, as far as its request says.
fn plain_purpose(io: &Io, mounted: bool) -> Purpose {
    if io.flags.has(Flags::SWAP) {
        return Purpose::Swap;
    }
    match io.host {
        _ if io.flags.operation() == Operation::Flush => Purpose::Device,
        Host::Device if mounted => Purpose::Metadata,
        Host::Device => Purpose::Device,
        _ if io.flags.has(Flags::META) => Purpose::Metadata,
        _ => Purpose::Unknown,
    }
}
