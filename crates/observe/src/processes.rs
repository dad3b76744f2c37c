//! What processes used, by kind.

use crate::kind::Kind;
use crate::ledger::{Amount, Ledger, Look};
use crate::memory::Memory;
use crate::process::{self, CHEAP, NAMES, Stat, Used};
use std::collections::{BTreeMap, HashMap};
use tenbin_record::observation::{Cpu, Processes};
use tenbin_record::samples::{CPU, PROCESSES, SYSTEM_S, USER_S};

/// One process as last seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) started: u64,
    pub(crate) kind: Kind,
    used: Used,
}

/// Processes by number.
pub(crate) type Table = HashMap<i32, Known>;

/// Follows every process of this machine.
///
/// Nothing of the server's CPU time and faults is lost when its processes come and go: what those that
/// ended used after they were last seen is what the postmaster says its ended children used, less what
/// was seen of them. It is told under [`Kind::Exited`].
#[derive(Debug)]
pub(crate) struct ProcessWatch {
    postmaster: Option<i32>,
    pooler: Option<i32>,
    known: Table,
    /// Threads of this process and the pooler.
    threads: HashMap<i32, [f64; 3]>,
    /// Of the children that the postmaster has waited for.
    waited: Option<Used>,
    /// What the ended used and was not told yet; below zero while one of them is gone and not waited for.
    exited: Used,
    memory: Memory,
    begun: bool,
}

impl ProcessWatch {
    pub(crate) fn new(postmaster: Option<u32>, pooler: Option<u32>) -> Self {
        let number = |pid: Option<u32>| pid.and_then(|pid| i32::try_from(pid).ok());
        Self {
            postmaster: number(postmaster),
            pooler: number(pooler),
            known: Table::new(),
            threads: HashMap::new(),
            waited: None,
            exited: Used::default(),
            memory: Memory::default(),
            begun: false,
        }
    }

    /// Reads all; the first look only sets the mark.
    pub(crate) fn look(&mut self, look: &mut Look) {
        let used = self.used();
        if !std::mem::replace(&mut self.begun, true) {
            return;
        }
        for (kind, used) in used {
            for (index, name) in NAMES.into_iter().enumerate().take(asked(kind)) {
                let source = if index < 2 { CPU } else { PROCESSES };
                look.add(source, name, kind.name(), Amount::Growth(used.0[index]));
            }
        }
        self.memory.step(&self.known);
        self.memory.tell(&self.known, look);
    }

    /// Reads the memory of all processes once, whatever it takes.
    pub(crate) fn weigh(&mut self, look: &mut Look) {
        self.memory.read_all(&self.known);
        self.memory.tell(&self.known, look);
    }

    /// Processes as last seen.
    pub(crate) fn known(&self) -> &Table {
        &self.known
    }

    /// Why memory could not be read, if it could not.
    pub(crate) fn denied(&self) -> Option<&str> {
        self.memory.denied()
    }

    /// What was used since the last call, by kind.
    fn used(&mut self) -> BTreeMap<Kind, Used> {
        let mut used = BTreeMap::<Kind, Used>::new();
        let mut add = |kind: Kind, more: Used| {
            let sum = used.entry(kind).or_default();
            *sum = sum.plus(more);
        };
        let mut living = Table::with_capacity(self.known.len());
        for pid in process::numbers("/proc") {
            let Some(stat) = process::stat(pid) else {
                continue; // it ended meanwhile
            };
            if Some(pid) == self.postmaster {
                let before = self.waited.replace(stat.waited).unwrap_or(stat.waited);
                self.exited = self.exited.plus(stat.waited.minus(before));
            }
            let before = self.known.get(&pid);
            let before = before.filter(|known| known.started == stat.started);
            let kind = match before {
                // A child that had not named itself yet.
                Some(known) if known.kind != Kind::Other => known.kind,
                _ => self.kind(pid, &stat),
            };
            let mut now = stat.used;
            if kind.is_server() {
                let scheduling = process::scheduling(&format!("/proc/{pid}"));
                let last = || before.map_or([0.0; 3], |known| rest(known.used));
                now.0[CHEAP..].copy_from_slice(&scheduling.unwrap_or_else(last));
            }
            add(
                kind,
                now.minus(before.map_or_else(Used::default, |known| known.used)),
            );
            let (started, used) = (stat.started, now);
            living.insert(
                pid,
                Known {
                    started,
                    kind,
                    used,
                },
            );
        }
        add(Kind::Driver, self.threads(std::process::id().cast_signed()));
        if let Some(pooler) = self.pooler {
            add(Kind::TpMonitor, self.threads(pooler));
        }
        let known = std::mem::replace(&mut self.known, living);
        if self.postmaster.is_some() {
            add(Kind::Exited, self.exited(&known));
        }
        used
    }

    /// What the ended used after they were last seen.
    fn exited(&mut self, known: &Table) -> Used {
        for (pid, old) in known {
            let child = old.kind.is_server() && Some(*pid) != self.postmaster;
            let alive = self
                .known
                .get(pid)
                .is_some_and(|now| now.started == old.started);
            if child && !alive {
                self.exited = self.exited.minus(old.used);
            }
        }
        let told = Used(self.exited.0.map(|value| value.max(0.0)));
        self.exited = self.exited.minus(told);
        // Of waits and switches the kernel keeps nothing when a process ends.
        self.exited.0[CHEAP..].fill(0.0);
        told
    }

