use super::*;

const FIRST: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n# HELP b Others.\n# TYPE b gauge\nb{x=\"y\"} 1\nb{x=\"z\"} 2\n";
const SECOND: &str =
    "# HELP a_total Things.\n# TYPE a_total counter\na_total 4\n# HELP c Only here.\n# TYPE c gauge\nc 0.5\n";
const SUPERVISOR: &str =
    "# HELP a_total Things.\n# TYPE a_total counter\na_total 2\n# HELP d Its own.\n# TYPE d gauge\nd 7\n";

fn own() -> Own {
    let ended = Totals { calls: 1000, ..Totals::default() };
    Own { uptime_secs: 99, processes: 3, restarts: 5, ended }
}

#[test]
fn metric_families_are_merged_with_worker_labels() {
    let page = metrics(&[(0, FIRST), (2, SECOND)], SUPERVISOR, &own());
    let expected = "# HELP strandline_sip_workers Worker processes that serve and responded to the scrape.\n# TYPE strandline_sip_workers gauge\n\
         strandline_sip_workers 2\n\
         # HELP strandline_sip_workers_configured Configured worker processes.\n\
         # TYPE strandline_sip_workers_configured gauge\nstrandline_sip_workers_configured 3\n\
         # HELP strandline_sip_worker_restarts_total Worker processes that died and were restarted.\n\
         # TYPE strandline_sip_worker_restarts_total counter\nstrandline_sip_worker_restarts_total 5\n\
         # HELP a_total Things.\n# TYPE a_total counter\na_total{worker=\"1\"} 3\na_total{worker=\"3\"} 4\n\
         a_total{worker=\"supervisor\"} 2\n\
         # HELP b Others.\n# TYPE b gauge\nb{x=\"y\",worker=\"1\"} 1\nb{x=\"z\",worker=\"1\"} 2\n\
         # HELP c Only here.\n# TYPE c gauge\nc{worker=\"3\"} 0.5\n\
         # HELP d Its own.\n# TYPE d gauge\nd{worker=\"supervisor\"} 7\n";
    assert_eq!(page, expected);
}

fn live_of(calls: u64, nodes: &[(&str, bool)]) -> Live {
    let other = |(name, is_alive): &(&str, bool)| OtherNode {
        name: (*name).to_owned(),
        address: None,
        is_alive: *is_alive,
    };
    Live {
        domains: vec!["example.com".to_owned()],
        uptime_secs: 3,
        users: 12,
        bindings: 15,
        connections: 2,
        associations: 3,
        transactions: 4,
        waiting: 5,
        overloaded: false,
        draining: false,
        store_failing: false,
        allowed_share: 1.0,
        let_through_share: 0.5,
        totals: Totals { calls, ..Totals::default() },
        seconds: Vec::new(),
        processes: 1,
        restarts: 0,
        workers: Vec::new(),
        nodes: nodes.iter().map(other).collect(),
    }
}

#[test]
fn figures_of_all_are_those_of_one_server() {
    let workers =
        [(0, live_of(20, &[("b", true), ("c", false)])), (2, live_of(3, &[("a", false), ("b", false)]))];
    let all = live(&workers, Vec::new(), &own());
    // Every worker knows all users, and the counts of the worker that died are included.
    assert_eq!(
        (all.bindings, all.users, all.connections, all.associations, all.totals.calls),
        (15, 12, 4, 6, 1023)
    );
    assert_eq!((all.uptime_secs, all.processes, all.restarts, all.missing()), (99, 3, 5, 1));
    let nodes: Vec<(&str, bool)> = all.nodes.iter().map(|node| (&*node.name, node.is_alive)).collect();
    assert_eq!(nodes, [("a", false), ("b", true), ("c", false)]);
    assert_eq!(all.gone(), ["a", "c"]);
}
