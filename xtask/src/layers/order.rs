//! Layers within a crate: which of its modules may import which.

use crate::imports::{imports, siblings};
use crate::modules::Crate;
use crate::tree::Violation;

/// A crate whose modules stand in layers.
pub(super) struct Rules {
    /// Its lib.rs, from the workspace's root.
    pub(super) root: &'static str,
    /// The module whose modules these are; empty for the crate.
    pub(super) within: &'static str,
    /// From the lowest to the highest. A module imports only from layers below its own and, where a layer is
    /// together, from it.
    pub(super) layers: &'static [Layer],
    /// Paths that may go upwards.
    pub(super) exceptions: &'static [Exception],
}

/// Modules of one height.
pub(super) struct Layer {
    modules: &'static [&'static str],
    /// Whether they may import each other, without circles.
    together: bool,
}

impl Layer {
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.modules.iter().copied()
    }
}

/// An import that may go upwards, with the reason for those who read this table.
pub(super) struct Exception {
    from: &'static str,
    path: &'static str,
    #[allow(dead_code, reason = "it is for readers")]
    reason: &'static str,
}

/// Modules that may import each other.
const fn together(modules: &'static [&'static str]) -> Layer {
    Layer { modules, together: true }
}

/// Modules that don't know each other.
const fn apart(modules: &'static [&'static str]) -> Layer {
    Layer { modules, together: false }
}

pub(super) const PROTO: Rules = Rules {
    root: "crates/strandline-proto/src/lib.rs",
    within: "",
    layers: &[
        together(&[
            "time",
            "authentication",
            "memory",
            "config",
            "event",
            "error",
            "stats",
            "timer",
            "zone",
            "stream_numbers",
            "reconfiguration",
            "dynamic_addresses",
            "reliability",
            "packet_sizes",
            "path_index",
            "rate_limit",
            "receive_queue",
            "windowed_min",
            "diagnostics",
        ]),
        apart(&["congestion"]),
        apart(&["path", "inbound", "outbound"]),
        apart(&["association"]),
        apart(&["endpoint"]),
    ],
    exceptions: &[Exception {
        from: "config",
        path: "crate::congestion::Algorithm",
        reason: "the configuration names the controller; the enum stands beside the controllers, so that a new one is one change",
    }],
};