    /// Waits and switches of a process's threads since the last call.
    fn threads(&mut self, pid: i32) -> Used {
        let at = format!("/proc/{pid}/task");
        let mut used = Used::default();
        for thread in process::numbers(&at) {
            let Some(now) = process::scheduling(&format!("{at}/{thread}")) else {
                continue;
            };
            let before = self.threads.insert(thread, now).unwrap_or_default();
            for (index, (now, before)) in now.into_iter().zip(before).enumerate() {
                used.0[CHEAP + index] += now - before;
            }
        }
        used
    }

    fn kind(&self, pid: i32, stat: &Stat) -> Kind {
        let is = |other: Option<i32>| other == Some(pid);
        if is(Some(std::process::id().cast_signed())) {
            Kind::Driver
        } else if is(self.pooler) {
            Kind::TpMonitor
        } else if is(self.postmaster) {
            Kind::Postmaster
        } else if stat.kernel {
            Kind::KernelThreads
        } else if Some(stat.parent) == self.postmaster {
            let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            Kind::of_title(&title.unwrap_or_default().replace('\0', " "))
        } else {
            Kind::Elsewhere
        }
    }
}

fn rest(used: Used) -> [f64; 3] {
    let [_, _, _, _, rest @ ..] = used.0;
    rest
}

/// How many of [`NAMES`] a kind is asked for.
fn asked(kind: Kind) -> usize {
    match kind {
        Kind::KernelThreads | Kind::Elsewhere | Kind::Exited => CHEAP,
        _ => NAMES.len(),
    }
}

/// What it came to over the interval, by kind.
pub(crate) fn sum(ledger: &Ledger) -> BTreeMap<String, Processes> {
    let of = |kind: &str| {
        let growth = |name| ledger.growth(PROCESSES, name, kind);
        let cpu = |name| ledger.growth(CPU, name, kind).unwrap_or(0.0);
        Processes {
            cpu: Cpu {
                user_s: cpu(USER_S),
                system_s: cpu(SYSTEM_S),
            },
            switches_voluntary: growth("switches_voluntary"),
            switches_involuntary: growth("switches_involuntary"),
            run_queue_wait_s: growth("run_queue_wait_s"),
            faults_minor: growth("faults_minor").unwrap_or(0.0),
            faults_major: growth("faults_major").unwrap_or(0.0),
            count: ledger.level(PROCESSES, "count", kind),
            pss_bytes: ledger.level(PROCESSES, "pss_bytes", kind),
            swap_bytes: ledger.level(PROCESSES, "swap_bytes", kind),
        }
    };
    let kinds = ledger.labels(CPU).into_iter();
    kinds.map(|kind| (kind.to_owned(), of(kind))).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "what is read is not computed with")]
mod tests {
    use super::*;
    use std::process::Command;

    fn looked(watch: &mut ProcessWatch) -> Ledger {
        let mut look = Look::default();
        watch.look(&mut look);
        let mut ledger = Ledger::default();
        ledger.add(&look);
        ledger
    }

    #[test]
    fn the_driver_is_seen_working() {
        let mut watch = ProcessWatch::new(None, None);
        assert!(sum(&looked(&mut watch)).is_empty());
        // By what it used, not by the clock: others may have the processors meanwhile.
        let own = || {
            process::stat(std::process::id().cast_signed())
                .unwrap()
                .used
        };
        let before = own();
        while own().minus(before).0[..2].iter().sum::<f64>() < 0.1 {}
        let seen = sum(&looked(&mut watch));
        assert!(seen["driver"].cpu.total_s() >= 0.09, "{seen:?}");
        assert!(seen["driver"].pss_bytes.unwrap().max > 1e5);
        assert!(seen["elsewhere"].count.unwrap().max >= 1.0);
        assert!(
            seen.keys()
                .all(|kind| kind != "postmaster" && kind != "exited")
        );
    }

    /// A shell takes the place of the postmaster. `/proc` as read here says what came of its children.
    #[test]
    fn children_between_two_looks_are_not_lost() {
        let mut shell = Command::new("sh")
            .args(["-c", "read x; for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=64k count=20000 2>/dev/null; done; echo; read x"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut watch = ProcessWatch::new(Some(shell.id()), None);
        looked(&mut watch);
        let before = process::stat(shell.id().cast_signed()).unwrap().waited;
        let mut input = shell.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
        let seen = sum(&looked(&mut watch));
        let told = process::stat(shell.id().cast_signed())
            .unwrap()
            .waited
            .minus(before);
        let exited = seen["exited"];
        assert!(told.0[1] > 0.0 && told.0[2] > 0.0, "{told:?}");
        assert_eq!(
            exited.cpu.user_s + exited.cpu.system_s,
            told.0[0] + told.0[1]
        );
        assert_eq!(exited.faults_minor, told.0[2]);
        drop(input);
        shell.wait().unwrap();
    }
}
