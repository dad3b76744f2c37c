//! Every way out, the hard ones included.

use crate::child::{Child, Part};
use crate::{lives, names, needs_root, open_directory, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenbin_server::{Account, Cache, Progress, Source};

/// Shared memory of a server: POSIX files, and the id of its System V segment.
fn shared_memory(child: &Child) -> (Vec<PathBuf>, String) {
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.postmaster())).unwrap();
    let files: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| Some(PathBuf::from(&line[line.find("/dev/shm/PostgreSQL.")?..])))
        .collect();
    let file = fs::read_to_string(child.root().join("data/postmaster.pid")).unwrap();
    let segment = file
        .lines()
        .nth(6)
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap();
    (files, segment.to_owned())
}

fn segment_exists(id: &str) -> bool {
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    segments
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(id))
}

/// What the next tenbin with the same records does about a killed one.
fn the_next_clears(mut killed: Child, state: &Path) {
    let (files, segment) = shared_memory(&killed);
    assert!(!files.is_empty() && segment_exists(&segment));
    killed.process.kill().unwrap();
    let process = killed.process.id();
    killed.process.wait().unwrap();
    // It could not but leave everything.
    assert!(killed.root().exists());
    let mut next = Part::new("hold").state(state).ready();
    let told = format!("cleared what an earlier tenbin (process {process}) left");
    assert!(next.said("notes").contains(&told), "{}", next.said("notes"));
    assert!(!killed.root().exists());
    assert!(!lives(killed.postmaster()));
    assert!(files.iter().all(|file| !file.exists()));
    assert!(!segment_exists(&segment));
    assert_eq!(next.end(), Some(0));
    assert!(!next.root().exists());
    assert_eq!(names(&state.join("tenbin")), [] as [PathBuf; 0]);
}

#[test]
fn a_killed_tenbin_is_cleared_by_the_next() {
    let state = open_directory();
    let killed = Part::new("hold").release("18").state(state.path()).ready();
    assert!(lives(killed.postmaster()));
    the_next_clears(killed, state.path());
}

#[test]
fn so_is_one_whose_server_was_killed_too() {
    let state = open_directory();
    let killed = Part::new("hold").state(state.path()).ready();
    // A postmaster killed like this takes its shared memory with it nowhere.
    let (files, _) = shared_memory(&killed);
    let pid = Pid::from_raw(killed.postmaster().cast_signed()).unwrap();
    let files_by_inode: Vec<u64> = files
        .iter()
        .map(|file| fs::metadata(file).unwrap().ino())
        .collect();
    assert!(files_by_inode.iter().all(|inode| *inode > 0));
    let root = killed.root().to_owned();
    let memory = shared_memory(&killed);
    kill_process(pid, Signal::KILL).unwrap();
    wait_for("the end of the postmaster", || !lives(killed.postmaster()));
    let process = killed.process.id();
    let mut killed = killed;
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    assert!(memory.0.iter().all(|file| file.exists()) && segment_exists(&memory.1));
    let mut next = Part::new("hold").state(state.path()).ready();
    assert!(next.said("notes").contains(&format!("(process {process})")));
    assert!(!root.exists());
    assert!(memory.0.iter().all(|file| !file.exists()));
    assert!(!segment_exists(&memory.1));
    assert_eq!(next.end(), Some(0));
}

#[test]
fn a_living_tenbin_keeps_its_server() {
    let state = open_directory();
    let mut one = Part::new("hold").state(state.path()).ready();
    let mut two = Part::new("hold").state(state.path()).ready();
    assert_eq!(two.said("notes"), "");
    assert!(one.root().exists() && lives(one.postmaster()));
    assert_eq!(one.end(), Some(0));
    assert!(!one.root().exists());
    assert!(two.root().exists() && lives(two.postmaster()));
    assert_eq!(two.end(), Some(0));
}

#[test]
fn signals_leave_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let state = open_directory();
        let mut child = Part::new("hold").state(state.path()).ready();
        child.signal(signal);
        assert_eq!(child.code(), Some(4));
        assert!(!child.root().exists());
        assert!(!lives(child.postmaster()));
        assert_eq!(names(&state.path().join("tenbin")), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_signal_while_the_cluster_is_made_leaves_nothing() {
    // At several points on the way from the first directory to a running server.
    for sign in [
        "",
        "data",
        "data/PG_VERSION",
        "data/base/1",
        "postgresql.conf",
        "data/postmaster.pid",
    ] {
        let (state, run) = (open_directory(), open_directory());
        let mut child = Part::new("hold")
            .state(state.path())
            .variable("TMPDIR", run.path().to_str().unwrap())
            .spawn();
        wait_for(sign, || {
            names(run.path())
                .iter()
                .any(|root| root.join(sign).exists())
        });
        child.signal(Signal::INT);
        assert_eq!(child.code(), Some(4), "at {sign}");
        assert_eq!(names(run.path()), [] as [PathBuf; 0], "at {sign}");
        assert_eq!(
            names(&state.path().join("tenbin")),
            [] as [PathBuf; 0],
            "at {sign}"
        );
        assert_eq!(users_of(run.path()), [] as [u32; 0], "at {sign}");
    }
}

/// Processes that work below a directory or were started with a path in it.
fn users_of(directory: &Path) -> Vec<u32> {
    let pids = names(Path::new("/proc"));
    let pids = pids
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    pids.filter(|pid| {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let named = String::from_utf8_lossy(&line).contains(directory.to_str().unwrap());
        named || cwd.is_ok_and(|cwd| cwd.starts_with(directory))
    })
    .collect()
}

#[test]
fn a_section_may_end_in_its_own_way() {
    let state = open_directory();
    let mut child = Part::new("graceful").state(state.path()).ready();
    child.signal(Signal::INT);
    assert_eq!(child.end(), Some(0));
    assert_eq!(child.said("ended"), "well");
    assert!(!child.root().exists());
}

#[test]
fn an_ordinary_user_can_do_it_all() {
    if !needs_root("an_ordinary_user_can_do_it_all") {
        return;
    }
    // A user without a home, and a program he can reach.
    let place = open_directory();
    let program = place.path().join("it");
    // By another process: one of ours that forks meanwhile would hold the copy open for writing.
    let mut copying = std::process::Command::new("cp");
    copying.arg(std::env::current_exe().unwrap()).arg(&program);
    assert!(copying.status().unwrap().success());
    let nobody = 65_534;
    // Root's cache is there for him.
    let cache = Cache::for_user().unwrap();
    let found = Source::default().find(&cache, &Account::for_server(), &Progress::silent());
    let mut child = Part::of_program("hold", &program)
        .user(nobody, nobody)
        .release("18")
        .ready();
    assert_eq!(child.said("user"), "nobody");
    assert_eq!(
        child.said("version"),
        found.unwrap().installation.version.to_string()
    );
    let root = child.root().to_owned();
    assert_eq!(fs::metadata(&root).unwrap().uid(), nobody);
    let state = PathBuf::from(format!("/var/tmp/tenbin-state-{nobody}"));
    assert_eq!(names(&state).len(), 1);
    assert_eq!(child.end(), Some(0));
    assert!(!root.exists() && !state.exists());
    // And one that is killed is cleared.
    let mut killed = Part::of_program("hold", &program)
        .user(nobody, nobody)
        .ready();
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    let mut next = Part::of_program("hold", &program)
        .user(nobody, nobody)
        .ready();
    assert!(!killed.root().exists() && !lives(killed.postmaster()));
    assert_eq!(next.end(), Some(0));
    assert!(!state.exists());
}
