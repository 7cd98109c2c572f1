//! What workers say of themselves, put together.

use std::fmt::Write as _;

use crate::server::live::{Live, Second, Share, Totals};

/// What is said of all of them: numbers are added up, each user counts once, and the least of what neighbours are told counts.
pub(super) fn live(workers: &[(u8, Live)], seconds: Vec<Second>) -> Live {
    let all = || workers.iter().map(|(_, live)| live);
    let sum = |of: fn(&Live) -> usize| all().map(of).sum();
    let least = |of: fn(&Live) -> f64| all().map(of).fold(1.0, f64::min);
    let totals = all().fold(Totals::default(), |sum, live| Totals {
        registered: sum.registered + live.totals.registered,
        calls: sum.calls + live.totals.calls,
        requests: sum.requests + live.totals.requests,
        refused: sum.refused + live.totals.refused,
    });
    Live {
        domains: all().next().map(|live| live.domains.clone()).unwrap_or_default(),
        uptime_secs: all().map(|live| live.uptime_secs).max().unwrap_or_default(),
        users: all().map(|live| live.users).max().unwrap_or_default(),
        connections: sum(|live| live.connections),
        associations: sum(|live| live.associations),
        transactions: sum(|live| live.transactions),
        waiting: sum(|live| live.waiting),
        overloaded: all().any(|live| live.overloaded),
        draining: all().any(|live| live.draining),
        store_failing: all().any(|live| live.store_failing),
        allowed_share: least(|live| live.allowed_share),
        let_through_share: least(|live| live.let_through_share),
        totals,
        seconds,
        workers: workers.iter().map(share).collect(),
    }
}

/// What is said of one beside the whole.
fn share((worker, live): &(u8, Live)) -> Share {
    Share {
        worker: u16::from(*worker) + 1,
        uptime_secs: live.uptime_secs,
        connections: live.connections,
        associations: live.associations,
        transactions: live.transactions,
        waiting: live.waiting,
        overloaded: live.overloaded,
        totals: live.totals,
    }
}

/// Metrics of all workers: what is said of each has a label with its number.
pub(super) fn metrics(pages: &[(u8, &str)], restarts: u64) -> String {
    let mut page = String::with_capacity(pages.iter().map(|(_, text)| text.len()).sum::<usize>() + 512);
    let own = [
        ("workers", "gauge", "Processes that serve.", pages.len() as u64),
        ("worker_restarts_total", "counter", "Processes that died and were started again.", restarts),
    ];
    for (name, kind, help, value) in own {
        let name = format!("strandline_sip_{name}");
        // Writing to a text does not fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    for family in families(pages) {
        let of = |text| family_of(text, family);
        if let Some((head, _)) = pages.iter().find_map(|(_, text)| of(text)) {
            for line in head {
                let _ = writeln!(page, "{line}");
            }
        }
        for (worker, text) in pages {
            for sample in of(text).map(|(_, samples)| samples).unwrap_or_default() {
                let _ = writeln!(page, "{}", labelled(sample, *worker));
            }
        }
    }
    page
}

/// The names of all families, in the order of their first mention.
fn families<'a>(pages: &[(u8, &'a str)]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let found = pages.iter().flat_map(|(_, text)| text.lines());
    for name in found.filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The lines that begin a family, and its samples.
fn family_of<'a>(text: &'a str, name: &str) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let begins =
        |line: &&str| line.strip_prefix("# HELP ").and_then(|rest| rest.split(' ').next()) == Some(name);
    let mut lines = text.lines().skip_while(|line| !begins(line)).peekable();
    let head: Vec<&str> =
        [lines.next()?].into_iter().chain(lines.next_if(|line| line.starts_with("# TYPE"))).collect();
    Some((head, lines.take_while(|line| !line.starts_with('#')).collect()))
}

/// A sample with one more label.
fn labelled(sample: &str, worker: u8) -> String {
    let number = u16::from(worker) + 1;
    let (name, value) = sample.rsplit_once(' ').unwrap_or((sample, ""));
    match name.strip_suffix('}') {
        Some(rest) => format!("{rest},worker=\"{number}\"}} {value}"),
        None => format!("{name}{{worker=\"{number}\"}} {value}"),
    }
}

#[cfg(test)]
mod tests;