/// The crates with layers.
pub(super) const CRATES: [Rules; 10] = [
    PROTO,
    SIP_SERVICE,
    Rules {
        root: "crates/strandline-dtls/src/lib.rs",
        within: "",
        layers: &[
            apart(&["fingerprint", "header", "inbox", "provider"]),
            apart(&["identity", "known_hosts", "packets", "paths", "sources", "tags", "token"]),
            apart(&["abort", "control", "trust"]),
            apart(&["config", "failure"]),
            apart(&["connection"]),
            apart(&["layer"]),
            apart(&["fuzzing"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "crates/strandline/src/lib.rs",
        within: "",
        layers: &[
            together(&[
                "address",
                "bind",
                "bursts",
                "capture",
                "carrier",
                "cause",
                "clock",
                "dynamic_streams",
                "encryption",
                "engine",
                "error",
                "host",
                "id",
                "join",
                "memory",
                "notification",
                "observe",
                "peer",
                "ports",
                "wait",
            ]),
            apart(&["shard"]),
            together(&[
                "bound",
                "builder",
                "control",
                "events",
                "handle",
                "notifications",
                "readiness",
                "stack",
                "stream",
            ]),
            together(&["association", "endpoint", "listener"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "crates/strandline-sim/src/lib.rs",
        within: "",
        layers: &[
            apart(&["agreed", "grid", "network", "notes", "payload", "random", "violation"]),
            apart(&[
                "dynamic_streams",
                "keys",
                "limits",
                "reconfiguration",
                "relocation",
                "scheduling",
                "unread",
            ]),
            apart(&["by_address"]),
            apart(&["board"]),
            apart(&["authentic", "ledger", "manual", "trace"]),
            together(&["app", "attacker", "bounds", "greedy", "host", "pair", "scenario", "watch"]),
            apart(&["world"]),
            apart(&["run"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "apps/strandline-load/src/lib.rs",
        within: "",
        layers: &[
            together(&["cores", "folder", "itemised", "job", "kernel", "memory", "trace"]),
            together(&["child", "controller", "echo_process", "echo_server", "report", "served"]),
            together(&["associations", "demo", "echo_load", "flood", "perf", "sip"]),
            together(&["client", "exchange", "worker"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "apps/strandline-lab/src/lib.rs",
        within: "",
        layers: &[
            apart(&["clock", "netem"]),
            apart(&["network", "simulate", "site"]),
            apart(&["plan"]),
            apart(&["figure", "results"]),
            apart(&["run", "trace"]),
            apart(&["instructions", "report", "sequence", "together"]),
            apart(&["command"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "apps/strandline-sip/src/lib.rs",
        within: "",
        layers: &[
            apart(&["codec"]),
            apart(&["transaction"]),
            apart(&["auth", "bindings", "resolution"]),
            apart(&["registrar", "store"]),
            apart(&["service"]),
            apart(&["server"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "apps/strandline-gateway/src/lib.rs",
        within: "",
        layers: &[
            apart(&["admin_token"]),
            apart(&[
                "accept_queue",
                "client_socket",
                "clock",
                "loss_meter",
                "local_addresses",
                "lookups",
                "mapping",
                "pace",
                "program",
                "protocol",
                "proxy_protocol",
                "shards",
                "signals",
                "status",
                "link_users",
                "peer_identity",
                "recent",
                "refused_lines",
            ]),
            apart(&[
                "access_log",
                "connect_request",
                "direct",
                "flow_limit",
                "peer_rate",
                "preload_request",
                "rules",
                "socks",
            ]),
            apart(&["capture", "peer_listeners", "program_sockets", "reverse_states"]),
            apart(&["questions", "ruleset"]),
            apart(&["config", "fuzzing", "handover", "interception", "dial", "registry"]),
            apart(&["captures", "client_shares", "first_message", "init", "limits"]),
            apart(&["stacks"]),
            apart(&["flows", "gateway", "health", "fair_sharing"]),
            apart(&["relay", "far_peer"]),
            apart(&["udp_clients"]),
            apart(&["contexts", "far_udp"]),
            apart(&["peer_requests", "far"]),
            apart(&["link"]),
            apart(&["listeners"]),
            apart(&["desired_listeners", "hot_restart"]),
            apart(&["running", "start_check"]),
            apart(&["admin"]),
            apart(&["run"]),
            apart(&["command"]),
        ],
        exceptions: &[],
    },
    Rules {
        root: "apps/strandline-http/src/lib.rs",
        within: "",
        layers: &[
            apart(&[
                "causes",
                "control",
                "encryption",
                "exchange",
                "happy_eyeballs",
                "host",
                "interim",
                "stall",
                "urls",
                "usage",
            ]),
            apart(&["files", "framing", "graceful"]),
            apart(&["guard", "streams"]),
            apart(&["client", "server"]),
            apart(&["front"]),
            apart(&["file_server", "get", "load", "proxy"]),
            apart(&["command", "fuzzing"]),
        ],
        exceptions: &[],
    },
];

/// The states of the SIP service: `core` and the views combine them.
const SIP_SERVICE: Rules = Rules {
    root: "apps/strandline-sip/src/lib.rs",
    within: "service",
    layers: &[
        together(&[
            "answered_requests",
            "context",
            "directory",
            "ended_flows",
            "feedback",
            "incoming",
            "name_waits",
            "nodes",
            "offer",
            "offers",
            "refusal_log",
            "registered_flows",
            "replaced_flows",
            "request_hashes",
            "settings",
            "setup",
            "subscriber_queries",
            "throttle",
            "token",
            "workers",
        ]),
        apart(&["access", "connections", "contexts", "output", "overload", "registrations", "servers"]),
        together(&[
            "branches",
            "copies",
            "edge_proxy",
            "failed_responses",
            "forward",
            "forward_response",
            "identity",
            "next_hop",
            "proxy",
            "record_routes",
            "reply",
            "response",
            "route",
            "router",
            "routing",
            "source_validation",
            "strict_routers",
            "targets",
        ]),
        together(&["core", "register", "request"]),
    ],
    exceptions: &[],
};

/// The module whose modules stand in layers.
fn module_within(krate: &Crate, rules: &Rules) -> Option<usize> {
    match rules.within {
        "" => Some(0),
        name => krate.modules[0].children.get(name).copied(),
    }
}

/// Modules in layers that the crate does not have, and exceptions that no import needs.
pub(super) fn check_list(krate: &Crate, rules: &Rules) -> Vec<Violation> {
    let modules = rules.layers.iter().flat_map(|layer| layer.modules);
    let Some(above) = module_within(krate, rules) else {
        let message = format!("there is no module `{}`: remove its layers", rules.within);
        return vec![Violation::new("xtask/src/layers/order.rs", 1, message)];
    };
    let missing = modules.filter(|module| !krate.modules[above].children.contains_key(**module));
    let mut messages: Vec<String> =
        missing.map(|module| format!("there is no module `{module}`: remove it from its layer")).collect();
    let imports = imports(krate);
    for Exception { from, path, .. } in rules.exceptions {
        let is_used = imports.iter().any(|import| {
            let top = siblings(krate, import).map(|(_, top, _)| krate.modules[top].name.as_str());
            top == Some(*from) && import.path.starts_with(path)
        });
        if !is_used {
            messages.push(format!("`{from}` does not import {path}: remove the exception"));
        }
    }
    messages.into_iter().map(|message| Violation::new("xtask/src/layers/order.rs", 1, message)).collect()
}

/// Imports that go upwards or sideways, and modules without a layer.
pub(super) fn check(krate: &Crate, rules: &Rules) -> Vec<Violation> {
    let mut found = krate.broken.clone();
    let Some(above) = module_within(krate, rules) else { return found };
    let layer_of = |module: &str| rules.layers.iter().position(|layer| layer.modules.contains(&module));
    for (name, &module) in &krate.modules[above].children {
        if layer_of(name).is_none() && !krate.modules[module].test {
            let file = &krate.modules[module].file;
            let message =
                format!("module `{name}` has no layer: give it its place in xtask/src/layers/order.rs");
            found.push(Violation::new(file, 1, message));
        }
    }
    for import in imports(krate) {
        let Some((_, from, to)) = siblings(krate, &import).filter(|found| found.0 == above) else { continue };
        let (from, to) = (&krate.modules[from].name, &krate.modules[to].name);
        let (Some(upper), Some(lower)) = (layer_of(from), layer_of(to)) else { continue };
        let excepted =
            rules.exceptions.iter().any(|one| one.from == from && import.path.starts_with(one.path));
        let allowed = lower < upper || (lower == upper && rules.layers[upper].together);
        if !allowed && !excepted {
            let message = if lower == upper {
                format!(
                    "`{from}` imports `{to}` ({}) of its own layer: a higher layer combines them",
                    import.path
                )
            } else {
                format!(
                    "`{from}` imports `{to}` ({}) of a higher layer: move what it needs below `{from}`",
                    import.path
                )
            };
            found.push(Violation::new(&import.file, import.line, message));
        }
    }
    found
}
