//! The processes of a server with several.

use rustix::process::{Pid, Signal};

use super::sip_server::Server;

/// Returns a metric of each worker, in the order of their numbers.
pub fn metric(server: &Server, name: &str) -> Vec<f64> {
    let (page, begin) = (server.metrics("/metrics"), format!("strandline_sip_{name}{{worker=\""));
    let samples = page.lines().filter_map(|line| line.strip_prefix(begin.as_str())?.rsplit_once(' '));
    samples.map(|(_, value)| value.parse().unwrap()).collect()
}

/// Returns how often a worker was restarted.
pub fn restarts(server: &Server) -> u64 {
    let page = server.metrics("/metrics");
    let name = "strandline_sip_worker_restarts_total ";
    page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// Returns the worker processes of a server, in the order of their numbers.
pub fn workers(server: &Server) -> Vec<Pid> {
    let pid = server.pid().as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let mut workers: Vec<(String, Pid)> = text
        .split_whitespace()
        .filter_map(|child| {
            let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?;
            let number = line.trim_end_matches('\0').rsplit('\0').next()?.to_owned();
            Some((number, Pid::from_raw(child.parse().ok()?)?))
        })
        .collect();
    workers.sort_by(|(one, _), (other, _)| one.cmp(other));
    workers.into_iter().map(|(_, pid)| pid).collect()
}

pub fn is_there(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// Kills a process (SIGKILL).
pub fn kill(pid: Pid) {
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}
