use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to a process; none where it is gone.
pub(super) fn signal(process: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(process), signal);
}

/// The children of a process that have not ended. Stop it before, and there will be no others.
pub(super) fn children_of(parent: i32) -> Vec<i32> {
    let is_child = |process: &&Process| process.parent == parent && process.runs;
    all().iter().filter(is_child).map(|process| process.id).collect()
}

/// Whether one of these processes has not ended.
pub(super) fn any_runs(processes: &[i32]) -> bool {
    all().iter().any(|process| process.runs && processes.contains(&process.id))
}

struct Process {
    id: i32,
    parent: i32,
    /// Zombies do not: whoever should wait for them may never do so.
    runs: bool,
}

fn all() -> Vec<Process> {
    let ps = Command::new("ps").args(["-A", "-o", "pid=,ppid=,state="]).output();
    let ps = ps.expect("ps is missing: install it (Debian: procps)");
    assert!(ps.status.success(), "{ps:?}");
    let lines = String::from_utf8(ps.stdout).unwrap();
    lines.lines().map(process).collect()
}

fn process(line: &str) -> Process {
    let mut fields = line.split_whitespace();
    let mut next = || fields.next().unwrap_or_else(|| panic!("ps wrote {line:?}"));
    let (id, parent) = (next().parse().unwrap(), next().parse().unwrap());
    Process { id, parent, runs: !next().starts_with('Z') }
}
